/* Reduce-scatter round a ring: a block's partial result goes round once, every rank adding its input; it ends at the block's owner. */
#include "accl/algorithms.h"

static void build_piece(accl_task *task, size_t piece, size_t at, size_t count)
{
    uint32_t me = task->comm->rank, n = task->comm->ranks, left = (me + n - 1) % n, last;
    size_t each = accl_call_bytes(&task->call), element = lj_dtype_bytes(task->call.arith.type);
    for (uint32_t block = 0; block < n; block++)
        accl_add_begin(task, accl_at(ACCL_AT_STAGE, me, block * piece), accl_at(ACCL_AT_SEND, me, block * each + at * element), count);
    uint32_t base = last = accl_add_post(task);
    for (uint32_t step = 0; step < n - 1; step++) {
        uint32_t block = (me + 2 * n - step - 2) % n;
        accl_place mine = accl_at(ACCL_AT_STAGE, me, block * piece);
        accl_add_wait(task, left, base + step);
        accl_add_combine(task, mine, accl_at(ACCL_AT_STAGE, left, block * piece), mine, count);
        last = accl_add_post(task);
    }
    accl_add_finish(task, accl_at(ACCL_AT_RECV, me, at * element), accl_at(ACCL_AT_STAGE, me, me * piece), count);
    accl_add_wait_all(task, last);
}

void accl_reduce_scatter_ring(accl_task *task)
{
    const accl_call *call = &task->call;
    size_t wide = accl_work_bytes(call->arith.type), piece = ACCL_STAGE_HALF / task->comm->ranks / ACCL_LINE * ACCL_LINE, at = 0;
    accl_add_guard(task, true);
    do {
        size_t n = call->count - at < piece / wide ? call->count - at : piece / wide;
        build_piece(task, piece, at, n);
        at += n;
    } while (at < call->count);
}
