/* Public functions that make, derive and end communicators. */
#include "accl/api.h"
#include "accl/debug.h"
#include "accl/group.h"
#include "accl/vendor.h"
#include "accl/wait.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* --- settings of one communicator --- */

typedef struct {
    size_t offset;
    const char *name;
    int low, high;
} int_field;

static ncclResult_t config_ranges(const ncclConfig_t *config, const char *function)
{
    static const int_field fields[] = {
        {offsetof(ncclConfig_t, blocking), "blocking", 0, 1},           {offsetof(ncclConfig_t, cgaClusterSize), "cgaClusterSize", 0, 8},
        {offsetof(ncclConfig_t, minCTAs), "minCTAs", 1, 64},            {offsetof(ncclConfig_t, maxCTAs), "maxCTAs", 1, 64},
        {offsetof(ncclConfig_t, splitShare), "splitShare", 0, 1},       {offsetof(ncclConfig_t, trafficClass), "trafficClass", 0, INT_MAX},
        {offsetof(ncclConfig_t, collnetEnable), "collnetEnable", 0, 1}, {offsetof(ncclConfig_t, CTAPolicy), "CTAPolicy", 0, 1},
        {offsetof(ncclConfig_t, shrinkShare), "shrinkShare", 0, 1},     {offsetof(ncclConfig_t, nvlsCTAs), "nvlsCTAs", 1, 64},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        int value;
        memcpy(&value, (const char *)config + fields[i].offset, sizeof value);
        if (value != NCCL_CONFIG_UNDEF_INT && (value < fields[i].low || value > fields[i].high))
            return accl_fail(ncclInvalidArgument, "%s: config.%s is %d; allowed: %d to %d", function, fields[i].name, value, fields[i].low, fields[i].high);
    }
    if (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT && config->minCTAs > config->maxCTAs)
        return accl_fail(ncclInvalidArgument, "%s: config.minCTAs %d is more than maxCTAs %d", function, config->minCTAs, config->maxCTAs);
    return ncclSuccess;
}

/* Takes what a caller's struct of any version holds; what it does not hold keeps the default. */
static ncclResult_t config_read(const ncclConfig_t *given, const char *function, accl_comm_plan *plan)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (given) {
        if (given->magic != 0xcafebeef || given->size < offsetof(ncclConfig_t, cgaClusterSize))
            return accl_fail(ncclInvalidArgument, "%s: config does not start from NCCL_CONFIG_INITIALIZER", function);
        memcpy(&config, given, given->size < sizeof config ? given->size : sizeof config);
        ncclResult_t result = config_ranges(&config, function);
        if (result != ncclSuccess) return result;
    }
    if (config.blocking != NCCL_CONFIG_UNDEF_INT) plan->blocking = config.blocking;
    if (config.commName) snprintf(plan->name, sizeof plan->name, "%s", config.commName);
    return ncclSuccess;
}

/* --- ids and first communicators --- */

static ncclResult_t engine_pick(const char *function, bool *vendor)
{
    accl_debug_begin();
    lj_status status = accl_vendor_load(vendor);
    return status == LJ_OK ? ncclSuccess : accl_fail_status(status, function);
}

ACCL_API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId))
{
    _Static_assert(sizeof(accl_boot_id) <= NCCL_UNIQUE_ID_BYTES, "the id's bytes are NCCL's");
    accl_boot_id id;
    bool vendor;
    if (!uniqueId) return accl_fail(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
    ncclResult_t result = engine_pick("ncclGetUniqueId", &vendor);
    if (result != ncclSuccess) return result;
    if (vendor) return accl_vendor_unique_id(uniqueId);
    lj_status status = accl_boot_id_create(&id);
    if (status != LJ_OK) return accl_fail_status(status, "ncclGetUniqueId");
    memset(uniqueId, 0, sizeof *uniqueId);
    memcpy(uniqueId, &id, sizeof id);
    return ncclSuccess;
}

typedef struct {
    ncclComm_t comm, *out;
    accl_boot_id id;
} connect_job;

static void *connect_thread(void *argument)
{
    connect_job *job = argument;
    accl_comm_connect(job->comm, &job->id);
    free(job);
    return NULL;
}

static ncclResult_t connect_run(void *argument)
{
    connect_job *job = argument;
    ncclComm_t comm = job->comm;
    if (!comm->blocking) {
        ncclResult_t result = accl_comm_background(comm, connect_thread, job);
        if (result != ncclInProgress) free(job);
        return result;
    }
    ncclResult_t result = accl_comm_connect(comm, &job->id);
    if (result != ncclSuccess) {
        *job->out = NULL;
        accl_comm_free(comm, 2);
    }
    free(job);
    return result;
}

static int default_device(int rank)
{
    const char *local = getenv("LOCAL_RANK");
    return local && *local ? atoi(local) : rank;
}

static ncclResult_t host_init(ncclComm_t *out, int nranks, const ncclUniqueId *id, int rank, int device, const ncclConfig_t *config, const char *function)
{
    accl_comm_plan plan = {.ranks = (uint32_t)nranks, .rank = rank, .device = device, .blocking = true};
    ncclResult_t result = config_read(config, function, &plan);
    if (result != ncclSuccess) return accl_group_spoil(result);
    connect_job *job = malloc(sizeof *job);
    if (!job) return accl_group_spoil(accl_fail(ncclSystemError, "%s: out of memory", function));
    memcpy(&job->id, id, sizeof job->id);
    result = accl_comm_new(&plan, &job->comm);
    if (result != ncclSuccess) {
        free(job);
        return accl_group_spoil(result);
    }
    job->out = out;
    *out = job->comm;
    return accl_issue_job(connect_run, job);
}

static ncclResult_t init_check(ncclComm_t *out, int nranks, int rank, const char *function, bool *vendor)
{
    if (!out) return accl_fail(ncclInvalidArgument, "%s: comm is NULL", function);
    if (nranks < 1 || nranks > ACCL_MAX_RANKS) return accl_fail(ncclInvalidArgument, "%s: %d ranks; allowed: 1 to %d", function, nranks, ACCL_MAX_RANKS);
    if (rank < 0 || rank >= nranks) return accl_fail(ncclInvalidArgument, "%s: rank %d of %d; allowed: 0 to %d", function, rank, nranks, nranks - 1);
    return engine_pick(function, vendor);
}

static ncclResult_t init_rank(ncclComm_t *out, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config, const char *function)
{
    bool vendor;
    ncclResult_t result = init_check(out, nranks, rank, function, &vendor);
    if (result != ncclSuccess) return accl_group_spoil(result);
    if (vendor) return accl_vendor_init(nranks, id, rank, config, out);
    return host_init(out, nranks, &id, rank, default_device(rank), config, function);
}

ACCL_API(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
{
    return init_rank(comm, nranks, commId, rank, NULL, "ncclCommInitRank");
}

ACCL_API(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config))
{
    return init_rank(comm, nranks, commId, rank, config, "ncclCommInitRankConfig");
}

ACCL_API(ncclResult_t, ncclCommInitRankScalable, (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config))
{
    bool vendor;
    ncclResult_t result = init_check(newcomm, nranks, myrank, "ncclCommInitRankScalable", &vendor);
    if (result == ncclSuccess && (nId < 1 || nId > nranks || !commIds))
        result = accl_fail(ncclInvalidArgument, "ncclCommInitRankScalable: %d ids; allowed: 1 to %d", nId, nranks);
    if (result != ncclSuccess) return accl_group_spoil(result);
    if (vendor) return accl_vendor_init_scalable(newcomm, nranks, myrank, nId, commIds, config);
    for (int i = 1; i < nId; i++) {
        accl_boot_id id;
        memcpy(&id, &commIds[i], sizeof id);
        accl_boot_id_cancel(&id); /* one rendezvous is enough for a host; the others must not stay open */
    }
    return host_init(newcomm, nranks, &commIds[0], myrank, default_device(myrank), config, "ncclCommInitRankScalable");
}

ACCL_API(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int *devlist))
{
    bool vendor;
    ncclUniqueId id;
    ncclResult_t result = init_check(comm, ndev, 0, "ncclCommInitAll", &vendor);
    if (result != ncclSuccess) return result;
    for (int i = 0; devlist && i < ndev; i++)
        if (devlist[i] < 0) return accl_fail(ncclInvalidArgument, "ncclCommInitAll: device %d at place %d", devlist[i], i);
    if (vendor) return accl_vendor_init_all(comm, ndev, devlist);
    result = pncclGetUniqueId(&id);
    if (result != ncclSuccess) return result;
    accl_group_start();
    for (int i = 0; i < ndev; i++) host_init(&comm[i], ndev, &id, i, devlist ? devlist[i] : i, NULL, "ncclCommInitAll");
    return accl_group_end();
}

/* --- communicators from communicators --- */

typedef struct {
    ncclComm_t parent, comm, *out; /* comm: NULL for a rank of no color */
    int color, key;
    bool shrink;
    uint32_t *members, count; /* shrink: who stays */
} derive_job;

typedef struct {
    int color, key;
} split_words;

static void derive_free(derive_job *job)
{
    free(job->members);
    free(job);
}

/* Members of this rank's color, ordered by key and then by rank. */
static void members_sort(derive_job *job, const split_words *words)
{
    for (uint32_t i = 0; i < job->parent->ranks; i++) {
        if (words[i].color != job->color) continue;
        uint32_t at = job->count++;
        for (; at > 0 && words[job->members[at - 1]].key > words[i].key; at--) job->members[at] = job->members[at - 1];
        job->members[at] = i;
    }
}

static ncclResult_t colors_exchange(derive_job *job, const atomic_int *stop)
{
    ncclComm_t parent = job->parent;
    uint32_t *everybody = malloc(parent->ranks * sizeof *everybody);
    split_words mine = {job->color, job->key}, *words = malloc(parent->ranks * sizeof *words);
    ncclResult_t result = everybody && words ? ncclSuccess : accl_fail(ncclSystemError, "ncclCommSplit: out of memory (%u ranks)", parent->ranks);
    for (uint32_t i = 0; i < parent->ranks && result == ncclSuccess; i++) everybody[i] = i;
    if (result == ncclSuccess) result = accl_box_exchange(parent, everybody, parent->ranks, &mine, sizeof mine, words, stop);
    if (result == ncclSuccess && job->comm) members_sort(job, words);
    free(everybody);
    free(words);
    return result;
}

/* The first member makes an id, all members learn it and join. */
static ncclResult_t members_join(derive_job *job, const atomic_int *stop)
{
    ncclComm_t parent = job->parent, comm = job->comm;
    accl_boot_id mine = {0}, *all = malloc(job->count * sizeof *all);
    bool first = job->members[0] == parent->rank;
    lj_status status = first ? accl_boot_id_create(&mine) : LJ_OK;
    ncclResult_t result = !all ? accl_fail(ncclSystemError, "split: out of memory (%u ranks)", job->count) : status == LJ_OK ? ncclSuccess : accl_fail_status(status, "split");
    ncclResult_t told = all ? accl_box_exchange(parent, job->members, job->count, &mine, sizeof mine, all, stop) : result;
    if (result == ncclSuccess) result = told;
    if (result == ncclSuccess && all[0].mark != ACCL_BOOT_MARK) result = accl_fail(ncclRemoteError, "split: rank %u could not start the new communicator's rendezvous", job->members[0]);
    comm->ranks = job->count;
    for (uint32_t i = 0; i < job->count; i++)
        if (job->members[i] == parent->rank) comm->rank = i;
    if (result == ncclSuccess) result = accl_comm_connect(comm, &all[0]);
    else if (first && status == LJ_OK) accl_boot_id_cancel(&mine);
    free(all);
    return result;
}

static ncclResult_t derive_run(derive_job *job)
{
    const atomic_int *stop = job->comm ? &job->comm->abort : &job->parent->abort;
    ncclResult_t result = job->shrink ? ncclSuccess : colors_exchange(job, stop);
    if (!job->comm) job->parent->box_number++; /* ranks with a color use one more round */
    else if (result == ncclSuccess) result = members_join(job, stop);
    if (job->comm && result != ncclSuccess) {
        accl_comm_fail(job->comm, false, result, "%s", accl_last_text());
        atomic_store(&job->comm->state, result);
    }
    return result;
}

static void *derive_thread(void *argument)
{
    derive_job *job = argument;
    derive_run(job);
    derive_free(job);
    return NULL;
}

static ncclResult_t derive_start(void *argument)
{
    derive_job *job = argument;
    ncclComm_t comm = job->comm;
    if (comm && !comm->blocking) {
        ncclResult_t result = accl_comm_background(comm, derive_thread, job);
        if (result != ncclInProgress) derive_free(job);
        return result;
    }
    ncclResult_t result = derive_run(job);
    if (comm && result != ncclSuccess) {
        *job->out = NULL;
        accl_comm_free(comm, 2);
    }
    derive_free(job);
    return result;
}

static ncclResult_t derive_issue(ncclComm_t parent, ncclComm_t *out, const ncclConfig_t *config, const char *function, const derive_job *what, bool wants_comm)
{
    accl_comm_plan plan = {.ranks = 1, .device = parent->device, .blocking = parent->blocking};
    ncclResult_t result = config_read(config, function, &plan);
    if (result != ncclSuccess) return accl_group_spoil(result);
    derive_job *job = malloc(sizeof *job);
    if (job) *job = *what;
    if (job && !job->members) job->members = malloc(parent->ranks * sizeof *job->members);
    if (!job || !job->members) {
        free(job);
        return accl_group_spoil(accl_fail(ncclSystemError, "%s: out of memory (%u ranks)", function, parent->ranks));
    }
    job->parent = parent;
    job->out = out;
    *out = NULL;
    if (wants_comm) result = accl_comm_new(&plan, &job->comm);
    if (result != ncclSuccess) {
        derive_free(job);
        return accl_group_spoil(result);
    }
    *out = job->comm;
    return accl_issue_job(derive_start, job);
}

static ncclResult_t parent_check(ncclComm_t comm, ncclComm_t *newcomm, const char *function)
{
    ncclResult_t result = accl_comm_check(comm, function);
    if (result != ncclSuccess || comm->vendor) return result;
    if (!newcomm) return accl_fail(ncclInvalidArgument, "%s: newcomm is NULL", function);
    if (atomic_load(&comm->state) == ncclInProgress) return accl_fail(ncclInvalidUsage, "%s: the communicator's set-up is not finished", function);
    if (comm->finalized) return accl_fail(ncclInvalidUsage, "%s: the communicator was finalized", function);
    return ncclSuccess;
}

ACCL_API(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))
{
    ncclResult_t result = parent_check(comm, newcomm, "ncclCommSplit");
    if (result != ncclSuccess) return accl_group_spoil(result);
    if (comm->vendor) return accl_vendor_split(comm->vendor, color, key, config, newcomm);
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return accl_group_spoil(accl_fail(ncclInvalidArgument, "ncclCommSplit: color %d; allowed: 0 and above, or NCCL_SPLIT_NOCOLOR", color));
    if (atomic_load(&comm->error)) return accl_group_spoil(accl_fail(ncclInvalidUsage, "ncclCommSplit: the communicator has failed before: %s; ncclCommShrink works on it", comm->error_text));
    return derive_issue(comm, newcomm, config, "ncclCommSplit", &(derive_job){.color = color, .key = key}, color != NCCL_SPLIT_NOCOLOR);
}

/* Ends what runs here on the parent, so that a shrink can go on after a failure. */
static void parent_stop(ncclComm_t comm)
{
    atomic_store(&comm->abort, 1);
    atomic_fetch_add(&comm->mine->doorbell, 1);
    accl_futex_wake(&comm->mine->doorbell);
    accl_comm_drain(comm);
    accl_comm_fail(comm, false, ncclInvalidUsage, "ncclCommShrink with NCCL_SHRINK_ABORT ended this communicator");
}

ACCL_API(ncclResult_t, ncclCommShrink, (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags))
{
    ncclResult_t result = parent_check(comm, newcomm, "ncclCommShrink");
    if (result != ncclSuccess) return accl_group_spoil(result);
    if (comm->vendor) return accl_vendor_shrink(comm->vendor, excludeRanksList, excludeRanksCount, config, shrinkFlags, newcomm);
    if (shrinkFlags & ~NCCL_SHRINK_ABORT) return accl_group_spoil(accl_fail(ncclInvalidArgument, "ncclCommShrink: flags 0x%x; known: NCCL_SHRINK_ABORT", (unsigned)shrinkFlags));
    if (excludeRanksCount < 0 || (uint32_t)excludeRanksCount >= comm->ranks || (excludeRanksCount && !excludeRanksList))
        return accl_group_spoil(accl_fail(ncclInvalidArgument, "ncclCommShrink: %d ranks to leave out of %u", excludeRanksCount, comm->ranks));
    derive_job job = {.shrink = true, .members = malloc(comm->ranks * sizeof *job.members)};
    if (!job.members) return accl_group_spoil(accl_fail(ncclSystemError, "ncclCommShrink: out of memory (%u ranks)", comm->ranks));
    for (uint32_t i = 0; i < comm->ranks; i++) {
        bool out = false;
        for (int e = 0; e < excludeRanksCount; e++) out |= excludeRanksList[e] == (int)i;
        if (!out) job.members[job.count++] = i;
        else if (i == comm->rank) result = accl_fail(ncclInvalidArgument, "ncclCommShrink: rank %u leaves itself out; only the ranks that stay call it", i);
    }
    for (int e = 0; e < excludeRanksCount; e++)
        if (excludeRanksList[e] < 0 || (uint32_t)excludeRanksList[e] >= comm->ranks) result = accl_fail(ncclInvalidArgument, "ncclCommShrink: rank %d does not exist; the communicator has %u", excludeRanksList[e], comm->ranks);
    if (result != ncclSuccess) {
        free(job.members);
        return accl_group_spoil(result);
    }
    if (shrinkFlags & NCCL_SHRINK_ABORT) parent_stop(comm);
    return derive_issue(comm, newcomm, config, "ncclCommShrink", &job, true);
}

/* --- the end --- */

ACCL_API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))
{
    ncclResult_t result = accl_comm_check(comm, "ncclCommFinalize");
    if (result != ncclSuccess) return result;
    if (comm->vendor) return accl_vendor_finalize(comm->vendor);
    if (accl_in_group()) return accl_group_spoil(accl_fail(ncclInvalidUsage, "ncclCommFinalize inside a group"));
    if (atomic_load(&comm->state) == ncclInProgress) return accl_fail(ncclInvalidUsage, "ncclCommFinalize: the communicator's set-up is not finished");
    if (comm->finalized) return accl_fail(ncclInvalidUsage, "ncclCommFinalize was called before");
    comm->finalized = true;
    if (!comm->blocking) return atomic_load(&comm->pending) ? ncclInProgress : ncclSuccess; /* GetAsyncError tells the rest */
    accl_comm_drain(comm);
    int error = atomic_load(&comm->error);
    return error ? accl_fail((ncclResult_t)error, "ncclCommFinalize: the communicator has failed before: %s", comm->error_text) : ncclSuccess;
}

static ncclResult_t vendor_end(ncclComm_t comm, bool abort_it)
{
    ncclResult_t result = accl_vendor_destroy(comm->vendor, abort_it);
    comm->vendor = NULL;
    accl_comm_free(comm, 1);
    return result;
}

ACCL_API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))
{
    if (!comm) return ncclSuccess;
    ncclResult_t result = accl_comm_check(comm, "ncclCommDestroy");
    if (result != ncclSuccess) return result;
    if (comm->vendor) return vendor_end(comm, false);
    if (comm->setup_started) {
        pthread_join(comm->setup_thread, NULL);
        comm->setup_started = false;
    }
    accl_comm_drain(comm);
    accl_comm_free(comm, atomic_load(&comm->error) ? 2 : 1);
    return ncclSuccess;
}

ACCL_API(ncclResult_t, ncclCommAbort, (ncclComm_t comm))
{
    if (!comm) return ncclSuccess;
    ncclResult_t result = accl_comm_check(comm, "ncclCommAbort");
    if (result != ncclSuccess) return result;
    if (comm->vendor) return vendor_end(comm, true);
    atomic_store(&comm->abort, 1);
    if (comm->setup_started) {
        pthread_join(comm->setup_thread, NULL); /* it looks at the flag often */
        comm->setup_started = false;
    }
    double begun = lj_now_s();
    while (atomic_load(&comm->pending) && lj_now_s() - begun < 5) {
        if (comm->mine) {
            atomic_fetch_add(&comm->mine->doorbell, 1);
            accl_futex_wake(&comm->mine->doorbell);
        }
        lj_sleep_s(0.0002);
    }
    if (atomic_load(&comm->pending)) {
        /* queued behind something of the caller's own that does not end: it will see the flag when it comes to run, so its memory must stay */
        if (comm->mine) atomic_store(&comm->mine->gone, 2);
        lj_log(LJ_LOG_WARN, "accl: ncclCommAbort: %d operations are still queued on a stream that does not move; the communicator's memory is kept", atomic_load(&comm->pending));
        return ncclSuccess;
    }
    accl_comm_free(comm, 2);
    return ncclSuccess;
}
