#define _GNU_SOURCE
#include "accl/comm.h"

#include "accl/algorithms.h"
#include "accl/stream.h"
#include "accl/wait.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

ncclResult_t accl_comm_new(const accl_comm_plan *plan, ncclComm_t *out)
{
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm) return accl_fail(ncclSystemError, "communicator: out of memory (%zu bytes)", sizeof *comm);
    comm->mark = ACCL_COMM_MARK;
    comm->rank = (uint32_t)plan->rank;
    comm->ranks = plan->ranks;
    comm->device = plan->device;
    comm->blocking = plan->blocking;
    comm->last_algorithm = "none";
    snprintf(comm->name, sizeof comm->name, "%s", plan->name);
    pthread_mutex_init(&comm->lock, NULL);
    atomic_store(&comm->state, ncclInProgress);
    *out = comm;
    return ncclSuccess;
}

static lj_status tables_make(ncclComm_t comm)
{
    comm->peers = calloc(comm->ranks, sizeof *comm->peers);
    comm->sent = calloc(comm->ranks, sizeof *comm->sent);
    comm->received = calloc(comm->ranks, sizeof *comm->received);
    if (!comm->peers || !comm->sent || !comm->received) return lj_fail(LJ_ERR_NOMEM, "tables of %u ranks", comm->ranks);
    comm->one_process = true;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        const accl_identity *id = &comm->boot.table[i];
        comm->peers[i] = (accl_peer){.lines = accl_segment_lines(&comm->boot.segment, i), .stage = accl_segment_stage(&comm->boot.segment, i), .pid = (pid_t)id->pid};
        comm->peers[i].same_process = id->process == comm->boot.table[comm->rank].process;
        comm->peers[i].heap = comm->boot.views[i] ? accl_heap_view_base(comm->boot.views[i]) : NULL;
        comm->one_process &= comm->peers[i].same_process;
    }
    comm->mine = comm->peers[comm->rank].lines;
    return LJ_OK;
}

/* More ranks than the processors that they may use together. */
static bool is_crowded(const ncclComm_t comm)
{
    uint64_t all[ACCL_MASK_WORDS] = {0};
    uint32_t processors = 0;
    for (uint32_t i = 0; i < comm->ranks; i++)
        for (int w = 0; w < ACCL_MASK_WORDS; w++) all[w] |= comm->boot.table[i].processors[w];
    for (int w = 0; w < ACCL_MASK_WORDS; w++) processors += (uint32_t)__builtin_popcountll(all[w]);
    return comm->ranks > processors;
}

/* Tries to read a word of every other process. */
static bool memory_readable(const ncclComm_t comm)
{
    const accl_identity *me = &comm->boot.table[comm->rank];
    if (comm->settings.no_cma) return false;
    for (uint32_t i = 0; i < comm->ranks; i++) {
        const accl_identity *id = &comm->boot.table[i];
        uint64_t word = 0;
        struct iovec here = {&word, sizeof word}, there = {(void *)(uintptr_t)id->probe, sizeof word};
        if (id->process == me->process) continue;
        if (id->pid_namespace != me->pid_namespace) return false;
        if (process_vm_readv((pid_t)id->pid, &here, 1, &there, 1, 0) != sizeof word || word != id->process) return false;
    }
    return true;
}

/* Everybody has mapped everything; what all can do, all do. */
static lj_status everybody_ready(ncclComm_t comm)
{
    double deadline = lj_now_s() + comm->settings.timeout_s;
    comm->reads_memory = memory_readable(comm);
    atomic_store(&comm->mine->ready, comm->reads_memory ? 3 : 2);
    for (uint32_t i = 0, turns = 0; i < comm->ranks;) {
        uint32_t ready = atomic_load(&comm->peers[i].lines->ready);
        if (ready >= 2) {
            comm->reads_memory &= ready == 3;
            i++;
            continue;
        }
        if (atomic_load(&comm->abort)) return lj_fail(LJ_ERR_INTERRUPTED, "set-up aborted");
        if (lj_now_s() > deadline) return lj_fail(LJ_ERR_TIMEOUT, "rank %u did not finish its set-up within %g s; look at that rank, or raise ACCL_TIMEOUT", i, comm->settings.timeout_s);
        if (++turns % 64 == 0 && !accl_process_alive(&comm->boot.table[i])) return lj_fail(LJ_ERR_PEER, "rank %u died during the set-up", i);
        lj_sleep_s(turns < 20 ? 20e-6 : 500e-6);
    }
    return LJ_OK;
}

static lj_status connect_all(ncclComm_t comm, const accl_boot_id *id)
{
    LJ_TRY(accl_settings_read(&comm->settings));
    LJ_TRY(accl_choice_load());
    LJ_TRY(accl_boot_join(id, comm->ranks, (int32_t)comm->rank, comm->device, &comm->settings, &comm->abort, &comm->boot));
    LJ_TRY(tables_make(comm));
    int64_t cache = lj_machine_get()->l3_bytes;
    comm->cache_bytes = cache > 0 ? (double)cache : 8e6;
    comm->crowded = is_crowded(comm);
    if (comm->settings.spin >= 0) comm->crowded = comm->settings.spin == 0;
    comm->swaps = comm->ranks == 2 && !comm->crowded;
    LJ_TRY(everybody_ready(comm));
    if (!comm->reads_memory && !comm->one_process)
        lj_log(LJ_LOG_DEBUG, "accl: other ranks' memory cannot be read through the system here: ordinary buffers are staged; ncclMemAlloc's are not");
    return LJ_OK;
}

ncclResult_t accl_comm_connect(ncclComm_t comm, const accl_boot_id *id)
{
    lj_status status = connect_all(comm, id);
    ncclResult_t result = ncclSuccess;
    if (status != LJ_OK) {
        char text[600];
        snprintf(text, sizeof text, "%s", lj_error_message());
        result = accl_comm_fail(comm, comm->mine != NULL, accl_result_of(status), "set-up of rank %u of %u: %s", comm->rank, comm->ranks, text);
    } else {
        comm->plain = comm->blocking && !comm->settings.check;
        lj_log(LJ_LOG_DEBUG, "accl: rank %u of %u, %s%s%s", comm->rank, comm->ranks, comm->one_process ? "threads" : "processes", comm->crowded ? ", more ranks than processors" : "",
               comm->reads_memory ? ", reads other processes' memory" : "");
    }
    atomic_store(&comm->state, result);
    return result;
}

ncclResult_t accl_comm_background(ncclComm_t comm, void *(*run)(void *), void *argument)
{
    ncclResult_t result = accl_stream_begin(&comm->background);
    if (result != ncclSuccess) return result;
    int failed = pthread_create(&comm->setup_thread, NULL, run, argument);
    if (failed) return accl_fail(ncclSystemError, "the set-up's thread cannot start: %s", strerror(failed));
    comm->setup_started = true;
    return ncclInProgress;
}

void accl_comm_drain(ncclComm_t comm)
{
    for (uint32_t turns = 0; atomic_load(&comm->pending); turns++) lj_sleep_s(turns < 100 ? 10e-6 : 500e-6);
}

static void registrations_free(ncclComm_t comm)
{
    while (comm->registrations) {
        accl_registration *next = comm->registrations->next;
        free(comm->registrations);
        comm->registrations = next;
    }
}

void accl_comm_free(ncclComm_t comm, uint32_t told)
{
    if (comm->setup_started) pthread_join(comm->setup_thread, NULL);
    if (comm->background) accl_stream_end(comm->background);
    if (comm->mine) {
        atomic_store(&comm->mine->gone, told);
        accl_wake_all(comm);
    }
    accl_boot_result_release(&comm->boot);
    registrations_free(comm);
    free(comm->peers);
    free(comm->sent);
    free(comm->received);
    free(comm->spare_steps);
    free(comm->scratch);
    pthread_mutex_destroy(&comm->lock);
    comm->mark = 0;
    free(comm);
}

/* --- out-of-band rounds --- */

static bool box_ready(const ncclComm_t comm, uint32_t rank, uint64_t number)
{
    return atomic_load_explicit(&comm->peers[rank].lines->boxes[number % ACCL_BOXES].number, memory_order_acquire) >= number;
}

static ncclResult_t box_wait(ncclComm_t comm, uint32_t rank, uint64_t number, const atomic_int *stop)
{
    double begun = lj_now_s();
    for (uint32_t turns = 0; !box_ready(comm, rank, number); turns++) {
        if (atomic_load(stop)) return accl_fail(ncclInternalError, "split or shrink: aborted");
        if (lj_now_s() - begun > comm->settings.timeout_s) return accl_fail(ncclSystemError, "rank %u did not call the same split, shrink or window function within %g s", rank, comm->settings.timeout_s);
        if (turns % 256 == 255 && !comm->peers[rank].same_process && !accl_process_alive(&comm->boot.table[rank]))
            return accl_fail(ncclRemoteError, "rank %u (pid %d) died; call ncclCommShrink without it", rank, (int)comm->peers[rank].pid);
        if (turns > 50) lj_sleep_s(turns < 200 ? 20e-6 : 500e-6);
        else accl_pause();
    }
    return ncclSuccess;
}

/* Boxes are a ring: a rank may be at most one round ahead of another, because a round ends with everybody's box seen; so nothing unread is overwritten. Ranks that
 * a shrink left out keep the number they had and are never waited for again. */
ncclResult_t accl_box_exchange(ncclComm_t comm, const uint32_t *with, uint32_t count, const void *mine, size_t bytes, void *all, const atomic_int *stop)
{
    uint64_t number = ++comm->box_number;
    accl_box *box = &comm->mine->boxes[number % ACCL_BOXES];
    if (bytes > sizeof box->data) return accl_fail(ncclInternalError, "an out-of-band message of %zu bytes", bytes);
    memcpy(box->data, mine, bytes);
    atomic_store_explicit(&box->number, number, memory_order_release);
    for (uint32_t i = 0; i < count; i++) {
        ncclResult_t result = box_wait(comm, with[i], number, stop);
        if (result != ncclSuccess) return result;
        memcpy((char *)all + i * bytes, comm->peers[with[i]].lines->boxes[number % ACCL_BOXES].data, bytes);
    }
    return ncclSuccess;
}
