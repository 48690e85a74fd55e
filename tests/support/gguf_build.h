/* Builds GGUF files in memory, valid or wrong on purpose: fields and tensors are appended as told, nothing is checked. */
#ifndef LJ_TESTS_GGUF_BUILD_H
#define LJ_TESTS_GGUF_BUILD_H

#include "formats/gguf.h"

typedef struct {
    uint8_t *data;
    size_t bytes;
} build_bytes;

typedef struct {
    uint32_t version;
    uint64_t field_count, tensor_count;
    build_bytes fields, tensors, payload;
} gguf_build;

void gguf_build_init(gguf_build *b); /* version 3, architecture llama unset */
void gguf_build_release(gguf_build *b);

/* A field of any type with these value bytes; `element_type` and `count` matter for arrays. */
void gguf_build_raw(gguf_build *b, const char *key, lj_gguf_type type, lj_gguf_type element_type, uint64_t count, const void *value, size_t bytes);
void gguf_build_u32(gguf_build *b, const char *key, uint32_t value);
void gguf_build_f32(gguf_build *b, const char *key, float value);
void gguf_build_string(gguf_build *b, const char *key, const char *value);

/* A tensor at the next aligned offset; dims innermost first, as in the file. `data` NULL: zeros. */
void gguf_build_tensor(gguf_build *b, const char *name, uint32_t type, uint32_t rank, const uint64_t *dims, const void *data, size_t bytes);
/* The same with an offset of the caller's choice and no payload. */
void gguf_build_tensor_at(gguf_build *b, const char *name, uint32_t type, uint32_t rank, const uint64_t *dims, uint64_t offset);

/* Writes the file. */
void gguf_build_write(const gguf_build *b, const char *path);

/* The metadata and tensors of a one-layer Llama (hidden 32, heads 2, kv 1, ffn 32, vocab 4) in F32, `tied` or with output.weight. */
void gguf_build_llama(gguf_build *b, bool tied);

#endif
