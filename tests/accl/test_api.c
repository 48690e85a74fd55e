/* The rest of the interface: derived communicators, non-blocking ones, streams and events, operators, registration, what bad calls return. */
#define _GNU_SOURCE
#include "support/ranks.h"
#include "support/testing.h"

#include "accl/accl.h"
#include "accl/tuner.h"
#include "base/clock.h"

#include <stdlib.h>
#include <unistd.h>

static float sum_of_ones(test_rank *r, ncclComm_t comm)
{
    float data = 1;
    rank_ok(r, ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comm, NULL));
    return data;
}

static void split(test_rank *r)
{
    ncclComm_t half;
    int count, rank;
    rank_ok(r, ncclCommSplit(r->comm, r->rank == 4 ? NCCL_SPLIT_NOCOLOR : r->rank % 2, -r->rank, &half, NULL));
    if (r->rank == 4) {
        rank_expect(r, half == NULL, "a rank of no color got a communicator");
    } else {
        rank_ok(r, ncclCommCount(half, &count));
        rank_ok(r, ncclCommUserRank(half, &rank));
        rank_expect(r, count == 2 && rank == (r->rank < 2 ? 1 : 0), "rank %d of %d", rank, count);
        rank_expect(r, sum_of_ones(r, half) == 2, "wrong sum");
        rank_ok(r, ncclCommDestroy(half));
    }
    rank_ok(r, ncclCommSplit(r->comm, 0, 0, &half, NULL));
    rank_expect(r, sum_of_ones(r, half) == 5 && sum_of_ones(r, r->comm) == 5, "wrong sum");
    rank_ok(r, ncclCommDestroy(half));
}

static void splits_order_by_key(void **state)
{
    (void)state;
    test_ranks_run(5, (test_ranks_how){0}, split, NULL);
    test_ranks_run(5, (test_ranks_how){.processes = true}, split, NULL);
}

static void shrink(test_rank *r)
{
    int leave[1] = {1};
    ncclComm_t rest;
    float data = 1;
    if (r->rank == 1) { /* gone before the others notice */
        rank_ok(r, ncclCommAbort(r->comm));
        r->comm = NULL;
        return;
    }
    rank_expect(r, ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, r->comm, NULL) != ncclSuccess, "a sum without rank 1");
    rank_ok(r, ncclCommShrink(r->comm, leave, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    if (!rest) return;
    rank_expect(r, sum_of_ones(r, rest) == 2, "wrong sum after the shrink");
    rank_ok(r, ncclCommDestroy(rest));
}

static void a_shrink_goes_on_without_the_dead(void **state)
{
    (void)state;
    test_ranks_run(3, (test_ranks_how){.processes = true, .timeout_s = 30}, shrink, NULL);
    test_ranks_run(3, (test_ranks_how){.timeout_s = 30}, shrink, NULL);
}

static ncclResult_t settle(test_rank *r, ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    for (int i = 0; i < 20000 && state == ncclInProgress; i++) {
        rank_ok(r, ncclCommGetAsyncError(comm, &state));
        lj_sleep_s(0.0005);
    }
    return state;
}

static void non_blocking(test_rank *r)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = "quiet";
    ncclComm_t comm, derived;
    float data[3000];
    for (int i = 0; i < 3000; i++) data[i] = 1;
    ncclResult_t result = ncclCommInitRankConfig(&comm, r->ranks, r->id, r->rank, &config);
    rank_expect(r, result == ncclInProgress || result == ncclSuccess, "init gives %d", (int)result);
    rank_expect(r, settle(r, comm) == ncclSuccess, "init does not settle");
    result = ncclAllReduce(data, data, 3000, ncclFloat, ncclSum, comm, NULL);
    rank_expect(r, result == ncclInProgress || result == ncclSuccess, "all-reduce gives %d", (int)result);
    rank_expect(r, settle(r, comm) == ncclSuccess && data[2999] == (float)r->ranks, "all-reduce: %g", (double)data[2999]);
    result = ncclCommSplit(comm, 0, 0, &derived, NULL);
    rank_expect(r, result == ncclInProgress && settle(r, derived) == ncclSuccess, "split gives %d", (int)result);
    ncclGroupStart();
    ncclAllReduce(data, data, 1, ncclFloat, ncclSum, derived, NULL);
    result = ncclGroupEnd();
    rank_expect(r, (result == ncclInProgress || result == ncclSuccess) && settle(r, derived) == ncclSuccess && data[0] == (float)(r->ranks * r->ranks), "group: %d %g", (int)result, (double)data[0]);
    result = ncclCommFinalize(derived);
    rank_expect(r, result == ncclSuccess || result == ncclInProgress, "finalize gives %d", (int)result);
    rank_expect(r, settle(r, derived) == ncclSuccess, "finalize does not settle");
    rank_ok(r, ncclCommDestroy(derived));
    rank_ok(r, ncclCommDestroy(comm));
}

static void non_blocking_communicators_settle(void **state)
{
    (void)state;
    test_ranks_run(3, (test_ranks_how){.no_comm = true}, non_blocking, NULL);
    test_ranks_run(2, (test_ranks_how){.no_comm = true, .processes = true}, non_blocking, NULL);
}

static void note(void *argument)
{
    ++*(int *)argument;
}

static void streams(test_rank *r)
{
    enum { COUNT = 100000 };
    cudaStream_t one, two;
    acclEvent_t event;
    int calls = 0;
    float *a = malloc(COUNT * 4), *b = malloc(COUNT * 4);
    for (int i = 0; i < COUNT; i++) a[i] = (float)i;
    rank_ok(r, acclStreamCreate(&one));
    rank_ok(r, acclStreamCreate(&two));
    rank_ok(r, acclEventCreate(&event));
    rank_expect(r, acclEventQuery(event) == ncclSuccess, "a fresh event is pending");
    for (int i = 0; i < 10; i++) rank_ok(r, ncclAllReduce(a, b, COUNT, ncclFloat, ncclSum, r->comm, one));
    rank_ok(r, acclEventRecord(event, one));
    rank_ok(r, acclStreamWaitEvent(two, event));
    rank_ok(r, ncclAllReduce(b, b, COUNT, ncclFloat, ncclMax, r->comm, two)); /* after the sums, because of the event */
    rank_ok(r, acclStreamCall(two, note, &calls));
    rank_ok(r, acclEventSynchronize(event));
    rank_ok(r, acclStreamSynchronize(two));
    rank_expect(r, calls == 1 && acclStreamQuery(two) == ncclSuccess, "%d calls", calls);
    for (int i = 0; i < COUNT; i++) rank_expect(r, b[i] == (float)i * (float)r->ranks, "element %d: %g", i, (double)b[i]);
    rank_expect(r, ncclAllReduce(a, b, 1, ncclFloat, ncclSum, r->comm, (cudaStream_t)(void *)a) == ncclInvalidArgument, "a foreign stream was taken");
    rank_ok(r, acclEventDestroy(event));
    rank_ok(r, acclStreamDestroy(one));
    rank_ok(r, acclStreamDestroy(two));
    free(a);
    free(b);
}

static void streams_run_beside_in_order(void **state)
{
    (void)state;
    test_ranks_run(3, (test_ranks_how){0}, streams, NULL);
    test_ranks_run(2, (test_ranks_how){.processes = true}, streams, NULL);
}

static void operators(test_rank *r)
{
    ncclRedOp_t now, later, half;
    float factor = 2, deferred = 1, in[100], out[100];
    uint16_t half_factor = lj_bf16_from_float(0.5f), narrow[9000];
    for (int i = 0; i < 100; i++) in[i] = (float)(i + r->rank);
    rank_ok(r, ncclRedOpCreatePreMulSum(&now, &factor, ncclFloat, ncclScalarHostImmediate, r->comm));
    rank_ok(r, ncclRedOpCreatePreMulSum(&later, &deferred, ncclFloat, ncclScalarDevice, r->comm));
    rank_ok(r, ncclRedOpCreatePreMulSum(&half, &half_factor, ncclBfloat16, ncclScalarHostImmediate, r->comm));
    factor = 100; /* read already */
    deferred = (float)(r->rank + 1);
    for (size_t count = 1; count <= 100; count += 99) {
        rank_ok(r, ncclAllReduce(in, out, count, ncclFloat, now, r->comm, NULL));
        rank_expect(r, out[count - 1] == 2 * (3 * (float)(count - 1) + 3), "premul: %g", (double)out[count - 1]);
        rank_ok(r, ncclAllReduce(in, out, count, ncclFloat, later, r->comm, NULL));
        rank_expect(r, out[0] == 0 * 1 + 1 * 2 + 2 * 3, "deferred premul: %g", (double)out[0]);
    }
    for (int i = 0; i < 9000; i++) narrow[i] = lj_bf16_from_float(2);
    rank_ok(r, ncclAllReduce(narrow, narrow, 9000, ncclBfloat16, half, r->comm, NULL));
    rank_expect(r, lj_bf16_to_float(narrow[8999]) == 3, "bf16 premul: %g", (double)lj_bf16_to_float(narrow[8999]));
    rank_expect(r, ncclAllReduce(in, out, 1, ncclFloat64, now, r->comm, NULL) == ncclInvalidArgument, "an operator of another type was taken");
    rank_ok(r, ncclRedOpDestroy(now, r->comm));
    rank_ok(r, ncclRedOpDestroy(later, r->comm));
    rank_ok(r, ncclRedOpDestroy(half, r->comm));
    rank_expect(r, ncclRedOpDestroy(now, r->comm) == ncclInvalidArgument && ncclRedOpDestroy(ncclSum, r->comm) == ncclInvalidArgument, "an operator was destroyed twice");
}

static void multiplied_sums(void **state)
{
    (void)state;
    test_ranks_run(3, (test_ranks_how){0}, operators, NULL);
    test_ranks_run(3, (test_ranks_how){.processes = true}, operators, NULL);
}

static void windows(test_rank *r)
{
    void *shared, *plain = malloc(4096), *handle;
    ncclWindow_t window = NULL;
    rank_ok(r, ncclMemAlloc(&shared, 1 << 16));
    for (int i = 0; i < 1 << 16; i++) rank_expect(r, ((char *)shared)[i] == 0, "not zeroed");
    rank_ok(r, ncclCommWindowRegister(r->comm, shared, 1 << 16, &window, NCCL_WIN_COLL_SYMMETRIC));
    rank_ok(r, ncclCommWindowDeregister(r->comm, window));
    rank_expect(r, ncclCommWindowDeregister(r->comm, window) == ncclInvalidArgument, "a window was given back twice");
    rank_ok(r, ncclCommRegister(r->comm, plain, 4096, &handle));
    rank_ok(r, ncclCommDeregister(r->comm, handle));
    rank_ok(r, ncclMemFree(shared));
    rank_expect(r, ncclMemFree(plain) == ncclInvalidArgument, "memory of malloc was freed");
    free(plain);
}

static void memory_and_windows(void **state)
{
    (void)state;
    test_ranks_run(2, (test_ranks_how){.processes = true}, windows, NULL);
}

static void bad_calls(test_rank *r)
{
    float data[4] = {0};
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    rank_expect(r, ncclAllReduce(data, data, 4, (ncclDataType_t)12, ncclSum, r->comm, NULL) == ncclInvalidArgument, "type 12");
    rank_expect(r, ncclAllReduce(data, data, 4, ncclFloat, (ncclRedOp_t)9, r->comm, NULL) == ncclInvalidArgument, "operator 9");
    rank_expect(r, ncclAllReduce(NULL, data, 4, ncclFloat, ncclSum, r->comm, NULL) == ncclInvalidArgument, "no input");
    rank_expect(r, ncclBroadcast(data, data, 4, ncclFloat, 7, r->comm, NULL) == ncclInvalidArgument, "root 7");
    rank_expect(r, ncclGroupEnd() == ncclInvalidUsage, "an end without a start");
    rank_ok(r, ncclGroupStart());
    rank_ok(r, ncclAllReduce(data, data, 4, ncclFloat, ncclSum, r->comm, NULL));
    rank_expect(r, ncclSend(data, 4, ncclFloat, 9, r->comm, NULL) == ncclInvalidArgument, "peer 9");
    rank_expect(r, ncclGroupEnd() == ncclInvalidArgument, "a group with a refused call ran");
    rank_ok(r, ncclGroupStart());
    rank_ok(r, ncclAllReduce(data, data, 4, ncclFloat, ncclSum, r->comm, NULL));
    rank_ok(r, ncclGroupSimulateEnd(&info));
    rank_expect(r, info.estimatedTime > 0 && info.estimatedTime < 1, "estimate %g", (double)info.estimatedTime);
    rank_expect(r, sum_of_ones(r, r->comm) == (float)r->ranks, "the communicator does not work after refused calls");
    rank_ok(r, ncclCommFinalize(r->comm));
    rank_expect(r, ncclAllReduce(data, data, 4, ncclFloat, ncclSum, r->comm, NULL) == ncclInvalidUsage, "a finalized communicator ran");
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    int version;
    ncclComm_t comm = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id = {{0}};
    assert_int_equal(ncclGetVersion(&version), ncclSuccess);
    assert_int_equal(version, 22705);
    assert_int_equal(ncclGetVersion(NULL), ncclInvalidArgument);
    assert_int_equal(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, NULL, NULL), ncclInvalidArgument);
    assert_int_equal(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
    assert_int_equal(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidArgument); /* no id of ours */
    config.blocking = 7;
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
    config = (ncclConfig_t){0};
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
    assert_string_equal(ncclGetErrorString(ncclSuccess), "no error");
    assert_int_equal(ncclCommDestroy(NULL), ncclSuccess);
    test_ranks_run(2, (test_ranks_how){0}, bad_calls, NULL);
}

static void scalable(test_rank *r)
{
    ncclUniqueId *ids = r->argument;
    rank_ok(r, ncclCommInitRankScalable(&r->comm, r->ranks, r->rank, 2, ids, NULL));
    if (r->comm) rank_expect(r, sum_of_ones(r, r->comm) == (float)r->ranks, "wrong sum");
}

static void several_ids_make_one_communicator(void **state)
{
    (void)state;
    ncclUniqueId ids[2];
    int threads = test_threads();
    assert_int_equal(ncclGetUniqueId(&ids[0]), ncclSuccess);
    assert_int_equal(ncclGetUniqueId(&ids[1]), ncclSuccess);
    test_ranks_run(3, (test_ranks_how){.no_comm = true}, scalable, ids);
    assert_in_range(test_threads(), threads, threads + 1); /* the runner's own id waits for ranks that never come */
}

static void tuner_files_are_read(void **state)
{
    (void)state;
    accl_tuner tuner = {0};
    assert_ok(accl_tuner_parse(&tuner, "t.csv", "colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks\n# mine\nallreduce,0,65536,tree,ll,-1,1,-1\nallreduce, 65537 ,-1,ring,simple,4,1,4,-1,-1\n"));
    assert_string_equal(accl_tuner_find(&tuner, ACCL_ALL_REDUCE, 100, 2), "tree");
    assert_string_equal(accl_tuner_find(&tuner, ACCL_ALL_REDUCE, 1 << 20, 4), "ring");
    assert_null(accl_tuner_find(&tuner, ACCL_ALL_REDUCE, 1 << 20, 3));
    assert_null(accl_tuner_find(&tuner, ACCL_BROADCAST, 100, 2));
    accl_tuner_release(&tuner);
    assert_fails(accl_tuner_parse(&tuner, "t.csv", "allreduce,0\n"), LJ_ERR_FORMAT, "t.csv:1");
    assert_fails(accl_tuner_parse(&tuner, "t.csv", "\nallsum,0,1,ring\n"), LJ_ERR_FORMAT, "allsum");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(splits_order_by_key),         cmocka_unit_test(a_shrink_goes_on_without_the_dead),
                                       cmocka_unit_test(non_blocking_communicators_settle), cmocka_unit_test(streams_run_beside_in_order),
                                       cmocka_unit_test(multiplied_sums),             cmocka_unit_test(memory_and_windows),
                                       cmocka_unit_test(bad_calls_are_refused),       cmocka_unit_test(several_ids_make_one_communicator),
                                       cmocka_unit_test(tuner_files_are_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
