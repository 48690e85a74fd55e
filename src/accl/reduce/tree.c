/* Reduce over a binomial tree rooted at the root. */
#include "accl/algorithms.h"

void accl_reduce_tree(accl_task *task)
{
    const accl_call *call = &task->call;
    uint32_t me = task->comm->rank, ranks = task->comm->ranks, root = (uint32_t)call->root, place = (me + ranks - root) % ranks;
    size_t piece = ACCL_STAGE_HALF / accl_work_bytes(call->arith.type), element = lj_dtype_bytes(call->arith.type), at = 0;
    accl_place mine = accl_at(ACCL_AT_STAGE, me, 0);
    accl_add_guard(task, true);
    do {
        size_t n = call->count - at < piece ? call->count - at : piece;
        uint32_t up = task->phase + 1;
        accl_add_begin(task, mine, accl_at(ACCL_AT_SEND, me, at * element), n);
        for (uint32_t mask = 1; mask < ranks && !(place & mask); mask <<= 1) {
            if (place + mask >= ranks) continue;
            uint32_t child = (place + mask + root) % ranks;
            accl_add_wait(task, child, up);
            accl_add_combine(task, mine, mine, accl_at(ACCL_AT_STAGE, child, 0), n);
        }
        accl_add_post(task);
        if (place == 0) accl_add_finish(task, accl_at(ACCL_AT_RECV, me, at * element), mine, n);
        at += n;
        if (at < call->count) accl_add_wait_all(task, accl_add_post(task)); /* parents have read this piece */
    } while (at < call->count);
}
