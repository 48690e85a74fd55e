/* TensorBoard event files: OUT/events.out.tfevents.TIME.HOST, scalars only. The format is TensorFlow's record file (length, masked
 * CRC-32C, bytes, masked CRC-32C) of Event messages; the few fields used are written by hand. */
#ifndef LJ_TRAIN_TENSORBOARD_H
#define LJ_TRAIN_TENSORBOARD_H

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct {
    FILE *file;
    char *path;
} lj_tensorboard;

lj_status lj_tensorboard_open(lj_tensorboard *board, const char *out);
lj_status lj_tensorboard_scalar(lj_tensorboard *board, const char *tag, int64_t step, double value);
void lj_tensorboard_close(lj_tensorboard *board);

#endif
