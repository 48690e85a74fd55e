/* Places buffers with known lifetimes into one block so that no two that live at the same step overlap. Pure arithmetic. */
#ifndef LJ_PLAN_OFFSETS_H
#define LJ_PLAN_OFFSETS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { LJ_PLAN_ALIGN = 64 };

typedef struct {
    size_t bytes;         /* 0: takes no room */
    uint32_t first, last; /* steps at which it is alive, both included */
    size_t offset;        /* result, a multiple of LJ_PLAN_ALIGN */
} lj_plan_buffer;

/* Largest first, each at the lowest gap that its lifetime leaves. *total is the block's size. LJ_ERR_LIMIT when sizes overflow. */
lj_status lj_plan_offsets(lj_plan_buffer *buffers, size_t count, size_t *total);

/* Sum of the buffers alive at each step is never above the block; *peak_step is where it is largest. */
size_t lj_plan_live_peak(const lj_plan_buffer *buffers, size_t count, uint32_t steps, uint32_t *peak_step);

/* Proves a plan, pair by pair: LJ_ERR_INVALID names the first two buffers that overlap in both time and space. */
lj_status lj_plan_check(const lj_plan_buffer *buffers, size_t count, size_t total);

#endif
