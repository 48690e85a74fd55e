/* Reduce, flat: everybody stages its input, the root reads and reduces them. Phase p of the root: it has read piece p - 1; of the others: it is staged. */
#include "accl/algorithms.h"

void accl_reduce_flat(accl_task *task)
{
    uint32_t me = task->comm->rank, root = (uint32_t)task->call.root, number = 0;
    size_t bytes = accl_call_bytes(&task->call), element = lj_dtype_bytes(task->call.arith.type), slots, piece = accl_piece_bytes(task, 1, &slots), at = 0;
    accl_add_guard(task, true);
    do {
        size_t n = bytes - at < piece ? bytes - at : piece;
        accl_place stage = accl_at(ACCL_AT_STAGE, me, number % slots * piece), own = accl_at(ACCL_AT_SEND, me, at);
        if (me == root) {
            accl_add_wait_all(task, number + 1);
            accl_add_reduce(task, accl_at(ACCL_AT_RECV, me, at), stage, own, n / element, false);
        } else {
            if (number >= slots) accl_add_wait(task, root, number - (uint32_t)slots + 1);
            accl_add_copy(task, stage, own, n);
        }
        accl_add_post(task);
        at += n;
        number++;
    } while (at < bytes);
}
