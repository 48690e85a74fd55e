/* What nccl-tests checks, over host memory: every collective, type, operation and root, in place and not, odd and unaligned counts, with many ranks in one
 * process and with real processes, against plain arithmetic. Inputs are small integers, so that results are exact in every type. */
#include "support/ranks.h"
#include "support/testing.h"

#include "accl/algorithms.h"
#include "tensor/dtype.h"

#include <stdlib.h>

typedef struct {
    ncclDataType_t types[12];
    int type_count;
    ncclRedOp_t ops[5];
    int op_count;
    size_t counts[12];
    int count_count;
    bool shared;    /* buffers of ncclMemAlloc */
    size_t shift;   /* bytes off alignment */
} sweep;

enum { GUARD = 64, PAINT = 0xa5 };

/* Value of element i of rank r's input: small, never zero for products. */
static double input_value(int rank, size_t i, ncclDataType_t type, ncclRedOp_t op)
{
    bool is_unsigned = type == ncclUint8 || type == ncclUint32 || type == ncclUint64;
    if (op == ncclProd) return (double)((i + (size_t)rank) % 5 == 0 ? 2 : 1) * (!is_unsigned && (i + (size_t)rank) % 7 == 0 ? -1 : 1);
    double value = (double)((i * 3 + (size_t)rank * 5) % 7);
    return is_unsigned ? value : value - 3;
}

static double combine(ncclRedOp_t op, double a, double b)
{
    switch (op) {
    case ncclProd: return a * b;
    case ncclMax: return a > b ? a : b;
    case ncclMin: return a < b ? a : b;
    default: return a + b;
    }
}

static double reduced_value(int ranks, size_t i, ncclDataType_t type, ncclRedOp_t op)
{
    double value = input_value(0, i, type, op);
    for (int r = 1; r < ranks; r++) value = combine(op, value, input_value(r, i, type, op));
    if (op != ncclAvg) return value;
    bool is_float = lj_dtype_rows[type].is_float;
    double mean = value / ranks;
    if (type == ncclFloat32) return (double)((float)value / (float)ranks);
    return is_float ? mean : (double)(int64_t)mean;
}

static double stored(ncclDataType_t type, double value)
{
    if (type == ncclInt8) return (double)(int8_t)(int64_t)value;
    if (type == ncclUint8) return (double)(uint8_t)(int64_t)value;
    if (type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat8e4m3 || type == ncclFloat8e5m2) return lj_dtype_round((lj_dtype)type, (double)(float)value);
    return lj_dtype_round((lj_dtype)type, value);
}

typedef struct {
    unsigned char *base, *data;
    size_t bytes;
    bool shared;
} buffer;

static buffer buffer_make(size_t bytes, const sweep *s)
{
    buffer b = {.bytes = bytes, .shared = s->shared};
    size_t whole = bytes + 2 * GUARD + s->shift;
    if (s->shared) {
        if (ncclMemAlloc((void **)&b.base, whole) != ncclSuccess) abort();
    } else b.base = malloc(whole);
    memset(b.base, PAINT, whole);
    b.data = b.base + GUARD + s->shift;
    return b;
}

static void buffer_free(test_rank *r, buffer *b, const char *what)
{
    for (size_t i = 0; i < GUARD; i++)
        if (b->data[b->bytes + i] != PAINT || b->data[-1 - (ptrdiff_t)i] != PAINT) {
            test_rank_fail(r, "%s: written outside the buffer", what);
            break;
        }
    if (b->shared) ncclMemFree(b->base);
    else free(b->base);
}

static void fill(void *data, int rank, size_t first, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
    unsigned char element[8];
    size_t bytes = lj_dtype_bytes((lj_dtype)type);
    for (size_t i = 0; i < count; i++) {
        lj_element_set((lj_dtype)type, element, 0, input_value(rank, first + i, type, op));
        memcpy((char *)data + i * bytes, element, bytes);
    }
}

static void check(test_rank *r, const void *data, size_t index, ncclDataType_t type, double expected, const char *what, size_t count)
{
    unsigned char element[8] = {0};
    size_t bytes = lj_dtype_bytes((lj_dtype)type);
    memcpy(element, (const char *)data + index * bytes, bytes);
    double got = lj_element_get((lj_dtype)type, element, 0);
    rank_expect(r, got == expected, "%s %s of %zu, element %zu: got %g, expected %g (%s)", what, lj_dtype_name((lj_dtype)type), count, index, got, expected, r->comm ? r->comm->last_algorithm : "");
}

static void try_all_reduce(test_rank *r, const sweep *s, size_t count, ncclDataType_t type, ncclRedOp_t op, bool in_place)
{
    size_t bytes = count * lj_dtype_bytes((lj_dtype)type);
    buffer in = buffer_make(bytes, s), out = buffer_make(bytes, s);
    void *to = in_place ? in.data : out.data;
    fill(in.data, r->rank, 0, count, type, op);
    rank_ok(r, ncclAllReduce(in.data, to, count, type, op, r->comm, NULL));
    for (size_t i = 0; i < count; i++) check(r, to, i, type, stored(type, reduced_value(r->ranks, i, type, op)), "all_reduce", count);
    buffer_free(r, &in, "all_reduce in");
    buffer_free(r, &out, "all_reduce out");
}

static void try_reduce(test_rank *r, const sweep *s, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, bool in_place)
{
    size_t bytes = count * lj_dtype_bytes((lj_dtype)type);
    buffer in = buffer_make(bytes, s), out = buffer_make(bytes, s);
    void *to = r->rank != root ? NULL : in_place ? in.data : out.data;
    fill(in.data, r->rank, 0, count, type, op);
    rank_ok(r, ncclReduce(in.data, to, count, type, op, root, r->comm, NULL));
    for (size_t i = 0; i < count && to; i++) check(r, to, i, type, stored(type, reduced_value(r->ranks, i, type, op)), "reduce", count);
    buffer_free(r, &in, "reduce in");
    buffer_free(r, &out, "reduce out");
}

static void try_reduce_scatter(test_rank *r, const sweep *s, size_t count, ncclDataType_t type, ncclRedOp_t op, bool in_place)
{
    size_t each = count * lj_dtype_bytes((lj_dtype)type), ranks = (size_t)r->ranks, mine = (size_t)r->rank;
    buffer in = buffer_make(each * ranks, s), out = buffer_make(each, s);
    unsigned char *to = in_place ? in.data + mine * each : out.data;
    fill(in.data, r->rank, 0, count * ranks, type, op);
    rank_ok(r, ncclReduceScatter(in.data, to, count, type, op, r->comm, NULL));
    for (size_t i = 0; i < count; i++) check(r, to, i, type, stored(type, reduced_value(r->ranks, mine * count + i, type, op)), "reduce_scatter", count);
    buffer_free(r, &in, "reduce_scatter in");
    buffer_free(r, &out, "reduce_scatter out");
}

static void try_all_gather(test_rank *r, const sweep *s, size_t count, ncclDataType_t type, bool in_place)
{
    size_t each = count * lj_dtype_bytes((lj_dtype)type), ranks = (size_t)r->ranks;
    buffer in = buffer_make(each, s), out = buffer_make(each * ranks, s);
    unsigned char *from = in_place ? out.data + (size_t)r->rank * each : in.data;
    fill(from, r->rank, 0, count, type, ncclSum);
    rank_ok(r, ncclAllGather(from, out.data, count, type, r->comm, NULL));
    for (size_t i = 0; i < count * ranks; i++) check(r, out.data, i, type, stored(type, input_value((int)(i / count), i % count, type, ncclSum)), "all_gather", count);
    buffer_free(r, &in, "all_gather in");
    buffer_free(r, &out, "all_gather out");
}

static void try_broadcast(test_rank *r, const sweep *s, size_t count, ncclDataType_t type, int root, bool in_place)
{
    size_t bytes = count * lj_dtype_bytes((lj_dtype)type);
    buffer in = buffer_make(bytes, s), out = buffer_make(bytes, s);
    void *to = in_place ? in.data : out.data;
    if (r->rank == root) fill(in.data, root, 0, count, type, ncclSum);
    rank_ok(r, in_place ? ncclBcast(in.data, count, type, root, r->comm, NULL) : ncclBroadcast(r->rank == root ? in.data : NULL, to, count, type, root, r->comm, NULL));
    for (size_t i = 0; i < count; i++) check(r, to, i, type, stored(type, input_value(root, i, type, ncclSum)), "broadcast", count);
    buffer_free(r, &in, "broadcast in");
    buffer_free(r, &out, "broadcast out");
}

static void try_all_to_all(test_rank *r, const sweep *s, size_t count, ncclDataType_t type)
{
    size_t each = count * lj_dtype_bytes((lj_dtype)type), ranks = (size_t)r->ranks;
    buffer in = buffer_make(each * ranks, s), out = buffer_make(each * ranks, s);
    fill(in.data, r->rank, 0, count * ranks, type, ncclSum);
    rank_ok(r, ncclGroupStart());
    for (int p = 0; p < r->ranks; p++) {
        rank_ok(r, ncclSend(in.data + (size_t)p * each, count, type, p, r->comm, NULL));
        rank_ok(r, ncclRecv(out.data + (size_t)p * each, count, type, p, r->comm, NULL));
    }
    rank_ok(r, ncclGroupEnd());
    for (size_t i = 0; i < count * ranks; i++)
        check(r, out.data, i, type, stored(type, input_value((int)(i / count), (size_t)r->rank * count + i % count, type, ncclSum)), "all_to_all", count);
    buffer_free(r, &in, "all_to_all in");
    buffer_free(r, &out, "all_to_all out");
}

static void run_sweep(test_rank *r)
{
    const sweep *s = r->argument;
    for (int c = 0; c < s->count_count; c++)
        for (int t = 0; t < s->type_count; t++) {
            size_t count = s->counts[c];
            ncclDataType_t type = s->types[t];
            for (int place = 0; place < 2; place++) {
                for (int o = 0; o < s->op_count; o++) {
                    try_all_reduce(r, s, count, type, s->ops[o], place);
                    try_reduce_scatter(r, s, count, type, s->ops[o], place);
                    try_reduce(r, s, count, type, s->ops[o], (c + t + o) % r->ranks, place);
                }
                try_all_gather(r, s, count, type, place);
                try_broadcast(r, s, count, type, (c + t) % r->ranks, place);
            }
            try_all_to_all(r, s, count, type);
        }
}

static const sweep every_type = {
    .types = {ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2},
    .type_count = 12,
    .ops = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg},
    .op_count = 5,
    .counts = {0, 1, 3, 17, 1021},
    .count_count = 5,
};
/* Staged in pieces, mapped, streamed: sizes round the thresholds. */
static const sweep long_ones = {
    .types = {ncclFloat32, ncclBfloat16, ncclInt8}, .type_count = 3, .ops = {ncclSum}, .op_count = 1, .counts = {4099, 65537, 300007}, .count_count = 3};

static void every_type_in_threads(void **state)
{
    (void)state;
    static const int ranks[] = {1, 2, 3, 5, 8, 11};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) test_ranks_run(ranks[i], (test_ranks_how){0}, run_sweep, (void *)(uintptr_t)&every_type);
}

static void unaligned_in_threads(void **state)
{
    (void)state;
    sweep s = every_type;
    s.shift = 1;
    test_ranks_run(3, (test_ranks_how){0}, run_sweep, &s);
}

static void long_ones_in_threads(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 5; ranks++) test_ranks_run(ranks, (test_ranks_how){0}, run_sweep, (void *)(uintptr_t)&long_ones);
}

static void ordinary_buffers_in_processes(void **state)
{
    (void)state;
    test_ranks_run(2, (test_ranks_how){.processes = true}, run_sweep, (void *)(uintptr_t)&every_type);
    test_ranks_run(2, (test_ranks_how){.processes = true}, run_sweep, (void *)(uintptr_t)&long_ones);
    test_ranks_run(5, (test_ranks_how){.processes = true}, run_sweep, (void *)(uintptr_t)&long_ones);
}

static void shared_buffers_in_processes(void **state)
{
    (void)state;
    sweep s = long_ones;
    s.shared = true;
    for (int ranks = 2; ranks <= 4; ranks++) test_ranks_run(ranks, (test_ranks_how){.processes = true}, run_sweep, &s);
    s.shift = 4;
    test_ranks_run(3, (test_ranks_how){.processes = true}, run_sweep, &s);
}

/* Some ranks' buffers are mapped, others' are not: everybody must take the same way all the same. */
static void mixed_sweep(test_rank *r)
{
    sweep s = long_ones;
    s.shared = r->rank % 2;
    r->argument = &s;
    run_sweep(r);
}

static void mixed_buffers_in_processes(void **state)
{
    (void)state;
    test_ranks_run(3, (test_ranks_how){.processes = true}, mixed_sweep, NULL);
    setenv("ACCL_CHECK", "1", 1);
    test_ranks_run(3, (test_ranks_how){.processes = true}, mixed_sweep, NULL);
    unsetenv("ACCL_CHECK");
}

static void every_algorithm(void **state)
{
    (void)state;
    static const char *const names[] = {"flat", "scatter_gather", "recursive_doubling", "ring", "tree", "pairwise"};
    static const int ranks[] = {2, 3, 5, 8};
    sweep s = {.types = {ncclFloat32, ncclBfloat16, ncclInt64}, .type_count = 3, .ops = {ncclSum, ncclMax}, .op_count = 2, .counts = {0, 1, 1021, 200003}, .count_count = 4};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("NCCL_ALGO", names[i], 1);
        accl_choice_reload();
        for (size_t n = 0; n < sizeof ranks / sizeof *ranks; n++) {
            s.count_count = ranks[n] > 3 ? 3 : 4;
            test_ranks_run(ranks[n], (test_ranks_how){0}, run_sweep, &s);
        }
        test_ranks_run(3, (test_ranks_how){.processes = true}, run_sweep, &s);
    }
    unsetenv("NCCL_ALGO");
    accl_choice_reload();
}

static void every_way(void **state)
{
    (void)state;
    static const char *const protocols[] = {"LL", "Simple"};
    for (size_t i = 0; i < 2; i++) {
        setenv("NCCL_PROTO", protocols[i], 1);
        accl_choice_reload();
        test_ranks_run(3, (test_ranks_how){.processes = true}, run_sweep, (void *)(uintptr_t)&long_ones);
    }
    unsetenv("NCCL_PROTO");
    accl_choice_reload();
    setenv("ACCL_CMA", "0", 1);
    test_ranks_run(3, (test_ranks_how){.processes = true}, run_sweep, (void *)(uintptr_t)&long_ones);
    unsetenv("ACCL_CMA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type_in_threads),        cmocka_unit_test(unaligned_in_threads),        cmocka_unit_test(long_ones_in_threads),
                                       cmocka_unit_test(ordinary_buffers_in_processes), cmocka_unit_test(shared_buffers_in_processes), cmocka_unit_test(mixed_buffers_in_processes),
                                       cmocka_unit_test(every_algorithm),              cmocka_unit_test(every_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
