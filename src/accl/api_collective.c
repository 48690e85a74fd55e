/* The public collectives: check the arguments, describe the call, hand it on. */
#include "accl/api.h"
#include "accl/group.h"
#include "accl/algorithms.h"
#include "accl/vendor.h"

#include <string.h>

/* What is wrong with a call, before anything is started. */
static ncclResult_t call_check(ncclComm_t comm, const accl_call *call)
{
    const accl_kind_row *kind = &accl_kinds[call->kind];
    int error = atomic_load(&comm->error), state = atomic_load(&comm->state);
    bool root = !kind->has_root || (uint32_t)call->root == comm->rank;
    bool needs_send = call->kind != ACCL_RECV && (call->kind != ACCL_BROADCAST || root), needs_recv = call->kind != ACCL_SEND && (call->kind != ACCL_REDUCE || root);
    if (state == ncclInProgress) return accl_fail(ncclInvalidUsage, "%s: the communicator's set-up is not finished; wait until ncclCommGetAsyncError gives ncclSuccess", kind->function);
    if (error) return accl_fail((ncclResult_t)error, "%s: the communicator has failed before: %s", kind->function, comm->error_text);
    if (comm->finalized) return accl_fail(ncclInvalidUsage, "%s: the communicator was finalized", kind->function);
    if ((unsigned)call->arith.type >= ncclNumTypes) return accl_fail(ncclInvalidArgument, "%s: data type %d; there are types 0 to %d", kind->function, (int)call->arith.type, ncclNumTypes - 1);
    if (kind->has_root && (call->root < 0 || (uint32_t)call->root >= comm->ranks))
        return accl_fail(ncclInvalidArgument, "%s: %s %d; the communicator has ranks 0 to %u", kind->function, kind->is_message ? "peer" : "root", call->root, comm->ranks - 1);
    if (call->count > SIZE_MAX / 8 / ACCL_MAX_RANKS) return accl_fail(ncclInvalidArgument, "%s: count %zu is too large", kind->function, call->count);
    if (call->count && needs_send && !call->send) return accl_fail(ncclInvalidArgument, "%s: sendbuff is NULL with count %zu", kind->function, call->count);
    if (call->count && needs_recv && !call->recv) return accl_fail(ncclInvalidArgument, "%s: recvbuff is NULL with count %zu", kind->function, call->count);
    return ncclSuccess;
}

/* A public operator as the engine has it: 0..4, or one of this communicator's multiplied sums. */
static ncclResult_t op_resolve(ncclComm_t comm, ncclRedOp_t op, accl_call *call)
{
    unsigned index = (unsigned)op - ncclNumOps;
    const char *function = accl_kinds[call->kind].function;
    if ((unsigned)op < ncclNumOps) {
        call->arith.op = (accl_op)op;
        return ncclSuccess;
    }
    if (index >= ACCL_USER_OPS || !comm->ops[index].live) return accl_fail(ncclInvalidArgument, "%s: operator %d is neither built in nor made for this communicator", function, (int)op);
    const accl_user_op *user = &comm->ops[index];
    if (user->type != call->arith.type)
        return accl_fail(ncclInvalidArgument, "%s: operator %d was made for %s, the data is %s", function, (int)op, lj_dtype_name(user->type),
                         (unsigned)call->arith.type < ncclNumTypes ? lj_dtype_name(call->arith.type) : "of an unknown type");
    call->arith.op = ACCL_PREMUL;
    call->scale = user->scale;
    call->scale_address = user->deferred ? user->address : NULL;
    return ncclSuccess;
}

static ncclResult_t collective(ncclComm_t comm, accl_call *call, const ncclRedOp_t *op, cudaStream_t stream)
{
    ncclResult_t result = accl_comm_check(comm, accl_kinds[call->kind].function);
    if (result == ncclSuccess && comm->vendor) return accl_vendor_collective(comm->vendor, call, op, stream);
    call->arith.ranks = result == ncclSuccess ? comm->ranks : 1;
    if (result == ncclSuccess && op) result = op_resolve(comm, *op, call);
    if (result == ncclSuccess) result = call_check(comm, call);
    if (result != ncclSuccess) return accl_group_spoil(result);
    if (!stream && comm->plain && !accl_in_group() && accl_quick_run(comm, call, &result)) return result;
    return accl_issue(comm, call, stream);
}

ACCL_API(ncclResult_t, ncclAllReduce, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
{
    accl_call call = {.kind = ACCL_ALL_REDUCE, .send = sendbuff, .recv = recvbuff, .count = count, .arith.type = (lj_dtype)datatype};
    return collective(comm, &call, &op, stream);
}

ACCL_API(ncclResult_t, ncclReduce, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream))
{
    accl_call call = {.kind = ACCL_REDUCE, .send = sendbuff, .recv = recvbuff, .count = count, .arith.type = (lj_dtype)datatype, .root = root};
    return collective(comm, &call, &op, stream);
}

ACCL_API(ncclResult_t, ncclReduceScatter, (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))
{
    accl_call call = {.kind = ACCL_REDUCE_SCATTER, .send = sendbuff, .recv = recvbuff, .count = recvcount, .arith.type = (lj_dtype)datatype};
    return collective(comm, &call, &op, stream);
}

ACCL_API(ncclResult_t, ncclAllGather, (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream))
{
    accl_call call = {.kind = ACCL_ALL_GATHER, .send = sendbuff, .recv = recvbuff, .count = sendcount, .arith.type = (lj_dtype)datatype};
    return collective(comm, &call, NULL, stream);
}

ACCL_API(ncclResult_t, ncclBroadcast, (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
{
    accl_call call = {.kind = ACCL_BROADCAST, .send = sendbuff, .recv = recvbuff, .count = count, .arith.type = (lj_dtype)datatype, .root = root};
    return collective(comm, &call, NULL, stream);
}

ACCL_API(ncclResult_t, ncclBcast, (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
{
    return pncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ACCL_API(ncclResult_t, ncclSend, (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
{
    accl_call call = {.kind = ACCL_SEND, .send = sendbuff, .count = count, .arith.type = (lj_dtype)datatype, .root = peer};
    return collective(comm, &call, NULL, stream);
}

ACCL_API(ncclResult_t, ncclRecv, (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
{
    accl_call call = {.kind = ACCL_RECV, .recv = recvbuff, .count = count, .arith.type = (lj_dtype)datatype, .root = peer};
    return collective(comm, &call, NULL, stream);
}

ACCL_API(ncclResult_t, ncclGroupStart, (void))
{
    accl_vendor_group_start();
    return accl_group_start();
}

ACCL_API(ncclResult_t, ncclGroupEnd, (void))
{
    ncclResult_t vendor = accl_vendor_group_end(), ours = accl_group_end();
    return ours != ncclSuccess ? ours : vendor;
}

ACCL_API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo))
{
    double seconds = 0;
    if (simInfo && simInfo->magic != 0x74685283) return accl_fail(ncclInvalidArgument, "ncclGroupSimulateEnd: simInfo does not start from NCCL_SIM_INFO_INITIALIZER");
    ncclResult_t vendor = accl_vendor_group_simulate(simInfo), ours = accl_group_simulate(&seconds);
    if (simInfo && ours == ncclSuccess && vendor == ncclSuccess && !(simInfo->estimatedTime > (float)seconds)) simInfo->estimatedTime = (float)seconds;
    return ours != ncclSuccess ? ours : vendor;
}

/* --- operators --- */

static ncclResult_t op_add(ncclComm_t comm, ncclRedOp_t *op, accl_user_op made)
{
    if (!made.deferred) memcpy(&made.scale, made.address, lj_dtype_bytes(made.type));
    pthread_mutex_lock(&comm->lock);
    unsigned index = 0;
    while (index < ACCL_USER_OPS && comm->ops[index].live) index++;
    if (index < ACCL_USER_OPS) comm->ops[index] = made;
    pthread_mutex_unlock(&comm->lock);
    if (index == ACCL_USER_OPS) return accl_fail(ncclInvalidUsage, "ncclRedOpCreatePreMulSum: %d operators are alive in this communicator; destroy one", ACCL_USER_OPS);
    *op = (ncclRedOp_t)(ncclNumOps + index);
    return ncclSuccess;
}

ACCL_API(ncclResult_t, ncclRedOpCreatePreMulSum, (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm))
{
    ncclResult_t result = accl_comm_check(comm, "ncclRedOpCreatePreMulSum");
    if (result != ncclSuccess) return result;
    if (comm->vendor) return accl_vendor_op_create(comm->vendor, op, scalar, datatype, residence);
    if (!op || !scalar) return accl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: %s is NULL", op ? "scalar" : "op");
    if ((unsigned)datatype >= ncclNumTypes) return accl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: data type %d; there are types 0 to %d", (int)datatype, ncclNumTypes - 1);
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate) return accl_fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: residence %d", (int)residence);
    return op_add(comm, op, (accl_user_op){.live = true, .deferred = residence == ncclScalarDevice, .type = (lj_dtype)datatype, .address = scalar});
}

ACCL_API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
{
    ncclResult_t result = accl_comm_check(comm, "ncclRedOpDestroy");
    unsigned index = (unsigned)op - ncclNumOps;
    if (result != ncclSuccess) return result;
    if (comm->vendor) return accl_vendor_op_destroy(comm->vendor, op);
    if ((unsigned)op < ncclNumOps) return accl_fail(ncclInvalidArgument, "ncclRedOpDestroy: operator %d is built in", (int)op);
    pthread_mutex_lock(&comm->lock);
    bool live = index < ACCL_USER_OPS && comm->ops[index].live;
    if (live) comm->ops[index].live = false;
    pthread_mutex_unlock(&comm->lock);
    return live ? ncclSuccess : accl_fail(ncclInvalidArgument, "ncclRedOpDestroy: operator %d does not exist in this communicator", (int)op);
}
