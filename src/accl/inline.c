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
        card->flags = (mapped ? ACCL_CARD_MAPPED : 0) | flags;
    }
    atomic_store_explicit(&card->tag, accl_task_tag(call, number), memory_order_release);
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

static void make_result(ncclComm_t comm, const accl_call *call, uint64_t number)
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
    make_result(task->comm, &task->call, task->number);
    return true;
}

/* Spins a little for the cards that this rank needs; false when it took too long or something does not match. */
static bool cards_spin(ncclComm_t comm, const accl_call *call, uint64_t tag, uint64_t number)
{
    uint32_t first = 0, end = comm->ranks, patience = comm->crowded ? 1 : 2000;
    if (call->kind == ACCL_BROADCAST) {
        first = (uint32_t)call->root;
        end = first + 1;
    } else if (call->kind == ACCL_REDUCE && (uint32_t)call->root != comm->rank) return true;
    for (uint32_t i = first; i < end; i++) {
        const accl_card *card = &comm->peers[i].lines->cards[number % ACCL_CARDS];
        while (atomic_load_explicit(&card->tag, memory_order_acquire) != tag) {
            if (patience-- == 0) return false;
            accl_pause();
        }
    }
    return true;
}

/* The waiting that cards_spin gave up, with everything that waiting has to look after. */
static ncclResult_t cards_wait(ncclComm_t comm, const accl_call *call, uint64_t number)
{
    accl_task task = {.comm = comm, .call = *call, .number = number};
    atomic_fetch_add(&comm->pending, 1);
    accl_task_await_cards(&task);
    return accl_run(&task, 1, false);
}

ncclResult_t accl_inline_run(ncclComm_t comm, const accl_call *call)
{
    uint64_t number = ++comm->issued, behind = ACCL_CARDS - 1;
    if (number > behind && comm->known < (number - behind) << 24) { /* rare: many operations in which nobody waited for anybody */
        accl_task task;
        comm->issued--;
        accl_task_init(&task, comm, call, NULL);
        return accl_run(&task, 1, false);
    }
    comm->last_algorithm = "flat/inline";
    accl_record_begin(comm, call, number);
    accl_card_show(comm, call, number, true, false, 0);
    if (comm->crowded) atomic_thread_fence(memory_order_seq_cst); /* else a sleeper that looked too early wakes by its time-out */
    for (uint32_t i = 0; i < comm->ranks; i++) accl_wake(comm, i);
    if (!cards_spin(comm, call, accl_task_tag(call, number), number)) return cards_wait(comm, call, number);
    if (call->kind != ACCL_BROADCAST && call->kind != ACCL_REDUCE) comm->known = number << 24;
    make_result(comm, call, number);
    atomic_store_explicit(&comm->mine->stamp, (number + 1) << 24, memory_order_release);
    atomic_store_explicit(&comm->mine->record.finished, number, memory_order_relaxed);
    atomic_store_explicit(&comm->done, number, memory_order_release);
    return ncclSuccess;
}
