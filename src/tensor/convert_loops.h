/* Inside convert*.c only: the fast pairs, a table an instruction set. */
#ifndef LJ_TENSOR_CONVERT_LOOPS_H
#define LJ_TENSOR_CONVERT_LOOPS_H

#include "tensor/dtype.h"

typedef void (*lj_convert_fn)(void *to, const uint8_t *from, size_t count);

typedef enum { LJ_F32_BF16, LJ_F32_F16, LJ_BF16_F32, LJ_BF16_F16, LJ_F16_F32, LJ_F16_BF16, LJ_CONVERT_PAIRS } lj_convert_pair;

extern const lj_convert_fn lj_convert_plain[LJ_CONVERT_PAIRS];
extern const lj_convert_fn lj_convert_avx2[LJ_CONVERT_PAIRS]; /* needs AVX2 and F16C; the same bits */

#endif
