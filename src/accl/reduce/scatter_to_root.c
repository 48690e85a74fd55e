/* Reduce with the work shared: each rank reduces its part of everybody's input straight into the root's result. */
#include "accl/algorithms.h"

void accl_reduce_scatter_to_root(accl_task *task)
{
    const accl_call *call = &task->call;
    uint32_t me = task->comm->rank;
    size_t element = lj_dtype_bytes(call->arith.type), first, length;
    if (task->phase == 0) {
        accl_add_guard(task, false);
        accl_add_wait_all(task, accl_add_post(task));
    }
    accl_part(call->count, element, task->comm->ranks, me, &first, &length);
    accl_place part = accl_at(ACCL_AT_SEND, me, first * element);
    accl_add_reduce(task, accl_at(ACCL_AT_RECV, (uint32_t)call->root, first * element), part, part, length, false);
    accl_add_wait_all(task, accl_add_post(task));
}
