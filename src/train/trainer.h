/* A model being trained: flat buffers and the compiled programs micro, update and eval over them.
 *
 * Life: lj_trainer_create (compiles) -> lj_trainer_plan (exact bytes, nothing allocated) -> lj_trainer_commit (allocates, refusing what
 * does not fit) -> fill lj_trainer_master, lj_trainer_refresh -> for each step: lj_trainer_micro once a micro-batch,
 * lj_trainer_update -> destroy. `eval` of a training trainer is compiled on first use. One thread. */
#ifndef LJ_TRAIN_TRAINER_H
#define LJ_TRAIN_TRAINER_H

#include "ljperf/program.h"
#include "model/layout.h"
#include "train/batch.h"

typedef struct {
    lj_dtype dtype;     /* compute: LJ_BF16 (mixed, fp32 master weights) or LJ_F32 */
    int threads;        /* 0: all processors of the affinity mask */
    bool eager;         /* "compiler off" */
    bool documents;     /* attention stops at document borders */
    bool evaluate_only; /* no gradients, no moments */
    bool micro_only;    /* no moments, no update, and with bf16 no master weights: for measuring; fill with lj_trainer_fill */
    bool accumulate;    /* more than one micro-batch a step: gradients are added to */
    int64_t rows, length; /* largest micro-batch */
    const char *disable; /* passes switched off; NULL = none */
    const char *recompute; /* as lj_program_options; NULL = none. Must outlive the trainer */
    lj_adamw_options adamw;
} lj_trainer_options;

/* What a trainer holds, in bytes, before anything is allocated. */
typedef struct {
    size_t master, moments, gradients, compute, data, workspace, peak;
} lj_trainer_bytes;

typedef struct lj_trainer lj_trainer;

/* `layout` must outlive the trainer. Errors: those of lj_program_compile. */
lj_status lj_trainer_create(const lj_param_layout *layout, const lj_trainer_options *options, lj_trainer **trainer);
void lj_trainer_destroy(lj_trainer *trainer); /* NULL is allowed */
/* Bytes that lj_trainer_commit and one batch will take, at options.rows x options.length. */
lj_status lj_trainer_plan(lj_trainer *trainer, lj_trainer_bytes *bytes);
/* LJ_ERR_NOMEM when the machine (or its cgroup) has less free than the plan needs: both numbers. */
lj_status lj_trainer_commit(lj_trainer *trainer);
/* Random weights by lj_params_random, or lj_params_fill when only speed matters; a weights' change that needs no refresh. */
void lj_trainer_fill(lj_trainer *trainer, uint64_t seed, bool speed_only);

/* Flat f32 buffers of layout->total_elements: weights, moments, gradients of the last step (NULL with evaluate_only). */
float *lj_trainer_master(lj_trainer *trainer);
float *lj_trainer_m(lj_trainer *trainer);
float *lj_trainer_v(lj_trainer *trainer);
float *lj_trainer_gradients(lj_trainer *trainer);
const lj_param_layout *lj_trainer_layout(const lj_trainer *trainer);
/* Brings the compute copy up to the master weights; after filling them, and only then. */
void lj_trainer_refresh(lj_trainer *trainer);

/* Forward and backward of one micro-batch; *loss = sum of weight x loss. `first` starts a step. */
lj_status lj_trainer_micro(lj_trainer *trainer, const lj_batch *batch, bool first, double *loss);
/* Ends optimizer step `step` (counted from 1): norm, clip (0: none), AdamW. */
lj_status lj_trainer_update(lj_trainer *trainer, int64_t step, double learning_rate, double clip, double *norm);
/* Losses f32 [rows x length] without learning, 0 where there is no target; they live until the next call. */
lj_status lj_trainer_eval(lj_trainer *trainer, const lj_batch *batch, const float **losses);

/* Logits f32 [rows x length, V] of a batch, into the caller's buffer. Compiled anew each time: for comparisons. */
lj_status lj_trainer_logits(lj_trainer *trainer, const lj_batch *batch, float *logits);

/* The programs themselves, for tracing and reports; NULL where the trainer has none. */
lj_program *lj_trainer_micro_program(lj_trainer *trainer);
lj_program *lj_trainer_update_program(lj_trainer *trainer);

#endif
