/* The block types of GGUF: what a block is, and how it becomes floats.
 *
 * A quantised row is a run of blocks; a block holds block_elements numbers in block_bytes bytes. Results are bit-equal to the numpy
 * dequantiser of PyPI's gguf package (multiply and add are rounded apart, as there). Nothing here allocates or keeps state: the
 * caller threads it over ranges of blocks. */
#ifndef LJ_FORMATS_DEQUANT_H
#define LJ_FORMATS_DEQUANT_H

#include "tensor/dtype.h"

typedef struct {
    const char *name; /* "Q4_K" */
    uint32_t id;      /* ggml's number */
    uint32_t block_elements, block_bytes;
    lj_dtype plain; /* element type when blocks are plain elements, else LJ_DTYPE_COUNT */
    bool readable;  /* false: we know its size and name only */
} lj_block_type;

/* Row of a ggml type number; NULL when the number is unknown. Static storage. */
const lj_block_type *lj_block_type_find(uint32_t id);
const lj_block_type *lj_block_type_by_name(const char *name);

/* Bytes of `elements` numbers (a multiple of block_elements). False when they do not divide or the product overflows. */
bool lj_block_type_bytes(const lj_block_type *type, uint64_t elements, uint64_t *bytes);

/* Writes block_count x block_elements numbers to `out`: as f32, or rounded from f32 to bf16 or f16 (the other types: through double).
 * `type` must be readable; `blocks` needs no alignment. Any thread. */
void lj_dequantise(const lj_block_type *type, lj_dtype to, void *out, const uint8_t *blocks, size_t block_count);

#endif
