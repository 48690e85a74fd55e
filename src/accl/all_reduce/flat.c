/* All-reduce, flat: every rank stages its input, every rank reads all of them and reduces everything. One meeting a piece. */
#include "accl/algorithms.h"

void accl_all_reduce_flat(accl_task *task)
{
    const accl_call *call = &task->call;
    uint32_t me = task->comm->rank;
    size_t element = lj_dtype_bytes(call->arith.type), bytes = accl_call_bytes(call), slots, piece = accl_piece_bytes(task, 1, &slots), at = 0;
    uint32_t number = 0;
    accl_add_guard(task, true);
    do {
        size_t n = bytes - at < piece ? bytes - at : piece;
        accl_place stage = accl_at(accl_stage_space(task, number), me, accl_stage_slot(task, number, slots) * piece), own = accl_at(ACCL_AT_SEND, me, at);
        accl_add_copy(task, stage, own, n);
        accl_add_wait_all(task, accl_add_post(task));
        /* who has posted this piece has read the one before: with two slots or more the next one is free */
        accl_add_reduce(task, accl_at(ACCL_AT_RECV, me, at), stage, own, n / element, false);
        at += n;
        number++;
    } while (at < bytes);
    accl_add_turns(task, number);
}
