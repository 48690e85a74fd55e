/* Reduce-scatter, flat: every rank reads its block of everybody's input and reduces it. */
#include "accl/algorithms.h"

static void build_direct(accl_task *task)
{
    uint32_t me = task->comm->rank;
    accl_place block = accl_at(ACCL_AT_SEND, me, me * accl_call_bytes(&task->call));
    if (task->phase == 0) {
        accl_add_guard(task, false);
        accl_add_wait_all(task, accl_add_post(task));
    }
    accl_add_reduce(task, accl_at(ACCL_AT_RECV, me, 0), block, block, task->call.count, false);
    accl_add_wait_all(task, accl_add_post(task));
}

void accl_reduce_scatter_flat(accl_task *task)
{
    if (task->algorithm->reach != ACCL_BY_STAGE) {
        build_direct(task);
        return;
    }
    uint32_t me = task->comm->rank, ranks = task->comm->ranks;
    size_t bytes = accl_call_bytes(&task->call), element = lj_dtype_bytes(task->call.arith.type), slots;
    size_t piece = accl_piece_bytes(task, ranks, &slots), at = 0;
    uint32_t number = 0;
    accl_add_guard(task, true);
    do {
        size_t n = bytes - at < piece ? bytes - at : piece, base = accl_stage_slot(task, number, slots) * piece * ranks;
        accl_space space = accl_stage_space(task, number);
        for (uint32_t to = 0; to < ranks; to++)
            if (to != me) accl_add_copy(task, accl_at(space, me, base + to * piece), accl_at(ACCL_AT_SEND, me, to * bytes + at), n);
        accl_add_wait_all(task, accl_add_post(task));
        accl_add_reduce(task, accl_at(ACCL_AT_RECV, me, at), accl_at(space, me, base + me * piece), accl_at(ACCL_AT_SEND, me, me * bytes + at), n / element, false);
        at += n;
        number++;
    } while (at < bytes);
    accl_add_turns(task, number);
}
