/* All-reduce round a ring: n - 1 steps in which each rank adds its input to the partial result of its left neighbour, then n - 1 in which the finished
 * parts go round. A rank's partial result of a part is read by its right neighbour only, in the step after it was made. */
#include "accl/algorithms.h"

typedef struct {
    size_t wide, count; /* bytes of a partial element; elements of this piece */
    uint32_t base;
} plan;

static accl_place part_at(const accl_task *task, const plan *p, uint32_t rank, uint32_t part, size_t *length)
{
    size_t first;
    accl_part(p->count, p->wide, task->comm->ranks, part, &first, length);
    return accl_at(ACCL_AT_STAGE, rank, first * p->wide);
}

static void build_piece(accl_task *task, plan *p, size_t at)
{
    uint32_t me = task->comm->rank, n = task->comm->ranks, left = (me + n - 1) % n, last = 0;
    size_t length;
    accl_add_begin(task, accl_at(ACCL_AT_STAGE, me, 0), accl_at(ACCL_AT_SEND, me, at), p->count);
    p->base = accl_add_post(task);
    for (uint32_t step = 0; step < n - 1; step++) {
        uint32_t part = (me + 2 * n - step - 1) % n;
        accl_place mine = part_at(task, p, me, part, &length), theirs = part_at(task, p, left, part, &length);
        accl_add_wait(task, left, p->base + step);
        accl_add_combine(task, mine, theirs, mine, length);
        accl_add_post(task);
    }
    for (uint32_t step = 0; step < n - 1; step++) {
        uint32_t part = (me + n - step) % n;
        accl_place mine = part_at(task, p, me, part, &length), theirs = part_at(task, p, left, part, &length);
        accl_add_wait(task, left, p->base + n - 1 + step);
        accl_add_copy(task, mine, theirs, length * p->wide);
        last = accl_add_post(task);
    }
    accl_add_finish(task, accl_at(ACCL_AT_RECV, me, at), accl_at(ACCL_AT_STAGE, me, 0), p->count);
    accl_add_wait_all(task, last); /* the right neighbour has read all before the next piece or operation writes */
}

void accl_all_reduce_ring(accl_task *task)
{
    const accl_call *call = &task->call;
    plan p = {.wide = accl_work_bytes(call->arith.type)};
    size_t piece = ACCL_STAGE_HALF / p.wide, element = lj_dtype_bytes(call->arith.type), at = 0;
    accl_add_guard(task, true);
    do {
        p.count = call->count - at < piece ? call->count - at : piece;
        build_piece(task, &p, at * element);
        at += p.count;
    } while (at < call->count);
}
