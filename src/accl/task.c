#include "accl/task.h"

#include "accl/algorithms.h"
#include "accl/wait.h"

#include <stdlib.h>
#include <string.h>

const accl_kind_row accl_kinds[ACCL_KIND_COUNT] = {
    [ACCL_ALL_REDUCE] = {"all_reduce", "ncclAllReduce", true, false, false, false, false},
    [ACCL_ALL_GATHER] = {"all_gather", "ncclAllGather", false, false, false, false, true},
    [ACCL_REDUCE_SCATTER] = {"reduce_scatter", "ncclReduceScatter", true, false, false, true, false},
    [ACCL_BROADCAST] = {"broadcast", "ncclBroadcast", false, true, false, false, false},
    [ACCL_REDUCE] = {"reduce", "ncclReduce", true, true, false, false, false},
    [ACCL_SEND] = {"send", "ncclSend", false, true, true, false, false},
    [ACCL_RECV] = {"recv", "ncclRecv", false, true, true, false, false},
};

size_t accl_call_send_bytes(const accl_call *call, uint32_t ranks)
{
    return accl_call_bytes(call) * (accl_kinds[call->kind].send_by_ranks ? ranks : 1);
}

size_t accl_call_recv_bytes(const accl_call *call, uint32_t ranks)
{
    return accl_call_bytes(call) * (accl_kinds[call->kind].recv_by_ranks ? ranks : 1);
}

void accl_part(size_t count, size_t element, uint32_t parts, uint32_t index, size_t *first, size_t *length)
{
    size_t line = ACCL_LINE / element, each = (count + parts - 1) / parts;
    each = (each + line - 1) / line * line;
    *first = each * index < count ? each * index : count;
    *length = count - *first < each ? count - *first : each;
}

void accl_task_init(accl_task *task, ncclComm_t comm, const accl_call *call, accl_stream *stream)
{
    *task = (accl_task){.comm = comm, .call = *call, .stream = stream};
    if (call->kind == ACCL_SEND) task->number = ++comm->sent[call->root];
    else if (call->kind == ACCL_RECV) task->number = ++comm->received[call->root];
    else task->number = ++comm->issued;
    atomic_fetch_add(&comm->pending, 1);
}

static void steps_give_back(accl_task *task)
{
    ncclComm_t comm = task->comm;
    if (!task->steps) return;
    pthread_mutex_lock(&comm->lock);
    if (!comm->spare_steps) {
        comm->spare_steps = task->steps;
        comm->spare_capacity = task->capacity;
        task->steps = NULL;
    }
    pthread_mutex_unlock(&comm->lock);
    free(task->steps);
    task->steps = NULL;
}

static void steps_take(accl_task *task)
{
    ncclComm_t comm = task->comm;
    pthread_mutex_lock(&comm->lock);
    task->steps = comm->spare_steps;
    task->capacity = comm->spare_steps ? comm->spare_capacity : 0;
    comm->spare_steps = NULL;
    pthread_mutex_unlock(&comm->lock);
}

void accl_task_release(accl_task *task)
{
    steps_give_back(task);
}

void accl_wake(ncclComm_t comm, uint32_t rank)
{
    accl_rank_lines *lines = comm->peers[rank].lines;
    if (!atomic_load_explicit(&lines->sleeping, memory_order_relaxed)) return;
    atomic_fetch_add(&lines->doorbell, 1);
    accl_futex_wake(&lines->doorbell);
}

void accl_wake_all(ncclComm_t comm)
{
    atomic_thread_fence(memory_order_seq_cst); /* what was announced is visible before we look who sleeps */
    for (uint32_t i = 0; i < comm->ranks; i++) accl_wake(comm, i);
}

static void finish(accl_task *task, ncclResult_t result)
{
    ncclComm_t comm = task->comm;
    task->finished = true;
    task->result = result;
    steps_give_back(task);
    if (!accl_kinds[task->call.kind].is_message && result == ncclSuccess) {
        comm->unordered_stage = task->algorithm && task->algorithm->reach == ACCL_BY_STAGE && !task->algorithm->is_flat_staged;
        atomic_store_explicit(&comm->mine->stamp, (task->number + 1) << 24, memory_order_release);
        atomic_store_explicit(&comm->mine->record.finished, task->number, memory_order_relaxed);
        accl_wake_all(comm);
    }
    if (!accl_kinds[task->call.kind].is_message) atomic_store(&comm->done, task->number);
    atomic_fetch_sub(&comm->pending, 1);
}

void accl_task_fail(accl_task *task, ncclResult_t result)
{
    if (!task->finished) finish(task, result);
}

/* --- what algorithms append --- */

static accl_step *add(accl_task *task, accl_step_kind kind)
{
    static accl_step sink; /* only written; the task fails before it would be read */
    if (task->count == task->capacity) {
        size_t capacity = task->capacity ? task->capacity * 2 : 64;
        accl_step *grown = realloc(task->steps, capacity * sizeof *grown);
        if (!grown) {
            task->failed_memory = true;
            return &sink;
        }
        task->steps = grown;
        task->capacity = capacity;
    }
    accl_step *step = &task->steps[task->count++];
    *step = (accl_step){.kind = (uint8_t)kind};
    return step;
}

void accl_add_guard(accl_task *task, bool stage)
{
    add(task, ACCL_STEP_GUARD)->phase = stage;
}

uint32_t accl_add_post(accl_task *task)
{
    bool card = ++task->phase == 1 && !task->shared;
    add(task, card ? ACCL_STEP_CARD : ACCL_STEP_POST)->phase = card ? 0 : task->phase;
    task->shared = true;
    return task->phase;
}

void accl_skip_phases(accl_task *task, uint32_t phases)
{
    task->phase += phases;
}

void accl_add_wait(accl_task *task, uint32_t rank, uint32_t phase)
{
    accl_step *step = add(task, phase == 1 ? ACCL_STEP_WAIT_CARD : ACCL_STEP_WAIT);
    step->peer = (uint16_t)rank;
    step->phase = phase;
}

void accl_add_wait_all(accl_task *task, uint32_t phase)
{
    add(task, phase == 1 ? ACCL_STEP_WAIT_CARDS : ACCL_STEP_WAIT_ALL)->phase = phase;
}

static void add_data(accl_task *task, accl_step_kind kind, accl_place to, accl_place a, accl_place b, size_t amount, bool fan_out)
{
    if (!amount) return;
    accl_step *step = add(task, kind);
    step->to = to;
    step->a = a;
    step->b = b;
    step->amount = amount;
    step->fan_out = fan_out;
}

void accl_add_copy(accl_task *task, accl_place to, accl_place from, size_t bytes)
{
    add_data(task, ACCL_STEP_COPY, to, from, from, bytes, false);
}
void accl_add_reduce(accl_task *task, accl_place to, accl_place peers, accl_place own, size_t count, bool fan_out)
{
    add_data(task, ACCL_STEP_REDUCE, to, peers, own, count, fan_out);
}
void accl_add_begin(accl_task *task, accl_place work, accl_place from, size_t count)
{
    add_data(task, ACCL_STEP_BEGIN, work, from, from, count, false);
}
void accl_add_combine(accl_task *task, accl_place to, accl_place left, accl_place right, size_t count)
{
    add_data(task, ACCL_STEP_COMBINE, to, left, right, count, false);
}
void accl_add_finish(accl_task *task, accl_place to, accl_place work, size_t count)
{
    add_data(task, ACCL_STEP_FINISH, to, work, work, count, false);
}

/* --- running them: each returns whether the step is done --- */

static uint32_t signature(const accl_call *call)
{
    uint64_t h = (uint64_t)call->kind | (uint64_t)call->arith.type << 8 | (uint64_t)call->arith.op << 16 | (uint64_t)(uint32_t)call->root << 24;
    h = (h ^ (uint64_t)call->count * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 31;
    return (uint32_t)(h ^ h >> 32);
}

uint64_t accl_task_tag(const accl_call *call, uint64_t number)
{
    return number << 32 | (signature(call) & ~(uint32_t)ACCL_CARD_FLAGS);
}

void accl_record_begin(ncclComm_t comm, const accl_call *call, uint64_t number)
{
    accl_record *r = &comm->mine->record;
    atomic_store_explicit(&r->count, call->count, memory_order_relaxed);
    atomic_store_explicit(&r->collective, (uint32_t)call->kind, memory_order_relaxed);
    atomic_store_explicit(&r->dtype, (uint32_t)call->arith.type, memory_order_relaxed);
    atomic_store_explicit(&r->op, (uint32_t)call->arith.op, memory_order_relaxed);
    atomic_store_explicit(&r->root, call->root, memory_order_relaxed);
    atomic_store_explicit(&r->sequence, number, memory_order_release);
}

/* How many operations a rank may be behind this one when its lines are written: cards are a ring, stages have two halves. Swapped stages are one place:
 * after an algorithm in which a rank may still write when another is done, everybody must be done. */
static uint64_t guard_behind(const accl_task *task, const accl_step *step)
{
    if (!step->phase) return ACCL_CARDS - 1;
    return task->comm->swaps && task->comm->unordered_stage ? 0 : 1;
}

static bool step_guard(accl_task *task, const accl_step *step)
{
    ncclComm_t comm = task->comm;
    uint64_t behind = guard_behind(task, step);
    if (task->number <= behind || comm->known >= (task->number - behind) << 24) return true;
    uint64_t need = (task->number - behind) << 24, least = UINT64_MAX;
    for (; task->peer_at < comm->ranks; task->peer_at++) {
        uint64_t stamp = atomic_load_explicit(&comm->peers[task->peer_at].lines->stamp, memory_order_acquire);
        if (stamp < need && task->peer_at != comm->rank) return false;
        if (task->peer_at != comm->rank && stamp < least) least = stamp;
    }
    if (comm->known < need) comm->known = need;
    return true;
}

static accl_card *card_of(const accl_task *task, uint32_t rank)
{
    return &task->comm->peers[rank].lines->cards[task->number % ACCL_CARDS];
}

static bool step_card(accl_task *task, const accl_step *step)
{
    accl_card_show(task->comm, &task->call, task->number, task->shared && step->amount, task->mapped, step->phase);
    accl_wake_all(task->comm);
    return true;
}

/* 1 there, 0 not yet, -1 other arguments. `share`: with its first piece. */
static int card_look(const accl_task *task, uint32_t rank, bool share)
{
    const accl_card *card = card_of(task, rank);
    uint64_t tag = atomic_load_explicit(&card->tag, memory_order_acquire), ours = accl_task_tag(&task->call, task->number);
    if (tag >> 32 != ours >> 32) return 0;
    if ((tag & ~(uint64_t)ACCL_CARD_FLAGS) != ours) return -1;
    if (!share || !(tag & ACCL_CARD_EMPTY)) return 1;
    return atomic_load_explicit(&task->comm->peers[rank].lines->stamp, memory_order_acquire) >= (task->number << 24 | 1);
}

static bool step_wait_cards(accl_task *task, const accl_step *step)
{
    ncclComm_t comm = task->comm;
    for (; task->peer_at < comm->ranks; task->peer_at++) {
        if (task->peer_at == comm->rank) continue;
        int look = card_look(task, task->peer_at, step->phase);
        if (look < 0) accl_task_contradicted(task);
        if (look <= 0) return false;
    }
    if (comm->known < task->number << 24) comm->known = task->number << 24; /* who shows this card has finished the operation before */
    return true;
}

static bool step_wait_card(accl_task *task, const accl_step *step)
{
    int look = card_look(task, step->peer, step->phase);
    if (look < 0) accl_task_contradicted(task);
    return look > 0;
}

accl_space accl_stage_space(const accl_task *task, uint32_t number)
{
    return task->comm->swaps && number & 1 ? ACCL_AT_STAGE_NEXT : ACCL_AT_STAGE;
}

void accl_add_turns(accl_task *task, uint32_t pieces)
{
    task->comm->turn = task->turn + pieces;
}

static void build(accl_task *task, bool mapped)
{
    task->algorithm = accl_choose(task->comm, &task->call, mapped);
    task->stream_stores = accl_streams_pay(task->comm, &task->call);
    task->comm->last_algorithm = task->algorithm->label;
    if (task->algorithm->reach != ACCL_BY_MAPPING) task->phase = 0; /* it shares later, in phase 1 */
    task->comm->turn = task->turn + 1; /* flat algorithms say how many pieces they really take */
    task->algorithm->build(task);
}

static bool step_decide(accl_task *task, const accl_step *step)
{
    (void)step;
    bool all = task->mapped;
    for (uint32_t i = 0; i < task->comm->ranks && all; i++)
        if (i != task->comm->rank) all = atomic_load_explicit(&card_of(task, i)->tag, memory_order_relaxed) & ACCL_CARD_MAPPED;
    task->count = 0;
    task->at = SIZE_MAX; /* the step after this one is the first of the new list */
    task->phase = all ? 1 : 0;
    build(task, all);
    return true;
}

static bool step_post(accl_task *task, const accl_step *step)
{
    atomic_store_explicit(&task->comm->mine->stamp, task->number << 24 | step->phase, memory_order_release);
    accl_wake_all(task->comm);
    return true;
}

static bool reached(const accl_task *task, uint32_t rank, uint32_t phase)
{
    return atomic_load_explicit(&task->comm->peers[rank].lines->stamp, memory_order_acquire) >= (task->number << 24 | phase);
}

static bool step_wait_all(accl_task *task, const accl_step *step)
{
    ncclComm_t comm = task->comm;
    for (; task->peer_at < comm->ranks; task->peer_at++)
        if (task->peer_at != comm->rank && !reached(task, task->peer_at, step->phase)) return false;
    comm->known = task->number << 24 | step->phase;
    return true;
}

static bool step_wait(accl_task *task, const accl_step *step)
{
    return reached(task, step->peer, step->phase);
}

static bool (*const step_table[ACCL_STEP_KINDS])(accl_task *, const accl_step *) = {
    [ACCL_STEP_GUARD] = step_guard,         [ACCL_STEP_CARD] = step_card,       [ACCL_STEP_WAIT_CARDS] = step_wait_cards,
    [ACCL_STEP_WAIT_CARD] = step_wait_card, [ACCL_STEP_INLINE] = accl_do_inline, [ACCL_STEP_DECIDE] = step_decide,   [ACCL_STEP_POST] = step_post,
    [ACCL_STEP_WAIT_ALL] = step_wait_all,   [ACCL_STEP_WAIT] = step_wait,       [ACCL_STEP_COPY] = accl_do_copy,
    [ACCL_STEP_REDUCE] = accl_do_reduce,    [ACCL_STEP_BEGIN] = accl_do_begin,  [ACCL_STEP_COMBINE] = accl_do_combine,
    [ACCL_STEP_FINISH] = accl_do_finish,
};

/* --- the life of a collective --- */

static uint64_t heap_place(const void *buffer, size_t bytes)
{
    return buffer ? accl_heap_find(buffer, bytes) : 0;
}

static bool relevant_mapped(const accl_task *task)
{
    const accl_call *call = &task->call;
    uint32_t ranks = task->comm->ranks;
    bool root = (uint32_t)call->root == task->comm->rank;
    bool needs_send = call->kind != ACCL_BROADCAST || root, needs_recv = call->kind != ACCL_REDUCE || root;
    if (task->comm->one_process) return true;
    return (!needs_send || heap_place(call->send, accl_call_send_bytes(call, ranks))) && (!needs_recv || heap_place(call->recv, accl_call_recv_bytes(call, ranks)));
}

static void run_alone(accl_task *task)
{
    const accl_call *call = &task->call;
    void *to = call->recv;
    const void *from = call->send;
    if (call->count) accl_reduce(&call->arith, &to, 1, &from, 1, &call->scale, call->count, false);
    finish(task, ncclSuccess);
}

/* With a root that only gives, the others need no more than its card. */
static void add_wait_payloads(accl_task *task)
{
    const accl_call *call = &task->call;
    if (call->kind == ACCL_BROADCAST) {
        if ((uint32_t)call->root == task->comm->rank) return;
        accl_step *step = add(task, ACCL_STEP_WAIT_CARD);
        step->peer = (uint16_t)call->root;
    } else if (call->kind != ACCL_REDUCE || (uint32_t)call->root == task->comm->rank) add(task, ACCL_STEP_WAIT_CARDS);
}

static void build_inline(accl_task *task)
{
    task->comm->last_algorithm = "flat/inline";
    accl_add_guard(task, false);
    add(task, ACCL_STEP_CARD)->amount = 1;
    task->shared = true;
    add_wait_payloads(task);
    add(task, ACCL_STEP_INLINE);
}

void accl_task_resume(accl_task *task)
{
    task->state = 1;
    task->turn = task->comm->turn;
    steps_take(task);
    if (accl_is_inline(task->comm, &task->call)) build_inline(task);
    else build(task, false);
    while (task->at < task->count && task->steps[task->at].kind != ACCL_STEP_CARD) task->at++;
    task->at++;
}

static bool waits_before_card(const accl_task *task)
{
    for (size_t i = 0; i < task->count; i++) {
        if (task->steps[i].kind == ACCL_STEP_CARD) return false;
        if (task->steps[i].kind == ACCL_STEP_WAIT_CARD || task->steps[i].kind == ACCL_STEP_WAIT_CARDS) return true;
    }
    return false;
}

static void add_empty_card(accl_task *task)
{
    accl_add_guard(task, false);
    add(task, ACCL_STEP_CARD)->phase = ACCL_CARD_EMPTY;
    task->shared = true;
}

static void begin(accl_task *task)
{
    ncclComm_t comm = task->comm;
    accl_call *call = &task->call;
    if (call->scale_address) memcpy(&call->scale, call->scale_address, lj_dtype_bytes(call->arith.type));
    if (call->arith.op == ACCL_PREMUL) call->scale = accl_scale_widen(call->arith.type, call->scale);
    accl_record_begin(comm, call, task->number);
    if (comm->ranks == 1) {
        run_alone(task);
        return;
    }
    steps_take(task);
    task->state = 1;
    task->turn = comm->turn;
    if (accl_is_inline(comm, call)) {
        build_inline(task);
        return;
    }
    task->mapped = accl_call_bytes(call) >= accl_mapped_from(comm, call) && relevant_mapped(task);
    if (!task->mapped && !comm->settings.check) {
        build(task, false);
        if (accl_call_bytes(call) < accl_mapped_from(comm, call) || !waits_before_card(task)) return;
        /* a rank whose buffers are mapped waits for all cards: this one must not wait for that rank first */
        task->count = 0;
        add_empty_card(task);
        build(task, false);
        return;
    }
    add_empty_card(task);
    add(task, ACCL_STEP_WAIT_CARDS)->phase = 0;
    add(task, ACCL_STEP_DECIDE);
}

static bool run_steps(accl_task *task)
{
    bool moved = false;
    while (task->at < task->count && !task->finished) {
        const accl_step *step = &task->steps[task->at];
        if (task->failed_memory) {
            accl_task_fail(task, accl_comm_fail(task->comm, true, ncclSystemError, "out of memory for the steps of %s", accl_kinds[task->call.kind].function));
            return true;
        }
        if (!step_table[step->kind](task, step)) return moved || task->finished;
        task->at++;
        task->peer_at = 0;
        moved = true;
    }
    if (!task->finished) finish(task, ncclSuccess);
    return true;
}

bool accl_task_advance(accl_task *task)
{
    if (task->finished) return false;
    if (accl_kinds[task->call.kind].is_message) return accl_message_advance(task);
    bool begun = task->state == 0;
    if (begun) {
        if (atomic_load_explicit(&task->comm->done, memory_order_acquire) != task->number - 1) return false;
        begin(task);
        if (task->finished) return true;
    }
    return run_steps(task) || begun;
}

bool accl_task_needs(const accl_task *task, uint32_t rank)
{
    if (task->finished || task->state == 0 || rank == task->comm->rank) return false;
    if (accl_kinds[task->call.kind].is_message) return rank == (uint32_t)task->call.root && accl_message_needs(task);
    if (task->at >= task->count) return false;
    const accl_step *step = &task->steps[task->at];
    uint64_t behind = guard_behind(task, step);
    switch (step->kind) {
    case ACCL_STEP_WAIT: return rank == step->peer && !reached(task, rank, step->phase);
    case ACCL_STEP_WAIT_ALL: return !reached(task, rank, step->phase);
    case ACCL_STEP_WAIT_CARD: return rank == step->peer && card_look(task, rank, step->phase) == 0;
    case ACCL_STEP_WAIT_CARDS: return card_look(task, rank, step->phase) == 0;
    case ACCL_STEP_GUARD: return atomic_load(&task->comm->peers[rank].lines->stamp) < (task->number - behind) << 24;
    default: return false;
    }
}
