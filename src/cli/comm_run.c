/* Runs the ranks of one measurement, as child processes or threads, each on a processor of its own while there are enough. */
#define _GNU_SOURCE
#include "cli/comm.h"

#include "accl/accl.h"
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPETITIONS = 5, MAX_TIMED = 1000 };

/* What ranks share: results of rank 0, wrong counts and words of all. */
typedef struct {
    comm_sample samples[COMM_MAX_SIZES];
    uint64_t wrong[COMM_MAX_RANKS][COMM_MAX_SIZES];
    char failed[COMM_MAX_RANKS][300];
} board;

typedef struct {
    const comm_plan *plan;
    board *shared;
    int rank;
    ncclUniqueId id;
    ncclComm_t comm;
    char *in, *out;
    size_t in_bytes, out_bytes; /* of the largest size */
} bench_rank;

int comm_iterations(size_t bytes, double effort)
{
    double n = (bytes < 65536 ? 1000 : bytes < (4u << 20) ? 100 : 10) * effort;
    return n < 2 ? 2 : (int)n;
}

static bool wide_in(comm_collective c)
{
    return c == COMM_REDUCE_SCATTER || c == COMM_ALL_TO_ALL;
}
static bool wide_out(comm_collective c)
{
    return c == COMM_ALL_GATHER || c == COMM_ALL_TO_ALL;
}

static void processor_take(int rank)
{
    cpu_set_t allowed, one;
    int count, seen = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || (count = CPU_COUNT(&allowed)) < 1) return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || seen++ != rank % count) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static ncclResult_t all_to_all(bench_rank *r, const char *in, char *out, size_t bytes)
{
    ncclGroupStart();
    for (int p = 0; p < r->plan->ranks; p++) {
        ncclSend(in + (size_t)p * bytes, bytes / 4, ncclFloat, p, r->comm, NULL);
        ncclRecv(out + (size_t)p * bytes, bytes / 4, ncclFloat, p, r->comm, NULL);
    }
    return ncclGroupEnd();
}

static ncclResult_t call(bench_rank *r, const char *in, char *out, size_t bytes)
{
    size_t count = bytes / 4;
    switch (r->plan->collective) {
    case COMM_ALL_REDUCE: return ncclAllReduce(in, out, count, ncclFloat, ncclSum, r->comm, NULL);
    case COMM_ALL_GATHER: return ncclAllGather(in, out, count, ncclFloat, r->comm, NULL);
    case COMM_REDUCE_SCATTER: return ncclReduceScatter(in, out, count, ncclFloat, ncclSum, r->comm, NULL);
    case COMM_BROADCAST: return ncclBroadcast(in, out, count, ncclFloat, 0, r->comm, NULL);
    case COMM_REDUCE: return ncclReduce(in, out, count, ncclFloat, ncclSum, 0, r->comm, NULL);
    default: return all_to_all(r, in, out, bytes);
    }
}

/* Where the two ends of a call lie for a size, in place or not. */
static void ends(const bench_rank *r, size_t bytes, char **in, char **out)
{
    comm_collective c = r->plan->collective;
    *in = r->in;
    *out = r->out;
    if (!r->plan->in_place || c == COMM_ALL_TO_ALL) return;
    if (c == COMM_ALL_GATHER) *in = r->out + (size_t)r->rank * bytes;
    else if (c == COMM_REDUCE_SCATTER) *out = r->in + (size_t)r->rank * bytes;
    else *out = r->in;
}

static float value(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 3) % 31);
}

static float expected(const comm_plan *plan, int rank, size_t i, size_t count)
{
    float sum = 0;
    switch (plan->collective) {
    case COMM_ALL_GATHER: return value((int)(i / count), i % count);
    case COMM_BROADCAST: return value(0, i);
    case COMM_ALL_TO_ALL: return value((int)(i / count), (size_t)rank * count + i % count);
    default: break;
    }
    size_t at = plan->collective == COMM_REDUCE_SCATTER ? (size_t)rank * count + i : i;
    for (int r = 0; r < plan->ranks; r++) sum += value(r, at);
    return sum;
}

/* One checked call. */
static uint64_t wrong_count(bench_rank *r, size_t bytes, ncclResult_t *result)
{
    const comm_plan *plan = r->plan;
    size_t ranks = (size_t)plan->ranks, count = bytes / 4, in_count = count * (wide_in(plan->collective) ? ranks : 1), out_count = count * (wide_out(plan->collective) ? ranks : 1);
    char *in, *out;
    uint64_t wrong = 0;
    ends(r, bytes, &in, &out);
    for (size_t i = 0; i < out_count; i++) memcpy(out + i * 4, &(float){-1}, 4);
    for (size_t i = 0; i < in_count; i++) memcpy(in + i * 4, &(float){value(r->rank, i)}, 4);
    *result = call(r, in, out, bytes);
    if (*result != ncclSuccess) return 0;
    if (plan->collective == COMM_REDUCE && r->rank) return 0;
    for (size_t i = 0; i < out_count; i++) {
        float got;
        memcpy(&got, out + i * 4, 4);
        wrong += got != expected(plan, r->rank, i, count);
    }
    return wrong;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ncclResult_t barrier(bench_rank *r)
{
    float word = 0;
    return ncclAllReduce(&word, &word, 1, ncclFloat, ncclSum, r->comm, NULL);
}

static ncclResult_t time_together(bench_rank *r, size_t bytes, int iterations, double *best)
{
    char *in, *out;
    ncclResult_t result = ncclSuccess;
    ends(r, bytes, &in, &out);
    for (int i = 0; i < iterations / 10 + 1 && result == ncclSuccess; i++) result = call(r, in, out, bytes);
    *best = 1e9;
    for (int repetition = 0; repetition < REPETITIONS && result == ncclSuccess; repetition++) {
        result = barrier(r);
        double begun = lj_now_s();
        for (int i = 0; i < iterations && result == ncclSuccess; i++) result = call(r, in, out, bytes);
        double mean = (lj_now_s() - begun) / iterations * 1e6;
        if (mean < *best) *best = mean;
    }
    return result;
}

static ncclResult_t time_singly(bench_rank *r, size_t bytes, int iterations, comm_sample *sample)
{
    static _Thread_local double times[MAX_TIMED];
    char *in, *out;
    ncclResult_t result = ncclSuccess;
    ends(r, bytes, &in, &out);
    for (int i = 0; i < iterations && result == ncclSuccess; i++) {
        double begun = lj_now_s();
        result = call(r, in, out, bytes);
        times[i] = (lj_now_s() - begun) * 1e6;
    }
    qsort(times, (size_t)iterations, sizeof *times, compare_doubles);
    sample->min_us = times[0];
    sample->p99_us = times[(iterations * 99 + 99) / 100 - 1];
    return result;
}

static ncclResult_t sizes_run(bench_rank *r)
{
    const comm_plan *plan = r->plan;
    for (int s = 0; s < plan->size_count; s++) {
        comm_sample sample = {0};
        ncclResult_t result;
        int iterations = comm_iterations(plan->sizes[s], plan->effort);
        r->shared->wrong[r->rank][s] = wrong_count(r, plan->sizes[s], &result);
        if (result == ncclSuccess) result = time_together(r, plan->sizes[s], iterations, &sample.best_mean_us);
        if (result == ncclSuccess) result = time_singly(r, plan->sizes[s], iterations < MAX_TIMED ? iterations : MAX_TIMED, &sample);
        if (result != ncclSuccess) return result;
        snprintf(sample.algorithm, sizeof sample.algorithm, "%s", plan->collective == COMM_ALL_TO_ALL ? "pairwise" : acclCommAlgorithm(r->comm));
        if (r->rank == 0) r->shared->samples[s] = sample;
    }
    return ncclSuccess;
}

static bool buffers_make(bench_rank *r)
{
    const comm_plan *plan = r->plan;
    size_t most = plan->sizes[plan->size_count - 1], ranks = (size_t)plan->ranks;
    r->in_bytes = most * (wide_in(plan->collective) ? ranks : 1);
    r->out_bytes = most * (wide_out(plan->collective) ? ranks : 1);
    if (plan->shared) return ncclMemAlloc((void **)&r->in, r->in_bytes) == ncclSuccess && ncclMemAlloc((void **)&r->out, r->out_bytes) == ncclSuccess;
    r->in = malloc(r->in_bytes);
    r->out = malloc(r->out_bytes);
    return r->in && r->out;
}

static void buffers_free(bench_rank *r)
{
    if (r->plan->shared) {
        ncclMemFree(r->in);
        ncclMemFree(r->out);
    } else {
        free(r->in);
        free(r->out);
    }
}

static void *rank_run(void *argument)
{
    bench_rank *r = argument;
    char *failed = r->shared->failed[r->rank];
    processor_take(r->rank);
    ncclResult_t result = ncclCommInitRank(&r->comm, r->plan->ranks, r->id, r->rank);
    if (result == ncclSuccess && !buffers_make(r)) snprintf(failed, sizeof r->shared->failed[0], "out of memory: buffers of %zu and %zu bytes", r->in_bytes, r->out_bytes);
    else if (result == ncclSuccess) result = sizes_run(r);
    if (result != ncclSuccess) snprintf(failed, sizeof r->shared->failed[0], "%s", ncclGetLastError(r->comm));
    buffers_free(r);
    if (*failed) ncclCommAbort(r->comm);
    else ncclCommDestroy(r->comm);
    return NULL;
}

static void threads_run(bench_rank *ranks, int count)
{
    pthread_t threads[COMM_MAX_RANKS];
    bool started[COMM_MAX_RANKS];
    for (int i = 0; i < count; i++) started[i] = pthread_create(&threads[i], NULL, rank_run, &ranks[i]) == 0;
    for (int i = 0; i < count; i++) {
        if (started[i]) pthread_join(threads[i], NULL);
        else snprintf(ranks[i].shared->failed[i], sizeof ranks[i].shared->failed[i], "its thread cannot start");
    }
}

static void processes_run(bench_rank *ranks, int count)
{
    pid_t children[COMM_MAX_RANKS];
    fflush(NULL);
    for (int i = 0; i < count; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            rank_run(&ranks[i]);
            _exit(0);
        }
        if (children[i] < 0) snprintf(ranks[i].shared->failed[i], sizeof ranks[i].shared->failed[i], "its process cannot start: %s", strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        int status = 0;
        if (children[i] < 0) continue;
        while (waitpid(children[i], &status, 0) < 0 && errno == EINTR) continue;
        if (WIFSIGNALED(status)) snprintf(ranks[i].shared->failed[i], sizeof ranks[i].shared->failed[i], "killed by signal %d", WTERMSIG(status));
    }
}

static lj_status collect(const comm_plan *plan, const board *shared, comm_sample *samples)
{
    for (int i = 0; i < plan->ranks; i++)
        if (shared->failed[i][0]) return lj_fail(LJ_ERR_PEER, "rank %d of %d: %s", i, plan->ranks, shared->failed[i]);
    for (int s = 0; s < plan->size_count; s++) {
        samples[s] = shared->samples[s];
        for (int i = 0; i < plan->ranks; i++) samples[s].wrong += shared->wrong[i][s];
    }
    return LJ_OK;
}

lj_status comm_run(const comm_plan *plan, comm_sample *samples)
{
    bench_rank *ranks = calloc((size_t)plan->ranks, sizeof *ranks);
    ncclUniqueId id;
    board *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    lj_status status = LJ_OK;
    if (!ranks || shared == MAP_FAILED) status = lj_fail(LJ_ERR_NOMEM, "board of %d ranks", plan->ranks);
    else if (ncclGetUniqueId(&id) != ncclSuccess) status = lj_fail(LJ_ERR_IO, "%s", ncclGetLastError(NULL));
    for (int i = 0; i < plan->ranks && status == LJ_OK; i++) ranks[i] = (bench_rank){.plan = plan, .shared = shared, .rank = i, .id = id};
    if (status == LJ_OK) {
        (plan->processes ? processes_run : threads_run)(ranks, plan->ranks);
        status = collect(plan, shared, samples);
    }
    if (shared != MAP_FAILED) munmap(shared, sizeof *shared);
    free(ranks);
    return status;
}
