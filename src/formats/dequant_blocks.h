/* Inside dequant*.c only: the table of block decoders, one table an instruction set. */
#ifndef LJ_FORMATS_DEQUANT_BLOCKS_H
#define LJ_FORMATS_DEQUANT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

typedef enum { LJ_Q4_0, LJ_Q4_1, LJ_Q5_0, LJ_Q5_1, LJ_Q8_0, LJ_Q4_K, LJ_Q5_K, LJ_Q6_K, LJ_BLOCK_DECODERS } lj_block_decoder;

/* Decodes `count` blocks to floats (or to bf16, by the table). */
typedef void (*lj_decode_fn)(void *out, const uint8_t *blocks, size_t count);

extern const lj_decode_fn lj_decode_plain[LJ_BLOCK_DECODERS];
extern const lj_decode_fn lj_decode_avx2[LJ_BLOCK_DECODERS]; /* the same bits */
extern const lj_decode_fn lj_decode_bf16_avx2[LJ_BLOCK_DECODERS]; /* the same bits, rounded to bf16 */
extern const lj_decode_fn lj_decode_bf16_avx512[LJ_BLOCK_DECODERS];

#endif
