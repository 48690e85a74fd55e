/* All-reduce over a binomial tree: partial results go up to rank 0, the result comes down the same way. */
#include "accl/algorithms.h"

static void build_piece(accl_task *task, size_t at, size_t count, bool again)
{
    uint32_t me = task->comm->rank, ranks = task->comm->ranks, mask = 1, up = task->phase + 1;
    size_t bytes = count * accl_work_bytes(task->call.arith.type);
    accl_place mine = accl_at(ACCL_AT_STAGE, me, 0);
    accl_add_begin(task, mine, accl_at(ACCL_AT_SEND, me, at), count);
    for (; mask < ranks && !(me & mask); mask <<= 1) {
        if (me + mask >= ranks) continue;
        accl_add_wait(task, me + mask, up);
        accl_add_combine(task, mine, mine, accl_at(ACCL_AT_STAGE, me + mask, 0), count);
    }
    accl_add_post(task);
    if (me) {
        accl_add_wait(task, me - mask, up + 1);
        accl_add_copy(task, mine, accl_at(ACCL_AT_STAGE, me - mask, 0), bytes);
    }
    accl_add_post(task);
    accl_add_finish(task, accl_at(ACCL_AT_RECV, me, at), mine, count);
    if (again) accl_add_wait_all(task, accl_add_post(task)); /* children have read this piece */
}

void accl_all_reduce_tree(accl_task *task)
{
    const accl_call *call = &task->call;
    size_t piece = ACCL_STAGE_HALF / accl_work_bytes(call->arith.type), element = lj_dtype_bytes(call->arith.type), at = 0;
    accl_add_guard(task, true);
    do {
        size_t n = call->count - at < piece ? call->count - at : piece;
        build_piece(task, at * element, n, at + n < call->count);
        at += n;
    } while (at < call->count);
}
