/* A permutation of 0 .. count-1 that is computed, not stored: any position of any epoch is reached at once. */
#ifndef LJ_TRAIN_SHUFFLE_H
#define LJ_TRAIN_SHUFFLE_H

#include <stdint.h>

/* Element `index` of the order of (seed, epoch); 0 <= index < count. */
int64_t lj_shuffle_at(uint64_t seed, int64_t epoch, int64_t count, int64_t index);

#endif
