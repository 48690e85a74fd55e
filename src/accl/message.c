/* Messages: ncclSend and ncclRecv. Each ordered pair of ranks has a ring of slots; message m uses slot (m - 1) % ACCL_MAIL_DEPTH.
 *
 * Small ones travel in the slot. For large ones the sender shows where its buffer is and the receiver copies from there, through a mapping or through the
 * system; where neither reaches, or where two processors that each copy once are faster than one system call, both walk through the slot's pipe. Outside a group a send
 * ends when its receiver has come, as NCCL's may: so an exchange that would hang anywhere hangs here in every size, until the time-out names it. */
#include "accl/algorithms.h"
#include "accl/task.h"

#include <string.h>

enum { KIND_INLINE, KIND_EAGER, KIND_MEET };
enum { START, WAITING }; /* a task's state */
enum { PIPE_PIECE = ACCL_MAIL_PIPE / 2 };

static accl_mail_slot *slot_of(const accl_task *task, unsigned char **bytes)
{
    const ncclComm_t comm = task->comm;
    uint32_t peer = (uint32_t)task->call.root, from = task->call.kind == ACCL_SEND ? comm->rank : peer, to = task->call.kind == ACCL_SEND ? peer : comm->rank;
    uint32_t slot = (uint32_t)((task->number - 1) % ACCL_MAIL_DEPTH);
    if (bytes) *bytes = accl_segment_mail_bytes(&comm->boot.segment, from, to, slot);
    return accl_segment_mail(&comm->boot.segment, from, to) + slot;
}

static void done(accl_task *task, ncclResult_t result)
{
    task->finished = true;
    task->result = result;
    atomic_fetch_sub(&task->comm->pending, 1);
}

static void told(accl_task *task)
{
    atomic_thread_fence(memory_order_seq_cst);
    accl_wake(task->comm, (uint32_t)task->call.root);
}

static bool slot_free(const accl_task *task, accl_mail_slot *slot)
{
    uint64_t before = task->number > ACCL_MAIL_DEPTH ? task->number - ACCL_MAIL_DEPTH : 0;
    return atomic_load_explicit(&slot->taken, memory_order_acquire) == before;
}

static void post(accl_task *task, accl_mail_slot *slot, unsigned char *pipe)
{
    const accl_call *call = &task->call;
    size_t bytes = accl_call_bytes(call);
    uint64_t heap = bytes > ACCL_MAIL_INLINE ? accl_heap_find(call->send, bytes) : 0;
    slot->bytes = bytes;
    slot->dtype = (uint32_t)call->arith.type;
    slot->address = (uint64_t)(uintptr_t)call->send;
    slot->heap = heap;
    slot->kind = KIND_MEET;
    if (bytes <= ACCL_MAIL_INLINE) {
        slot->kind = KIND_INLINE;
        if (bytes) memcpy(slot->inline_data, call->send, bytes);
    } else if (bytes <= ACCL_MAIL_EAGER) {
        slot->kind = KIND_EAGER;
        memcpy(pipe, call->send, bytes);
    }
    atomic_store_explicit(&slot->pieces_posted, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->posted, task->number, memory_order_release);
    told(task);
}

/* Writes what fits while the receiver asks for the pipe. */
static bool pipe_write(accl_task *task, accl_mail_slot *slot, unsigned char *pipe)
{
    size_t bytes = accl_call_bytes(&task->call), pieces = (bytes + PIPE_PIECE - 1) / PIPE_PIECE;
    bool moved = false;
    if (atomic_load_explicit(&slot->wants_pipe, memory_order_acquire) != task->number) return false;
    while (task->piece < pieces && task->piece < atomic_load_explicit(&slot->pieces_taken, memory_order_acquire) + 2) {
        size_t at = task->piece * PIPE_PIECE, n = bytes - at < PIPE_PIECE ? bytes - at : PIPE_PIECE;
        memcpy(pipe + task->piece % 2 * PIPE_PIECE, (const char *)task->call.send + at, n);
        atomic_store_explicit(&slot->pieces_posted, ++task->piece, memory_order_release);
        told(task);
        moved = true;
    }
    return moved;
}

static bool send_advance(accl_task *task)
{
    unsigned char *pipe;
    accl_mail_slot *slot = slot_of(task, &pipe);
    bool moved = false;
    if (task->state == START) {
        if (!slot_free(task, slot)) return false;
        post(task, slot, pipe);
        task->state = WAITING;
        moved = true;
        if (slot->kind != KIND_MEET && task->call.grouped) {
            done(task, ncclSuccess);
            return true;
        }
    }
    if (slot->kind == KIND_MEET) moved |= pipe_write(task, slot, pipe);
    if (atomic_load_explicit(&slot->taken, memory_order_acquire) < task->number) return moved;
    done(task, ncclSuccess);
    return true;
}

static bool pipe_read(accl_task *task, accl_mail_slot *slot, const unsigned char *pipe)
{
    size_t bytes = accl_call_bytes(&task->call), pieces = (bytes + PIPE_PIECE - 1) / PIPE_PIECE;
    bool moved = false, stream = accl_streams_pay(task->comm, &task->call);
    while (task->piece < pieces && task->piece < atomic_load_explicit(&slot->pieces_posted, memory_order_acquire)) {
        size_t at = task->piece * PIPE_PIECE, n = bytes - at < PIPE_PIECE ? bytes - at : PIPE_PIECE;
        accl_copy((char *)task->call.recv + at, pipe + task->piece % 2 * PIPE_PIECE, n, stream);
        atomic_store_explicit(&slot->pieces_taken, ++task->piece, memory_order_release);
        if (task->piece < pieces) told(task);
        moved = true;
    }
    return moved;
}

static void take(accl_task *task, accl_mail_slot *slot)
{
    atomic_store_explicit(&slot->taken, task->number, memory_order_release);
    told(task);
    done(task, ncclSuccess);
}

/* Copies a meeting message if its buffer can be reached. */
static bool fetch(accl_task *task, accl_mail_slot *slot)
{
    ncclComm_t comm = task->comm;
    uint32_t from = (uint32_t)task->call.root;
    const accl_peer *peer = &comm->peers[from];
    bool stream = accl_streams_pay(comm, &task->call);
    if (peer->same_process) accl_copy(task->call.recv, (const void *)(uintptr_t)slot->address, slot->bytes, stream);
    else if (slot->heap) accl_copy(task->call.recv, peer->heap + slot->heap - 1, slot->bytes, stream);
    else if (comm->reads_memory && comm->crowded) return accl_system_read(task, from, task->call.recv, slot->address, slot->bytes);
    else return false;
    return true;
}

static bool message_matches(accl_task *task, const accl_mail_slot *slot)
{
    size_t bytes = accl_call_bytes(&task->call);
    uint32_t from = (uint32_t)task->call.root;
    if (slot->bytes == bytes && slot->dtype == (uint32_t)task->call.arith.type) return true;
    lj_dtype sent = slot->dtype < LJ_DTYPE_COUNT ? (lj_dtype)slot->dtype : LJ_U8;
    accl_task_fail(task, accl_comm_fail(task->comm, true, ncclInvalidArgument,
                                        "message %llu from rank %u to rank %u: rank %u sends %llu bytes of %s, rank %u receives %zu bytes of %s; counts and types must match",
                                        (unsigned long long)task->number, from, task->comm->rank, from, (unsigned long long)slot->bytes, lj_dtype_name(sent), task->comm->rank,
                                        bytes, lj_dtype_name(task->call.arith.type)));
    return false;
}

static bool recv_begin(accl_task *task, accl_mail_slot *slot, const unsigned char *pipe)
{
    if (!message_matches(task, slot)) return true;
    task->state = WAITING;
    if (slot->kind == KIND_INLINE && slot->bytes) memcpy(task->call.recv, slot->inline_data, slot->bytes);
    else if (slot->kind == KIND_EAGER) memcpy(task->call.recv, pipe, slot->bytes);
    else if (slot->kind == KIND_MEET && !fetch(task, slot)) {
        if (task->finished) return true;
        atomic_store_explicit(&slot->pieces_taken, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->wants_pipe, task->number, memory_order_release);
        told(task);
        return true;
    }
    take(task, slot);
    return true;
}

static bool recv_advance(accl_task *task)
{
    unsigned char *pipe;
    accl_mail_slot *slot = slot_of(task, &pipe);
    if (task->state == START) {
        if (atomic_load_explicit(&slot->posted, memory_order_acquire) != task->number) return false;
        return recv_begin(task, slot, pipe);
    }
    bool moved = pipe_read(task, slot, pipe);
    if (task->piece * PIPE_PIECE >= accl_call_bytes(&task->call)) take(task, slot);
    return moved || task->finished;
}

bool accl_message_advance(accl_task *task)
{
    return task->call.kind == ACCL_SEND ? send_advance(task) : recv_advance(task);
}

bool accl_message_needs(const accl_task *task)
{
    return !task->finished;
}
