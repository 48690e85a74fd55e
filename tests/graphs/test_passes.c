/* Passes on random graphs and on every op's sheet, judged by the reference alone: what changes no bit must change no bit, what
 * may round less must be equal in exact arithmetic. */
#include "passes/passes.h"
#include "support/differential.h"
#include "support/op_cases.h"
#include "support/random_graph.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>

/* Rewrites of the first kind keep each rounding; those named here round once where the graph rounds twice. */
static const char rounding_passes[] = "match,head,accumulate";

typedef struct {
    const char *disable;
    bool exact, eager;
    double tolerance; /* of the largest element; 0: the same bits */
} comparison;

static const comparison comparisons[] = {
    {rounding_passes, false, false, 0},
    {NULL, false, true, 0},
    {NULL, true, false, 1e-9},
};

/* 0 = -0: a sum of padded zeros may lose a sign. */
static bool outputs_agree(const test_buffers *a, const test_buffers *b, const comparison *c, test_verdict *verdict)
{
    for (size_t r = 0; r < a->count; r++) {
        const test_buffer *mine = &a->rows[r], *other = &b->rows[r];
        lj_dtype dtype = c->exact && lj_dtype_rows[mine->type.dtype].is_float ? LJ_F64 : mine->type.dtype;
        double largest = 1e-3;
        for (int64_t i = 0; i < mine->count; i++) {
            double x = fabs(lj_element_get(dtype, mine->data, (size_t)i));
            if (isfinite(x)) largest = fmax(largest, x);
        }
        for (int64_t i = 0; i < mine->count; i++) {
            double x = lj_element_get(dtype, mine->data, (size_t)i), y = lj_element_get(dtype, other->data, (size_t)i);
            if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= c->tolerance * largest) continue;
            return test_verdict_fail(verdict, "output '%s' (%s) element %lld: %.17g before, %.17g after", mine->name, lj_dtype_name(mine->type.dtype), (long long)i, x, y);
        }
    }
    return true;
}

static bool run_both(const test_sheet *sheet, const lj_graph *passed, const int64_t *sizes, const comparison *c, test_verdict *verdict)
{
    test_buffers inputs, inputs2, before = {0}, after = {0};
    if (test_inputs_fill(sheet, sheet->graph, sizes, 1, c->exact, &inputs) != LJ_OK || test_buffers_copy(&inputs, &inputs2) != LJ_OK) abort();
    if (test_outputs_make(sheet->graph, sizes, c->exact, &before) != LJ_OK || test_outputs_make(sheet->graph, sizes, c->exact, &after) != LJ_OK) abort();
    bool good = true;
    if (test_reference_run(sheet->graph, sizes, &inputs, &before, c->exact) != LJ_OK || test_reference_run(passed, sizes, &inputs2, &after, c->exact) != LJ_OK)
        good = test_verdict_fail(verdict, "the reference failed: %s", lj_error_message());
    good = good && outputs_agree(&before, &after, c, verdict) && outputs_agree(&inputs, &inputs2, c, verdict); /* states too */
    test_buffers_release(&inputs), test_buffers_release(&inputs2), test_buffers_release(&before), test_buffers_release(&after);
    return good;
}

static bool passes_keep(const test_sheet *sheet, const int64_t *sizes, test_verdict *verdict)
{
    bool good = true;
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons && good; i++) {
        const comparison *c = &comparisons[i];
        lj_graph *passed;
        lj_program_options options = {.disable = c->disable, .eager = c->eager};
        if (lj_passes_run(sheet->graph, &options, &passed) != LJ_OK) return test_verdict_fail(verdict, "%s", lj_error_message());
        good = run_both(sheet, passed, sizes, c, verdict);
        if (!good) snprintf(verdict->worst_node, sizeof verdict->worst_node, "%s%s, disabled: %s", c->eager ? "eager " : "", c->exact ? "exact" : "rounded", c->disable ? c->disable : "nothing");
        lj_graph_destroy(passed);
    }
    return good;
}

static bool recipe_fails(void *user, const random_recipe *recipe)
{
    test_verdict *verdict = user, fresh = {.worst_share = 0};
    test_sheet sheet;
    if (random_graph_build(recipe, &sheet) != LJ_OK) {
        test_verdict_fail(&fresh, "building: %s", lj_error_message());
    } else {
        passes_keep(&sheet, recipe->sizes, &fresh);
    }
    test_sheet_release(&sheet);
    if (*fresh.text) *verdict = fresh;
    return *fresh.text != 0;
}

static void print_recipe(const random_recipe *recipe)
{
    test_sheet sheet;
    char *text;
    if (random_graph_build(recipe, &sheet) == LJ_OK && lj_graph_print(sheet.graph, &text) == LJ_OK) {
        print_error("A=%lld B=%lld C=%lld\n%s", (long long)recipe->sizes[0], (long long)recipe->sizes[1], (long long)recipe->sizes[2], text);
        lj_text_free(text);
    }
    test_sheet_release(&sheet);
}

static void random_graphs_keep_their_numbers(void **state)
{
    (void)state;
    const char *from_text = getenv("LJ_TEST_SEED"), *count_text = getenv("LJ_TEST_GRAPHS");
    uint64_t from = from_text ? strtoull(from_text, NULL, 10) : 1, count = count_text ? strtoull(count_text, NULL, 10) : 400;
    int wrong = 0;
    for (uint64_t seed = from; seed < from + count && wrong < 3; seed++) {
        random_recipe recipe;
        test_verdict verdict = {.worst_share = 0};
        random_recipe_make(&recipe, seed);
        if (!recipe_fails(&verdict, &recipe)) continue;
        print_error("seed %llu: %s\n", (unsigned long long)seed, verdict.text);
        random_recipe_shrink(&recipe, recipe_fails, &verdict);
        print_error("smallest: %s (%s)\n", verdict.text, verdict.worst_node);
        print_recipe(&recipe);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void op_sheets_keep_their_numbers(void **state)
{
    (void)state;
    int wrong = 0;
    for (int op = 0; op < LJ_OP_COUNT; op++)
        for (int dtype = 0; dtype < LJ_DTYPE_COUNT; dtype++) {
            if (!(lj_op_rows[op].types >> dtype & 1) || op_dtype_refused((lj_op)op, (lj_dtype)dtype)) continue;
            test_sheet sheet;
            test_verdict verdict = {.worst_share = 0};
            op_case c;
            test_sheet_init(&sheet);
            op_case_begin(&c, &sheet, true);
            c.dtype = (lj_dtype)dtype;
            op_cases[op](&c);
            if (!passes_keep(&sheet, op_gradient_size.size, &verdict)) {
                print_error("%s %s: %s (%s)\n", lj_op_rows[op].name, lj_dtype_name((lj_dtype)dtype), verdict.text, verdict.worst_node);
                wrong++;
            }
            test_sheet_release(&sheet);
        }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(op_sheets_keep_their_numbers), cmocka_unit_test(random_graphs_keep_their_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
