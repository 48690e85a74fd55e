/* What is kept when a run stops on NaN or a loss jump: OUT/stopped/batch.jsonl (rows of the offending micro-batches) and
 * OUT/stopped/tensors.jsonl (for each weight: norms and extremes of weight, gradient and moments, count of numbers that are not finite). */
#ifndef LJ_TRAIN_POSTMORTEM_H
#define LJ_TRAIN_POSTMORTEM_H

#include "train/checkpoint.h"

lj_status lj_postmortem_write(const char *out, lj_trainer *trainer, const lj_batch *batches, int64_t count, const lj_train_state *state);

#endif
