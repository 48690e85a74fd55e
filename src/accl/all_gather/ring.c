/* All-gather round a ring: each rank passes on what came from its left neighbour. */
#include "accl/algorithms.h"

static void build_piece(accl_task *task, size_t piece, size_t at, size_t bytes)
{
    uint32_t me = task->comm->rank, n = task->comm->ranks, left = (me + n - 1) % n;
    size_t each = accl_call_bytes(&task->call);
    accl_add_copy(task, accl_at(ACCL_AT_STAGE, me, me * piece), accl_at(ACCL_AT_SEND, me, at), bytes);
    uint32_t base = accl_add_post(task), last = base;
    for (uint32_t step = 0; step < n - 1; step++) {
        uint32_t part = (me + 2 * n - step - 1) % n;
        accl_place mine = accl_at(ACCL_AT_STAGE, me, part * piece);
        accl_add_wait(task, left, base + step);
        accl_add_copy(task, mine, accl_at(ACCL_AT_STAGE, left, part * piece), bytes);
        last = accl_add_post(task);
        accl_add_copy(task, accl_at(ACCL_AT_RECV, me, part * each + at), mine, bytes);
    }
    accl_add_wait_all(task, last);
}

void accl_all_gather_ring(accl_task *task)
{
    uint32_t me = task->comm->rank;
    size_t bytes = accl_call_bytes(&task->call), piece = ACCL_STAGE_HALF / task->comm->ranks / ACCL_LINE * ACCL_LINE, at = 0;
    accl_add_guard(task, true);
    do {
        size_t n = bytes - at < piece ? bytes - at : piece;
        build_piece(task, piece, at, n);
        at += n;
    } while (at < bytes);
    accl_add_copy(task, accl_at(ACCL_AT_RECV, me, me * bytes), accl_at(ACCL_AT_SEND, me, 0), bytes);
}
