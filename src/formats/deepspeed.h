/* DeepSpeed's JSON: the keys that one rank honours, read strictly.
 *
 * Honoured: train_batch_size, train_micro_batch_size_per_gpu, gradient_accumulation_steps (checked as a triple with the number of ranks),
 * optimizer AdamW, scheduler WarmupLR and WarmupDecayLR, gradient_clipping, bf16. The value "auto" leaves a setting to us. Keys that
 * change nothing on one rank are listed in `ignored`; every other key is refused by name. */
#ifndef LJ_FORMATS_DEEPSPEED_H
#define LJ_FORMATS_DEEPSPEED_H

#include "base/text.h"

#include <math.h>

typedef enum { LJ_DS_NO_SCHEDULER, LJ_DS_WARMUP, LJ_DS_WARMUP_DECAY } lj_deepspeed_scheduler;

/* Unset numbers are -1 (counts) or NaN. */
typedef struct {
    int64_t train_batch, micro_batch, accumulation; /* after the check all three are set */
    bool has_optimizer, bf16_set, bf16;
    double lr, beta1, beta2, eps, weight_decay, clip;
    lj_deepspeed_scheduler scheduler;
    double warmup_min_lr, warmup_max_lr;
    int64_t warmup_steps, total_steps;
    bool warmup_linear;
    lj_text ignored; /* "zero_optimization, steps_per_print" */
} lj_deepspeed;

/* LJ_ERR_INVALID, LJ_ERR_UNSUPPORTED (a key that nothing here takes, with what will), LJ_ERR_NOT_FOUND (an unknown key, with the nearest
 * known one), LJ_ERR_FORMAT. `ranks` >= 1. Outputs only on success. */
lj_status lj_deepspeed_read(const char *path, int ranks, lj_deepspeed *out);
void lj_deepspeed_release(lj_deepspeed *deepspeed);

/* Completes the triple: train = micro x accumulation x ranks. Unset members are -1. The message has the numbers. */
lj_status lj_deepspeed_batches(int64_t *train, int64_t *micro, int64_t *accumulation, int ranks);

#endif
