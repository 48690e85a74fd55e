/* Public functions that ask, register, allocate and explain. */
#include "accl/accl.h"
#include "accl/api.h"
#include "accl/debug.h"
#include "accl/group.h"
#include "accl/vendor.h"
#include "base/clock.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

ACCL_API(ncclResult_t, ncclGetVersion, (int *version))
{
    if (!version) return accl_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ACCL_API(const char *, ncclGetErrorString, (ncclResult_t result))
{
    static const char *const words[ncclNumResults] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        [ncclSystemError] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        [ncclInternalError] = "internal error - please report this issue to the NCCL developers",
        [ncclInvalidArgument] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
        [ncclInvalidUsage] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
    };
    return (unsigned)result < ncclNumResults ? words[result] : "unknown result code";
}

ACCL_API(const char *, ncclGetLastError, (ncclComm_t comm))
{
    static _Thread_local char copy[sizeof comm->error_text];
    if (!comm || comm->mark != ACCL_COMM_MARK) return accl_last_text();
    if (comm->vendor) return accl_vendor_last_error(comm->vendor);
    pthread_mutex_lock(&comm->lock);
    memcpy(copy, comm->error_text, sizeof copy);
    pthread_mutex_unlock(&comm->lock);
    return *copy ? copy : accl_last_text();
}

ACCL_API(void, ncclResetDebugInit, (void))
{
    accl_debug_reset();
}

/* --- state --- */

/* Another rank's failure, abort or death, noticed without an operation that waits for it. */
static void peers_look(ncclComm_t comm)
{
    accl_segment_head *head = accl_segment_head_get(&comm->boot.segment);
    uint32_t error = atomic_load(&head->error);
    double now = lj_now_s();
    bool look = now - comm->checked_s > 0.1;
    if (error) accl_comm_fail(comm, false, ncclRemoteError, "rank %d failed: %s", atomic_load(&head->error_rank), pncclGetErrorString((ncclResult_t)error));
    if (look) comm->checked_s = now;
    for (uint32_t i = 0; i < comm->ranks && !atomic_load(&comm->error); i++) {
        const accl_peer *peer = &comm->peers[i];
        if (atomic_load(&peer->lines->gone) == 2) accl_comm_fail(comm, false, ncclRemoteError, "rank %u aborted the communicator", i);
        else if (look && !peer->same_process && !atomic_load(&peer->lines->gone) && !accl_process_alive(&comm->boot.table[i]) && !atomic_load(&peer->lines->gone))
            accl_comm_fail(comm, true, ncclRemoteError, "rank %u (pid %d) died", i, (int)peer->pid);
    }
}

ACCL_API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError))
{
    ncclResult_t result = accl_comm_check(comm, "ncclCommGetAsyncError");
    if (result != ncclSuccess) return result;
    if (!asyncError) return accl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
    if (comm->vendor) return accl_vendor_async_error(comm->vendor, asyncError);
    if (atomic_load(&comm->state) == ncclInProgress) {
        *asyncError = ncclInProgress;
        return ncclSuccess;
    }
    if (!atomic_load(&comm->error) && comm->mine) peers_look(comm);
    *asyncError = (ncclResult_t)atomic_load(&comm->error);
    if (*asyncError == ncclSuccess && !comm->blocking && atomic_load(&comm->pending)) *asyncError = ncclInProgress;
    return ncclSuccess;
}

static ncclResult_t number_get(ncclComm_t comm, int *value, const char *function, const char *vendor_name, int ours)
{
    ncclResult_t result = accl_comm_check(comm, function);
    if (result != ncclSuccess) return result;
    if (!value) return accl_fail(ncclInvalidArgument, "%s: the result's address is NULL", function);
    if (comm->vendor) return accl_vendor_number(comm->vendor, vendor_name, value);
    *value = ours;
    return ncclSuccess;
}

ACCL_API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))
{
    return number_get(comm, count, "ncclCommCount", "Count", comm ? (int)comm->ranks : 0);
}
ACCL_API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))
{
    return number_get(comm, device, "ncclCommCuDevice", "CuDevice", comm ? comm->device : 0);
}
ACCL_API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))
{
    return number_get(comm, rank, "ncclCommUserRank", "UserRank", comm ? (int)comm->rank : 0);
}

/* --- memory --- */

ACCL_API(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size))
{
    bool vendor;
    if (!ptr) return accl_fail(ncclInvalidArgument, "ncclMemAlloc: ptr is NULL");
    lj_status status = accl_vendor_load(&vendor);
    if (status == LJ_OK && vendor) return accl_vendor_mem_alloc(ptr, size);
    if (status == LJ_OK) status = accl_heap_alloc(size, ptr);
    return status == LJ_OK ? ncclSuccess : accl_fail_status(status, "ncclMemAlloc");
}

ACCL_API(ncclResult_t, ncclMemFree, (void *ptr))
{
    if (!ptr) return ncclSuccess;
    if (accl_vendor_loaded()) return accl_vendor_mem_free(ptr);
    lj_status status = accl_heap_free(ptr);
    return status == LJ_OK ? ncclSuccess : accl_fail_status(status, "ncclMemFree");
}

static ncclResult_t registration_add(ncclComm_t comm, void *buffer, size_t bytes, bool is_window, accl_registration **out)
{
    accl_registration *r = malloc(sizeof *r);
    if (!r) return accl_fail(ncclSystemError, "registration: out of memory");
    pthread_mutex_lock(&comm->lock);
    *r = (accl_registration){buffer, bytes, is_window, comm->registrations};
    comm->registrations = r;
    pthread_mutex_unlock(&comm->lock);
    *out = r;
    return ncclSuccess;
}

static ncclResult_t registration_remove(ncclComm_t comm, void *handle, bool is_window, const char *function)
{
    pthread_mutex_lock(&comm->lock);
    accl_registration **at = &comm->registrations;
    while (*at && (void *)*at != handle) at = &(*at)->next;
    accl_registration *found = *at && (*at)->is_window == is_window ? *at : NULL;
    if (found) *at = found->next;
    pthread_mutex_unlock(&comm->lock);
    if (!found) return accl_fail(ncclInvalidArgument, "%s: %p is not a handle of this communicator, or was given back", function, handle);
    free(found);
    return ncclSuccess;
}

ACCL_API(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle))
{
    ncclResult_t result = accl_comm_check(comm, "ncclCommRegister");
    accl_registration *made = NULL;
    if (result != ncclSuccess) return result;
    if (comm->vendor) return accl_vendor_register(comm->vendor, buff, size, handle);
    if (!buff || !size || !handle) return accl_fail(ncclInvalidArgument, "ncclCommRegister: %s", !handle ? "handle is NULL" : !buff ? "buff is NULL" : "size is 0");
    result = registration_add(comm, buff, size, false, &made);
    if (result == ncclSuccess) *handle = made;
    return result;
}

ACCL_API(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle))
{
    ncclResult_t result = accl_comm_check(comm, "ncclCommDeregister");
    if (result != ncclSuccess) return result;
    if (comm->vendor) return accl_vendor_deregister(comm->vendor, handle);
    return registration_remove(comm, handle, false, "ncclCommDeregister");
}

typedef struct {
    ncclComm_t comm;
    void *buffer;
    size_t bytes;
    ncclWindow_t *window;
    int flags;
} window_job;

typedef struct {
    uint64_t bytes;
    int32_t flags;
    int32_t shared;
} window_words;

/* What ranks said about a symmetric window must agree. */
static ncclResult_t window_compare(ncclComm_t comm, const window_words *all)
{
    for (uint32_t i = 0; i < comm->ranks; i++) {
        if (all[i].flags != all[comm->rank].flags) return accl_fail(ncclInvalidArgument, "ncclCommWindowRegister: flags %d on rank %u, %d on rank %u", all[i].flags, i, all[comm->rank].flags, comm->rank);
        if (!(all[i].flags & NCCL_WIN_COLL_SYMMETRIC)) continue;
        if (!all[i].shared) return accl_fail(ncclInvalidUsage, "ncclCommWindowRegister: a symmetric window needs memory of ncclMemAlloc; rank %u's is not", i);
        if (all[i].bytes != all[comm->rank].bytes)
            return accl_fail(ncclInvalidArgument, "ncclCommWindowRegister: %llu bytes on rank %u, %llu on rank %u", (unsigned long long)all[i].bytes, i, (unsigned long long)all[comm->rank].bytes, comm->rank);
    }
    return ncclSuccess;
}

static ncclResult_t window_run(void *argument)
{
    window_job job = *(window_job *)argument;
    ncclComm_t comm = job.comm;
    window_words mine = {job.bytes, job.flags, accl_heap_find(job.buffer, job.bytes) != 0 || comm->one_process}, *all = malloc(comm->ranks * sizeof *all);
    uint32_t *everybody = malloc(comm->ranks * sizeof *everybody);
    accl_registration *made = NULL;
    free(argument);
    ncclResult_t result = all && everybody ? ncclSuccess : accl_fail(ncclSystemError, "ncclCommWindowRegister: out of memory");
    for (uint32_t i = 0; i < comm->ranks && result == ncclSuccess; i++) everybody[i] = i;
    if (result == ncclSuccess) result = accl_box_exchange(comm, everybody, comm->ranks, &mine, sizeof mine, all, &comm->abort);
    if (result == ncclSuccess) result = window_compare(comm, all);
    if (result == ncclSuccess) result = registration_add(comm, job.buffer, job.bytes, true, &made);
    if (result == ncclSuccess) *job.window = (ncclWindow_t)(void *)made;
    free(all);
    free(everybody);
    return result;
}

ACCL_API(ncclResult_t, ncclCommWindowRegister, (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags))
{
    ncclResult_t result = accl_comm_check(comm, "ncclCommWindowRegister");
    if (result != ncclSuccess) return accl_group_spoil(result);
    if (comm->vendor) return accl_vendor_window_register(comm->vendor, buff, size, win, winFlags);
    if (!buff || !size || !win) return accl_group_spoil(accl_fail(ncclInvalidArgument, "ncclCommWindowRegister: %s", !win ? "win is NULL" : !buff ? "buff is NULL" : "size is 0"));
    if (winFlags & ~NCCL_WIN_COLL_SYMMETRIC) return accl_group_spoil(accl_fail(ncclInvalidArgument, "ncclCommWindowRegister: flags 0x%x; known: NCCL_WIN_COLL_SYMMETRIC", (unsigned)winFlags));
    window_job *job = malloc(sizeof *job);
    if (!job) return accl_group_spoil(accl_fail(ncclSystemError, "ncclCommWindowRegister: out of memory"));
    *job = (window_job){comm, buff, size, win, winFlags};
    return accl_issue_job(window_run, job);
}

ACCL_API(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
{
    ncclResult_t result = accl_comm_check(comm, "ncclCommWindowDeregister");
    if (result != ncclSuccess) return result;
    if (comm->vendor) return accl_vendor_window_deregister(comm->vendor, win);
    return registration_remove(comm, win, true, "ncclCommWindowDeregister");
}

/* --- beyond NCCL --- */

ncclResult_t acclCommProgress(ncclComm_t comm, unsigned long long *last, int *lagging)
{
    ncclResult_t result = accl_comm_check(comm, "acclCommProgress");
    uint64_t least = UINT64_MAX, most = 0;
    if (result != ncclSuccess) return result;
    if (comm->vendor || !comm->mine || !last || !lagging) return accl_fail(ncclInvalidUsage, "acclCommProgress: %s", comm->vendor ? "the vendor's engine keeps no record" : !comm->mine ? "the set-up is not finished" : "an argument is NULL");
    *lagging = -1;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        uint64_t at = last[i] = atomic_load(&comm->peers[i].lines->record.sequence);
        if (at < least) {
            least = at;
            *lagging = (int)i;
        }
        if (at > most) most = at;
    }
    if (least == most) *lagging = -1;
    return ncclSuccess;
}

static void status_line(const ncclComm_t comm, uint32_t rank, lj_text *out)
{
    const accl_record *r = &comm->peers[rank].lines->record;
    uint64_t sequence = atomic_load(&r->sequence), finished = atomic_load(&r->finished);
    uint32_t kind = atomic_load(&r->collective), type = atomic_load(&r->dtype), gone = atomic_load(&comm->peers[rank].lines->gone);
    const char *life = gone == 1 ? "destroyed" : gone ? "aborted" : comm->peers[rank].same_process || accl_process_alive(&comm->boot.table[rank]) ? "alive" : "dead";
    lj_text_add(out, "rank %u pid %d %s: sequence number %llu", rank, (int)comm->peers[rank].pid, life, (unsigned long long)sequence);
    if (sequence && kind < ACCL_KIND_COUNT && type < LJ_DTYPE_COUNT)
        lj_text_add(out, " %s %s x %llu, %s", accl_kinds[kind].name, lj_dtype_name((lj_dtype)type), (unsigned long long)atomic_load(&r->count), finished >= sequence ? "done" : "running");
    lj_text_add(out, "\n");
}

ncclResult_t acclCommStatus(ncclComm_t comm, char *buffer, size_t capacity)
{
    ncclResult_t result = accl_comm_check(comm, "acclCommStatus");
    lj_text text;
    if (result != ncclSuccess) return result;
    if (comm->vendor || !comm->mine || !buffer || !capacity) return accl_fail(ncclInvalidUsage, "acclCommStatus: %s", comm->vendor ? "the vendor's engine keeps no record" : !comm->mine ? "the set-up is not finished" : "no buffer");
    uint64_t most = 0, least = UINT64_MAX;
    lj_text_init(&text);
    for (uint32_t i = 0; i < comm->ranks; i++) {
        uint64_t at = atomic_load(&comm->peers[i].lines->record.sequence);
        most = at > most ? at : most;
        least = at < least ? at : least;
        status_line(comm, i, &text);
    }
    for (uint32_t i = 0; i < comm->ranks && least < most; i++)
        if (atomic_load(&comm->peers[i].lines->record.sequence) < most)
            lj_text_add(&text, "lagging: rank %u at sequence number %llu of %llu\n", i, (unsigned long long)atomic_load(&comm->peers[i].lines->record.sequence), (unsigned long long)most);
    bool fits = text.length < capacity;
    snprintf(buffer, capacity, "%s", text.data ? text.data : "");
    lj_text_release(&text);
    return fits ? ncclSuccess : accl_fail(ncclInvalidArgument, "acclCommStatus: the buffer of %zu bytes is too small", capacity);
}

const char *acclCommAlgorithm(ncclComm_t comm)
{
    return accl_comm_check(comm, "acclCommAlgorithm") == ncclSuccess ? comm->last_algorithm : "none";
}

const char *acclCommEngine(ncclComm_t comm)
{
    return accl_comm_check(comm, "acclCommEngine") == ncclSuccess && comm->vendor ? "vendor" : "host";
}
