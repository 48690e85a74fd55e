/* All-gather, flat: every rank fetches everybody's input, from the stage or from where it lies. */
#include "accl/algorithms.h"

static void fetch(accl_task *task, accl_space space, size_t from_offset, size_t at, size_t bytes)
{
    uint32_t me = task->comm->rank, ranks = task->comm->ranks;
    size_t each = accl_call_bytes(&task->call);
    for (uint32_t i = 1; i < ranks; i++) { /* each begins at another neighbour */
        uint32_t from = (me + i) % ranks;
        accl_add_copy(task, accl_at(ACCL_AT_RECV, me, from * each + at), accl_at(space, from, from_offset), bytes);
    }
}

static void build_direct(accl_task *task)
{
    if (task->phase == 0) {
        accl_add_guard(task, false);
        accl_add_wait_all(task, accl_add_post(task));
    }
    fetch(task, ACCL_AT_SEND, 0, 0, accl_call_bytes(&task->call));
    accl_add_post(task);
}

void accl_all_gather_flat(accl_task *task)
{
    uint32_t me = task->comm->rank;
    bool direct = task->algorithm->reach != ACCL_BY_STAGE;
    size_t bytes = accl_call_bytes(&task->call), slots, piece = accl_piece_bytes(task, 1, &slots), at = 0;
    uint32_t number = 0;
    if (direct) build_direct(task);
    else {
        accl_add_guard(task, true);
        do {
            size_t n = bytes - at < piece ? bytes - at : piece, slot = accl_stage_slot(task, number, slots) * piece;
            accl_space space = accl_stage_space(task, number);
            accl_add_copy(task, accl_at(space, me, slot), accl_at(ACCL_AT_SEND, me, at), n);
            accl_add_wait_all(task, accl_add_post(task));
            fetch(task, space, slot, at, n);
            at += n;
            number++;
        } while (at < bytes);
        accl_add_turns(task, number);
    }
    accl_add_copy(task, accl_at(ACCL_AT_RECV, me, me * bytes), accl_at(ACCL_AT_SEND, me, 0), bytes);
    if (direct) accl_add_wait_all(task, task->phase); /* the others have read this rank's input */
}
