/* All-reduce as reduce-scatter and gather: each rank reduces its part of everybody's input. Staged, the others then fetch it; with buffers that
 * can be reached (mapped, or through the system) it writes the part into everybody's result, so that every byte moves once. */
#include "accl/algorithms.h"

static void build_direct(accl_task *task)
{
    const accl_call *call = &task->call;
    uint32_t me = task->comm->rank, ranks = task->comm->ranks;
    size_t element = lj_dtype_bytes(call->arith.type), first, length;
    if (task->phase == 0) { /* else the cards are known already */
        accl_add_guard(task, false);
        accl_add_wait_all(task, accl_add_post(task));
    }
    accl_part(call->count, element, ranks, me, &first, &length);
    accl_place part = accl_at(ACCL_AT_SEND, me, first * element);
    accl_add_reduce(task, accl_at(ACCL_AT_RECV, me, first * element), part, part, length, true);
    accl_add_wait_all(task, accl_add_post(task));
}

/* What the others need of this rank's piece: all but its own part. */
static void stage_others(accl_task *task, size_t slot, size_t at, size_t bytes, size_t first, size_t length)
{
    uint32_t me = task->comm->rank;
    size_t after = first + length;
    accl_add_copy(task, accl_at(ACCL_AT_STAGE, me, slot), accl_at(ACCL_AT_SEND, me, at), first);
    accl_add_copy(task, accl_at(ACCL_AT_STAGE, me, slot + after), accl_at(ACCL_AT_SEND, me, at + after), bytes - after);
}

static void build_piece(accl_task *task, size_t slot, size_t at, size_t bytes)
{
    uint32_t me = task->comm->rank, ranks = task->comm->ranks;
    size_t element = lj_dtype_bytes(task->call.arith.type), first, length;
    accl_part(bytes / element, element, ranks, me, &first, &length);
    first *= element;
    stage_others(task, slot, at, bytes, first, length * element);
    accl_add_wait_all(task, accl_add_post(task));
    accl_place mine = accl_at(ACCL_AT_STAGE, me, slot + first);
    accl_add_reduce(task, mine, mine, accl_at(ACCL_AT_SEND, me, at + first), length, false);
    accl_add_wait_all(task, accl_add_post(task));
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t from = (me + i) % ranks;
        accl_part(bytes / element, element, ranks, from, &first, &length);
        accl_add_copy(task, accl_at(ACCL_AT_RECV, me, at + first * element), accl_at(ACCL_AT_STAGE, from, slot + first * element), length * element);
    }
}

void accl_all_reduce_scatter_gather(accl_task *task)
{
    if (task->algorithm->reach != ACCL_BY_STAGE) {
        build_direct(task);
        return;
    }
    size_t bytes = accl_call_bytes(&task->call), slots, piece = accl_piece_bytes(task, 1, &slots), at = 0, slot = 0;
    accl_add_guard(task, true);
    do {
        size_t n = bytes - at < piece ? bytes - at : piece;
        build_piece(task, slot * piece, at, n);
        at += n;
        slot = (slot + 1) % slots;
    } while (at < bytes);
}
