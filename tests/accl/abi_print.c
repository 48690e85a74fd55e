/* Compiled against the vendor's header and against ours: prints what a binary interface is made of, then calls every function once. */
#include HEADER

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SIZE(type) printf("sizeof " #type " %zu\n", sizeof(type))
#define OFFSET(type, field) printf(#type "." #field " %zu %zu\n", offsetof(type, field), sizeof(((type *)0)->field))
#define VALUE(name) printf(#name " %lld\n", (long long)(name))

static void layouts(void)
{
    SIZE(ncclUniqueId), SIZE(ncclConfig_t), SIZE(ncclSimInfo_t), SIZE(ncclResult_t), SIZE(ncclRedOp_t), SIZE(ncclDataType_t), SIZE(ncclScalarResidence_t), SIZE(ncclComm_t), SIZE(ncclWindow_t);
    OFFSET(ncclConfig_t, size), OFFSET(ncclConfig_t, magic), OFFSET(ncclConfig_t, version), OFFSET(ncclConfig_t, blocking), OFFSET(ncclConfig_t, cgaClusterSize), OFFSET(ncclConfig_t, minCTAs);
    OFFSET(ncclConfig_t, maxCTAs), OFFSET(ncclConfig_t, netName), OFFSET(ncclConfig_t, splitShare), OFFSET(ncclConfig_t, trafficClass), OFFSET(ncclConfig_t, commName), OFFSET(ncclConfig_t, collnetEnable);
    OFFSET(ncclConfig_t, CTAPolicy), OFFSET(ncclConfig_t, shrinkShare), OFFSET(ncclConfig_t, nvlsCTAs);
    OFFSET(ncclSimInfo_t, size), OFFSET(ncclSimInfo_t, magic), OFFSET(ncclSimInfo_t, version), OFFSET(ncclSimInfo_t, estimatedTime);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    for (size_t i = 0; i < sizeof config; i++) printf("%02x", ((unsigned char *)&config)[i]);
    for (size_t i = 0; i < sizeof info; i++) printf("%02x", ((unsigned char *)&info)[i]);
    printf("\n");
}

static void values(void)
{
    VALUE(NCCL_VERSION_CODE), VALUE(NCCL_MAJOR), VALUE(NCCL_MINOR), VALUE(NCCL_PATCH), VALUE(NCCL_UNIQUE_ID_BYTES), VALUE(NCCL_CONFIG_UNDEF_INT), VALUE(NCCL_SPLIT_NOCOLOR), VALUE(NCCL_VERSION(2, 8, 3)), VALUE(NCCL_VERSION(2, 18, 1));
    VALUE(NCCL_WIN_DEFAULT), VALUE(NCCL_WIN_COLL_SYMMETRIC), VALUE(NCCL_CTA_POLICY_DEFAULT), VALUE(NCCL_CTA_POLICY_EFFICIENCY), VALUE(NCCL_SHRINK_DEFAULT), VALUE(NCCL_SHRINK_ABORT), VALUE(NCCL_UNDEF_FLOAT);
    VALUE(ncclSuccess), VALUE(ncclUnhandledCudaError), VALUE(ncclSystemError), VALUE(ncclInternalError), VALUE(ncclInvalidArgument), VALUE(ncclInvalidUsage), VALUE(ncclRemoteError), VALUE(ncclInProgress), VALUE(ncclNumResults);
    VALUE(ncclSum), VALUE(ncclProd), VALUE(ncclMax), VALUE(ncclMin), VALUE(ncclAvg), VALUE(ncclNumOps), VALUE(ncclMaxRedOp), VALUE(ncclNumOps_dummy), VALUE(ncclScalarDevice), VALUE(ncclScalarHostImmediate);
    VALUE(ncclInt8), VALUE(ncclChar), VALUE(ncclUint8), VALUE(ncclInt32), VALUE(ncclInt), VALUE(ncclUint32), VALUE(ncclInt64), VALUE(ncclUint64), VALUE(ncclFloat16), VALUE(ncclHalf), VALUE(ncclFloat32), VALUE(ncclFloat);
    VALUE(ncclFloat64), VALUE(ncclDouble), VALUE(ncclBfloat16), VALUE(ncclFloat8e4m3), VALUE(ncclFloat8e5m2), VALUE(ncclNumTypes);
}

#define RUN(call)                                                                                                                \
    do {                                                                                                                         \
        ncclResult_t result = call;                                                                                              \
        if (result != ncclSuccess) printf("%s: %d %s\n", #call, (int)result, ncclGetLastError(NULL));                            \
    } while (0)

static void every_function(void)
{
    ncclUniqueId id, second;
    ncclComm_t comm, all[1], half, rest, many;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    ncclResult_t error;
    ncclRedOp_t op;
    ncclWindow_t window;
    int number;
    float *data, factor = 2, from = 3, to = 0;
    void *handle;
    ncclResetDebugInit();
    RUN(ncclGetVersion(&number));
    RUN(ncclGetUniqueId(&id));
    RUN(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    RUN(ncclCommInitAll(all, 1, NULL));
    RUN(ncclGetUniqueId(&second));
    RUN(ncclCommInitRankScalable(&many, 1, 0, 1, &second, NULL));
    RUN(ncclCommSplit(comm, 0, 0, &half, NULL));
    RUN(ncclCommShrink(comm, NULL, 0, &rest, NULL, NCCL_SHRINK_DEFAULT));
    RUN(ncclCommCount(comm, &number));
    RUN(ncclCommCuDevice(comm, &number));
    RUN(ncclCommUserRank(comm, &number));
    RUN(ncclMemAlloc((void **)&data, 4096));
    RUN(ncclCommRegister(comm, data, 4096, &handle));
    RUN(ncclCommDeregister(comm, handle));
    RUN(ncclCommWindowRegister(comm, data, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
    RUN(ncclCommWindowDeregister(comm, window));
    RUN(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comm));
    RUN(ncclAllReduce(&from, &to, 1, ncclFloat, op, comm, NULL));
    printf("twice three is %g\n", (double)to);
    RUN(ncclRedOpDestroy(op, comm));
    RUN(ncclReduce(&from, &to, 1, ncclFloat, ncclSum, 0, comm, NULL));
    RUN(ncclBcast(&to, 1, ncclFloat, 0, comm, NULL));
    RUN(ncclBroadcast(&from, &to, 1, ncclFloat, 0, comm, NULL));
    RUN(ncclReduceScatter(&from, &to, 1, ncclFloat, ncclSum, comm, NULL));
    RUN(ncclAllGather(&from, &to, 1, ncclFloat, comm, NULL));
    RUN(ncclGroupStart());
    RUN(ncclSend(&from, 1, ncclFloat, 0, comm, NULL));
    RUN(ncclRecv(&to, 1, ncclFloat, 0, comm, NULL));
    RUN(ncclGroupEnd());
    RUN(ncclGroupStart());
    RUN(ncclAllGather(&from, &to, 1, ncclFloat, comm, NULL));
    RUN(ncclGroupSimulateEnd(&info));
    RUN(ncclCommGetAsyncError(comm, &error));
    printf("%g %d %s %s\n", (double)to, (int)error, ncclGetErrorString(ncclSuccess), ncclGetLastError(comm));
    RUN(ncclMemFree(data));
    RUN(ncclCommFinalize(comm));
    RUN(ncclCommDestroy(comm));
    RUN(ncclCommDestroy(half));
    RUN(ncclCommDestroy(rest));
    RUN(ncclCommDestroy(many));
    RUN(ncclCommAbort(all[0]));
}

int main(void)
{
    layouts();
    values();
    every_function();
    return 0;
}
