/* gemm_peak: the best rate that a matrix product reaches here, over a list of shapes, by whichever provider the shape runs with. The
 * rate of a shape is the median of its runs, which the caller spreads over the time of what is compared with it. */
#ifndef LJ_KERNELS_GEMM_PEAK_H
#define LJ_KERNELS_GEMM_PEAK_H

#include "kernels/gemm/gemm.h"

typedef struct {
    int64_t m, n, k;
    bool trans_a, trans_b;
} lj_peak_shape;

typedef struct lj_gemm_peak lj_gemm_peak;

/* The cubes of 2048 and of 4096 are added to `shapes`. LJ_ERR_NOMEM. Master thread. */
lj_status lj_gemm_peak_create(const lj_peak_shape *shapes, size_t count, lj_dtype dtype, int threads, lj_gemm_peak **peak);
void lj_gemm_peak_destroy(lj_gemm_peak *peak); /* NULL is allowed */
/* Runs every shape once more. */
lj_status lj_gemm_peak_sample(lj_gemm_peak *peak);

typedef struct {
    double flops;       /* best shape's median */
    size_t shape_count, runs;
    char shape[96];     /* "2048x1536x576 by own-avx512bf16" */
} lj_gemm_peak_result;
lj_gemm_peak_result lj_gemm_peak_get(const lj_gemm_peak *peak);
size_t lj_gemm_peak_bytes(const lj_gemm_peak *peak); /* held by it */

#endif
