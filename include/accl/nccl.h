/* ACCL's interface: the application binary interface of NCCL 2.27.5 over host memory.
 *
 * A program written for NCCL compiles against this header and links with libaccl.so (also installed as libnccl.so.2) without
 * a change; types, values, struct layouts and symbols are NCCL's. Buffers are host memory. Every function has a twin with a
 * `p` before its name that does the same; a profiler may replace the plain one and call the twin.
 *
 * Life of a communicator: one caller makes an id (ncclGetUniqueId) and gives its 128 bytes to every rank by any means; each
 * rank, a thread or a process of this host, calls ncclCommInitRank; collectives are called by all ranks in the same order;
 * ncclCommFinalize (optional) waits for what was issued; ncclCommDestroy frees. After an error, ncclCommAbort frees without waiting for
 * anybody.
 *
 * Threads: calls on different communicators may come from any threads. Calls on one communicator come from one thread at a
 * time, except ncclCommAbort and ncclCommGetAsyncError, which may come from any thread at any time.
 *
 * Errors: functions return ncclSuccess or say what is wrong; ncclGetLastError has the sentence. ncclInvalidArgument: a value,
 * also one that differs between ranks where it must not (counts, types). ncclInvalidUsage: a call that is not allowed now.
 * ncclSystemError: the system refused something, or time ran out. ncclRemoteError: another rank died, failed or aborted.
 * ncclInProgress: a non-blocking communicator is still at it.
 *
 * Settings (environment): ACCL_TIMEOUT seconds that an operation or a set-up may wait (600); ACCL_CHECK=1 compares the
 * arguments of all ranks before each collective moves data; ACCL_REDUCE_ORDER=rank fixes the order of addition; NCCL_ALGO,
 * NCCL_PROTO, NCCL_TUNER_CONFIG_FILE choose algorithms; NCCL_SOCKET_IFNAME, NCCL_COMM_ID, ACCL_PORT_RANGE place the rendezvous;
 * NCCL_DEBUG=VERSION|WARN|INFO|TRACE prints to standard output or NCCL_DEBUG_FILE; ACCL_ENGINE=auto|host|vendor. See docs/accl.md. */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

/* Opaque here: NULL runs an operation in its caller; acclStreamCreate (accl.h) makes one that runs beside it. A program that
 * includes a CUDA header as well sees the same type twice, which C and C++ allow. */
typedef struct CUstream_st *cudaStream_t;

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 5
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 22705

#if defined(__GNUC__)
#define ACCL_EXPORT __attribute__((visibility("default")))
#else
#define ACCL_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#define ACCL_NO_ARGUMENTS
#else
#define ACCL_NO_ARGUMENTS void
#endif

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow *ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclNumResults = 8
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /* end what runs on the parent first; for use after a rank has died */

/* Settings of one communicator. Start from NCCL_CONFIG_INITIALIZER. A shorter struct of an older version is accepted (its
 * size and version say which). The host engine uses blocking, netName, splitShare/shrinkShare (accepted, no effect), commName; the
 * fields that speak of GPU blocks, clusters, traffic classes and switches are checked for range and have no effect on a host. */
typedef struct ncclConfig_v22700 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking; /* 1 (default): calls return when done; 0: they return ncclInProgress, ncclCommGetAsyncError tells */
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName; /* copied; appears in messages */
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                                  \
    {                                                                                                                            \
        sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_CONFIG_UNDEF_INT,               \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,   \
            NCCL_CONFIG_UNDEF_INT,                                                                                               \
    }

typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime; /* seconds, by the cost model */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                                                                \
    {                                                                                                                            \
        sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_UNDEF_FLOAT                    \
    }

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4, /* sum, then divided by the number of ranks; integers truncate */
    ncclNumOps = 5,
    ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

/* Sums of 16- and 8-bit floats are made in fp32 and rounded once. Integers wrap. */
typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

/* `NCCL_API_PAIR(ncclX, (arguments))` declares ncclX and pncclX. */
#define NCCL_API_PAIR(result, name, arguments)                                                                                   \
    ACCL_EXPORT result name arguments;                                                                                           \
    ACCL_EXPORT result p##name arguments;

/* *version = 22705. ncclInvalidArgument for NULL. */
NCCL_API_PAIR(ncclResult_t, ncclGetVersion, (int *version))

/* Makes an id and starts the rendezvous behind it (a listening socket on the loopback address and one thread of this process,
 * both gone when the communicator stands). Two calls never give the same id, except under NCCL_COMM_ID=address:port, where the
 * id is that address and rank 0 listens there. ncclSystemError: no usable interface (names those looked at), no free port. */
NCCL_API_PAIR(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId))

/* Joins the communicator of `commId` as `rank` of `nranks` (up to 1024), waits for all ranks (inside a group: at its end). Each
 * rank belongs to this host; a rank may share its device number with others. ncclInvalidArgument: rank outside the range, ranks
 * that name different counts, a rank that came twice. ncclSystemError: not all ranks within ACCL_TIMEOUT; the message names who is missing. */
NCCL_API_PAIR(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
/* The same with settings; config NULL means defaults. */
NCCL_API_PAIR(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config))
/* The same with several ids: every rank passes the same nId ids in the same order. One rendezvous serves a host, so the first id is
 * the one used; the others' rendezvous end with it when they are of this process. */
NCCL_API_PAIR(ncclResult_t, ncclCommInitRankScalable, (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config))
/* ndev communicators of one process; devlist NULL means 0..ndev-1. A device that is named twice is allowed on the host. */
NCCL_API_PAIR(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int *devlist))

/* Waits (blocking) until all that this rank issued is done; afterwards only GetAsyncError, Destroy and Abort are allowed. */
NCCL_API_PAIR(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))
/* Finalizes if that was not done and frees. NULL is allowed. */
NCCL_API_PAIR(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))
/* Ends what runs, tells the other ranks (their operations return ncclRemoteError) and frees, waiting for nobody else. */
NCCL_API_PAIR(ncclResult_t, ncclCommAbort, (ncclComm_t comm))
/* All ranks of comm call it; same color, same new communicator, ordered by key and then by old rank. NCCL_SPLIT_NOCOLOR gives NULL. */
NCCL_API_PAIR(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))
/* All ranks outside the list call it, with the same list; the listed ones need not be alive. */
NCCL_API_PAIR(ncclResult_t, ncclCommShrink, (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags))

/* Words for a code. Static storage. */
NCCL_API_PAIR(const char *, ncclGetErrorString, (ncclResult_t result))
/* The last failure's sentence in this process, any thread; comm (may be NULL): of that communicator when it has one. Valid until the
 * calling thread's next call of this function. */
NCCL_API_PAIR(const char *, ncclGetLastError, (ncclComm_t comm))
/* Reads NCCL_DEBUG and NCCL_DEBUG_FILE again. */
NCCL_API_PAIR(void, ncclResetDebugInit, (ACCL_NO_ARGUMENTS))

/* ncclSuccess, ncclInProgress, or the error that broke the communicator; looks for dead ranks itself. */
NCCL_API_PAIR(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError))
NCCL_API_PAIR(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))
/* The device number given to ncclCommInitAll; otherwise the number of LOCAL_RANK, else the rank's place among the ranks of its host. The host engine moves no data to it. */
NCCL_API_PAIR(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))
NCCL_API_PAIR(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))

/* Names a buffer for use by this communicator. Memory of ncclMemAlloc is reached by all ranks without a copy with or without it;
 * other memory is recorded and checked for overlap with live registrations of another kind only, and travels by the engine's usual ways. */
NCCL_API_PAIR(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle))
NCCL_API_PAIR(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle))
/* The collective form: all ranks call it in the same order; NCCL_WIN_COLL_SYMMETRIC demands memory of ncclMemAlloc and the same size on all ranks. */
NCCL_API_PAIR(ncclResult_t, ncclCommWindowRegister, (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags))
NCCL_API_PAIR(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
/* Memory that every rank of every communicator of this process can reach: zeroed, aligned to a page. ncclMemFree takes its address. */
NCCL_API_PAIR(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size))
NCCL_API_PAIR(ncclResult_t, ncclMemFree, (void *ptr))

/* A sum whose inputs are multiplied by *scalar (of `datatype`) on their own rank first. ncclScalarDevice: read when the operation runs;
 * ncclScalarHostImmediate: read now. For this communicator and datatype only. */
NCCL_API_PAIR(ncclResult_t, ncclRedOpCreatePreMulSum, (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm))
NCCL_API_PAIR(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))

/* The collectives. Counts are elements, any alignment, 0 allowed. With stream NULL they return when this rank's part is done and its
 * buffers may be used again; with a host stream, when they are queued. Overlapping buffers other than the in-place form named
 * with each are the caller's mistake. */
/* recvbuff on root only. In place: sendbuff == recvbuff. */
NCCL_API_PAIR(ncclResult_t, ncclReduce, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream))
NCCL_API_PAIR(ncclResult_t, ncclBcast, (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
/* sendbuff on root only. In place: sendbuff == recvbuff. */
NCCL_API_PAIR(ncclResult_t, ncclBroadcast, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
/* In place: sendbuff == recvbuff. Every rank gets the same bits. */
NCCL_API_PAIR(ncclResult_t, ncclAllReduce, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
/* sendbuff: nranks * recvcount elements. In place: recvbuff == sendbuff + rank * recvcount. */
NCCL_API_PAIR(ncclResult_t, ncclReduceScatter, (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
/* recvbuff: nranks * sendcount elements. In place: sendbuff == recvbuff + rank * sendcount. */
NCCL_API_PAIR(ncclResult_t, ncclAllGather, (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream))
/* Match in order per pair of ranks, same count and type on both sides. Alone they block until the other side came: two ranks that
 * both send first must do it inside a group. */
NCCL_API_PAIR(ncclResult_t, ncclSend, (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
NCCL_API_PAIR(ncclResult_t, ncclRecv, (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))

/* Calls between start and end of one thread start at the outermost end and progress together: sends and receives of one
 * communicator at once, collectives of one communicator in their order, communicators independently. Set-up calls and
 * communication are not mixed in one group. */
NCCL_API_PAIR(ncclResult_t, ncclGroupStart, (ACCL_NO_ARGUMENTS))
NCCL_API_PAIR(ncclResult_t, ncclGroupEnd, (ACCL_NO_ARGUMENTS))
/* Ends the group without running it; estimatedTime gets the cost model's estimate. */
NCCL_API_PAIR(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo))

#ifdef __cplusplus
}
#endif
#endif
