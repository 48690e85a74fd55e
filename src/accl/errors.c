/* Words for failures: codes, the last sentence of the process, and a communicator's first one. */
#define _GNU_SOURCE
#include "accl/comm.h"
#include "accl/task.h"

#include "base/log.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>

static struct {
    pthread_mutex_t lock;
    char text[700];
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void last_set(const char *text)
{
    pthread_mutex_lock(&last.lock);
    snprintf(last.text, sizeof last.text, "%s", text);
    pthread_mutex_unlock(&last.lock);
    lj_log(LJ_LOG_WARN, "accl: %s", text);
}

const char *accl_last_text(void)
{
    static _Thread_local char copy[sizeof last.text];
    pthread_mutex_lock(&last.lock);
    memcpy(copy, last.text, sizeof copy);
    pthread_mutex_unlock(&last.lock);
    return copy;
}

ncclResult_t accl_fail(ncclResult_t result, const char *format, ...)
{
    char text[sizeof last.text];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    last_set(text);
    return result;
}

ncclResult_t accl_result_of(lj_status status)
{
    static const ncclResult_t codes[LJ_STATUS_COUNT] = {
        [LJ_OK] = ncclSuccess,           [LJ_ERR_INVALID] = ncclInvalidArgument, [LJ_ERR_NOMEM] = ncclSystemError,
        [LJ_ERR_IO] = ncclSystemError,   [LJ_ERR_FORMAT] = ncclInvalidUsage,     [LJ_ERR_NOT_FOUND] = ncclSystemError,
        [LJ_ERR_UNSUPPORTED] = ncclInvalidUsage, [LJ_ERR_COMPILER] = ncclInternalError, [LJ_ERR_TIMEOUT] = ncclSystemError,
        [LJ_ERR_PEER] = ncclRemoteError, [LJ_ERR_LIMIT] = ncclInvalidArgument,   [LJ_ERR_INTERRUPTED] = ncclInternalError,
    };
    return codes[status];
}

ncclResult_t accl_fail_status(lj_status status, const char *where)
{
    return accl_fail(accl_result_of(status), "%s: %s", where, lj_error_message());
}

static void spread_error(ncclComm_t comm, ncclResult_t result)
{
    if (!comm->boot.segment.base) return;
    accl_segment_head *head = accl_segment_head_get(&comm->boot.segment);
    uint32_t none = 0;
    if (!atomic_load(&head->error)) atomic_store(&head->error_rank, (int32_t)comm->rank); /* the first of a tie may be named wrongly, never left out */
    atomic_compare_exchange_strong(&head->error, &none, (uint32_t)result);
    accl_wake_all(comm);
}

ncclResult_t accl_comm_fail(ncclComm_t comm, bool spread, ncclResult_t result, const char *format, ...)
{
    char text[sizeof comm->error_text];
    va_list list;
    va_start(list, format);
    int at = comm->name[0] ? snprintf(text, sizeof text, "[%s] ", comm->name) : 0;
    vsnprintf(text + at, sizeof text - (size_t)at, format, list);
    va_end(list);
    pthread_mutex_lock(&comm->lock);
    int none = ncclSuccess;
    if (atomic_load(&comm->error) == ncclSuccess) snprintf(comm->error_text, sizeof comm->error_text, "%s", text);
    atomic_compare_exchange_strong(&comm->error, &none, (int)result);
    pthread_mutex_unlock(&comm->lock);
    last_set(text);
    if (spread) spread_error(comm, result);
    return result;
}

ncclResult_t accl_comm_check(ncclComm_t comm, const char *function)
{
    if (!comm) return accl_fail(ncclInvalidArgument, "%s: the communicator is NULL", function);
    if (comm->mark != ACCL_COMM_MARK) return accl_fail(ncclInvalidArgument, "%s: %p is no communicator of this library, or was destroyed", function, (void *)comm);
    return ncclSuccess;
}

/* --- contradictions between ranks --- */

typedef struct {
    uint64_t sequence, count;
    uint32_t collective, dtype, op;
    int32_t root;
} record_copy;

static record_copy record_read(const accl_record *r)
{
    record_copy c = {.sequence = atomic_load(&r->sequence)};
    c.count = atomic_load(&r->count);
    c.collective = atomic_load(&r->collective);
    c.dtype = atomic_load(&r->dtype);
    c.op = atomic_load(&r->op);
    c.root = atomic_load(&r->root);
    return c;
}

static bool records_agree(const record_copy *a, const record_copy *b)
{
    return a->count == b->count && a->collective == b->collective && a->dtype == b->dtype && a->op == b->op && a->root == b->root;
}

int32_t accl_task_contradiction(const accl_task *task)
{
    const ncclComm_t comm = task->comm;
    if (accl_kinds[task->call.kind].is_message) return -1;
    record_copy mine = record_read(&comm->mine->record);
    for (uint32_t i = 0; i < comm->ranks; i++) {
        record_copy other = record_read(&comm->peers[i].lines->record);
        if (i != comm->rank && mine.sequence == task->number && other.sequence == task->number && !records_agree(&mine, &other)) return (int32_t)i;
    }
    return -1;
}

static void record_describe(lj_text *out, uint32_t rank, const record_copy *r)
{
    static const char *const ops[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
    const char *kind = r->collective < ACCL_KIND_COUNT ? accl_kinds[r->collective].name : "?";
    const char *type = r->dtype < LJ_DTYPE_COUNT ? lj_dtype_name((lj_dtype)r->dtype) : "?";
    lj_text_add(out, "; rank %u: %s %s x %llu", rank, kind, type, (unsigned long long)r->count);
    if (r->collective < ACCL_KIND_COUNT && accl_kinds[r->collective].reduces) lj_text_add(out, " %s", r->op < sizeof ops / sizeof *ops ? ops[r->op] : "?");
    if (r->collective < ACCL_KIND_COUNT && accl_kinds[r->collective].has_root) lj_text_add(out, " root %d", r->root);
    lj_text_add(out, ", sequence number %llu", (unsigned long long)r->sequence);
}

/* All ranks are listed while there is room; ranks that agree with the first are not repeated in a long list. */
ncclResult_t accl_task_contradicted(accl_task *task)
{
    ncclComm_t comm = task->comm;
    lj_text text;
    lj_text_init(&text);
    for (uint32_t i = 0; i < comm->ranks && text.length < 500; i++) {
        record_copy r = record_read(&comm->peers[i].lines->record), mine = record_read(&comm->mine->record);
        if (i == comm->rank || comm->ranks <= 8 || !records_agree(&r, &mine)) record_describe(&text, i, &r);
    }
    ncclResult_t result = accl_comm_fail(comm, true, ncclInvalidArgument, "ranks disagree about collective number %llu%s", (unsigned long long)task->number, text.data ? text.data : "");
    lj_text_release(&text);
    accl_task_fail(task, result);
    return result;
}
