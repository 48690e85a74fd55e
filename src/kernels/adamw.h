/* AdamW over flat buffers, one pass over memory, and the gradient's norm in a fixed order.
 *
 *   g = grad * grad_scale
 *   w = w * (1 - lr * decay);  m = m + (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g g
 *   w = w - lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
 *
 * Only IEEE add, multiply, divide and square root in f32, never contracted: every instruction set and every thread count gives
 * the same bits. lj_adamw_update is a team kernel. */
#ifndef LJ_KERNELS_ADAMW_H
#define LJ_KERNELS_ADAMW_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A half-open range of elements with its own decay (norm weights and biases usually have 0). */
typedef struct {
    int64_t begin, end;
    double decay;
} lj_adamw_range;

typedef struct {
    int64_t count;
    /* The f32 master weight: either `master`, or split into `weight` (what the model reads) and `low`, its low 16 bits: the
     * same f32 in 2 bytes less. */
    float *master;    /* [count], or NULL when split */
    uint16_t *weight; /* [count] bf16 copy, written; NULL: none is wanted (needs master) */
    uint16_t *low;    /* [count] with master == NULL */
    float *m, *v;    /* [count] */
    const void *grad; /* [count] */
    lj_dtype grad_type; /* LJ_F32 or LJ_BF16 */
    const lj_adamw_range *ranges; /* ascending, disjoint; elements in none have decay 0 */
    int64_t range_count;
    const float *grad_scale; /* one number read at run time (clip factor / loss scale), NULL = 1 */
    double lr, beta1, beta2, eps; /* bias corrections and 1 - beta are taken in double, then rounded to f32 */
    int64_t step; /* 1 for the first update */
    double correction1, correction2; /* 1 - beta1^step and 1 - beta2^step where the caller has them (> 0); 0: from step */
} lj_adamw_args;

void lj_adamw_update(void *args /* lj_adamw_args */, int thread, int threads);

/* f32 <-> (bf16, low 16 bits), exact for every f32 but NaN payloads. The bf16 is the nearest, ties away from zero: rounding ties
 * to even would leave 65537 values for an even bf16, one more than 16 bits tell apart. The copy in `weight` is rounded so in both
 * modes, so both give the same bits. */
static inline void lj_adamw_split(float value, uint16_t *weight, uint16_t *low)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    *weight = (uint16_t)(value != value ? (bits >> 16 | 0x40) : (bits + 0x8000) >> 16);
    *low = (uint16_t)bits;
}
static inline float lj_adamw_join(uint16_t weight, uint16_t low)
{
    uint32_t bits = ((uint32_t)weight << 16) + (uint32_t)(int32_t)(int16_t)low; /* low is the signed distance from the rounded */
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* Sum of squares: blocks of LJ_SUM_BLOCK elements are summed in double in a fixed order, so the result does not depend on the
 * number of threads or the instruction set. */
enum { LJ_SUM_BLOCK = 8192 };
typedef struct {
    const void *data;
    lj_dtype type; /* LJ_F32 or LJ_BF16 */
    int64_t count;
    double *partial; /* [lj_square_sum_blocks(count)], written */
} lj_square_sum_args;

static inline int64_t lj_square_sum_blocks(int64_t count)
{
    return (count + LJ_SUM_BLOCK - 1) / LJ_SUM_BLOCK;
}
void lj_square_sum(void *args /* lj_square_sum_args */, int thread, int threads);
/* Adds the partial sums in order. After the region of lj_square_sum. */
double lj_square_sum_total(const double *partial, int64_t blocks);

#endif
