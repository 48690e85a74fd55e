#include "plan/offsets.h"

#include "base/memory.h"

#include <stdlib.h>

static size_t round_up(size_t bytes)
{
    return (bytes + LJ_PLAN_ALIGN - 1) & ~(size_t)(LJ_PLAN_ALIGN - 1);
}

static int by_size(const void *a, const void *b)
{
    const lj_plan_buffer *x = *(lj_plan_buffer *const *)a, *y = *(lj_plan_buffer *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y; /* sort is not stable: the same plan in every process */
}

static int by_offset(const void *a, const void *b)
{
    const lj_plan_buffer *x = *(lj_plan_buffer *const *)a, *y = *(lj_plan_buffer *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Lowest offset at which `buffer` fits between those already placed that live when it does. */
static size_t lowest_gap(const lj_plan_buffer *buffer, lj_plan_buffer **placed, size_t placed_count, lj_plan_buffer **alive)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < placed_count; i++)
        if (placed[i]->first <= buffer->last && buffer->first <= placed[i]->last) alive[n++] = placed[i];
    qsort(alive, n, sizeof *alive, by_offset);
    for (size_t i = 0; i < n; i++) {
        if (alive[i]->offset >= at && alive[i]->offset - at >= round_up(buffer->bytes)) break;
        size_t end = alive[i]->offset + round_up(alive[i]->bytes);
        if (end > at) at = end;
    }
    return at;
}

lj_status lj_plan_offsets(lj_plan_buffer *buffers, size_t count, size_t *total)
{
    void *memory;
    LJ_TRY(lj_alloc("plan", (2 * count + 1) * sizeof(lj_plan_buffer *), &memory));
    lj_plan_buffer **order = memory, **alive = order + count;
    size_t n = 0, end = 0;
    lj_status status = LJ_OK;
    for (size_t i = 0; i < count; i++) {
        buffers[i].offset = 0;
        if (buffers[i].bytes > SIZE_MAX / 8) status = lj_fail(LJ_ERR_LIMIT, "plan: a buffer of %zu bytes", buffers[i].bytes);
        if (buffers[i].bytes) order[n++] = &buffers[i];
    }
    qsort(order, n, sizeof *order, by_size);
    for (size_t i = 0; i < n && status == LJ_OK; i++) {
        order[i]->offset = lowest_gap(order[i], order, i, alive);
        size_t top;
        if (!lj_add_size(order[i]->offset, round_up(order[i]->bytes), &top)) status = lj_fail(LJ_ERR_LIMIT, "plan: the block overflows");
        if (status == LJ_OK && top > end) end = top;
    }
    lj_free(memory);
    if (status == LJ_OK) *total = end;
    return status;
}

size_t lj_plan_live_peak(const lj_plan_buffer *buffers, size_t count, uint32_t steps, uint32_t *peak_step)
{
    size_t peak = 0;
    *peak_step = 0;
    for (uint32_t step = 0; step < steps; step++) {
        size_t live = 0;
        for (size_t i = 0; i < count; i++)
            if (buffers[i].first <= step && step <= buffers[i].last) live += round_up(buffers[i].bytes);
        if (live > peak) peak = live, *peak_step = step;
    }
    return peak;
}

lj_status lj_plan_check(const lj_plan_buffer *buffers, size_t count, size_t total)
{
    for (size_t a = 0; a < count; a++) {
        const lj_plan_buffer *x = &buffers[a];
        if (x->bytes && (x->offset % LJ_PLAN_ALIGN || x->offset + x->bytes > total))
            return lj_fail(LJ_ERR_INVALID, "plan: buffer %zu is unaligned or leaves the block of %zu bytes", a, total);
        for (size_t b = a + 1; b < count; b++) {
            const lj_plan_buffer *y = &buffers[b];
            bool in_time = x->first <= y->last && y->first <= x->last;
            bool in_space = x->bytes && y->bytes && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
            if (in_time && in_space) return lj_fail(LJ_ERR_INVALID, "plan: buffers %zu and %zu overlap at steps %u..%u", a, b, y->first, x->last);
        }
    }
    return LJ_OK;
}
