/* Reduce-scatter by pairwise exchange: in step k a rank takes its block from the rank k before it and adds it to what it has, so that at any time every rank
 * reads from another one. */
#include "accl/algorithms.h"

static void build_piece(accl_task *task, size_t piece, size_t at, size_t count)
{
    uint32_t me = task->comm->rank, n = task->comm->ranks;
    size_t each = accl_call_bytes(&task->call), element = lj_dtype_bytes(task->call.arith.type);
    for (uint32_t block = 0; block < n; block++)
        accl_add_begin(task, accl_at(ACCL_AT_STAGE, me, block * piece), accl_at(ACCL_AT_SEND, me, block * each + at * element), count);
    uint32_t base = accl_add_post(task);
    accl_place mine = accl_at(ACCL_AT_STAGE, me, me * piece);
    for (uint32_t step = 1; step < n; step++) {
        uint32_t from = (me + n - step) % n;
        accl_add_wait(task, from, base);
        accl_add_combine(task, mine, mine, accl_at(ACCL_AT_STAGE, from, me * piece), count);
    }
    accl_add_finish(task, accl_at(ACCL_AT_RECV, me, at * element), mine, count);
    accl_add_wait_all(task, accl_add_post(task));
}

void accl_reduce_scatter_pairwise(accl_task *task)
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
