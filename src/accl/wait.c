#define _GNU_SOURCE
#include "accl/wait.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void accl_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, double seconds)
{
    struct timespec limit = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0);
}

/* How one wait goes on. */
typedef struct {
    uint32_t turns;
    double since_s, looked_s; /* when it began to wait; when it looked at the other processes last */
    double sleep_s;
    bool beside;
} waiter;

enum { HEALTH_EVERY = 1024 };

/* Turns that a wait spins, and that it then gives the processor away, before it sleeps. */
static void patience(const ncclComm_t comm, bool beside, uint32_t *spin, uint32_t *yield)
{
    bool crowded = comm->crowded;
    if (comm->settings.spin >= 0) crowded = comm->settings.spin == 0;
    *spin = beside ? 200 : crowded ? 1 : 20000;
    *yield = beside ? 0 : crowded ? 300 : 200;
}

/* --- what can end a wait --- */

static ncclResult_t who_hangs(accl_task *task, double waited_s)
{
    ncclComm_t comm = task->comm;
    const accl_kind_row *kind = &accl_kinds[task->call.kind];
    lj_text missing;
    lj_text_init(&missing);
    for (uint32_t i = 0; i < comm->ranks; i++)
        if (accl_task_needs(task, i)) lj_text_add(&missing, "%s%u", missing.length ? ", " : "", i);
    const char *who = missing.length ? missing.data : "an earlier operation of this rank";
    const char *hint = kind->is_message && !task->call.grouped
                           ? "; if both ranks send first, put the calls between ncclGroupStart and ncclGroupEnd"
                           : "; look at that rank, or raise ACCL_TIMEOUT";
    ncclResult_t result;
    if (kind->is_message)
        result = accl_comm_fail(comm, true, ncclSystemError, "%s: message %llu between rank %u and rank %d (%zu bytes): rank %s did not come within %.3g s%s", kind->function,
                                (unsigned long long)task->number, comm->rank, task->call.root, accl_call_bytes(&task->call), who, waited_s, hint);
    else
        result = accl_comm_fail(comm, true, ncclSystemError, "%s number %llu on rank %u: waited %.3g s for rank %s%s", kind->function, (unsigned long long)task->number,
                                comm->rank, waited_s, who, hint);
    lj_text_release(&missing);
    return result;
}

static bool ended(accl_task *task, ncclResult_t result)
{
    accl_task_fail(task, result);
    return true;
}

static bool other_failed(accl_task *task)
{
    ncclComm_t comm = task->comm;
    accl_segment_head *head = accl_segment_head_get(&comm->boot.segment);
    uint32_t error = atomic_load(&head->error);
    int32_t rank = atomic_load(&head->error_rank);
    if (!error) return false;
    if (accl_task_contradiction(task) >= 0) return ended(task, accl_task_contradicted(task));
    if (atomic_load(&comm->error)) return ended(task, (ncclResult_t)atomic_load(&comm->error));
    return ended(task, accl_comm_fail(comm, false, ncclRemoteError, "%s: rank %d failed (%s); its own message says why", accl_kinds[task->call.kind].function, rank,
                                      ncclGetErrorString((ncclResult_t)error)));
}

static bool rank_lost(accl_task *task, uint32_t rank, bool look_at_processes)
{
    ncclComm_t comm = task->comm;
    uint32_t gone = atomic_load(&comm->peers[rank].lines->gone);
    if (!accl_task_needs(task, rank)) return false; /* after reading `gone`: what it did before it left counts */
    if (gone)
        return ended(task, accl_comm_fail(comm, true, ncclRemoteError, "%s number %llu: rank %u %s the communicator", accl_kinds[task->call.kind].function,
                                          (unsigned long long)task->number, rank, gone == 2 ? "aborted" : "destroyed"));
    if (!look_at_processes || comm->peers[rank].same_process || accl_process_alive(&comm->boot.table[rank])) return false;
    if (!accl_task_needs(task, rank)) return false;
    return ended(task, accl_comm_fail(comm, true, ncclRemoteError, "%s number %llu: rank %u (pid %d) died", accl_kinds[task->call.kind].function,
                                      (unsigned long long)task->number, rank, (int)comm->peers[rank].pid));
}

bool accl_wait_health(accl_task *task, double waited_s, bool look_at_processes)
{
    ncclComm_t comm = task->comm;
    if (atomic_load(&comm->abort)) return ended(task, accl_comm_fail(comm, false, ncclInternalError, "%s: aborted", accl_kinds[task->call.kind].function));
    if (atomic_load(&comm->error)) return ended(task, (ncclResult_t)atomic_load(&comm->error));
    if (other_failed(task)) return true;
    for (uint32_t i = 0; i < comm->ranks; i++)
        if (accl_task_needs(task, i) && rank_lost(task, i, look_at_processes)) return true;
    if (waited_s > comm->settings.timeout_s) return ended(task, who_hangs(task, waited_s));
    return false;
}

/* --- the loop --- */

static bool advance_all(accl_task **tasks, size_t *live, ncclResult_t *first)
{
    bool moved = false;
    for (size_t i = 0; i < *live;) {
        accl_task *task = tasks[i];
        moved |= accl_task_advance(task);
        if (!task->finished) {
            i++;
            continue;
        }
        if (task->result != ncclSuccess && *first == ncclSuccess) *first = task->result;
        memmove(tasks + i, tasks + i + 1, (--*live - i) * sizeof *tasks);
        moved = true;
    }
    return moved;
}

static bool health_all(accl_task **tasks, size_t live, waiter *w)
{
    double now = lj_now_s();
    if (!w->since_s) w->since_s = w->looked_s = now;
    bool look = now - w->looked_s > 0.25, ended_any = false;
    if (look) w->looked_s = now;
    for (size_t i = 0; i < live; i++) ended_any |= accl_wait_health(tasks[i], now - w->since_s, look);
    return ended_any;
}

/* Sleeps until a peer of any of the communicators rings. With more than one the kernel watches the first bell only, so the sleep is short. */
static void sleep_once(accl_task **tasks, size_t *live, ncclResult_t *first, waiter *w)
{
    ncclComm_t comm = tasks[0]->comm;
    bool one = true;
    for (size_t i = 1; i < *live; i++) one &= tasks[i]->comm == comm;
    accl_rank_lines *lines = comm->mine;
    atomic_fetch_add(&comm->pending, 1); /* keeps the communicator while its lines are in use: the last task may end in here */
    uint32_t bell = atomic_load(&lines->doorbell);
    atomic_fetch_add(&lines->sleeping, 1); /* a full fence: whoever announces something after this look sees it */
    if (!advance_all(tasks, live, first)) {
        futex_wait(&lines->doorbell, bell, one ? w->sleep_s : 0.0002);
        if (w->sleep_s < 0.02) w->sleep_s *= 2;
    } else w->turns = 0;
    atomic_fetch_sub(&lines->sleeping, 1);
    atomic_fetch_sub(&comm->pending, 1);
}

static void wait_turn(accl_task **tasks, size_t *live, ncclResult_t *first, waiter *w)
{
    uint32_t spin, yield;
    patience(tasks[0]->comm, w->beside, &spin, &yield);
    w->turns++;
    if (w->turns % HEALTH_EVERY == 0 || w->turns > spin + yield)
        if (health_all(tasks, *live, w)) return;
    if (w->turns <= spin) accl_pause();
    else if (w->turns <= spin + yield) sched_yield();
    else sleep_once(tasks, live, first, w);
}

ncclResult_t accl_run_list(accl_task **tasks, size_t count, bool beside)
{
    ncclResult_t first = ncclSuccess;
    waiter w = {.beside = beside, .sleep_s = 0.001};
    while (count) {
        if (!advance_all(tasks, &count, &first)) wait_turn(tasks, &count, &first, &w);
        else w = (waiter){.beside = beside, .sleep_s = 0.001};
    }
    return first;
}

ncclResult_t accl_run(accl_task *tasks, size_t count, bool beside)
{
    enum { FEW = 64 };
    accl_task *few[FEW], **list = count <= FEW ? few : malloc(count * sizeof *list);
    if (!list) {
        for (size_t i = 0; i < count; i++) accl_task_fail(&tasks[i], accl_comm_fail(tasks[i].comm, true, ncclSystemError, "out of memory: list of %zu operations", count));
        return ncclSystemError;
    }
    for (size_t i = 0; i < count; i++) list[i] = &tasks[i];
    ncclResult_t result = accl_run_list(list, count, beside);
    if (list != few) free(list);
    return result;
}
