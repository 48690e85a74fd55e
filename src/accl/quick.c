/* Small collectives of a caller that waits, without a task: the same lines are written and read in the same order as the steps of the flat algorithms
 * would (other ranks may be running those), only by straight code. What takes long is handed to a task. */
#include "accl/algorithms.h"
#include "accl/wait.h"

#include <string.h>

static unsigned char *half_of(const ncclComm_t comm, uint32_t rank, uint64_t number)
{
    return accl_stage_of(comm, rank, number, comm->turn);
}

/* Bytes between two blocks of a reduce-scatter's stage, as accl_piece_bytes gives them. */
static size_t block_stride(const ncclComm_t comm)
{
    size_t bytes = ACCL_STAGE_HALF / comm->ranks / (comm->crowded ? 2 : 4) / ACCL_LINE * ACCL_LINE;
    return bytes ? bytes : ACCL_LINE;
}

static bool gives(const ncclComm_t comm, const accl_call *call)
{
    bool root = (uint32_t)call->root == comm->rank;
    return call->kind == ACCL_BROADCAST ? root : call->kind == ACCL_REDUCE ? !root : true;
}

static void stage_in(ncclComm_t comm, const accl_call *call, uint64_t number)
{
    size_t bytes = accl_call_bytes(call), stride = block_stride(comm);
    unsigned char *half = half_of(comm, comm->rank, number);
    if (call->kind != ACCL_REDUCE_SCATTER) {
        accl_stage_put(comm, half, call->send, bytes);
        return;
    }
    for (uint32_t to = 0; to < comm->ranks; to++)
        if (to != comm->rank) accl_stage_put(comm, half + to * stride, (const char *)call->send + to * bytes, bytes);
}

static void reduce_staged(ncclComm_t comm, const accl_call *call, uint64_t number, size_t own_offset, size_t stage_offset)
{
    const void *from[ACCL_MAX_RANKS];
    void *to = call->recv;
    for (uint32_t i = 0; i < comm->ranks; i++) from[i] = i == comm->rank ? (const unsigned char *)call->send + own_offset : half_of(comm, i, number) + stage_offset;
    accl_stage_reduce(comm, &call->arith, to, from, NULL, call->count, false);
}

static void gather_staged(ncclComm_t comm, const accl_call *call, uint64_t number)
{
    size_t bytes = accl_call_bytes(call);
    for (uint32_t i = 0; i < comm->ranks; i++) {
        void *to = (char *)call->recv + i * bytes;
        if (i != comm->rank) accl_stage_get(comm, to, half_of(comm, i, number), bytes, false);
        else if (to != call->send) memcpy(to, call->send, bytes);
    }
}

static void staged_result(ncclComm_t comm, const accl_call *call, uint64_t number)
{
    uint32_t root = (uint32_t)call->root;
    bool is_root = root == comm->rank;
    switch (call->kind) {
    case ACCL_ALL_REDUCE: reduce_staged(comm, call, number, 0, 0); break;
    case ACCL_REDUCE_SCATTER: reduce_staged(comm, call, number, comm->rank * accl_call_bytes(call), comm->rank * block_stride(comm)); break;
    case ACCL_ALL_GATHER: gather_staged(comm, call, number); break;
    case ACCL_REDUCE:
        if (is_root) reduce_staged(comm, call, number, 0, 0);
        break;
    default:
        if (!is_root) accl_stage_get(comm, call->recv, half_of(comm, root, number), accl_call_bytes(call), false);
        else if (call->recv != call->send) memcpy(call->recv, call->send, accl_call_bytes(call));
    }
}

/* Spins a little for the cards that this rank needs; false when it took too long or something does not match. */
static bool cards_spin(ncclComm_t comm, const accl_call *call, uint64_t tag, uint64_t number)
{
    uint32_t first = 0, end = comm->ranks, patience = comm->crowded ? 1 : 2000;
    bool root = (uint32_t)call->root == comm->rank;
    if (call->kind == ACCL_BROADCAST) {
        first = (uint32_t)call->root;
        end = root ? first : first + 1;
    } else if (call->kind == ACCL_REDUCE && !root) return true;
    for (uint32_t i = first; i < end; i++) {
        const accl_card *card = &comm->peers[i].lines->cards[number % ACCL_CARDS];
        /* a tag with flags never equals ours: such a rank's first piece comes in a later phase, which a task waits for */
        while (i != comm->rank && atomic_load_explicit(&card->tag, memory_order_acquire) != tag) {
            if (patience-- == 0) return false;
            accl_pause();
        }
    }
    return true;
}

static void card_show(ncclComm_t comm, const accl_call *call, uint64_t number, bool is_inline)
{
    if (is_inline) accl_card_show(comm, call, number, true, false, 0);
    else atomic_store_explicit(&comm->mine->cards[number % ACCL_CARDS].tag, accl_task_tag(call, number), memory_order_release); /* nobody asks for addresses */
    if (comm->crowded) atomic_thread_fence(memory_order_seq_cst); /* else a sleeper that looked too early wakes by its time-out */
    else atomic_store_explicit(&comm->mine->cards[(number + 1) % ACCL_CARDS].touched, number, memory_order_relaxed);
    for (uint32_t i = 0; i < comm->ranks; i++) accl_wake(comm, i);
}

/* The waiting that cards_spin gave up, with everything that waiting has to look after. `shown`: the card is out, and with it what comes before. */
static ncclResult_t wait_long(ncclComm_t comm, const accl_call *call, uint64_t number, bool shown)
{
    accl_task task = {.comm = comm, .call = *call, .number = number};
    atomic_fetch_add(&comm->pending, 1);
    if (shown) accl_task_resume(&task);
    return accl_run(&task, 1, false);
}

static bool is_quick(ncclComm_t comm, const accl_call *call, bool *is_inline)
{
    *is_inline = accl_is_inline(comm, call);
    if (comm->ranks == 1 || call->arith.op == ACCL_PREMUL || accl_kinds[call->kind].is_message) return false;
    if (atomic_load_explicit(&comm->pending, memory_order_acquire)) return false;
    uint64_t number = comm->issued + 1, behind = *is_inline ? ACCL_CARDS - 1 : comm->swaps && comm->unordered_stage ? 0 : 1;
    if (number > 1 && number > behind && comm->known < (number - behind) << 24) return false; /* the lines may still be read: a task waits for them */
    if (*is_inline) return true;
    return accl_call_bytes(call) < accl_mapped_from(comm, call) && accl_choose(comm, call, false)->is_flat_staged && accl_call_bytes(call) <= block_stride(comm);
}

bool accl_quick_run(ncclComm_t comm, const accl_call *call, ncclResult_t *result)
{
    bool is_inline;
    if (!is_quick(comm, call, &is_inline)) return false;
    uint64_t number = ++comm->issued;
    bool first = is_inline || gives(comm, call);
    comm->last_algorithm = is_inline ? "flat/inline" : "flat/staged";
    accl_record_begin(comm, call, number);
    if (!is_inline && gives(comm, call)) stage_in(comm, call, number);
    if (first) card_show(comm, call, number, is_inline);
    if (!cards_spin(comm, call, accl_task_tag(call, number), number)) {
        *result = wait_long(comm, call, number, first);
        return true;
    }
    if (call->kind != ACCL_BROADCAST && call->kind != ACCL_REDUCE) comm->known = number << 24;
    if (is_inline) accl_inline_result(comm, call, number);
    else staged_result(comm, call, number);
    if (!first) card_show(comm, call, number, false);
    comm->turn += !is_inline;
    comm->unordered_stage = false;
    atomic_store_explicit(&comm->mine->stamp, (number + 1) << 24, memory_order_release);
    atomic_store_explicit(&comm->mine->record.finished, number, memory_order_relaxed);
    atomic_store_explicit(&comm->done, number, memory_order_release);
    *result = ncclSuccess;
    return true;
}
