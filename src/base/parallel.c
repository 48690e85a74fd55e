/* Threads live for one call: work here lasts milliseconds to minutes, starting a thread takes microseconds. */
#include "base/parallel.h"

#include "base/machine.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdio.h>

enum { MAX_THREADS = 256, MESSAGE_BYTES = 2048 };

typedef struct {
    lj_parallel_fn fn;
    void *user;
    size_t count, next;
    pthread_mutex_t lock; /* of the failure */
    lj_status status;
    char message[MESSAGE_BYTES];
    int stop;
} parallel_job;

static void failure_keep(parallel_job *job, lj_status status)
{
    pthread_mutex_lock(&job->lock);
    if (job->status == LJ_OK) {
        job->status = status;
        snprintf(job->message, sizeof job->message, "%s", lj_error_message());
    }
    pthread_mutex_unlock(&job->lock);
    __atomic_store_n(&job->stop, 1, __ATOMIC_RELAXED);
}

static void *worker(void *user)
{
    parallel_job *job = user;
    while (!__atomic_load_n(&job->stop, __ATOMIC_RELAXED)) {
        size_t index = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (index >= job->count) break;
        lj_status status = job->fn(job->user, index);
        if (status != LJ_OK) failure_keep(job, status);
    }
    return NULL;
}

int lj_parallel_threads(int threads)
{
    int wanted = threads > 0 ? threads : lj_machine_get()->cores;
    return wanted < 1 ? 1 : wanted > MAX_THREADS ? MAX_THREADS : wanted;
}

lj_status lj_parallel_for(int threads, size_t count, lj_parallel_fn fn, void *user)
{
    parallel_job job = {.fn = fn, .user = user, .count = count, .status = LJ_OK};
    pthread_t others[MAX_THREADS];
    size_t wanted = (size_t)lj_parallel_threads(threads), started = 0;
    if (wanted > count) wanted = count;
    pthread_mutex_init(&job.lock, NULL);
    /* A thread that the system refuses is not missed: the others take its items. */
    while (started + 1 < wanted && pthread_create(&others[started], NULL, worker, &job) == 0) started++;
    worker(&job);
    for (size_t i = 0; i < started; i++) pthread_join(others[i], NULL);
    pthread_mutex_destroy(&job.lock);
    if (job.status != LJ_OK) lj_error_set(job.message);
    return job.status;
}

void lj_progress_add(lj_progress *progress, uint64_t amount)
{
    uint64_t done = __atomic_add_fetch(&progress->done, amount, __ATOMIC_RELAXED);
    if (!progress->fn) return;
    /* Whoever finds the caller busy leaves the news to the next one; only the last amount must not be lost. */
    int free_now = 0;
    while (!__atomic_compare_exchange_n(&progress->busy, &free_now, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (done != progress->total) return;
        free_now = 0;
    }
    progress->fn(progress->user, __atomic_load_n(&progress->done, __ATOMIC_RELAXED), progress->total);
    __atomic_store_n(&progress->busy, 0, __ATOMIC_RELEASE);
}
