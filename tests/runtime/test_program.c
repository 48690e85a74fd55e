/* Programs against the reference: a small graph of each kind of step, fused, eager and planned; sizes that change; wrong uses. */
#include "support/testing.h"

#include "ir/ir.h"
#include "ljperf/program.h"
#include "ref/ref.h"

#include <math.h>

enum { ROWS = 7, COLUMNS = 33, OUT = 20 };

static lj_graph *mlp_graph(void)
{
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    lj_dim n = lj_dim_symbol(g, "N");
    lj_value x = lj_input(g, "x", lj_type_dims(LJ_F32, 2, (lj_dim[]){n, lj_dim_const(COLUMNS)}), LJ_ROLE_DATA);
    lj_value w = lj_input(g, "w", lj_type_of(LJ_F32, 2, (int64_t[]){OUT, COLUMNS}), LJ_ROLE_PARAM);
    lj_value acc = lj_input(g, "acc", lj_type_of(LJ_F32, 2, (int64_t[]){OUT, COLUMNS}), LJ_ROLE_STATE), gradient;
    lj_value y = lj_tanh(g, lj_linear(g, x, w)), loss = lj_sum_all(g, lj_mul(g, y, y));
    assert_ok(lj_graph_differentiate(g, loss, &w, 1, &gradient));
    assert_ok(lj_graph_output(g, "loss", loss));
    assert_ok(lj_graph_output(g, "probabilities", lj_softmax(g, y)));
    assert_ok(lj_graph_assign(g, acc, lj_add(g, acc, gradient)));
    return g;
}

static void fill(float *data, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) data[i] = (float)test_random_normal(&seed);
}

static void expect_near(const float *ours, const float *truth, size_t count, double tolerance)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)ours[i] - (double)truth[i]) <= tolerance * (1 + fabs((double)truth[i])))) fail_msg("element %zu: %g, expected %g", i, (double)ours[i], (double)truth[i]);
}

static void run_against_reference(int eager, int threads)
{
    lj_graph *g = mlp_graph();
    lj_program *p;
    static float x[64 * COLUMNS], w[OUT * COLUMNS], acc[2][OUT * COLUMNS], loss[2], probabilities[2][64 * OUT];
    fill(x, 64 * COLUMNS, 1), fill(w, OUT * COLUMNS, 2);
    lj_program_options options = {.eager = eager, .threads = threads};
    assert_ok(lj_program_compile(g, &options, &p));
    for (int64_t rows = 64; rows >= 0; rows -= 32) {
        lj_size size = {"N", rows};
        fill(acc[0], OUT * COLUMNS, 3), fill(acc[1], OUT * COLUMNS, 3);
        assert_ok(lj_program_bind(p, "x", x));
        assert_ok(lj_program_bind(p, "w", w));
        assert_ok(lj_program_bind(p, "acc", acc[0]));
        assert_ok(lj_program_bind(p, "loss", &loss[0]));
        assert_ok(lj_program_bind(p, "probabilities", probabilities[0]));
        assert_ok(lj_program_run(p, &size, 1));
        lj_ref_binding inputs[] = {{"x", x}, {"w", w}, {"acc", acc[1]}}, outputs[] = {{"loss", &loss[1]}, {"probabilities", probabilities[1]}};
        assert_ok(lj_ref_run(g, &rows, inputs, 3, outputs, 2, NULL));
        expect_near(&loss[0], &loss[1], 1, 1e-5);
        expect_near(probabilities[0], probabilities[1], (size_t)rows * OUT, 1e-5);
        expect_near(acc[0], acc[1], OUT * COLUMNS, 1e-4);
    }
    lj_program_destroy(p);
    lj_graph_destroy(g);
}

static void fused_equals_reference(void **state)
{
    (void)state;
    run_against_reference(0, 1);
    run_against_reference(0, 2);
}

static void eager_equals_reference(void **state)
{
    (void)state;
    run_against_reference(1, 2);
}

static void predicted_bytes_are_counted_bytes(void **state)
{
    (void)state;
    lj_graph *g = mlp_graph();
    lj_program *p;
    lj_plan_info info;
    lj_size size = {"N", 50};
    lj_program_options options = {.name = "counted"};
    assert_ok(lj_program_compile(g, &options, &p));
    assert_ok(lj_program_plan(p, &size, 1, &info));
    assert_int_equal(lj_memory_get("counted.workspace").live_bytes, 0);
    assert_ok(lj_program_commit(p, &size, 1));
    assert_int_equal(lj_memory_get("counted.workspace").live_bytes, info.workspace_bytes);
    lj_program_destroy(p);
    assert_int_equal(lj_memory_get("counted.workspace").live_bytes, 0);
    lj_graph_destroy(g);
}

static void wrong_uses_are_named(void **state)
{
    (void)state;
    lj_graph *g = mlp_graph();
    lj_program *p;
    lj_size size = {"N", 5}, wrong = {"M", 5}, negative = {"N", -1};
    assert_fails(lj_program_compile(g, &(lj_program_options){.disable = "fuze"}, &p), LJ_ERR_NOT_FOUND, "did you mean fuse");
    assert_ok(lj_program_compile(g, NULL, &p));
    assert_fails(lj_program_run(p, &wrong, 1), LJ_ERR_NOT_FOUND, "no size symbol 'M'");
    assert_fails(lj_program_run(p, &negative, 1), LJ_ERR_INVALID, "negative");
    assert_fails(lj_program_run(p, NULL, 0), LJ_ERR_INVALID, "symbol N is not given");
    assert_fails(lj_program_run(p, &size, 1), LJ_ERR_INVALID, "not bound");
    assert_fails(lj_program_bind(p, "los", NULL), LJ_ERR_NOT_FOUND, "did you mean loss");
    lj_program_destroy(p);
    lj_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fused_equals_reference), cmocka_unit_test(eager_equals_reference),
                                       cmocka_unit_test(predicted_bytes_are_counted_bytes), cmocka_unit_test(wrong_uses_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
