/* Collectives whose data fits beside the tag of a card: one cache line goes to every rank that looks, and that is all. */
#include "accl/algorithms.h"
#include "accl/wait.h"

#include <string.h>

bool accl_is_inline(const ncclComm_t comm, const accl_call *call)
{
    return accl_call_send_bytes(call, comm->ranks) <= ACCL_INLINE && accl_inline_allowed(call->kind);
}

/* Shows this rank's card. The tag goes last: who sees it sees the rest. */
void accl_card_show(ncclComm_t comm, const accl_call *call, uint64_t number, bool inline_data, bool mapped, uint32_t flags)
{
    accl_card *card = &comm->mine->cards[number % ACCL_CARDS];
    bool gives = call->kind != ACCL_BROADCAST || (uint32_t)call->root == comm->rank;
    if (inline_data) {
        if (gives) memcpy(card->payload, call->send, accl_call_send_bytes(call, comm->ranks));
        if (call->arith.op == ACCL_PREMUL) card->scale = call->scale;
    } else {
        card->send = (uint64_t)(uintptr_t)call->send;
        card->recv = (uint64_t)(uintptr_t)call->recv;
        card->send_heap = mapped && call->send ? accl_heap_find(call->send, accl_call_send_bytes(call, comm->ranks)) : 0;
        card->recv_heap = mapped && call->recv ? accl_heap_find(call->recv, accl_call_recv_bytes(call, comm->ranks)) : 0;
        card->scale = call->scale;
    }
    atomic_store_explicit(&card->tag, accl_task_tag(call, number) | flags | (mapped ? ACCL_CARD_MAPPED : 0), memory_order_release);
}

static const unsigned char *payload_of(ncclComm_t comm, uint64_t number, uint32_t rank)
{
    return comm->peers[rank].lines->cards[number % ACCL_CARDS].payload;
}

static void reduce_payloads(ncclComm_t comm, const accl_call *call, uint64_t number, size_t offset)
{
    const void *from[ACCL_MAX_RANKS];
    uint64_t scale[ACCL_MAX_RANKS];
    void *to = call->recv;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        from[i] = payload_of(comm, number, i) + offset;
        if (call->arith.op == ACCL_PREMUL) scale[i] = comm->peers[i].lines->cards[number % ACCL_CARDS].scale;
    }
    accl_reduce(&call->arith, &to, 1, from, comm->ranks, scale, call->count, false);
}

void accl_inline_result(ncclComm_t comm, const accl_call *call, uint64_t number)
{
    size_t bytes = accl_call_bytes(call);
    if (!bytes) return;
    switch (call->kind) {
    case ACCL_ALL_REDUCE: reduce_payloads(comm, call, number, 0); break;
    case ACCL_REDUCE_SCATTER: reduce_payloads(comm, call, number, comm->rank * bytes); break;
    case ACCL_REDUCE:
        if ((uint32_t)call->root == comm->rank) reduce_payloads(comm, call, number, 0);
        break;
    case ACCL_ALL_GATHER:
        for (uint32_t i = 0; i < comm->ranks; i++) memcpy((char *)call->recv + i * bytes, payload_of(comm, number, i), bytes);
        break;
    default: memcpy(call->recv, payload_of(comm, number, (uint32_t)call->root), bytes); break;
    }
}

bool accl_do_inline(accl_task *task, const accl_step *step)
{
    (void)step;
    accl_inline_result(task->comm, &task->call, task->number);
    return true;
}
