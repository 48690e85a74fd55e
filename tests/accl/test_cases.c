/* What users of collective libraries ran into, as inputs (docs/accl-fixed.md says which test answers which report). */
#define _GNU_SOURCE
#include "support/ranks.h"
#include "support/testing.h"

#include "accl/accl.h"
#include "base/clock.h"
#include "tensor/dtype.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const test_ranks_how processes = {.processes = true, .timeout_s = 60};

static bool says(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Ends a broken communicator; the runner must not destroy it again. */
static void abort_comm(test_rank *r)
{
    rank_ok(r, ncclCommAbort(r->comm));
    r->comm = NULL;
}

/* --- ranks that disagree --- */

static void unequal_counts(test_rank *r)
{
    size_t count = r->rank == 0 ? 409600 : 409598;
    float *data = calloc(409600, 4);
    ncclResult_t result = ncclAllReduce(data, data, count, ncclFloat, ncclSum, r->comm, NULL);
    const char *text = ncclGetLastError(r->comm);
    rank_expect(r, result == ncclInvalidArgument, "result %d: %s", (int)result, text);
    rank_expect(r, says(text, "409600") && says(text, "409598"), "message '%s'", text);
    free(data);
    abort_comm(r);
}

static void unequal_counts_are_named(void **state)
{
    (void)state;
    test_ranks_run(3, processes, unequal_counts, NULL);
    setenv("ACCL_CHECK", "1", 1);
    test_ranks_run(3, processes, unequal_counts, NULL);
    unsetenv("ACCL_CHECK");
    test_ranks_run(3, (test_ranks_how){0}, unequal_counts, NULL);
}

static void different_calls(test_rank *r)
{
    char *data = calloc(25503912, 4);
    ncclResult_t result = r->rank == 0 ? ncclBroadcast(data, data, 25503912, ncclFloat, 0, r->comm, NULL) : ncclBroadcast(data, data, 53, ncclHalf, 0, r->comm, NULL);
    const char *text = ncclGetLastError(r->comm);
    rank_expect(r, result == ncclInvalidArgument, "result %d: %s", (int)result, text);
    rank_expect(r, says(text, "broadcast f32 x 25503912") && says(text, "broadcast f16 x 53") && says(text, "sequence number 1"), "message '%s'", text);
    free(data);
    abort_comm(r);
}

static void different_calls_are_named(void **state)
{
    (void)state;
    test_ranks_run(3, processes, different_calls, NULL);
}

static void message_sizes(test_rank *r)
{
    float data[8] = {0};
    ncclResult_t result = r->rank == 0 ? ncclSend(data, 4, ncclFloat, 1, r->comm, NULL) : ncclRecv(data, 8, ncclFloat, 0, r->comm, NULL);
    rank_expect(r, result != ncclSuccess, "a message of 4 arrived as 8");
    if (r->rank == 1) rank_expect(r, says(ncclGetLastError(r->comm), "16 bytes") && says(ncclGetLastError(r->comm), "32 bytes"), "message '%s'", ncclGetLastError(r->comm));
    abort_comm(r);
}

static void message_sizes_must_match(void **state)
{
    (void)state;
    test_ranks_run(2, processes, message_sizes, NULL);
}

/* --- ranks that die, stop or come late --- */

static void survive_kill(test_rank *r)
{
    float data[1024] = {0};
    rank_ok(r, ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, r->comm, NULL));
    int threads = test_threads();
    if (r->rank == 2) raise(SIGKILL);
    cudaStream_t stream;
    rank_ok(r, acclStreamCreate(&stream));
    rank_ok(r, ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, r->comm, stream));
    double begun = lj_now_s();
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess && lj_now_s() - begun < 10) {
        rank_ok(r, ncclCommGetAsyncError(r->comm, &error));
        lj_sleep_s(0.01);
    }
    rank_expect(r, error == ncclRemoteError && lj_now_s() - begun < 5, "async error %d after %.1f s", (int)error, lj_now_s() - begun);
    begun = lj_now_s();
    abort_comm(r);
    rank_expect(r, lj_now_s() - begun < 10, "abort took %.1f s", lj_now_s() - begun);
    acclStreamDestroy(stream);
    rank_expect(r, test_threads() == threads, "%d threads, %d before", test_threads(), threads);
}

/* Runs ranks of which one is meant to die. */
static void a_killed_rank_is_noticed(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    ncclUniqueId id;
    test_rank *all = mmap(NULL, RANKS * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[RANKS];
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    for (int i = 0; i < RANKS; i++) {
        all[i] = (test_rank){.rank = i, .ranks = RANKS, .id = id};
        children[i] = fork();
        if (children[i] == 0) {
            alarm(40);
            rank_ok(&all[i], ncclCommInitRank(&all[i].comm, RANKS, id, i));
            survive_kill(&all[i]);
            _exit(0);
        }
    }
    for (int i = 0; i < RANKS; i++) {
        int status;
        waitpid(children[i], &status, 0);
        if (i == 2) assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else if (!WIFEXITED(status)) fail_msg("rank %d: signal %d", i, WTERMSIG(status));
        if (all[i].failures) fail_msg("rank %d: %s", i, all[i].message);
    }
    munmap(all, RANKS * sizeof *all);
}

static void wait_for_stopped(test_rank *r)
{
    float data[64] = {0};
    pid_t *pids = r->argument;
    pids[r->rank] = getpid();
    rank_ok(r, ncclAllReduce(data, data, 64, ncclFloat, ncclSum, r->comm, NULL));
    if (r->rank == 1) {
        raise(SIGSTOP);
        _exit(0);
    }
    cudaStream_t stream;
    char text[2000];
    rank_ok(r, acclStreamCreate(&stream));
    rank_ok(r, ncclAllReduce(data, data, 64, ncclFloat, ncclSum, r->comm, stream));
    lj_sleep_s(0.5);
    rank_ok(r, acclCommStatus(r->comm, text, sizeof text));
    rank_expect(r, says(text, "rank 0 pid") && says(text, "sequence number 2") && says(text, "lagging: rank 1 at sequence number 1 of 2"), "status '%s'", text);
    unsigned long long last[3];
    int lagging;
    rank_ok(r, acclCommProgress(r->comm, last, &lagging));
    rank_expect(r, lagging == 1 && last[1] == 1 && last[0] == 2, "lagging %d", lagging);
    double begun = lj_now_s();
    abort_comm(r);
    rank_expect(r, lj_now_s() - begun < 5, "abort took %.1f s", lj_now_s() - begun);
    acclStreamDestroy(stream);
    if (r->rank == 0) kill(pids[1], SIGCONT);
}

static void a_stopped_rank_is_named_and_abort_returns(void **state)
{
    (void)state;
    pid_t *pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    test_ranks_run(3, processes, wait_for_stopped, pids);
    munmap(pids, 4096);
}

static void both_send_first(test_rank *r)
{
    enum { COUNT = 100000 };
    int peer = 1 - r->rank;
    float *out = calloc(COUNT, 4), *in = calloc(COUNT, 4);
    for (size_t count = 1; count <= COUNT; count *= 100) {
        out[count - 1] = (float)(r->rank + 1);
        rank_ok(r, ncclGroupStart());
        rank_ok(r, ncclSend(out, count, ncclFloat, peer, r->comm, NULL));
        rank_ok(r, ncclRecv(in, count, ncclFloat, peer, r->comm, NULL));
        rank_ok(r, ncclGroupEnd());
        rank_expect(r, in[count - 1] == (float)(peer + 1), "got %g", (double)in[count - 1]);
    }
    ncclResult_t result = ncclSend(out, r->argument ? COUNT : 1, ncclFloat, peer, r->comm, NULL);
    const char *text = ncclGetLastError(r->comm);
    rank_expect(r, result == ncclSystemError || result == ncclRemoteError, "result %d", (int)result);
    rank_expect(r, result != ncclSystemError || says(text, "ncclGroupStart"), "message '%s'", text);
    free(out);
    free(in);
    abort_comm(r);
}

static void an_exchange_needs_a_group(void **state)
{
    (void)state;
    setenv("ACCL_TIMEOUT", "1", 1);
    test_ranks_run(2, processes, both_send_first, NULL);
    test_ranks_run(2, processes, both_send_first, "large");
    unsetenv("ACCL_TIMEOUT");
}

static void unpaired_send(test_rank *r)
{
    float data = 0;
    if (r->rank == 2) {
        ncclResult_t result = ncclSend(&data, 1, ncclFloat, 1, r->comm, NULL);
        const char *text = ncclGetLastError(r->comm);
        rank_expect(r, result == ncclSystemError && says(text, "rank 2 and rank 1"), "result %d '%s'", (int)result, text);
    } else lj_sleep_s(2);
    abort_comm(r);
}

static void an_unpaired_message_names_its_pair(void **state)
{
    (void)state;
    setenv("ACCL_TIMEOUT", "1", 1);
    test_ranks_run(3, processes, unpaired_send, NULL);
    unsetenv("ACCL_TIMEOUT");
}

static void missing_rank(test_rank *r)
{
    ncclComm_t comm = NULL;
    if (r->rank == 1) return;
    ncclResult_t result = ncclCommInitRank(&comm, 3, r->id, r->rank);
    rank_expect(r, result == ncclSystemError && says(ncclGetLastError(NULL), "missing: 1"), "result %d '%s'", (int)result, ncclGetLastError(NULL));
}

static void a_missing_rank_is_named(void **state)
{
    (void)state;
    setenv("ACCL_TIMEOUT", "1", 1);
    test_ranks_run(3, (test_ranks_how){.processes = true, .no_comm = true}, missing_rank, NULL);
    unsetenv("ACCL_TIMEOUT");
}

static void same_rank_twice(test_rank *r)
{
    ncclComm_t comm = NULL;
    ncclResult_t result = ncclCommInitRank(&comm, 2, r->id, 0);
    rank_expect(r, result != ncclSuccess, "two ranks 0 of 2 made a communicator");
}

static void a_rank_that_comes_twice_is_refused(void **state)
{
    (void)state;
    setenv("ACCL_TIMEOUT", "2", 1);
    test_ranks_run(2, (test_ranks_how){.no_comm = true}, same_rank_twice, NULL);
    unsetenv("ACCL_TIMEOUT");
}

/* --- arithmetic --- */

static void one_rank_average(test_rank *r)
{
    uint16_t in[1025], out[1025];
    for (size_t i = 0; i < 1025; i++) in[i] = lj_bf16_from_float((float)i * 0.37f - 100);
    for (size_t n = 1; n <= 1025; n++) {
        memset(out, 0xee, sizeof out);
        rank_ok(r, ncclAllReduce(in, out, n, ncclBfloat16, ncclAvg, r->comm, NULL));
        rank_expect(r, memcmp(in, out, n * 2) == 0, "n = %zu", n);
    }
}

static void one_rank_average_is_its_input(void **state)
{
    (void)state;
    test_ranks_run(1, (test_ranks_how){0}, one_rank_average, NULL);
}

static void small_addends(test_rank *r)
{
    for (int big = 0; big < r->ranks; big++)
        for (size_t n = 1; n < 5000; n = n * 7 + 1) {
            uint16_t *data = malloc(n * 2);
            for (size_t i = 0; i < n; i++) data[i] = lj_bf16_from_float(r->rank == big ? 256 : 1);
            rank_ok(r, ncclAllReduce(data, data, n, ncclBfloat16, ncclSum, r->comm, NULL));
            for (size_t i = 0; i < n; i++) rank_expect(r, lj_bf16_to_float(data[i]) == 264, "big at %d: %g", big, (double)lj_bf16_to_float(data[i]));
            free(data);
        }
}

static void small_addends_are_kept(void **state)
{
    (void)state;
    test_ranks_run(8, (test_ranks_how){0}, small_addends, NULL);
}

/* With ACCL_REDUCE_ORDER=rank the sum is ((x0 + x1) + x2) + ..., whatever the size. */
static void fixed_order(test_rank *r)
{
    for (size_t n = 1; n < 400000; n = n * 11 + 3) {
        float *data = malloc(n * 4), expected = 0;
        for (int i = 0; i < r->ranks; i++) expected = i ? expected + 1.0f / (float)(i * i * 7 + 3) : 1.0f / 3;
        for (size_t i = 0; i < n; i++) data[i] = 1.0f / (float)(r->rank * r->rank * 7 + 3);
        rank_ok(r, ncclAllReduce(data, data, n, ncclFloat, ncclSum, r->comm, NULL));
        for (size_t i = 0; i < n; i++) rank_expect(r, data[i] == expected, "n = %zu: %.9g, expected %.9g", n, (double)data[i], (double)expected);
        free(data);
    }
}

static void the_order_of_addition_can_be_fixed(void **state)
{
    (void)state;
    setenv("ACCL_REDUCE_ORDER", "rank", 1);
    test_ranks_run(5, (test_ranks_how){0}, fixed_order, NULL);
    test_ranks_run(3, processes, fixed_order, NULL);
    unsetenv("ACCL_REDUCE_ORDER");
}

/* --- the rendezvous --- */

static void sum_once(test_rank *r)
{
    float data = 1;
    rank_ok(r, ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, r->comm, NULL));
    rank_expect(r, data == (float)r->ranks, "sum %g of %d ranks", (double)data, r->ranks);
}

static void two_ranks_share_a_device(void **state)
{
    (void)state;
    int devices[2] = {0, 0}, device;
    ncclComm_t comms[2];
    assert_int_equal(ncclCommInitAll(comms, 2, devices), ncclSuccess);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ncclCommCuDevice(comms[i], &device), ncclSuccess);
        assert_int_equal(device, 0);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(ncclCommDestroy(comms[i]), ncclSuccess);
}

static int listen_on(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 4) == 0) return fd;
    close(fd);
    return -1;
}

/* Port and address that the id names: what a program sees of it. */
static struct sockaddr_in id_address(const ncclUniqueId *id)
{
    struct sockaddr_in address;
    memcpy(&address, id->internal + 16, sizeof address);
    return address;
}

static void listeners_keep_to_loopback_and_range(void **state)
{
    (void)state;
    setenv("ACCL_PORT_RANGE", "50000-50031", 1);
    int taken = listen_on(50000);
    for (int i = 0; i < 8; i++) {
        ncclUniqueId id;
        ncclComm_t comm;
        assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
        struct sockaddr_in address = id_address(&id);
        assert_int_equal(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
        assert_in_range(ntohs(address.sin_port), 50001, 50031);
        assert_int_equal(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
        assert_int_equal(ncclCommDestroy(comm), ncclSuccess);
    }
    setenv("ACCL_PORT_RANGE", "50000-50000", 1);
    ncclUniqueId id;
    if (taken >= 0) {
        assert_int_equal(ncclGetUniqueId(&id), ncclSystemError);
        assert_non_null(strstr(ncclGetLastError(NULL), "50000-50000"));
        close(taken);
    }
    unsetenv("ACCL_PORT_RANGE");
}

static void a_dead_rendezvous_names_both_ends(void **state)
{
    (void)state;
    ncclUniqueId id;
    ncclComm_t comm;
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    assert_int_equal(ncclCommDestroy(comm), ncclSuccess);
    assert_int_not_equal(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess); /* used already */
    const char *text = ncclGetLastError(NULL);
    assert_non_null(strstr(text, "connect from "));
    assert_non_null(strstr(text, " to 127.0.0.1:"));
    assert_null(comm);
}

static void fixed_rounds(test_rank *r)
{
    for (int round = 0; round < 100; round++) {
        ncclUniqueId id;
        rank_ok(r, ncclGetUniqueId(&id));
        rank_ok(r, ncclCommInitRank(&r->comm, r->ranks, id, r->rank));
        if (!r->comm) return;
        sum_once(r);
        rank_ok(r, ncclCommDestroy(r->comm));
        r->comm = NULL;
    }
}

static void a_fixed_port_is_reused_and_guarded(void **state)
{
    (void)state;
    int taken = listen_on(47811);
    assert_true(taken >= 0);
    setenv("NCCL_COMM_ID", "127.0.0.1:47811", 1);
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(ncclCommInitRank(&comm, 1, id, 0), ncclSystemError);
    assert_non_null(strstr(ncclGetLastError(NULL), "127.0.0.1:47811: port in use by another process"));
    close(taken);
    setenv("NCCL_COMM_ID", "127.0.0.1:47812", 1);
    test_ranks_run(2, (test_ranks_how){.processes = true, .no_comm = true, .timeout_s = 100}, fixed_rounds, NULL);
    unsetenv("NCCL_COMM_ID");
}

static void strangers_knock(test_rank *r)
{
    if (r->rank == 0) { /* a connection that says nothing, and one that says something else */
        struct sockaddr_in address = id_address(&r->id);
        int silent = socket(AF_INET, SOCK_STREAM, 0), loud = socket(AF_INET, SOCK_STREAM, 0);
        char noise[48];
        memset(noise, 7, sizeof noise);
        rank_expect(r, connect(silent, (struct sockaddr *)&address, sizeof address) == 0, "connect: %s", strerror(errno));
        rank_expect(r, connect(loud, (struct sockaddr *)&address, sizeof address) == 0, "connect: %s", strerror(errno));
        if (send(loud, noise, sizeof noise, MSG_NOSIGNAL) < 0) test_rank_fail(r, "send: %s", strerror(errno));
        rank_ok(r, ncclCommInitRank(&r->comm, r->ranks, r->id, r->rank));
        close(silent);
        close(loud);
    } else rank_ok(r, ncclCommInitRank(&r->comm, r->ranks, r->id, r->rank));
    if (r->comm) sum_once(r);
}

static void stray_connections_are_turned_away(void **state)
{
    (void)state;
    test_ranks_run(2, (test_ranks_how){.processes = true, .no_comm = true, .timeout_s = 30}, strangers_knock, NULL);
}

/* --- what is left behind --- */

static int shm_entries(void)
{
    int count = 0;
    FILE *list = popen("ls -A /dev/shm | grep -c accl", "r");
    if (list && fscanf(list, "%d", &count) != 1) count = -1;
    if (list) pclose(list);
    return count;
}

static void run_until_killed(test_rank *r)
{
    float *data;
    rank_ok(r, ncclMemAlloc((void **)&data, 1 << 20));
    for (;;) ncclAllReduce(data, data, 1 << 18, ncclFloat, ncclSum, r->comm, NULL);
}

static void killed_jobs_leave_nothing(void **state)
{
    (void)state;
    ncclUniqueId id;
    pid_t children[3];
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            test_rank r = {.rank = i, .ranks = 3, .id = id};
            if (ncclCommInitRank(&r.comm, 3, id, i) == ncclSuccess) run_until_killed(&r);
            _exit(1);
        }
    }
    lj_sleep_s(0.5);
    for (int i = 0; i < 3; i++) kill(children[i], SIGKILL);
    for (int i = 0; i < 3; i++) waitpid(children[i], NULL, 0);
    assert_int_equal(shm_entries(), 0);
    test_ranks_run(3, processes, sum_once, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unequal_counts_are_named),
        cmocka_unit_test(different_calls_are_named),
        cmocka_unit_test(message_sizes_must_match),
        cmocka_unit_test(a_killed_rank_is_noticed),
        cmocka_unit_test(a_stopped_rank_is_named_and_abort_returns),
        cmocka_unit_test(an_exchange_needs_a_group),
        cmocka_unit_test(an_unpaired_message_names_its_pair),
        cmocka_unit_test(a_missing_rank_is_named),
        cmocka_unit_test(a_rank_that_comes_twice_is_refused),
        cmocka_unit_test(one_rank_average_is_its_input),
        cmocka_unit_test(small_addends_are_kept),
        cmocka_unit_test(the_order_of_addition_can_be_fixed),
        cmocka_unit_test(two_ranks_share_a_device),
        cmocka_unit_test(listeners_keep_to_loopback_and_range),
        cmocka_unit_test(a_dead_rendezvous_names_both_ends),
        cmocka_unit_test(a_fixed_port_is_reused_and_guarded),
        cmocka_unit_test(stray_connections_are_turned_away),
        cmocka_unit_test(killed_jobs_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
