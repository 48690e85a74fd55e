/* One micro-batch as the graphs read it: rows x length tokens, targets, positions, document starts and loss weights. */
#ifndef LJ_TRAIN_BATCH_H
#define LJ_TRAIN_BATCH_H

#include "base/status.h"

#include <stdint.h>

typedef struct {
    int64_t rows, length;    /* in use; at most what it was made for */
    int64_t row_capacity;
    int32_t *tokens, *targets, *positions, *starts; /* rows x length each; targets < 0: no loss */
    float *weights;
} lj_batch;

/* Allocates for `rows` x `length`; positions count from 0 in each row, starts are 0, weights 0. */
lj_status lj_batch_init(lj_batch *batch, int64_t rows, int64_t length);
void lj_batch_release(lj_batch *batch);

/* Targets that count. */
int64_t lj_batch_target_count(const lj_batch *batch);
/* Gives every target the weight 1 / `total`, the target tokens of the whole optimizer step over all micro-batches and ranks: the losses
 * of the micro-batches then add up to the mean over tokens, however unequal they are. A total of 0 gives weights 0. */
void lj_batch_weigh(lj_batch *batch, int64_t total);
size_t lj_batch_bytes(int64_t rows, int64_t length);

#endif
