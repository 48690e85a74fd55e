#include "accl/all_to_all/pairwise.h"

#include <stdlib.h>

/* Sends go to the rank `distance` after this one, receives come from the one before. */
static uint64_t place_of(const accl_task *task)
{
    const ncclComm_t comm = task->comm;
    uint32_t peer = (uint32_t)task->call.root, distance = task->call.kind == ACCL_SEND ? (peer + comm->ranks - comm->rank) % comm->ranks : (comm->rank + comm->ranks - peer) % comm->ranks;
    if (!accl_kinds[task->call.kind].is_message) return 0;
    return (uint64_t)(task->call.kind == ACCL_SEND ? 1 : 2) << 32 | distance;
}

static int compare(const void *a, const void *b)
{
    const accl_task *left = a, *right = b;
    uint64_t l = place_of(left), r = place_of(right);
    if (l != r) return l < r ? -1 : 1;
    if (left->comm != right->comm) return (uintptr_t)left->comm < (uintptr_t)right->comm ? -1 : 1;
    return left->number < right->number ? -1 : left->number > right->number;
}

void accl_exchange_order(accl_task *tasks, size_t count)
{
    bool ordered = true;
    for (size_t i = 1; i < count && ordered; i++) ordered = compare(&tasks[i - 1], &tasks[i]) <= 0;
    if (!ordered) qsort(tasks, count, sizeof *tasks, compare);
}
