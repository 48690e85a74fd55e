/* A model of 70 B parameters in files that are mostly holes: opening reads headers, reading touches only the rows asked for. */
#define _GNU_SOURCE
#include "support/gguf_build.h"
#include "support/testing.h"

#include "base/clock.h"
#include "base/file.h"
#include "formats/hf_config.h"
#include "formats/weights.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHARDS = 15, READ_AHEAD = 32 << 20 }; /* what a kernel may read beyond a page that is touched: 128 KiB to 8 MiB as it is set up */

static char folder[256], path[600];

static int setup(void **state)
{
    (void)state;
    test_folder_create(folder, sizeof folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return lj_memory_live() == 0 ? 0 : -1;
}

static void llama_70b(lj_model_config *c)
{
    lj_model_config_init(c, LJ_FAMILY_LLAMA);
    c->vocab_size = 128256, c->hidden_size = 8192, c->intermediate_size = 28672, c->num_hidden_layers = 80;
    c->num_attention_heads = 64, c->num_key_value_heads = 8, c->head_dim = 128, c->dtype = LJ_BF16;
}

/* Makes `path` end at `bytes` without writing there. */
static bool extend(uint64_t bytes)
{
    return truncate(path, (off_t)bytes) == 0;
}

/* Weights [first, end) as a shard whose data is a hole. */
static bool shard_write(const lj_model_config *c, size_t number, size_t first, size_t end, lj_text *index)
{
    lj_text header;
    uint64_t at = 0;
    lj_text_init(&header);
    lj_text_add(&header, "{");
    for (size_t i = first; i < end; i++) {
        lj_model_weight w;
        lj_model_weight_get(c, i, &w);
        uint64_t bytes = 2 * (uint64_t)w.shape[0] * (uint64_t)(w.rank == 2 ? w.shape[1] : 1);
        lj_text_add(&header, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%lld", i > first ? "," : "", w.name, (long long)w.shape[0]);
        if (w.rank == 2) lj_text_add(&header, ",%lld", (long long)w.shape[1]);
        lj_text_add(&header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + bytes));
        lj_text_add(index, "%s\"%s\":\"s%zu.safetensors\"", i ? "," : "", w.name, number);
        at += bytes;
    }
    lj_text_add(&header, "}");
    uint64_t length = header.length;
    uint8_t *start = malloc(8 + length);
    memcpy(start, &length, 8);
    memcpy(start + 8, header.data, length);
    snprintf(path, sizeof path, "%s/s%zu.safetensors", folder, number);
    assert_ok(lj_file_write(path, start, 8 + length));
    free(start);
    lj_text_release(&header);
    return extend(8 + length + at);
}

/* False when the file system has no room for such holes. */
static bool folder_write(const lj_model_config *c)
{
    lj_text index;
    size_t count = lj_model_weight_count(c);
    bool made = true;
    lj_text_init(&index);
    lj_text_add(&index, "{\"weight_map\":{");
    for (size_t s = 0; s < SHARDS && made; s++) made = shard_write(c, s, count * s / SHARDS, count * (s + 1) / SHARDS, &index);
    lj_text_add(&index, "}}");
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    assert_ok(lj_file_write(path, index.data, index.length));
    assert_ok(lj_hf_config_write(folder, c));
    lj_text_release(&index);
    return made;
}

/* Bytes of the tensor's pages that are in memory. */
static uint64_t resident(const lj_weight *w)
{
    uintptr_t start = (uintptr_t)w->data & ~(uintptr_t)4095, end = ((uintptr_t)w->data + w->bytes + 4095) & ~(uintptr_t)4095;
    size_t pages = (end - start) / 4096;
    unsigned char *map = malloc(pages + 1);
    uint64_t bytes = 0;
    assert_int_equal(mincore((void *)start, end - start, map), 0);
    for (size_t i = 0; i < pages; i++) bytes += map[i] & 1 ? 4096 : 0;
    free(map);
    return bytes;
}

/* Of the first and the last layers and the vocabulary: asking the kernel about all 35 million pages takes seconds. */
static uint64_t resident_in_some(const lj_weights *w)
{
    static const char *const parts[] = {".0.", ".1.", ".77.", ".78.", ".79.", "embed", "lm_head"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < lj_weights_count(w); i++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            if (strstr(lj_weights_get(w, i)->name, parts[p])) bytes += resident(lj_weights_get(w, i));
    return bytes;
}

static void only_the_asked_rows(lj_weights *w, const char *name, int64_t columns)
{
    enum { ROWS = 64 };
    lj_weight *down = lj_weights_find(w, name);
    uint64_t before = resident_in_some(w);
    uint16_t *rows = malloc(2 * ROWS * (size_t)columns);
    assert_non_null(down);
    assert_int_equal(down->columns, columns);
    assert_ok(lj_weights_read(w, down, 4000, ROWS, LJ_BF16, rows));
    for (int64_t i = 0; i < ROWS * columns; i++) assert_int_equal(rows[i] & 0x7fff, 0);
    uint64_t asked = (uint64_t)ROWS * down->bytes / (uint64_t)down->rows, touched = resident_in_some(w) - before;
    if (touched < asked || touched > asked + 2 * READ_AHEAD) fail_msg("asked for %llu bytes, touched %llu", (unsigned long long)asked, (unsigned long long)touched);
    free(rows);
}

static void sharded_70b(void **state)
{
    (void)state;
    lj_model_config c;
    lj_weights *w;
    lj_weights_report report;
    llama_70b(&c);
    if (!folder_write(&c)) skip();
    double start = lj_now_s();
    assert_ok(lj_weights_open(folder, &w));
    assert_ok(lj_weights_check_model(w, lj_weights_config(w), false, &report));
    assert_true(lj_now_s() - start < 5); /* milliseconds; the bound is for machines under load */
    assert_int_equal(report.found, 723);
    assert_true(lj_model_parameter_count(lj_weights_config(w)) == 70553706496);
    assert_true(resident_in_some(w) < SHARDS * 2 * (uint64_t)READ_AHEAD);
    assert_true(lj_memory_peak() < 64 << 20);
    only_the_asked_rows(w, "model.layers.79.mlp.down_proj.weight", 28672);
    lj_weights_report_release(&report);
    lj_weights_close(w);
}

static void gguf_70b(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t dims[2];
    } parts[] = {{"attn_q", {8192, 8192}}, {"attn_k", {8192, 1024}}, {"attn_v", {8192, 1024}}, {"attn_output", {8192, 8192}},
                 {"ffn_gate", {8192, 28672}}, {"ffn_up", {8192, 28672}}, {"ffn_down", {28672, 8192}}};
    gguf_build b;
    lj_weights *w;
    char name[64];
    uint64_t at = 0;
    gguf_build_init(&b);
    gguf_build_string(&b, "general.architecture", "llama");
    gguf_build_u32(&b, "llama.block_count", 80);
    gguf_build_u32(&b, "llama.context_length", 8192);
    gguf_build_u32(&b, "llama.embedding_length", 8192);
    gguf_build_u32(&b, "llama.feed_forward_length", 28672);
    gguf_build_u32(&b, "llama.attention.head_count", 64);
    gguf_build_u32(&b, "llama.attention.head_count_kv", 8);
    gguf_build_u32(&b, "llama.vocab_size", 128256);
    for (int layer = 0; layer < 80; layer++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, parts[p].name);
            gguf_build_tensor_at(&b, name, 12, 2, parts[p].dims, at); /* Q4_K */
            at += parts[p].dims[0] * parts[p].dims[1] / 256 * 144;
        }
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    gguf_build_write(&b, path);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    if (!extend((uint64_t)info.st_size + at)) skip();
    assert_ok(lj_weights_open(path, &w));
    assert_int_equal(lj_weights_count(w), 560);
    only_the_asked_rows(w, "model.layers.79.mlp.down_proj.weight", 28672);
    lj_weights_close(w);
    gguf_build_release(&b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(sharded_70b), TEST(gguf_70b)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
