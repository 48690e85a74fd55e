/* What stands round the forms: ids out of range, results over inputs, graphs that have no form. */
#include "support/testing.h"

#include "codegen/kernel.h"
#include "codegen/lower.h"
#include "support/kernel_graphs.h"

#include <stdlib.h>

#define DIMS(...) (int)(sizeof((lj_dim[]){__VA_ARGS__}) / sizeof(lj_dim)), (lj_dim[]){__VA_ARGS__}
#define K(n) lj_dim_const(n)

static lj_graph *fresh(lj_dim *n)
{
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    *n = lj_dim_symbol(g, "N");
    return g;
}

static lj_value in(lj_graph *g, const char *name, lj_dtype dtype, int rank, const lj_dim *dims)
{
    return lj_input(g, name, lj_type_dims(dtype, rank, dims), LJ_ROLE_STATE);
}

static lj_kernel *build(const lj_graph *g)
{
    lj_kernel *kernel = NULL;
    assert_ok(lj_graph_status(g));
    assert_ok(lj_kernels_build(&g, 1, &kernel));
    return kernel;
}

static int run(const lj_kernel *kernel, int64_t n, void **buffers)
{
    int code = 0;
    for (int t = 0; t < 2 && !code; t++) code = kernel->run(buffers, &n, t, 2);
    for (int t = 0; t < 2 && !code && kernel->finish; t++) code = kernel->finish(buffers, &n, t, 2);
    return code;
}

/* -- ids ------------------------------------------------------------------------------------------------------------------- */

static void gathered_ids_are_checked(void **state)
{
    (void)state;
    lj_dim n;
    lj_graph *g = fresh(&n);
    lj_value table = in(g, "table", LJ_F32, DIMS(K(5), K(20))), ids = in(g, "ids", LJ_I32, DIMS(n));
    lj_graph_output(g, "y", lj_neg(g, lj_gather(g, table, ids)));
    lj_kernel *kernel = build(g);
    float rows[5 * 20] = {0}, y[4 * 20];
    const int32_t bad[] = {5, -1, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        int32_t all[4] = {0, 4, 2, 3};
        assert_int_equal(run(kernel, 4, (void *[]){rows, all, y}), 0);
        all[i] = bad[i];
        assert_int_equal(run(kernel, 4, (void *[]){rows, all, y}), 1);
    }
    lj_kernel_destroy(kernel);
    lj_graph_destroy(g);
}

static void scattered_ids_are_checked(void **state)
{
    (void)state;
    for (int narrow = 0; narrow < 2; narrow++) {
        lj_dim n;
        lj_graph *g = fresh(&n);
        lj_dtype dtype = narrow ? LJ_BF16 : LJ_F32;
        lj_value base = in(g, "base", dtype, DIMS(K(5), K(40))), ids = in(g, "ids", LJ_I32, DIMS(n));
        lj_graph_output(g, "y", lj_scatter_add(g, base, ids, in(g, "updates", dtype, DIMS(n, K(40)))));
        lj_kernel *kernel = build(g);
        float rows[5 * 40] = {0}, updates[3 * 40] = {0}, y[5 * 40];
        assert_int_equal(run(kernel, 3, (void *[]){rows, (int32_t[]){4, 0, 4}, updates, y}), 0);
        assert_int_equal(run(kernel, 3, (void *[]){rows, (int32_t[]){4, 0, 5}, updates, y}), 1);
        assert_int_equal(run(kernel, 3, (void *[]){rows, (int32_t[]){-1, 0, 4}, updates, y}), 1);
        lj_kernel_destroy(kernel);
        lj_graph_destroy(g);
    }
}

static void first_rows_are_checked(void **state)
{
    (void)state;
    lj_dim n;
    lj_graph *g = fresh(&n);
    lj_value x = in(g, "x", LJ_F32, DIMS(n, K(6), K(3))), update = in(g, "update", LJ_F32, DIMS(n, K(2), K(3)));
    lj_graph_output(g, "y", lj_update_rows(g, x, update, in(g, "start", LJ_I32, DIMS(n))));
    lj_kernel *kernel = build(g);
    float rows[2 * 18] = {0}, news[2 * 6] = {0}, y[2 * 18];
    assert_int_equal(run(kernel, 2, (void *[]){rows, news, (int32_t[]){4, 0}, y}), 0);
    assert_int_equal(run(kernel, 2, (void *[]){rows, news, (int32_t[]){5, 0}, y}), 1);
    assert_int_equal(run(kernel, 2, (void *[]){rows, news, (int32_t[]){0, -1}, y}), 1);
    lj_kernel_destroy(kernel);
    lj_graph_destroy(g);
}

/* -- in place -------------------------------------------------------------------------------------------------------------- */

static void elementwise_in_place(void **state)
{
    (void)state;
    lj_dim n;
    lj_graph *g = fresh(&n);
    lj_value total = in(g, "total", LJ_F32, DIMS(n, K(33))), x = in(g, "x", LJ_BF16, DIMS(n, K(33)));
    assert_ok(lj_graph_assign(g, total, lj_add(g, total, lj_cast(g, x, LJ_F32))));
    lj_kernel *kernel = build(g);
    float sum[7 * 33];
    uint16_t one[7 * 33];
    for (int i = 0; i < 7 * 33; i++) sum[i] = (float)i, one[i] = 0x3f80;
    assert_int_equal(run(kernel, 7, (void *[]){sum, one, sum}), 0);
    for (int i = 0; i < 7 * 33; i++) assert_true(sum[i] == (float)i + 1);
    lj_kernel_destroy(kernel);
    lj_graph_destroy(g);
}

/* softmax over its own input: every pass but the last only reads. */
static void rows_in_place(void **state)
{
    (void)state;
    lj_dim n;
    lj_graph *g = fresh(&n);
    lj_value x = in(g, "x", LJ_F32, DIMS(n, K(10))), e = lj_exp(g, lj_sub(g, x, lj_maximum(g, x, 1)));
    assert_ok(lj_graph_assign(g, x, lj_div(g, e, lj_sum(g, e, 1))));
    lj_kernel *kernel = build(g);
    float rows[30];
    for (int i = 0; i < 30; i++) rows[i] = 2.5f;
    assert_int_equal(run(kernel, 3, (void *[]){rows, rows}), 0);
    for (int i = 0; i < 30; i++) assert_true(rows[i] == 0.1f);
    lj_kernel_destroy(kernel);
    lj_graph_destroy(g);
}

static void cache_rows_in_place(void **state)
{
    (void)state;
    lj_dim n;
    lj_graph *g = fresh(&n);
    lj_value x = in(g, "x", LJ_BF16, DIMS(n, K(6), K(3))), update = in(g, "update", LJ_BF16, DIMS(n, K(2), K(3)));
    assert_ok(lj_graph_assign(g, x, lj_update_rows(g, x, update, in(g, "start", LJ_I32, DIMS(n)))));
    lj_kernel *kernel = build(g);
    uint16_t rows[2 * 18] = {0}, news[12];
    for (int i = 0; i < 12; i++) news[i] = (uint16_t)(i + 1);
    assert_int_equal(run(kernel, 2, (void *[]){rows, news, (int32_t[]){4, 1}, rows}), 0);
    for (int i = 0; i < 36; i++) {
        int b = i / 18, row = i % 18 / 3, first = b ? 1 : 4, at = row - first;
        assert_int_equal(rows[i], at >= 0 && at < 2 ? b * 6 + at * 3 + i % 3 + 1 : 0);
    }
    lj_kernel_destroy(kernel);
    lj_graph_destroy(g);
}

static void scattered_in_place(void **state)
{
    (void)state;
    lj_dim n;
    lj_graph *g = fresh(&n);
    lj_value base = in(g, "base", LJ_F32, DIMS(K(5), K(40))), ids = in(g, "ids", LJ_I32, DIMS(n));
    assert_ok(lj_graph_assign(g, base, lj_scatter_add(g, base, ids, in(g, "updates", LJ_F32, DIMS(n, K(40))))));
    lj_kernel *kernel = build(g);
    float rows[200] = {0}, updates[120];
    for (int i = 0; i < 120; i++) updates[i] = 1;
    assert_int_equal(run(kernel, 3, (void *[]){rows, (int32_t[]){4, 0, 4}, updates, rows}), 0);
    for (int i = 0; i < 200; i++) assert_true(rows[i] == (i / 40 == 4 ? 2 : i / 40 == 0));
    lj_kernel_destroy(kernel);
    lj_graph_destroy(g);
}

/* What would read an element after it is overwritten is refused, not computed wrongly. */
static void unsafe_in_place_is_refused(void **state)
{
    (void)state;
    lj_lowered *lowered;
    lj_dim n;
    lj_graph *g = fresh(&n);
    lj_value x = in(g, "x", LJ_F32, DIMS(n, K(10)));
    assert_ok(lj_graph_assign(g, x, lj_concat(g, (lj_value[]){lj_slice(g, x, 1, 5, 5), lj_slice(g, x, 1, 0, 5)}, 2, 1)));
    assert_fails(lj_lower(g, &lowered), LJ_ERR_UNSUPPORTED, "cannot be written over input 0");
    lj_graph_destroy(g);
    g = fresh(&n);
    lj_value a = in(g, "a", LJ_F32, DIMS(n, K(10))), sum = lj_add(g, a, in(g, "b", LJ_F32, DIMS(n, K(10))));
    assert_ok(lj_graph_assign(g, a, sum)); /* the second pass would add b again */
    lj_graph_output(g, "y", lj_mul(g, lj_sub(g, a, sum), lj_sum(g, sum, 1)));
    assert_fails(lj_lower(g, &lowered), LJ_ERR_UNSUPPORTED, "cannot be written over input 0");
    assert_int_equal(lj_lower_accepts(g), LJ_ERR_UNSUPPORTED);
    lj_graph_destroy(g);
}

/* -- refusals -------------------------------------------------------------------------------------------------------------- */

static void other_graphs_are_refused(void **state)
{
    (void)state;
    lj_lowered *lowered;
    lj_dim n;
    lj_graph *g = fresh(&n);
    lj_value x = in(g, "x", LJ_F32, DIMS(n, K(8)));
    lj_graph_output(g, "y", lj_linear(g, lj_neg(g, x), in(g, "w", LJ_F32, DIMS(K(4), K(8)))));
    assert_fails(lj_lower(g, &lowered), LJ_ERR_UNSUPPORTED, "matmul");
    lj_graph_destroy(g);
    g = fresh(&n); /* rows of one sum inside another's loop */
    x = in(g, "x", LJ_F32, DIMS(n, K(8)));
    lj_graph_output(g, "y", lj_sum(g, lj_sum(g, x, 1), 0));
    assert_fails(lj_lower(g, &lowered), LJ_ERR_UNSUPPORTED, "two loops");
    lj_graph_destroy(g);
    g = fresh(&n); /* a concat that is not at the root */
    x = in(g, "x", LJ_F32, DIMS(n, K(8)));
    lj_graph_output(g, "y", lj_neg(g, lj_concat(g, (lj_value[]){x, x}, 2, 1)));
    assert_fails(lj_lower(g, &lowered), LJ_ERR_UNSUPPORTED, "concat");
    lj_graph_destroy(g);
    g = fresh(&n); /* columns summed, then used as rows */
    x = in(g, "x", LJ_F32, DIMS(n, K(8)));
    lj_graph_output(g, "y", lj_mul(g, x, lj_broadcast(g, lj_sum(g, x, 0), DIMS(n, K(8)))));
    assert_int_equal(lj_lower_accepts(g), LJ_ERR_UNSUPPORTED);
    lj_graph_destroy(g);
    g = fresh(&n);
    assert_fails(lj_lower(g, &lowered), LJ_ERR_UNSUPPORTED, "no results");
    lj_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathered_ids_are_checked),   cmocka_unit_test(scattered_ids_are_checked),
        cmocka_unit_test(first_rows_are_checked),     cmocka_unit_test(elementwise_in_place),
        cmocka_unit_test(rows_in_place),              cmocka_unit_test(cache_rows_in_place),
        cmocka_unit_test(scattered_in_place),         cmocka_unit_test(unsafe_in_place_is_refused),
        cmocka_unit_test(other_graphs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
