#define _GNU_SOURCE
#include "accl/stream.h"

#include "accl/wait.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    enum { RUN_TASKS, RUN_CALL, RUN_RECORD, RUN_WAIT } kind;
    accl_task *tasks;
    size_t count;
    void (*function)(void *);
    void *argument;
    acclEvent_t event;
    uint64_t ticket; /* of the event's record */
    struct item *next;
} item;

struct accl_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    item *first, **last;
    bool busy, ending;
    ncclResult_t failed; /* first failure since the last synchronize */
    accl_stream *next;
};

struct acclEvent {
    pthread_mutex_t lock;
    pthread_cond_t reached;
    uint64_t recorded, passed; /* tickets given, and the highest that was reached */
};

static struct {
    pthread_mutex_t lock;
    accl_stream *first; /* live public streams, so that a foreign pointer is told from ours */
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void event_wait(acclEvent_t event, uint64_t ticket)
{
    pthread_mutex_lock(&event->lock);
    while (event->passed < ticket) pthread_cond_wait(&event->reached, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

static void event_pass(acclEvent_t event, uint64_t ticket)
{
    pthread_mutex_lock(&event->lock);
    if (event->passed < ticket) event->passed = ticket;
    pthread_cond_broadcast(&event->reached);
    pthread_mutex_unlock(&event->lock);
}

static ncclResult_t item_run(item *it)
{
    ncclResult_t result = ncclSuccess;
    switch (it->kind) {
    case RUN_TASKS:
        result = accl_run(it->tasks, it->count, true);
        free(it->tasks);
        break;
    case RUN_CALL: it->function(it->argument); break;
    case RUN_RECORD: event_pass(it->event, it->ticket); break;
    case RUN_WAIT: event_wait(it->event, it->ticket); break;
    }
    return result;
}

static void *stream_run(void *argument)
{
    accl_stream *s = argument;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->first && !s->ending) pthread_cond_wait(&s->more, &s->lock);
        item *it = s->first;
        if (!it) break;
        s->first = it->next;
        if (!s->first) s->last = &s->first;
        s->busy = true;
        pthread_mutex_unlock(&s->lock);
        ncclResult_t result = item_run(it);
        free(it);
        pthread_mutex_lock(&s->lock);
        if (result != ncclSuccess && s->failed == ncclSuccess) s->failed = result;
        s->busy = false;
        if (!s->first) pthread_cond_broadcast(&s->idle);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

ncclResult_t accl_stream_begin(accl_stream **out)
{
    accl_stream *s = calloc(1, sizeof *s);
    if (!s) return accl_fail(ncclSystemError, "stream: out of memory (%zu bytes)", sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->idle, NULL);
    s->last = &s->first;
    int failed = pthread_create(&s->thread, NULL, stream_run, s);
    if (failed) {
        free(s);
        return accl_fail(ncclSystemError, "stream: its thread cannot start: %s", strerror(failed));
    }
    *out = s;
    return ncclSuccess;
}

void accl_stream_end(accl_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static ncclResult_t queue_add(accl_stream *s, const item *what)
{
    item *it = malloc(sizeof *it);
    if (!it) return accl_fail(ncclSystemError, "stream: out of memory (%zu bytes)", sizeof *it);
    *it = *what;
    it->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->last = it;
    s->last = &it->next;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    return ncclSuccess;
}

ncclResult_t accl_stream_submit(accl_stream *s, accl_task *tasks, size_t count)
{
    ncclResult_t result = queue_add(s, &(item){.kind = RUN_TASKS, .tasks = tasks, .count = count});
    if (result == ncclSuccess) return ncclSuccess;
    for (size_t i = 0; i < count; i++) accl_task_fail(&tasks[i], accl_comm_fail(tasks[i].comm, true, result, "%s: cannot be queued", accl_kinds[tasks[i].call.kind].function));
    free(tasks);
    return result;
}

ncclResult_t accl_stream_of(cudaStream_t handle, accl_stream **out)
{
    *out = NULL;
    if ((uintptr_t)handle <= 2) return ncclSuccess;
    pthread_mutex_lock(&streams.lock);
    accl_stream *s = streams.first;
    while (s && (void *)s != (void *)handle) s = s->next;
    pthread_mutex_unlock(&streams.lock);
    if (!s) return accl_fail(ncclInvalidArgument, "stream %p is not one of acclStreamCreate: the host engine runs on host streams, or in the caller with NULL", (void *)handle);
    *out = s;
    return ncclSuccess;
}

/* --- the public face --- */

static ncclResult_t stream_need(cudaStream_t handle, accl_stream **out)
{
    ncclResult_t result = accl_stream_of(handle, out);
    if (result == ncclSuccess && !*out) return accl_fail(ncclInvalidArgument, "this function needs a stream of acclStreamCreate");
    return result;
}

ncclResult_t acclStreamCreate(cudaStream_t *stream)
{
    accl_stream *s;
    if (!stream) return accl_fail(ncclInvalidArgument, "acclStreamCreate: stream is NULL");
    ncclResult_t result = accl_stream_begin(&s);
    if (result != ncclSuccess) return result;
    pthread_mutex_lock(&streams.lock);
    s->next = streams.first;
    streams.first = s;
    pthread_mutex_unlock(&streams.lock);
    *stream = (cudaStream_t)(void *)s;
    return ncclSuccess;
}

ncclResult_t acclStreamDestroy(cudaStream_t stream)
{
    accl_stream *s;
    ncclResult_t result = stream_need(stream, &s);
    if (result != ncclSuccess) return result;
    pthread_mutex_lock(&streams.lock);
    accl_stream **at = &streams.first;
    while (*at && *at != s) at = &(*at)->next;
    if (*at) *at = s->next;
    pthread_mutex_unlock(&streams.lock);
    accl_stream_end(s);
    return ncclSuccess;
}

ncclResult_t acclStreamSynchronize(cudaStream_t stream)
{
    accl_stream *s;
    ncclResult_t result = stream_need(stream, &s);
    if (result != ncclSuccess) return result;
    pthread_mutex_lock(&s->lock);
    while (s->first || s->busy) pthread_cond_wait(&s->idle, &s->lock);
    result = s->failed;
    s->failed = ncclSuccess;
    pthread_mutex_unlock(&s->lock);
    return result;
}

ncclResult_t acclStreamQuery(cudaStream_t stream)
{
    accl_stream *s;
    ncclResult_t result = stream_need(stream, &s);
    if (result != ncclSuccess) return result;
    pthread_mutex_lock(&s->lock);
    result = s->first || s->busy ? ncclInProgress : ncclSuccess;
    pthread_mutex_unlock(&s->lock);
    return result;
}

ncclResult_t acclStreamCall(cudaStream_t stream, void (*function)(void *argument), void *argument)
{
    accl_stream *s;
    ncclResult_t result = stream_need(stream, &s);
    if (result != ncclSuccess) return result;
    if (!function) return accl_fail(ncclInvalidArgument, "acclStreamCall: function is NULL");
    return queue_add(s, &(item){.kind = RUN_CALL, .function = function, .argument = argument});
}

ncclResult_t acclStreamWaitEvent(cudaStream_t stream, acclEvent_t event)
{
    accl_stream *s;
    ncclResult_t result = stream_need(stream, &s);
    if (result != ncclSuccess) return result;
    if (!event) return accl_fail(ncclInvalidArgument, "acclStreamWaitEvent: event is NULL");
    pthread_mutex_lock(&event->lock);
    uint64_t ticket = event->recorded;
    pthread_mutex_unlock(&event->lock);
    return queue_add(s, &(item){.kind = RUN_WAIT, .event = event, .ticket = ticket});
}

ncclResult_t acclEventCreate(acclEvent_t *event)
{
    acclEvent_t made = event ? calloc(1, sizeof *made) : NULL;
    if (!made) return accl_fail(event ? ncclSystemError : ncclInvalidArgument, "acclEventCreate: %s", event ? "out of memory" : "event is NULL");
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->reached, NULL);
    *event = made;
    return ncclSuccess;
}

ncclResult_t acclEventDestroy(acclEvent_t event)
{
    if (!event) return accl_fail(ncclInvalidArgument, "acclEventDestroy: event is NULL");
    pthread_cond_destroy(&event->reached);
    pthread_mutex_destroy(&event->lock);
    free(event);
    return ncclSuccess;
}

ncclResult_t acclEventRecord(acclEvent_t event, cudaStream_t stream)
{
    accl_stream *s;
    if (!event) return accl_fail(ncclInvalidArgument, "acclEventRecord: event is NULL");
    ncclResult_t result = accl_stream_of(stream, &s);
    if (result != ncclSuccess) return result;
    pthread_mutex_lock(&event->lock);
    uint64_t ticket = ++event->recorded;
    pthread_mutex_unlock(&event->lock);
    if (s) return queue_add(s, &(item){.kind = RUN_RECORD, .event = event, .ticket = ticket});
    event_pass(event, ticket);
    return ncclSuccess;
}

ncclResult_t acclEventSynchronize(acclEvent_t event)
{
    if (!event) return accl_fail(ncclInvalidArgument, "acclEventSynchronize: event is NULL");
    pthread_mutex_lock(&event->lock);
    uint64_t ticket = event->recorded;
    pthread_mutex_unlock(&event->lock);
    event_wait(event, ticket);
    return ncclSuccess;
}

ncclResult_t acclEventQuery(acclEvent_t event)
{
    if (!event) return accl_fail(ncclInvalidArgument, "acclEventQuery: event is NULL");
    pthread_mutex_lock(&event->lock);
    bool reached = event->passed >= event->recorded;
    pthread_mutex_unlock(&event->lock);
    return reached ? ncclSuccess : ncclInProgress;
}
