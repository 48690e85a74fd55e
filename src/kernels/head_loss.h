/* Cross entropy fused with the output head: never the full rows x vocabulary logits.
 *
 *   logits = x W^T;  lse[i] = log sum_v exp(logits[i,v]);  loss[i] = lse[i] - logits[i,target[i]]   (0 for target -100)
 *   dlogits[i,v] = scale[i] * (exp(logits[i,v] - lse[i]) - [v == target[i]])                        (0 for target -100)
 *   dx = dlogits W;   dw += dlogits^T x
 *
 * Rows are taken in chunks of rows_per_chunk; logits of a chunk are f32 in scratch and become dlogits (type of x) in place.
 * Three GEMMs a chunk through the provider table. Not a team kernel: call from the master thread outside any region.
 * Targets of vocab or more make run fail with LJ_ERR_INVALID before anything is written. */
#ifndef LJ_KERNELS_HEAD_LOSS_H
#define LJ_KERNELS_HEAD_LOSS_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LJ_HEAD_LOSS_IGNORED = -100 }; /* any negative target is ignored; this is the usual one */

typedef struct {
    lj_dtype type;                 /* of x, w, dx: LJ_BF16 or LJ_F32 */
    int64_t rows, channels, vocab; /* N, C, V */
    int64_t rows_per_chunk;        /* 0: default (512; scratch is about rows_per_chunk * vocab * 4 bytes) */
    bool gradient;                 /* dx and dw will be asked for */
} lj_head_loss_desc;

typedef struct {
    const void *x;         /* [rows, channels] */
    const void *w;         /* [vocab, channels] */
    const int32_t *target; /* [rows] */
    float *loss;           /* [rows], or NULL */
    float *lse;            /* [rows], or NULL */
    const float *scale;    /* [rows] f32, loss scale and normalisation included; needed for the gradient */
    void *dx;              /* [rows, channels], written; NULL with gradient = false */
    float *dw;             /* [vocab, channels] f32, added to; NULL leaves it out */
    void *scratch;         /* lj_head_loss_scratch, 64-byte aligned */
} lj_head_loss_args;

typedef struct lj_head_loss_handle lj_head_loss_handle;

/* LJ_ERR_INVALID: sizes or type. Errors of lj_gemm_create. The handle is immutable: several threads may run it, each with its
 * own scratch. */
lj_status lj_head_loss_create(const lj_head_loss_desc *desc, int threads, lj_head_loss_handle **out);
void lj_head_loss_destroy(lj_head_loss_handle *handle);
size_t lj_head_loss_scratch(const lj_head_loss_handle *handle); /* exact bytes */
/* Forward, or forward and gradient in one sweep (dx not NULL), logits computed once. */
lj_status lj_head_loss_run(const lj_head_loss_handle *handle, const lj_head_loss_args *args);

#endif
