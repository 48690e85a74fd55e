#define _GNU_SOURCE
#include "accl/vendor.h"

#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The vendor's functions, in one list: result type, name without prefix, parameters. */
#define VENDOR_FUNCTIONS(F)                                                                                                      \
    F(ncclResult_t, GetUniqueId, (ncclUniqueId *))                                                                               \
    F(ncclResult_t, CommInitRank, (ncclComm_t *, int, ncclUniqueId, int))                                                        \
    F(ncclResult_t, CommInitRankConfig, (ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *))                                  \
    F(ncclResult_t, CommInitRankScalable, (ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *))                         \
    F(ncclResult_t, CommInitAll, (ncclComm_t *, int, const int *))                                                               \
    F(ncclResult_t, CommFinalize, (ncclComm_t))                                                                                  \
    F(ncclResult_t, CommDestroy, (ncclComm_t))                                                                                   \
    F(ncclResult_t, CommAbort, (ncclComm_t))                                                                                     \
    F(ncclResult_t, CommSplit, (ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *))                                             \
    F(ncclResult_t, CommShrink, (ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int))                                     \
    F(ncclResult_t, CommGetAsyncError, (ncclComm_t, ncclResult_t *))                                                             \
    F(const char *, GetLastError, (ncclComm_t))                                                                                  \
    F(ncclResult_t, CommCount, (ncclComm_t, int *))                                                                              \
    F(ncclResult_t, CommCuDevice, (ncclComm_t, int *))                                                                           \
    F(ncclResult_t, CommUserRank, (ncclComm_t, int *))                                                                           \
    F(ncclResult_t, CommRegister, (ncclComm_t, void *, size_t, void **))                                                         \
    F(ncclResult_t, CommDeregister, (ncclComm_t, void *))                                                                        \
    F(ncclResult_t, CommWindowRegister, (ncclComm_t, void *, size_t, ncclWindow_t *, int))                                       \
    F(ncclResult_t, CommWindowDeregister, (ncclComm_t, ncclWindow_t))                                                            \
    F(ncclResult_t, MemAlloc, (void **, size_t))                                                                                 \
    F(ncclResult_t, MemFree, (void *))                                                                                           \
    F(ncclResult_t, RedOpCreatePreMulSum, (ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t))            \
    F(ncclResult_t, RedOpDestroy, (ncclRedOp_t, ncclComm_t))                                                                     \
    F(ncclResult_t, Reduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t))          \
    F(ncclResult_t, Broadcast, (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                    \
    F(ncclResult_t, AllReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))            \
    F(ncclResult_t, ReduceScatter, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))        \
    F(ncclResult_t, AllGather, (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))                         \
    F(ncclResult_t, Send, (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                                 \
    F(ncclResult_t, Recv, (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                                       \
    F(ncclResult_t, GroupStart, (void))                                                                                          \
    F(ncclResult_t, GroupEnd, (void))                                                                                            \
    F(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t *))

typedef struct {
#define MEMBER(result, name, parameters) result(*name) parameters;
    VENDOR_FUNCTIONS(MEMBER)
#undef MEMBER
} vendor_table;

static const struct {
    const char *name;
    size_t offset;
} members[] = {
#define ROW(result, name, parameters) {#name, offsetof(vendor_table, name)},
    VENDOR_FUNCTIONS(ROW)
#undef ROW
};

/* Who makes such libraries: how their symbols begin, where they are installed, and the device file that says there is hardware for it. */
static const struct {
    const char *prefix, *device;
    const char *paths[4];
} vendors[] = {
    {"nccl", "/dev/nvidiactl", {"/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "/usr/lib64/libnccl.so.2", NULL}},
    {"nccl", "/dev/kfd", {"/opt/rocm/lib/librccl.so.1", "/opt/rocm/lib/librccl.so", NULL}},
    {"pccl", "/dev/alixpu", {"/usr/local/PPU_SDK/lib/libpccl.so", "/usr/lib/x86_64-linux-gnu/libpccl.so", NULL}},
};
enum { VENDORS = sizeof vendors / sizeof *vendors };

struct accl_vendor_comm {
    ncclComm_t comm;
};

static struct {
    pthread_mutex_t lock;
    void *library;
    char path[512];
    vendor_table table;
} vendor = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- finding it --- */

static bool is_ourselves(const char *path)
{
    Dl_info info;
    struct stat ours, theirs;
    if (!dladdr((void *)(uintptr_t)&accl_vendor_load, &info) || !info.dli_fname) return false;
    return stat(info.dli_fname, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

static int open_mode(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return RTLD_NOW | RTLD_LOCAL; /* the sanitizer's runtime refuses deep binding */
#else
    return RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
}

static lj_status library_open(const char *path, const char *prefix)
{
    if (path[0] != '/') return lj_fail(LJ_ERR_INVALID, "vendor library '%s': an absolute path is needed", path);
    if (is_ourselves(path)) return lj_fail(LJ_ERR_INVALID, "vendor library %s is this library: set ACCL_VENDOR_LIBRARY to the vendor's own", path);
    void *library = dlopen(path, open_mode());
    if (!library) return lj_fail(LJ_ERR_NOT_FOUND, "vendor library: %s", dlerror());
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, members[i].name);
        void *address = dlsym(library, name);
        memcpy((char *)&vendor.table + members[i].offset, &address, sizeof address);
    }
    if (!vendor.table.GetUniqueId || !vendor.table.CommInitRank || !vendor.table.AllReduce || !vendor.table.CommDestroy) {
        dlclose(library);
        memset(&vendor.table, 0, sizeof vendor.table);
        return lj_fail(LJ_ERR_NOT_FOUND, "vendor library %s has no %sGetUniqueId, %sCommInitRank, %sAllReduce or %sCommDestroy", path, prefix, prefix, prefix, prefix);
    }
    vendor.library = library;
    snprintf(vendor.path, sizeof vendor.path, "%s", path);
    lj_log(LJ_LOG_DEBUG, "accl: vendor engine %s", path);
    return LJ_OK;
}

/* The vendor of the machine's device, and the first of its paths that exists. */
static const char *installed(size_t *which, bool need_device)
{
    for (size_t v = 0; v < VENDORS; v++) {
        if (need_device && access(vendors[v].device, F_OK) != 0) continue;
        for (const char *const *path = vendors[v].paths; *path; path++)
            if (access(*path, R_OK) == 0 && !is_ourselves(*path)) return *which = v, *path;
    }
    return NULL;
}

static lj_status prefix_read(const char **prefix)
{
    const char *named = getenv("ACCL_VENDOR_PREFIX");
    *prefix = "nccl";
    if (!named || !*named) return LJ_OK;
    for (size_t v = 0; v < VENDORS; v++)
        if (strcmp(named, vendors[v].prefix) == 0) return *prefix = vendors[v].prefix, LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "ACCL_VENDOR_PREFIX=%s: expected nccl or pccl", named);
}

static lj_status load_locked(bool must, bool *use)
{
    const char *path = getenv("ACCL_VENDOR_LIBRARY"), *prefix;
    size_t which = 0;
    *use = vendor.library != NULL;
    if (*use) return LJ_OK;
    LJ_TRY(prefix_read(&prefix));
    if (!path || !*path) {
        path = installed(&which, !must);
        if (path) prefix = vendors[which].prefix;
    }
    if (!path && must) return lj_fail(LJ_ERR_NOT_FOUND, "ACCL_ENGINE=vendor: no vendor library at the usual places; set ACCL_VENDOR_LIBRARY to its absolute path");
    if (!path) return LJ_OK;
    LJ_TRY(library_open(path, prefix));
    *use = true;
    return LJ_OK;
}

lj_status accl_vendor_load(bool *use)
{
    const char *engine = getenv("ACCL_ENGINE");
    *use = false;
    if (!engine || !*engine) engine = "auto";
    if (strcmp(engine, "host") == 0) return LJ_OK;
    if (strcmp(engine, "auto") != 0 && strcmp(engine, "vendor") != 0) return lj_fail(LJ_ERR_INVALID, "ACCL_ENGINE=%s: expected auto, host or vendor", engine);
    pthread_mutex_lock(&vendor.lock);
    lj_status status = load_locked(strcmp(engine, "vendor") == 0, use);
    pthread_mutex_unlock(&vendor.lock);
    return status;
}

bool accl_vendor_loaded(void)
{
    return __atomic_load_n(&vendor.library, __ATOMIC_ACQUIRE) != NULL;
}

const char *accl_vendor_path(void)
{
    return vendor.path;
}

/* --- calling it --- */

static ncclResult_t lacks(const char *name)
{
    return accl_fail(ncclInvalidUsage, "the vendor library %s has no %s: it is of an older version", vendor.path, name);
}

/* Calls a function that an older library may lack. */
#define CALL(name, ...) (vendor.table.name ? vendor.table.name(__VA_ARGS__) : lacks(#name))

/* A communicator of ours round one of the vendor's. */
static ncclResult_t wrap(ncclComm_t theirs, ncclResult_t result, ncclComm_t *out)
{
    accl_comm_plan plan = {.ranks = 1, .blocking = true};
    accl_vendor_comm *inner;
    ncclComm_t comm = NULL;
    if (result != ncclSuccess && result != ncclInProgress) return result;
    if (!theirs) return *out = NULL, result;
    ncclResult_t made = accl_comm_new(&plan, &comm);
    if (made != ncclSuccess) return made;
    inner = malloc(sizeof *inner);
    if (!inner) {
        accl_comm_free(comm, 1);
        return accl_fail(ncclSystemError, "vendor communicator: out of memory");
    }
    inner->comm = theirs;
    comm->vendor = inner;
    atomic_store(&comm->state, ncclSuccess);
    *out = comm;
    return result;
}

ncclResult_t accl_vendor_unique_id(ncclUniqueId *id)
{
    return vendor.table.GetUniqueId(id);
}

/* Inside a vendor's group the vendor writes its handle into the place it was given; ours must exist until then, so it is wrapped before. */
static ncclResult_t init_into(ncclComm_t *out, ncclResult_t (*init)(ncclComm_t *, void *), void *argument)
{
    ncclComm_t placeholder = (ncclComm_t)(uintptr_t)1, comm = NULL;
    ncclResult_t result = wrap(placeholder, ncclSuccess, &comm);
    if (result != ncclSuccess) return result;
    comm->vendor->comm = NULL;
    result = init(&comm->vendor->comm, argument);
    if (result != ncclSuccess && result != ncclInProgress) {
        free(comm->vendor);
        comm->vendor = NULL;
        accl_comm_free(comm, 1);
        return result;
    }
    *out = comm;
    return result;
}

typedef struct {
    int nranks, rank, ids;
    ncclUniqueId *id;
    ncclConfig_t *config;
} init_arguments;

static ncclResult_t init_rank(ncclComm_t *out, void *argument)
{
    init_arguments *a = argument;
    if (!a->config) return vendor.table.CommInitRank(out, a->nranks, *a->id, a->rank);
    return CALL(CommInitRankConfig, out, a->nranks, *a->id, a->rank, a->config);
}

static ncclResult_t init_scalable(ncclComm_t *out, void *argument)
{
    init_arguments *a = argument;
    return CALL(CommInitRankScalable, out, a->nranks, a->rank, a->ids, a->id, a->config);
}

ncclResult_t accl_vendor_init(int nranks, ncclUniqueId id, int rank, ncclConfig_t *config, ncclComm_t *out)
{
    return init_into(out, init_rank, &(init_arguments){nranks, rank, 1, &id, config});
}

ncclResult_t accl_vendor_init_scalable(ncclComm_t *out, int nranks, int rank, int ids, ncclUniqueId *id, ncclConfig_t *config)
{
    return init_into(out, init_scalable, &(init_arguments){nranks, rank, ids, id, config});
}

ncclResult_t accl_vendor_init_all(ncclComm_t *comms, int count, const int *devices)
{
    ncclComm_t *theirs = calloc((size_t)count, sizeof *theirs);
    if (!theirs) return accl_fail(ncclSystemError, "ncclCommInitAll: out of memory (%d communicators)", count);
    ncclResult_t result = CALL(CommInitAll, theirs, count, devices);
    for (int i = 0; i < count && result == ncclSuccess; i++) result = wrap(theirs[i], ncclSuccess, &comms[i]);
    free(theirs);
    return result;
}

ncclResult_t accl_vendor_collective(accl_vendor_comm *comm, const accl_call *call, const ncclRedOp_t *op, cudaStream_t stream)
{
    const vendor_table *v = &vendor.table;
    ncclDataType_t type = (ncclDataType_t)call->arith.type;
    ncclRedOp_t how = op ? *op : ncclSum;
    ncclComm_t c = comm->comm;
    switch (call->kind) {
    case ACCL_ALL_REDUCE: return v->AllReduce(call->send, call->recv, call->count, type, how, c, stream);
    case ACCL_ALL_GATHER: return CALL(AllGather, call->send, call->recv, call->count, type, c, stream);
    case ACCL_REDUCE_SCATTER: return CALL(ReduceScatter, call->send, call->recv, call->count, type, how, c, stream);
    case ACCL_BROADCAST: return CALL(Broadcast, call->send, call->recv, call->count, type, call->root, c, stream);
    case ACCL_REDUCE: return CALL(Reduce, call->send, call->recv, call->count, type, how, call->root, c, stream);
    case ACCL_SEND: return CALL(Send, call->send, call->count, type, call->root, c, stream);
    default: return CALL(Recv, call->recv, call->count, type, call->root, c, stream);
    }
}

ncclResult_t accl_vendor_op_create(accl_vendor_comm *comm, ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence)
{
    return CALL(RedOpCreatePreMulSum, op, scalar, type, residence, comm->comm);
}
ncclResult_t accl_vendor_op_destroy(accl_vendor_comm *comm, ncclRedOp_t op)
{
    return CALL(RedOpDestroy, op, comm->comm);
}
ncclResult_t accl_vendor_finalize(accl_vendor_comm *comm)
{
    return CALL(CommFinalize, comm->comm);
}

ncclResult_t accl_vendor_destroy(accl_vendor_comm *comm, bool abort_it)
{
    ncclResult_t result = !comm->comm ? ncclSuccess : abort_it && vendor.table.CommAbort ? vendor.table.CommAbort(comm->comm) : vendor.table.CommDestroy(comm->comm);
    free(comm);
    return result;
}

ncclResult_t accl_vendor_split(accl_vendor_comm *comm, int color, int key, ncclConfig_t *config, ncclComm_t *out)
{
    ncclComm_t theirs = NULL;
    ncclResult_t result = CALL(CommSplit, comm->comm, color, key, &theirs, config);
    return wrap(theirs, result, out);
}

ncclResult_t accl_vendor_shrink(accl_vendor_comm *comm, int *exclude, int count, ncclConfig_t *config, int flags, ncclComm_t *out)
{
    ncclComm_t theirs = NULL;
    ncclResult_t result = CALL(CommShrink, comm->comm, exclude, count, &theirs, config, flags);
    return wrap(theirs, result, out);
}

ncclResult_t accl_vendor_async_error(accl_vendor_comm *comm, ncclResult_t *error)
{
    return CALL(CommGetAsyncError, comm->comm, error);
}

ncclResult_t accl_vendor_number(accl_vendor_comm *comm, const char *what, int *value)
{
    if (strcmp(what, "Count") == 0) return CALL(CommCount, comm->comm, value);
    if (strcmp(what, "CuDevice") == 0) return CALL(CommCuDevice, comm->comm, value);
    return CALL(CommUserRank, comm->comm, value);
}

ncclResult_t accl_vendor_register(accl_vendor_comm *comm, void *buffer, size_t bytes, void **handle)
{
    return CALL(CommRegister, comm->comm, buffer, bytes, handle);
}
ncclResult_t accl_vendor_deregister(accl_vendor_comm *comm, void *handle)
{
    return CALL(CommDeregister, comm->comm, handle);
}
ncclResult_t accl_vendor_window_register(accl_vendor_comm *comm, void *buffer, size_t bytes, ncclWindow_t *window, int flags)
{
    return CALL(CommWindowRegister, comm->comm, buffer, bytes, window, flags);
}
ncclResult_t accl_vendor_window_deregister(accl_vendor_comm *comm, ncclWindow_t window)
{
    return CALL(CommWindowDeregister, comm->comm, window);
}
ncclResult_t accl_vendor_mem_alloc(void **pointer, size_t bytes)
{
    return CALL(MemAlloc, pointer, bytes);
}
ncclResult_t accl_vendor_mem_free(void *pointer)
{
    return CALL(MemFree, pointer);
}

const char *accl_vendor_last_error(accl_vendor_comm *comm)
{
    return vendor.table.GetLastError ? vendor.table.GetLastError(comm->comm) : "";
}

/* Groups reach the vendor once it is loaded: its calls may come in any of them. */
ncclResult_t accl_vendor_group_start(void)
{
    return accl_vendor_loaded() && vendor.table.GroupStart ? vendor.table.GroupStart() : ncclSuccess;
}
ncclResult_t accl_vendor_group_end(void)
{
    return accl_vendor_loaded() && vendor.table.GroupEnd ? vendor.table.GroupEnd() : ncclSuccess;
}
ncclResult_t accl_vendor_group_simulate(ncclSimInfo_t *info)
{
    if (!accl_vendor_loaded()) return ncclSuccess;
    return vendor.table.GroupSimulateEnd ? vendor.table.GroupSimulateEnd(info) : accl_vendor_group_end();
}
