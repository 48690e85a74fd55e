/* Many communicators and random programs: nothing hangs, nothing is left behind. */
#define _GNU_SOURCE
#include "support/ranks.h"
#include "support/testing.h"

#include "accl/accl.h"

#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 300, PROGRAMS = 1000, COMMS = 3 };

static long resident_kib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    if (file) fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void one_round(int ranks)
{
    ncclComm_t comms[8];
    float data[8];
    assert_int_equal(ncclCommInitAll(comms, ranks, NULL), ncclSuccess);
    assert_int_equal(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < ranks; i++) {
        data[i] = (float)(i + 1);
        assert_int_equal(ncclAllReduce(&data[i], &data[i], 1, ncclFloat, ncclSum, comms[i], NULL), ncclSuccess);
    }
    assert_int_equal(ncclGroupEnd(), ncclSuccess);
    for (int i = 0; i < ranks; i++) assert_true(data[i] == (float)(ranks * (ranks + 1) / 2));
    for (int i = 0; i < ranks; i++) assert_int_equal(ncclCommDestroy(comms[i]), ncclSuccess);
}

static void rounds_leave_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) one_round(2 + i % 3);
    int files = test_open_files(), threads = test_threads();
    long memory = resident_kib();
    for (int i = 0; i < ROUNDS; i++) one_round(2 + i % 3);
    assert_int_equal(test_open_files(), files);
    assert_int_equal(test_threads(), threads);
#if !defined(__SANITIZE_ADDRESS__)
    if (resident_kib() > memory + 8192) fail_msg("%ld KiB resident, %ld before %d rounds", resident_kib(), memory, ROUNDS);
#else
    (void)memory;
#endif
}

/* --- random programs --- */

typedef struct {
    int comm, kind, root; /* kind: 0..4 collectives, 5 an exchange of messages */
    size_t count;
    bool on_stream;
} operation;

/* The same program on every rank: groups of operations over the three communicators, each group in an order of the rank's own (operations of one communicator keep
 * theirs), as programs may. */
typedef struct {
    ncclComm_t comms[COMMS];
    cudaStream_t streams[COMMS];
} world;

static float value(int rank, size_t i, int operation_number)
{
    return (float)((size_t)(rank * 3 + operation_number) % 11 + i % 5);
}

static float total(int ranks, size_t i, int number)
{
    float sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(r, i, number);
    return sum;
}

typedef struct {
    operation op;
    float *in, *out;
    size_t out_count;
} placed;

static placed place(test_rank *r, operation op, int number)
{
    size_t n = (size_t)r->ranks, in_count = op.count * (op.kind == 2 || op.kind == 5 ? n : 1), out_count = op.count * (op.kind == 1 || op.kind == 5 ? n : 1);
    placed p = {op, malloc((in_count + 1) * 4), malloc((out_count + 1) * 4), out_count};
    for (size_t i = 0; i < in_count; i++) p.in[i] = value(r->rank, i, number);
    for (size_t i = 0; i < out_count; i++) p.out[i] = -1;
    return p;
}

static void start(test_rank *r, world *w, placed *p)
{
    ncclComm_t comm = w->comms[p->op.comm];
    cudaStream_t stream = p->op.on_stream ? w->streams[p->op.comm] : NULL;
    size_t count = p->op.count;
    switch (p->op.kind) {
    case 0: rank_ok(r, ncclAllReduce(p->in, p->out, count, ncclFloat, ncclSum, comm, stream)); break;
    case 1: rank_ok(r, ncclAllGather(p->in, p->out, count, ncclFloat, comm, stream)); break;
    case 2: rank_ok(r, ncclReduceScatter(p->in, p->out, count, ncclFloat, ncclSum, comm, stream)); break;
    case 3: rank_ok(r, ncclBroadcast(p->in, p->out, count, ncclFloat, p->op.root, comm, stream)); break;
    case 4: rank_ok(r, ncclReduce(p->in, p->out, count, ncclFloat, ncclSum, p->op.root, comm, stream)); break;
    default:
        for (int peer = 0; peer < r->ranks; peer++) {
            rank_ok(r, ncclRecv(p->out + (size_t)peer * count, count, ncclFloat, peer, comm, stream));
            rank_ok(r, ncclSend(p->in + (size_t)peer * count, count, ncclFloat, peer, comm, stream));
        }
    }
}

static void finish(test_rank *r, placed *p, int number)
{
    size_t count = p->op.count;
    for (size_t i = 0; i < p->out_count && count; i++) {
        float expected = 0;
        switch (p->op.kind) {
        case 0: expected = total(r->ranks, i, number); break;
        case 1: expected = value((int)(i / count), i % count, number); break;
        case 2: expected = total(r->ranks, (size_t)r->rank * count + i, number); break;
        case 3: expected = value(p->op.root, i, number); break;
        case 4: expected = r->rank == p->op.root ? total(r->ranks, i, number) : -1; break;
        default: expected = value((int)(i / count), (size_t)r->rank * count + i % count, number);
        }
        rank_expect(r, p->out[i] == expected, "program %d kind %d count %zu element %zu: %g, expected %g", number, p->op.kind, count, i, (double)p->out[i], (double)expected);
    }
    free(p->in);
    free(p->out);
}

static void one_program(test_rank *r, world *w, int number, uint64_t *random)
{
    operation ops[6];
    placed places[6];
    int count = (int)test_random_range(random, 1, 6);
    for (int i = 0; i < count; i++) {
        ops[i] = (operation){(int)test_random_range(random, 0, COMMS - 1), (int)test_random_range(random, 0, 5), (int)test_random_range(random, 0, r->ranks - 1), 0, test_random_range(random, 0, 2) == 0};
        size_t most = (size_t)1 << test_random_range(random, 0, 14);
        ops[i].count = (size_t)test_random_range(random, 0, (int64_t)most);
        places[i] = place(r, ops[i], number);
    }
    rank_ok(r, ncclGroupStart());
    for (int turn = 0; turn < COMMS; turn++) /* communicators in an order of this rank's own */
        for (int i = 0; i < count; i++)
            if (ops[i].comm == (turn + r->rank) % COMMS) start(r, w, &places[i]);
    rank_ok(r, ncclGroupEnd());
    for (int i = 0; i < COMMS; i++) rank_ok(r, acclStreamSynchronize(w->streams[i]));
    for (int i = 0; i < count; i++) finish(r, &places[i], number);
}

static void programs(test_rank *r)
{
    world w;
    uint64_t random = 20260801;
    int number = *(int *)r->argument;
    w.comms[0] = r->comm;
    for (int i = 1; i < COMMS; i++) rank_ok(r, ncclCommSplit(r->comm, 0, i == 1 ? r->rank : -r->rank, &w.comms[i], NULL));
    /* the second one counts ranks backwards: keep the oracle simple by splitting it once more */
    ncclComm_t backwards = w.comms[2];
    rank_ok(r, ncclCommSplit(backwards, 0, r->rank, &w.comms[2], NULL));
    rank_ok(r, ncclCommDestroy(backwards));
    for (int i = 0; i < COMMS; i++) rank_ok(r, acclStreamCreate(&w.streams[i]));
    for (int i = 0; i < number && !r->failures; i++) one_program(r, &w, i, &random);
    for (int i = 0; i < COMMS; i++) rank_ok(r, acclStreamDestroy(w.streams[i]));
    for (int i = 1; i < COMMS; i++) rank_ok(r, ncclCommDestroy(w.comms[i]));
}

static void random_programs_end(void **state)
{
    (void)state;
    int in_threads = PROGRAMS / 2, in_processes = PROGRAMS / 2;
    int files = test_open_files(), threads = test_threads();
    test_ranks_run(3, (test_ranks_how){.timeout_s = 120}, programs, &in_threads);
    test_ranks_run(3, (test_ranks_how){.processes = true, .timeout_s = 120}, programs, &in_processes);
    assert_int_equal(test_open_files(), files);
    assert_int_equal(test_threads(), threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds_leave_nothing), cmocka_unit_test(random_programs_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
