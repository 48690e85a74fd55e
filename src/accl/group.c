#define _GNU_SOURCE
#include "accl/group.h"

#include "accl/algorithms.h"
#include "accl/all_to_all/pairwise.h"
#include "accl/stream.h"
#include "accl/wait.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    ncclComm_t comm;
    accl_call call;
    accl_stream *stream;
} entry;

typedef struct {
    accl_job_fn run;
    void *argument;
    pthread_t thread;
    bool started;
    ncclResult_t result;
} job;

static _Thread_local struct {
    int depth;
    ncclResult_t spoiled;
    entry *entries;
    size_t count, capacity;
    job *jobs;
    size_t job_count, job_capacity;
    accl_task *tasks; /* kept between groups */
    size_t task_capacity;
} group;

/* The thread's arrays go with the thread. */
static pthread_key_t group_key;
static pthread_once_t group_once = PTHREAD_ONCE_INIT;

static void group_free(void *unused)
{
    (void)unused;
    free(group.entries);
    free(group.jobs);
    free(group.tasks);
    group.entries = NULL;
    group.jobs = NULL;
    group.tasks = NULL;
    group.capacity = group.job_capacity = group.task_capacity = 0;
}

static void key_make(void)
{
    pthread_key_create(&group_key, group_free);
}

bool accl_in_group(void)
{
    return group.depth > 0;
}

static bool grow(void **array, size_t *capacity, size_t count, size_t element)
{
    if (count < *capacity) return true;
    size_t larger = *capacity ? *capacity * 2 : 32;
    void *grown = realloc(*array, larger * element);
    if (!grown) return false;
    pthread_once(&group_once, key_make);
    pthread_setspecific(group_key, &group);
    *array = grown;
    *capacity = larger;
    return true;
}

ncclResult_t accl_group_spoil(ncclResult_t result)
{
    if (group.depth > 0 && group.spoiled == ncclSuccess && result != ncclSuccess && result != ncclInProgress) group.spoiled = result;
    return result;
}

ncclResult_t accl_group_start(void)
{
    group.depth++;
    return ncclSuccess;
}

/* --- operations --- */

/* The stream that an operation really runs on: NULL only when its caller runs it. */
static accl_stream *stream_for(ncclComm_t comm, accl_stream *stream)
{
    return stream || comm->blocking ? stream : comm->background;
}

static ncclResult_t submit_one(ncclComm_t comm, const accl_call *call, accl_stream *stream)
{
    accl_task *task = malloc(sizeof *task);
    if (!task) return accl_fail(ncclSystemError, "%s: out of memory (%zu bytes)", accl_kinds[call->kind].function, sizeof *task);
    accl_task_init(task, comm, call, stream);
    return accl_stream_submit(stream, task, 1);
}

ncclResult_t accl_issue(ncclComm_t comm, const accl_call *call, cudaStream_t handle)
{
    accl_stream *stream = NULL;
    if (handle) {
        ncclResult_t result = accl_stream_of(handle, &stream);
        if (result != ncclSuccess) return accl_group_spoil(result);
    }
    stream = stream_for(comm, stream);
    if (group.depth > 0) {
        if (!grow((void **)&group.entries, &group.capacity, group.count, sizeof *group.entries))
            return accl_group_spoil(accl_fail(ncclSystemError, "group: out of memory (%zu operations)", group.count + 1));
        group.entries[group.count++] = (entry){comm, *call, stream};
        group.entries[group.count - 1].call.grouped = true;
        return ncclSuccess;
    }
    if (stream) {
        ncclResult_t result = submit_one(comm, call, stream);
        return result == ncclSuccess && !comm->blocking ? ncclInProgress : result;
    }
    accl_task task;
    accl_task_init(&task, comm, call, NULL);
    return accl_run(&task, 1, false);
}

/* The tasks of one stream, in order of issue; numbers are given here, so a refused group leaves none behind. */
static ncclResult_t submit_stream(accl_stream *stream)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < group.count; i++) count += group.entries[i].stream == stream;
    accl_task *tasks = malloc(count * sizeof *tasks);
    if (!tasks) return accl_fail(ncclSystemError, "group: out of memory (%zu operations)", count);
    for (size_t i = 0; i < group.count; i++)
        if (group.entries[i].stream == stream) accl_task_init(&tasks[at++], group.entries[i].comm, &group.entries[i].call, stream);
    return accl_stream_submit(stream, tasks, count);
}

static bool stream_seen(size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (group.entries[i].stream == group.entries[index].stream) return true;
    return false;
}

static ncclResult_t run_here(size_t count)
{
    size_t at = 0;
    while (count > group.task_capacity)
        if (!grow((void **)&group.tasks, &group.task_capacity, group.task_capacity, sizeof *group.tasks)) return accl_fail(ncclSystemError, "group: out of memory (%zu operations)", count);
    accl_task *tasks = group.tasks;
    for (size_t i = 0; i < group.count; i++)
        if (!group.entries[i].stream) accl_task_init(&tasks[at++], group.entries[i].comm, &group.entries[i].call, NULL);
    accl_exchange_order(tasks, count);
    return accl_run(tasks, count, false);
}

static ncclResult_t run_operations(void)
{
    ncclResult_t first = ncclSuccess;
    size_t here = 0;
    bool later = false;
    for (size_t i = 0; i < group.count; i++) {
        here += !group.entries[i].stream;
        if (!group.entries[i].stream || stream_seen(i)) continue;
        ncclResult_t result = submit_stream(group.entries[i].stream);
        if (result != ncclSuccess && first == ncclSuccess) first = result;
        later |= !group.entries[i].comm->blocking;
    }
    ncclResult_t result = here ? run_here(here) : ncclSuccess;
    if (first == ncclSuccess) first = result;
    return first == ncclSuccess && later ? ncclInProgress : first;
}

/* --- set-up functions --- */

ncclResult_t accl_issue_job(accl_job_fn run, void *argument)
{
    if (group.depth == 0) return run(argument);
    if (!grow((void **)&group.jobs, &group.job_capacity, group.job_count, sizeof *group.jobs))
        return accl_group_spoil(accl_fail(ncclSystemError, "group: out of memory (%zu set-ups)", group.job_count + 1));
    group.jobs[group.job_count++] = (job){.run = run, .argument = argument};
    return ncclSuccess;
}

static void *job_run(void *argument)
{
    job *j = argument;
    j->result = j->run(j->argument);
    return NULL;
}

/* Each in a thread of its own: they wait for each other. The last one runs here. */
static ncclResult_t run_jobs(void)
{
    ncclResult_t first = ncclSuccess;
    for (size_t i = 0; i + 1 < group.job_count; i++) {
        job *j = &group.jobs[i];
        j->started = pthread_create(&j->thread, NULL, job_run, j) == 0;
        if (!j->started) j->result = accl_fail(ncclSystemError, "group: thread %zu of %zu for a set-up cannot start", i, group.job_count);
    }
    if (group.job_count) job_run(&group.jobs[group.job_count - 1]);
    for (size_t i = 0; i < group.job_count; i++) {
        job *j = &group.jobs[i];
        if (j->started) pthread_join(j->thread, NULL);
        if (first == ncclSuccess || first == ncclInProgress)
            if (j->result != ncclSuccess) first = j->result;
    }
    return first;
}

static void forget(void)
{
    group.count = group.job_count = 0;
    group.spoiled = ncclSuccess;
}

ncclResult_t accl_group_end(void)
{
    if (group.depth == 0) return accl_fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth > 0) return ncclSuccess;
    ncclResult_t result = group.spoiled;
    if (result == ncclSuccess && group.count && group.job_count)
        result = accl_fail(ncclInvalidUsage, "a group holds %zu set-ups and %zu operations: use a group for each", group.job_count, group.count);
    if (result == ncclSuccess && group.job_count) result = run_jobs();
    else if (result == ncclSuccess && group.count) result = run_operations();
    forget();
    return result;
}

ncclResult_t accl_group_simulate(double *seconds)
{
    if (group.depth == 0) return accl_fail(ncclInvalidUsage, "ncclGroupSimulateEnd without ncclGroupStart");
    ncclResult_t result = group.spoiled;
    *seconds = 0;
    if (--group.depth > 0) return ncclSuccess;
    for (size_t i = 0; i < group.count; i++) {
        const accl_call *call = &group.entries[i].call;
        const double *cost = accl_costs()->cost[group.entries[i].comm->crowded];
        double bytes = (double)accl_call_bytes(call);
        if (accl_kinds[call->kind].is_message) *seconds += cost[0] + bytes * (cost[1] + cost[2]);
        else *seconds += accl_estimate(group.entries[i].comm, accl_choose(group.entries[i].comm, call, false), (size_t)bytes);
    }
    forget();
    return result;
}
