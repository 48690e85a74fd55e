#include "train/batch.h"

#include "base/memory.h"

enum { COLUMNS = 5 };

size_t lj_batch_bytes(int64_t rows, int64_t length)
{
    return (size_t)rows * (size_t)length * 4 * COLUMNS;
}

lj_status lj_batch_init(lj_batch *batch, int64_t rows, int64_t length)
{
    void *block;
    size_t cells = (size_t)rows * (size_t)length, padded = (cells + 15) / 16 * 16;
    LJ_TRY(lj_alloc_zero("batch", padded * 4 * COLUMNS, &block));
    int32_t *at = block;
    *batch = (lj_batch){rows, length, rows, at, at + padded, at + 2 * padded, at + 3 * padded, (float *)(at + 4 * padded)};
    for (size_t i = 0; i < cells; i++) batch->positions[i] = (int32_t)(i % (size_t)length);
    return LJ_OK;
}

void lj_batch_release(lj_batch *batch)
{
    lj_free(batch->tokens);
    *batch = (lj_batch){0};
}

int64_t lj_batch_target_count(const lj_batch *batch)
{
    int64_t count = 0;
    for (int64_t i = 0; i < batch->rows * batch->length; i++) count += batch->targets[i] >= 0;
    return count;
}

void lj_batch_weigh(lj_batch *batch, int64_t total)
{
    float each = total > 0 ? (float)(1.0 / (double)total) : 0;
    for (int64_t i = 0; i < batch->rows * batch->length; i++) batch->weights[i] = batch->targets[i] >= 0 ? each : 0;
}
