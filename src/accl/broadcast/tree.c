/* Broadcast over a binomial tree rooted at the root: each rank fetches from its parent and is fetched from by its children. */
#include "accl/algorithms.h"

static uint32_t parent_of(uint32_t place)
{
    return place & (place - 1); /* without its lowest bit */
}

void accl_broadcast_tree(accl_task *task)
{
    uint32_t me = task->comm->rank, ranks = task->comm->ranks, root = (uint32_t)task->call.root, place = (me + ranks - root) % ranks;
    uint32_t parent = (parent_of(place) + root) % ranks, number = 0;
    size_t bytes = accl_call_bytes(&task->call), slots, piece = accl_piece_bytes(task, 1, &slots), at = 0;
    accl_add_guard(task, true);
    do {
        size_t n = bytes - at < piece ? bytes - at : piece, slot = number % slots * piece;
        accl_place mine = accl_at(ACCL_AT_STAGE, me, slot);
        if (number >= slots) accl_add_wait_all(task, number - (uint32_t)slots + 1); /* children have what the slot holds */
        if (place) accl_add_wait(task, parent, number + 1);
        accl_add_copy(task, mine, place ? accl_at(ACCL_AT_STAGE, parent, slot) : accl_at(ACCL_AT_SEND, me, at), n);
        accl_add_post(task);
        accl_add_copy(task, accl_at(ACCL_AT_RECV, me, at), mine, n);
        at += n;
        number++;
    } while (at < bytes);
}
