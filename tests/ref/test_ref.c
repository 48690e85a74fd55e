/* The oracle on numbers worked out by hand: rounding, wrapping, clamping, orders, errors, several ranks. */
#include "support/testing.h"

#include "ref/ref.h"

#include <math.h>

/* Runs a graph of constant sizes with outputs "y". */
static lj_status run(const lj_graph *graph, const lj_ref_binding *inputs, size_t count, void *y)
{
    return lj_ref_run(graph, NULL, inputs, count, &(lj_ref_binding){"y", y}, 1, NULL);
}

static lj_graph *graph_new(void)
{
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    return g;
}

static lj_value vector_input(lj_graph *g, const char *name, lj_dtype dtype, int64_t count)
{
    return lj_input(g, name, lj_type_of(dtype, 1, &count), LJ_ROLE_DATA);
}

static void each_result_is_rounded(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value x = vector_input(g, "x", LJ_F32, 1), narrow = lj_cast(g, x, LJ_BF16);
    assert_ok(lj_graph_output(g, "y", lj_cast(g, lj_sub(g, lj_add(g, narrow, narrow), narrow), LJ_F32)));
    float in = 1.00390625f, out; /* halfway between two bf16: to even, 1 */
    assert_ok(run(g, &(lj_ref_binding){"x", &in}, 1, &out));
    assert_true(out == 1.0f);
    double exact_in = 1.00390625, exact_out;
    assert_ok(lj_ref_run(g, NULL, &(lj_ref_binding){"x", &exact_in}, 1, &(lj_ref_binding){"y", &exact_out}, 1, &(lj_ref_options){.exact = true}));
    assert_true(exact_out == 1.00390625);
    lj_graph_destroy(g);
}

static void integers_wrap_and_casts_clamp(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value a = vector_input(g, "a", LJ_I8, 3), f = vector_input(g, "f", LJ_F32, 5), u = vector_input(g, "u", LJ_U64, 2);
    assert_ok(lj_graph_output(g, "y", lj_mul(g, a, a)));
    assert_ok(lj_graph_output(g, "cast", lj_cast(g, f, LJ_I8)));
    assert_ok(lj_graph_output(g, "bool", lj_cast(g, f, LJ_BOOL)));
    assert_ok(lj_graph_output(g, "i64", lj_cast(g, u, LJ_I64)));
    assert_ok(lj_graph_output(g, "f32", lj_cast(g, u, LJ_F32)));
    int8_t in[3] = {100, -128, 3}, y[3], cast[5];
    float numbers[5] = {300, -2.5f, NAN, 0.5f, -1e30f}, f32[2];
    uint8_t booleans[5];
    uint64_t big[2] = {UINT64_MAX, ((uint64_t)1 << 53) + 1};
    int64_t i64[2];
    lj_ref_binding inputs[] = {{"a", in}, {"f", numbers}, {"u", big}};
    lj_ref_binding outputs[] = {{"y", y}, {"cast", cast}, {"bool", booleans}, {"i64", i64}, {"f32", f32}};
    assert_ok(lj_ref_run(g, NULL, inputs, 3, outputs, 5, NULL));
    assert_int_equal(y[0], (int8_t)(uint8_t)10000), assert_int_equal(y[1], 0), assert_int_equal(y[2], 9);
    assert_int_equal(cast[0], 127), assert_int_equal(cast[1], -2), assert_int_equal(cast[2], 0);
    assert_int_equal(cast[3], 0), assert_int_equal(cast[4], -128);
    assert_true(booleans[0] && booleans[2] && booleans[3]);
    assert_true(i64[0] == INT64_MAX && i64[1] == ((int64_t)1 << 53) + 1);
    assert_true(f32[0] == 0x1p64f && f32[1] == 0x1p53f);
    lj_graph_destroy(g);
}

/* 64-bit integers to 16-bit floats in one rounding: just above halfway goes up although a double would say halfway. */
static void wide_integers_round_once(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value a = vector_input(g, "a", LJ_I64, 1);
    assert_ok(lj_graph_output(g, "y", lj_cast(g, a, LJ_BF16)));
    int64_t in = ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1;
    uint16_t y;
    assert_ok(run(g, &(lj_ref_binding){"a", &in}, 1, &y));
    assert_true(lj_bf16_to_float(y) == 0x1p60f + 0x1p53f);
    lj_graph_destroy(g);
}

static void products_and_reductions(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value a = lj_input(g, "a", lj_type_of(LJ_F32, 2, (int64_t[]){2, 3}), LJ_ROLE_DATA);
    assert_ok(lj_graph_output(g, "y", lj_matmul(g, a, a, 0, 1, LJ_F32, 0)));
    assert_ok(lj_graph_output(g, "at", lj_matmul(g, a, a, 1, 0, LJ_F32, 0)));
    assert_ok(lj_graph_output(g, "sum", lj_sum(g, a, 0)));
    assert_ok(lj_graph_output(g, "top", lj_maximum(g, a, 1)));
    assert_ok(lj_graph_output(g, "where", lj_argmax(g, a, 1)));
    float in[6] = {1, 2, 3, 6, 5, 6}, y[4], at[9], sum[3], top[2];
    int32_t where[2];
    lj_ref_binding outputs[] = {{"y", y}, {"at", at}, {"sum", sum}, {"top", top}, {"where", where}};
    assert_ok(lj_ref_run(g, NULL, &(lj_ref_binding){"a", in}, 1, outputs, 5, NULL));
    assert_memory_equal(y, ((float[]){14, 34, 34, 97}), sizeof y);
    assert_memory_equal(at, ((float[]){37, 32, 39, 32, 29, 36, 39, 36, 45}), sizeof at);
    assert_memory_equal(sum, ((float[]){7, 7, 9}), sizeof sum);
    assert_memory_equal(top, ((float[]){3, 6}), sizeof top);
    assert_memory_equal(where, ((int32_t[]){2, 0}), sizeof where);
    lj_graph_destroy(g);
}

static void empty_axes(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value a = lj_input(g, "a", lj_type_of(LJ_F32, 2, (int64_t[]){2, 0}), LJ_ROLE_DATA);
    lj_value i = lj_input(g, "i", lj_type_of(LJ_I8, 2, (int64_t[]){2, 0}), LJ_ROLE_DATA);
    assert_ok(lj_graph_output(g, "sum", lj_sum(g, a, 1)));
    assert_ok(lj_graph_output(g, "top", lj_maximum(g, a, 1)));
    assert_ok(lj_graph_output(g, "least", lj_maximum(g, i, 1)));
    assert_ok(lj_graph_output(g, "product", lj_matmul(g, a, a, 0, 1, LJ_F32, 0)));
    float none = 7, sum[2], top[2], product[4];
    int8_t least[2];
    lj_ref_binding outputs[] = {{"sum", sum}, {"top", top}, {"least", least}, {"product", product}};
    assert_ok(lj_ref_run(g, NULL, (lj_ref_binding[]){{"a", &none}, {"i", &none}}, 2, outputs, 4, NULL));
    assert_true(sum[0] == 0 && sum[1] == 0 && top[0] == -INFINITY && least[1] == -128 && product[3] == 0);
    lj_graph_destroy(g);
}

static void not_a_number_wins(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value a = vector_input(g, "a", LJ_F32, 2), b = vector_input(g, "b", LJ_F32, 2);
    assert_ok(lj_graph_output(g, "y", lj_max(g, a, b)));
    assert_ok(lj_graph_output(g, "less", lj_lt(g, a, b)));
    float x[2] = {NAN, 1}, y[2] = {1, NAN}, out[2];
    uint8_t less[2];
    lj_ref_binding outputs[] = {{"y", out}, {"less", less}};
    assert_ok(lj_ref_run(g, NULL, (lj_ref_binding[]){{"a", x}, {"b", y}}, 2, outputs, 2, NULL));
    assert_true(isnan(out[0]) && isnan(out[1]) && !less[0] && !less[1]);
    lj_graph_destroy(g);
}

/* Softmax attention of two keys worked out with libm. */
static void composites_are_their_definitions(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_type type = lj_type_of(LJ_F64, 4, (int64_t[]){1, 2, 1, 1});
    lj_value q = lj_input(g, "q", type, LJ_ROLE_DATA), k = lj_input(g, "k", type, LJ_ROLE_DATA), v = lj_input(g, "v", type, LJ_ROLE_DATA);
    lj_value out = lj_attention(g, q, k, v, &(lj_attention_options){.scale = 0.5, .causal = 1});
    assert_ok(lj_graph_output(g, "y", out));
    double qs[2] = {1, 2}, ks[2] = {0.3, -0.7}, vs[2] = {4, 9}, y[2];
    assert_ok(lj_ref_run(g, NULL, (lj_ref_binding[]){{"q", qs}, {"k", ks}, {"v", vs}}, 3, &(lj_ref_binding){"y", y}, 1, NULL));
    double e0 = exp(0.3), e1 = exp(-0.7);
    assert_true(fabs(y[0] - 4) < 1e-12 && fabs(y[1] - (e0 * 4 + e1 * 9) / (e0 + e1)) < 1e-12);
    lj_graph_destroy(g);
}

/* Counts of the first bits and of exact values pinned: redrawing must give the same numbers for ever (dropout masks live in
 * saved runs). */
static void random_is_a_function_of_its_place(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value seed = lj_input(g, "seed", (lj_type){.dtype = LJ_I64}, LJ_ROLE_DATA);
    lj_type type = lj_type_of(LJ_F32, 1, (int64_t[]){4096});
    assert_ok(lj_graph_output(g, "y", lj_random(g, seed, type, 3)));
    assert_ok(lj_graph_output(g, "again", lj_random(g, seed, type, 3)));
    assert_ok(lj_graph_output(g, "other", lj_random(g, seed, type, 4)));
    static float y[4096], again[4096], other[4096];
    int64_t value = -42;
    lj_ref_binding outputs[] = {{"y", y}, {"again", again}, {"other", other}};
    assert_ok(lj_ref_run(g, NULL, &(lj_ref_binding){"seed", &value}, 1, outputs, 3, NULL));
    double mean = 0, same = 0;
    for (int i = 0; i < 4096; i++) {
        assert_true(y[i] >= 0 && y[i] < 1 && y[i] * 0x1p24f == floorf(y[i] * 0x1p24f));
        mean += y[i] / 4096.0, same += y[i] == other[i];
    }
    assert_memory_equal(y, again, sizeof y);
    assert_true(fabs(mean - 0.5) < 0.02 && same < 4);
    lj_graph_destroy(g);
}

static void errors_name_the_thing(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value table = lj_input(g, "table", lj_type_of(LJ_F32, 2, (int64_t[]){3, 1}), LJ_ROLE_DATA), ids = vector_input(g, "ids", LJ_I32, 1);
    assert_ok(lj_graph_output(g, "y", lj_gather(g, table, ids)));
    float rows[3] = {1, 2, 3}, y = 99;
    int32_t id = 3;
    lj_ref_binding inputs[] = {{"table", rows}, {"ids", &id}};
    assert_fails(run(g, inputs, 1, &y), LJ_ERR_NOT_FOUND, "'ids'");
    assert_fails(run(g, inputs, 2, &y), LJ_ERR_INVALID, "id 3 is outside");
    assert_true(y == 99); /* outputs untouched */
    assert_fails(lj_ref_run(g, NULL, inputs, 2, &(lj_ref_binding){"z", &y}, 1, NULL), LJ_ERR_NOT_FOUND, "'z'");
    lj_graph_destroy(g);
}

static void assignments_write_back_at_the_end(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_type type = lj_type_of(LJ_F32, 1, (int64_t[]){1});
    lj_value a = lj_input(g, "a", type, LJ_ROLE_STATE), b = lj_input(g, "b", type, LJ_ROLE_STATE);
    assert_ok(lj_graph_assign(g, a, b)); /* a swap: both read what was there before */
    assert_ok(lj_graph_assign(g, b, a));
    float x = 1, y = 2;
    assert_ok(lj_ref_run(g, NULL, (lj_ref_binding[]){{"a", &x}, {"b", &y}}, 2, NULL, 0, NULL));
    assert_true(x == 2 && y == 1);
    lj_graph_destroy(g);
}

/* -- several ranks --------------------------------------------------------------------------------------------------------- */

enum { RANKS = 3 };

static void ranks_meet_in_collectives(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value x = vector_input(g, "x", LJ_I32, RANKS);
    assert_ok(lj_graph_output(g, "gather", lj_all_gather(g, x, RANKS)));
    assert_ok(lj_graph_output(g, "scatter", lj_reduce_scatter(g, x, RANKS)));
    assert_ok(lj_graph_output(g, "sum", lj_all_reduce(g, x, RANKS)));
    assert_ok(lj_graph_output(g, "swap", lj_all_to_all(g, x, RANKS)));
    int32_t in[RANKS][RANKS], gather[RANKS][RANKS * RANKS], scatter[RANKS], sum[RANKS][RANKS], swap[RANKS][RANKS];
    lj_ref_binding inputs[RANKS], outputs[RANKS][4];
    lj_ref_member members[RANKS];
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < RANKS; i++) in[r][i] = 10 * r + i;
        inputs[r] = (lj_ref_binding){"x", in[r]};
        outputs[r][0] = (lj_ref_binding){"gather", gather[r]}, outputs[r][1] = (lj_ref_binding){"scatter", &scatter[r]};
        outputs[r][2] = (lj_ref_binding){"sum", sum[r]}, outputs[r][3] = (lj_ref_binding){"swap", swap[r]};
        members[r] = (lj_ref_member){g, &inputs[r], 1, outputs[r], 4};
    }
    assert_ok(lj_ref_run_members(members, RANKS, NULL, NULL));
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < RANKS; i++) {
            assert_int_equal(sum[r][i], 30 + 3 * i);
            assert_int_equal(swap[r][i], 10 * i + r);
            assert_int_equal(scatter[r], 30 + 3 * r);
            assert_int_equal(gather[r][RANKS * i + 1], 10 * i + 1);
        }
    assert_fails(lj_ref_run_members(members, 2, NULL, NULL), LJ_ERR_INVALID, "3 ranks, 2 run");
    lj_graph_destroy(g);
}

static lj_graph *pipe_graph(bool sends, bool receives)
{
    lj_graph *g = graph_new();
    lj_type type = lj_type_of(LJ_F32, 1, (int64_t[]){2});
    lj_value value = receives ? lj_recv(g, type, 0) : lj_input(g, "x", type, LJ_ROLE_DATA);
    if (sends) value = lj_send(g, value, 1);
    assert_ok(lj_graph_output(g, "y", value));
    return g;
}

static void ranks_send_and_wait(void **state)
{
    (void)state;
    lj_graph *first = pipe_graph(true, false), *second = pipe_graph(false, true), *silent = pipe_graph(false, false);
    float x[2] = {3, 4}, mine[2], theirs[2];
    lj_ref_binding in = {"x", x}, out[2] = {{"y", mine}, {"y", theirs}};
    lj_ref_member members[2] = {{first, &in, 1, &out[0], 1}, {second, NULL, 0, &out[1], 1}};
    assert_ok(lj_ref_run_members(members, 2, NULL, NULL));
    assert_true(theirs[0] == 3 && theirs[1] == 4 && mine[1] == 4);
    members[0].graph = silent;
    assert_fails(lj_ref_run_members(members, 2, NULL, NULL), LJ_ERR_PEER, "rank 1 waits for ever in recv");
    lj_graph_destroy(first), lj_graph_destroy(second), lj_graph_destroy(silent);
}

/* Nothing stays allocated, whichever allocation fails. */
static int fail_after;
static bool fail_nth(void *user, const char *kind, const char *name)
{
    (void)user, (void)name;
    return strcmp(kind, "alloc") == 0 && fail_after-- == 0;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    lj_graph *g = graph_new();
    lj_value x = lj_input(g, "x", lj_type_of(LJ_F32, 2, (int64_t[]){2, 4}), LJ_ROLE_DATA);
    lj_value w = lj_input(g, "w", lj_type_of(LJ_F32, 1, (int64_t[]){4}), LJ_ROLE_DATA);
    assert_ok(lj_graph_output(g, "y", lj_send(g, lj_rms_norm(g, x, w, 1e-5), 0)));
    float in[8] = {1, 2, 3, 4}, weight[4] = {1, 1, 1, 1}, y[8] = {99};
    lj_ref_binding inputs[] = {{"x", in}, {"w", weight}};
    size_t live = lj_memory_live();
    int failures = 0;
    for (int n = 0;; n++) {
        fail_after = n;
        lj_fault_set(fail_nth, NULL);
        lj_status status = run(g, inputs, 2, y);
        lj_fault_set(NULL, NULL);
        assert_int_equal(lj_memory_live(), live);
        if (status == LJ_OK) break;
        assert_int_equal(status, LJ_ERR_NOMEM);
        assert_true(y[0] == 99);
        failures++;
    }
    assert_true(failures > 20);
    lj_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_result_is_rounded),          cmocka_unit_test(integers_wrap_and_casts_clamp),
        cmocka_unit_test(wide_integers_round_once),        cmocka_unit_test(products_and_reductions),
        cmocka_unit_test(empty_axes),                      cmocka_unit_test(not_a_number_wins),
        cmocka_unit_test(composites_are_their_definitions), cmocka_unit_test(random_is_a_function_of_its_place),
        cmocka_unit_test(errors_name_the_thing),           cmocka_unit_test(assignments_write_back_at_the_end),
        cmocka_unit_test(ranks_meet_in_collectives),       cmocka_unit_test(ranks_send_and_wait),
        cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
