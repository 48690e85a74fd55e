/* Inside of AdamW: a run of elements with one decay, one function an instruction set; and blocks of the sum of squares. */
#ifndef LJ_KERNELS_ADAMW_ROWS_H
#define LJ_KERNELS_ADAMW_ROWS_H

#include "kernels/adamw.h"

/* The numbers that are the same for every element of a run. */
typedef struct {
    float grad_scale, keep; /* keep: 1 - lr * decay */
    float beta1_rest, beta2, beta2_rest, eps, step_size, root_correction;
} lj_adamw_numbers;

typedef struct {
    void (*update)(const lj_adamw_args *a, const lj_adamw_numbers *n, int64_t begin, int64_t end);
    double (*square_sum)(lj_dtype type, const void *data, int64_t begin, int64_t end);
} lj_adamw_rows;

extern const lj_adamw_rows lj_adamw_generic, lj_adamw_avx2, lj_adamw_avx512;

#endif
