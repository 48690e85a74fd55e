/* Broadcast, flat: everybody fetches from the root, piece by piece from its stage or all at once from where it lies. With two ranks that have a processor each,
 * the root writes half of it itself. */
#include "accl/algorithms.h"

static void build_direct(accl_task *task)
{
    const accl_call *call = &task->call;
    uint32_t me = task->comm->rank, root = (uint32_t)call->root;
    size_t bytes = accl_call_bytes(call), half = task->comm->ranks == 2 && !task->comm->crowded ? bytes / 2 / ACCL_LINE * ACCL_LINE : 0;
    if (task->phase == 0) {
        accl_add_guard(task, false);
        accl_add_wait_all(task, accl_add_post(task));
    }
    if (me != root) accl_add_copy(task, accl_at(ACCL_AT_RECV, me, half), accl_at(ACCL_AT_SEND, root, half), bytes - half);
    else accl_add_copy(task, accl_at(ACCL_AT_RECV, 1 - root, 0), accl_at(ACCL_AT_SEND, root, 0), half);
    accl_add_post(task);
    if (me == root) accl_add_copy(task, accl_at(ACCL_AT_RECV, me, 0), accl_at(ACCL_AT_SEND, me, 0), bytes);
    accl_add_wait_all(task, task->phase);
}

/* Phase p of the root: piece p - 1 is staged; of the others: they have it. */
void accl_broadcast_flat(accl_task *task)
{
    if (task->algorithm->reach != ACCL_BY_STAGE) {
        build_direct(task);
        return;
    }
    uint32_t me = task->comm->rank, root = (uint32_t)task->call.root, number = 0;
    size_t bytes = accl_call_bytes(&task->call), slots, piece = accl_piece_bytes(task, 1, &slots), at = 0;
    accl_add_guard(task, true);
    do {
        size_t n = bytes - at < piece ? bytes - at : piece;
        accl_place stage = accl_at(ACCL_AT_STAGE, root, number % slots * piece);
        if (me == root) {
            if (number >= slots) accl_add_wait_all(task, number - (uint32_t)slots + 1);
            accl_add_copy(task, stage, accl_at(ACCL_AT_SEND, me, at), n);
        } else {
            accl_add_wait(task, root, number + 1);
            accl_add_copy(task, accl_at(ACCL_AT_RECV, me, at), stage, n);
        }
        accl_add_post(task);
        at += n;
        number++;
    } while (at < bytes);
    if (me == root) accl_add_copy(task, accl_at(ACCL_AT_RECV, me, 0), accl_at(ACCL_AT_SEND, me, 0), bytes);
}
