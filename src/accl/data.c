/* Moves and combines the bytes that steps name: finds where a place is for this process, and goes through the system where it is nowhere. */
#define _GNU_SOURCE
#include "accl/task.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

enum { SYSTEM_PIECE = 1 << 16 }; /* bytes fetched at once: they stay in the second-level cache */

static const accl_card *card_of(const accl_task *task, uint32_t rank)
{
    return &task->comm->peers[rank].lines->cards[task->number % ACCL_CARDS];
}

static bool in_stage(accl_place place)
{
    return place.space >= ACCL_AT_STAGE;
}

/* Address of a place in this process; NULL when only the system reaches it, *remote is its address there then. */
static unsigned char *resolve(const accl_task *task, accl_place place, uint64_t *remote)
{
    const ncclComm_t comm = task->comm;
    const accl_peer *peer = &comm->peers[place.rank];
    bool send = place.space == ACCL_AT_SEND;
    if (in_stage(place)) return accl_stage_of(comm, place.rank, task->number, task->turn + (place.space == ACCL_AT_STAGE_NEXT)) + place.offset;
    if (place.rank == comm->rank) return (unsigned char *)(uintptr_t)(send ? task->call.send : task->call.recv) + place.offset;
    const accl_card *card = card_of(task, place.rank);
    uint64_t address = (send ? card->send : card->recv) + place.offset, heap = send ? card->send_heap : card->recv_heap;
    if (peer->same_process) return (unsigned char *)(uintptr_t)address;
    if (heap) return peer->heap + heap - 1 + place.offset;
    *remote = address;
    return NULL;
}

static bool system_failed(accl_task *task, uint32_t rank, const char *what)
{
    int error = errno;
    accl_task_fail(task, accl_comm_fail(task->comm, true, error == ESRCH ? ncclRemoteError : ncclSystemError, "%s: rank %u cannot %s memory of rank %u (pid %d): %s",
                                        accl_kinds[task->call.kind].function, task->comm->rank, what, rank, (int)task->comm->peers[rank].pid, strerror(error)));
    return false;
}

bool accl_system_read(accl_task *task, uint32_t rank, void *to, uint64_t from, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        struct iovec here = {(char *)to + at, bytes - at}, there = {(void *)(uintptr_t)(from + at), bytes - at};
        ssize_t n = process_vm_readv(task->comm->peers[rank].pid, &here, 1, &there, 1, 0);
        if (n <= 0) return system_failed(task, rank, "read");
        at += (size_t)n;
    }
    return true;
}

bool accl_system_write(accl_task *task, uint32_t rank, uint64_t to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        struct iovec here = {(char *)(uintptr_t)from + at, bytes - at}, there = {(void *)(uintptr_t)(to + at), bytes - at};
        ssize_t n = process_vm_writev(task->comm->peers[rank].pid, &here, 1, &there, 1, 0);
        if (n <= 0) return system_failed(task, rank, "write");
        at += (size_t)n;
    }
    return true;
}

/* --- the stage of a pair: lines are fetched for writing a block ahead, by their reader too, who writes there next --- */

enum { AHEAD = 4096 };

static void lines_take(const void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += ACCL_LINE) __builtin_prefetch((const char *)at + i, 1);
}

static size_t block_of(size_t at, size_t bytes)
{
    return bytes - at < AHEAD ? bytes - at : AHEAD;
}

static void take_after(const void *stage, size_t at, size_t bytes)
{
    if (at < bytes) lines_take((const char *)stage + at, block_of(at, bytes));
}

void accl_stage_put(const ncclComm_t comm, void *stage, const void *from, size_t bytes)
{
    if (!comm->swaps) {
        memcpy(stage, from, bytes);
        return;
    }
    take_after(stage, 0, bytes);
    for (size_t at = 0; at < bytes; at += AHEAD) {
        take_after(stage, at + AHEAD, bytes);
        memcpy((char *)stage + at, (const char *)from + at, block_of(at, bytes));
    }
}

void accl_stage_get(const ncclComm_t comm, void *to, const void *stage, size_t bytes, bool stream)
{
    if (!comm->swaps) {
        accl_copy(to, stage, bytes, stream);
        return;
    }
    take_after(stage, 0, bytes);
    for (size_t at = 0; at < bytes; at += AHEAD) {
        take_after(stage, at + AHEAD, bytes);
        accl_copy((char *)to + at, (const char *)stage + at, block_of(at, bytes), stream);
    }
}

void accl_stage_reduce(const ncclComm_t comm, const accl_arith *a, void *to, const void *const *from, const uint64_t *scale, size_t count, bool stream)
{
    size_t element = lj_dtype_bytes(a->type), bytes = count * element;
    const char *theirs = from[1 - (comm->ranks == 2 ? comm->rank : 0)];
    if (!comm->swaps) {
        accl_reduce(a, &to, 1, from, comm->ranks, scale, count, stream);
        return;
    }
    take_after(theirs, 0, bytes);
    for (size_t at = 0; at < bytes; at += AHEAD) {
        const void *pair[2] = {(const char *)from[0] + at, (const char *)from[1] + at};
        void *result = (char *)to + at;
        take_after(theirs, at + AHEAD, bytes);
        accl_reduce(a, &result, 1, pair, 2, scale, block_of(at, bytes) / element, stream);
    }
}

bool accl_do_copy(accl_task *task, const accl_step *step)
{
    uint64_t remote_to = 0, remote_from = 0;
    unsigned char *to = resolve(task, step->to, &remote_to);
    const unsigned char *from = resolve(task, step->a, &remote_from);
    if (to && from) {
        /* what is staged is read soon: it stays in the caches */
        if (in_stage(step->to)) accl_stage_put(task->comm, to, from, step->amount);
        else if (in_stage(step->a)) accl_stage_get(task->comm, to, from, step->amount, task->stream_stores);
        else if (to != from) accl_copy(to, from, step->amount, task->stream_stores);
        return true;
    }
    return to ? accl_system_read(task, step->a.rank, to, remote_from, step->amount) : accl_system_write(task, step->to.rank, remote_to, from, step->amount);
}

/* The scratch is cut: a piece per rank for sources, one more for the result. */
static unsigned char *scratch(accl_task *task)
{
    ncclComm_t comm = task->comm;
    if (!comm->scratch) comm->scratch = malloc(ACCL_SCRATCH + SYSTEM_PIECE);
    if (!comm->scratch) accl_task_fail(task, accl_comm_fail(comm, true, ncclSystemError, "out of memory: %d bytes of scratch", ACCL_SCRATCH + SYSTEM_PIECE));
    return comm->scratch;
}

typedef struct {
    const void *from[ACCL_MAX_RANKS];
    uint64_t remote[ACCL_MAX_RANKS];
    void *to[ACCL_MAX_RANKS];
    uint64_t remote_to[ACCL_MAX_RANKS]; /* 0: mapped */
    uint64_t scale[ACCL_MAX_RANKS];
    uint32_t to_count;
    bool reads_system, writes_system;
} reduction;

static void sources_find(const accl_task *task, const accl_step *step, reduction *r)
{
    for (uint32_t i = 0; i < task->comm->ranks; i++) {
        accl_place place = i == task->comm->rank ? step->b : accl_at(step->a.space, i, step->a.offset);
        r->from[i] = resolve(task, place, &r->remote[i]);
        r->scale[i] = i == task->comm->rank ? task->call.scale : card_of(task, i)->scale;
        r->reads_system |= !r->from[i];
    }
}

static void results_find(const accl_task *task, const accl_step *step, reduction *r)
{
    uint32_t first = step->fan_out ? 0 : step->to.rank, end = step->fan_out ? task->comm->ranks : step->to.rank + 1;
    for (uint32_t i = first; i < end; i++) {
        accl_place place = accl_at(step->to.space, i, step->to.offset);
        uint64_t remote = 0;
        void *to = resolve(task, place, &remote);
        r->to[i - first] = to;
        r->remote_to[i - first] = to ? 0 : remote;
        r->writes_system |= !to;
    }
    r->to_count = end - first;
}

/* One piece whose sources or results are partly out of reach: fetch, reduce, send. */
static bool reduce_piece(accl_task *task, const accl_step *step, const reduction *r, size_t at, size_t count, size_t stride)
{
    size_t offset = at * lj_dtype_bytes(task->call.arith.type), bytes = count * lj_dtype_bytes(task->call.arith.type), mapped = 0;
    uint32_t ranks = task->comm->ranks, first = step->fan_out ? 0 : step->to.rank;
    const void *from[ACCL_MAX_RANKS];
    void *to[ACCL_MAX_RANKS + 1];
    unsigned char *pieces = scratch(task), *result = pieces ? pieces + ACCL_SCRATCH : NULL;
    if (!pieces) return false;
    for (uint32_t i = 0; i < ranks; i++) {
        from[i] = r->from[i] ? (const char *)r->from[i] + offset : (const char *)pieces + i * stride;
        if (!r->from[i] && !accl_system_read(task, i, pieces + i * stride, r->remote[i] + offset, bytes)) return false;
    }
    if (r->writes_system) to[mapped++] = result;
    for (uint32_t i = 0; i < r->to_count; i++)
        if (r->to[i]) to[mapped++] = (char *)r->to[i] + offset;
    accl_reduce(&task->call.arith, to, mapped, from, ranks, r->scale, count, task->stream_stores && !r->writes_system);
    for (uint32_t i = 0; i < r->to_count; i++)
        if (!r->to[i] && !accl_system_write(task, first + i, r->remote_to[i] + offset, result, bytes)) return false;
    return true;
}

static bool reduce_small(accl_task *task, const accl_step *step)
{
    enum { FEW = 16 };
    ncclComm_t comm = task->comm;
    const void *from[FEW];
    uint64_t scale[FEW], remote = 0;
    if (comm->ranks > FEW || step->fan_out) return false;
    void *to = resolve(task, step->to, &remote);
    if (!to) return false;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        from[i] = resolve(task, i == comm->rank ? step->b : accl_at(step->a.space, i, step->a.offset), &remote);
        if (!from[i]) return false;
        scale[i] = i == comm->rank ? task->call.scale : card_of(task, i)->scale;
    }
    if (in_stage(step->a)) accl_stage_reduce(comm, &task->call.arith, to, from, scale, step->amount, task->stream_stores && !in_stage(step->to));
    else accl_reduce(&task->call.arith, &to, 1, from, comm->ranks, scale, step->amount, task->stream_stores && !in_stage(step->to));
    return true;
}

bool accl_do_reduce(accl_task *task, const accl_step *step)
{
    reduction r;
    if (reduce_small(task, step)) return true;
    r.reads_system = r.writes_system = false;
    sources_find(task, step, &r);
    results_find(task, step, &r);
    if (!r.reads_system && !r.writes_system) {
        accl_reduce(&task->call.arith, r.to, r.to_count, r.from, task->comm->ranks, r.scale, step->amount, task->stream_stores && !in_stage(step->to));
        return true;
    }
    size_t stride = ACCL_SCRATCH / task->comm->ranks, element = lj_dtype_bytes(task->call.arith.type);
    if (stride > SYSTEM_PIECE) stride = SYSTEM_PIECE;
    for (size_t at = 0; at < step->amount; at += stride / element) {
        size_t left = step->amount - at;
        if (!reduce_piece(task, step, &r, at, left < stride / element ? left : stride / element, stride)) return false;
    }
    return true;
}

bool accl_do_begin(accl_task *task, const accl_step *step)
{
    uint64_t none;
    accl_work_begin(&task->call.arith, resolve(task, step->to, &none), resolve(task, step->a, &none), task->call.scale, step->amount);
    return true;
}

bool accl_do_combine(accl_task *task, const accl_step *step)
{
    uint64_t none;
    accl_work_combine(&task->call.arith, resolve(task, step->to, &none), resolve(task, step->a, &none), resolve(task, step->b, &none), step->amount);
    return true;
}

bool accl_do_finish(accl_task *task, const accl_step *step)
{
    uint64_t none;
    accl_work_finish(&task->call.arith, resolve(task, step->to, &none), resolve(task, step->a, &none), step->amount, task->stream_stores);
    return true;
}
