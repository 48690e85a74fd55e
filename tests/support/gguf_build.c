#include "support/gguf_build.h"

#include "support/testing.h"

#include "base/file.h"

#include <stdlib.h>

enum { ALIGNMENT = 32 };

static void append(build_bytes *to, const void *data, size_t bytes)
{
    to->data = realloc(to->data, to->bytes + bytes + 1);
    assert_non_null(to->data);
    if (data)
        memcpy(to->data + to->bytes, data, bytes);
    else
        memset(to->data + to->bytes, 0, bytes);
    to->bytes += bytes;
}

static void append_string(build_bytes *to, const char *text)
{
    uint64_t length = strlen(text);
    append(to, &length, 8);
    append(to, text, length);
}

void gguf_build_init(gguf_build *b)
{
    *b = (gguf_build){.version = 3};
}

void gguf_build_release(gguf_build *b)
{
    free(b->fields.data);
    free(b->tensors.data);
    free(b->payload.data);
    *b = (gguf_build){0};
}

void gguf_build_raw(gguf_build *b, const char *key, lj_gguf_type type, lj_gguf_type element_type, uint64_t count, const void *value, size_t bytes)
{
    uint32_t type32 = type, element32 = element_type;
    append_string(&b->fields, key);
    append(&b->fields, &type32, 4);
    if (type == LJ_GGUF_ARRAY) {
        append(&b->fields, &element32, 4);
        append(&b->fields, &count, 8);
    }
    append(&b->fields, value, bytes);
    b->field_count++;
}

void gguf_build_u32(gguf_build *b, const char *key, uint32_t value)
{
    gguf_build_raw(b, key, LJ_GGUF_U32, 0, 1, &value, 4);
}

void gguf_build_f32(gguf_build *b, const char *key, float value)
{
    gguf_build_raw(b, key, LJ_GGUF_F32, 0, 1, &value, 4);
}

void gguf_build_string(gguf_build *b, const char *key, const char *value)
{
    build_bytes text = {0};
    append_string(&text, value);
    gguf_build_raw(b, key, LJ_GGUF_STRING, 0, 1, text.data, text.bytes);
    free(text.data);
}

void gguf_build_tensor_at(gguf_build *b, const char *name, uint32_t type, uint32_t rank, const uint64_t *dims, uint64_t offset)
{
    append_string(&b->tensors, name);
    append(&b->tensors, &rank, 4);
    append(&b->tensors, dims, 8 * rank);
    append(&b->tensors, &type, 4);
    append(&b->tensors, &offset, 8);
    b->tensor_count++;
}

void gguf_build_tensor(gguf_build *b, const char *name, uint32_t type, uint32_t rank, const uint64_t *dims, const void *data, size_t bytes)
{
    gguf_build_tensor_at(b, name, type, rank, dims, b->payload.bytes);
    append(&b->payload, data, bytes);
    append(&b->payload, NULL, (ALIGNMENT - b->payload.bytes % ALIGNMENT) % ALIGNMENT);
}

void gguf_build_write(const gguf_build *b, const char *path)
{
    build_bytes all = {0};
    append(&all, "GGUF", 4);
    append(&all, &b->version, 4);
    append(&all, &b->tensor_count, 8);
    append(&all, &b->field_count, 8);
    append(&all, b->fields.data ? (void *)b->fields.data : "", b->fields.bytes);
    append(&all, b->tensors.data ? (void *)b->tensors.data : "", b->tensors.bytes);
    append(&all, NULL, (ALIGNMENT - all.bytes % ALIGNMENT) % ALIGNMENT);
    append(&all, b->payload.data ? (void *)b->payload.data : "", b->payload.bytes);
    assert_ok(lj_file_write(path, all.data, all.bytes));
    free(all.data);
}

void gguf_build_llama(gguf_build *b, bool tied)
{
    static const struct {
        const char *name;
        uint64_t dims[2];
    } tensors[] = {
        {"token_embd.weight", {32, 4}},        {"output_norm.weight", {32, 0}},    {"blk.0.attn_norm.weight", {32, 0}}, {"blk.0.attn_q.weight", {32, 32}},
        {"blk.0.attn_k.weight", {32, 16}},     {"blk.0.attn_v.weight", {32, 16}},  {"blk.0.attn_output.weight", {32, 32}}, {"blk.0.ffn_norm.weight", {32, 0}},
        {"blk.0.ffn_gate.weight", {32, 32}},   {"blk.0.ffn_up.weight", {32, 32}},  {"blk.0.ffn_down.weight", {32, 32}}, {"output.weight", {32, 4}},
    };
    gguf_build_string(b, "general.architecture", "llama");
    gguf_build_u32(b, "llama.block_count", 1);
    gguf_build_u32(b, "llama.context_length", 64);
    gguf_build_u32(b, "llama.embedding_length", 32);
    gguf_build_u32(b, "llama.feed_forward_length", 32);
    gguf_build_u32(b, "llama.attention.head_count", 2);
    gguf_build_u32(b, "llama.attention.head_count_kv", 1);
    gguf_build_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors - tied; i++) {
        uint64_t rows = tensors[i].dims[1] ? tensors[i].dims[1] : 1;
        gguf_build_tensor(b, tensors[i].name, 0, tensors[i].dims[1] ? 2 : 1, tensors[i].dims, NULL, 4 * 32 * rows);
    }
}
