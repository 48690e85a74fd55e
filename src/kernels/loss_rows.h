/* Inside of the head loss: one row of logits, one function an instruction set. */
#ifndef LJ_KERNELS_LOSS_ROWS_H
#define LJ_KERNELS_LOSS_ROWS_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    float *logits; /* [vocab]; with gradient its front becomes dlogits of `type` */
    int64_t vocab;
    int32_t target; /* or -100: loss 0 and gradient 0 */
    bool gradient;
    lj_dtype type;
    float scale;
    float loss, lse; /* results */
} lj_loss_row;

typedef void (*lj_loss_row_fn)(lj_loss_row *row);

void lj_loss_row_generic(lj_loss_row *row);
void lj_loss_row_avx2(lj_loss_row *row);
void lj_loss_row_avx512(lj_loss_row *row);

lj_loss_row_fn lj_loss_row_get(void);

#endif
