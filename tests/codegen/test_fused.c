/* The fixed kernel graphs, fused: the same bits as op by op, for any number of threads; op by op within each row's tolerance of
 * the reference. Ids out of range, in-place results, and what has no form. */
#include "support/testing.h"

#include "codegen/lower.h"
#include "support/alone.h"
#include "support/differential.h"
#include "support/kernel_graphs.h"

#include <stdlib.h>

static const int64_t sizes[][LJ_MAX_SYMBOLS] = {{3, 5}, {1, 1}, {2, 131}, {0, 4}, {4, 0}, {19, 70}};

typedef struct {
    test_sheet sheet;
    lj_graph *exposed;
    test_alone alone;
    lj_kernel *fused;
} subject;

static subject *subjects;

static void prepare_subject(int i)
{
    subject *s = &subjects[i];
    test_sheet_init(&s->sheet);
    kernel_graph_rows[i].build(&s->sheet);
    if (lj_graph_status(s->sheet.graph) != LJ_OK) fail_msg("%s: %s", kernel_graph_rows[i].name, lj_error_message());
    s->exposed = test_graph_expose(s->sheet.graph);
    assert_ok(test_alone_init(&s->alone, s->exposed));
    lj_status status = lj_kernels_build((const lj_graph *const *)&s->sheet.graph, 1, &s->fused);
    if (status != LJ_OK) fail_msg("%s: %s", kernel_graph_rows[i].name, lj_error_message());
    if (test_alone_build(&s->alone) != LJ_OK) fail_msg("%s, op by op: %s", kernel_graph_rows[i].name, lj_error_message());
}

static int prepare(void **state)
{
    (void)state;
    subjects = calloc((size_t)kernel_graph_count, sizeof *subjects);
    for (int i = 0; i < kernel_graph_count; i++) prepare_subject(i);
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    for (int i = 0; i < kernel_graph_count; i++) {
        test_alone_release(&subjects[i].alone);
        lj_kernel_destroy(subjects[i].fused);
        lj_graph_destroy(subjects[i].exposed);
        test_sheet_release(&subjects[i].sheet);
    }
    free(subjects);
    return 0;
}

/* Outputs "out<k>" beside those of the exposed graph that hold the same value. */
static bool same_as_alone(const subject *s, const test_buffers *fused, const test_buffers *values, const char *what, test_verdict *verdict)
{
    for (size_t r = 0; r < s->sheet.graph->result_count; r++) {
        char name[32];
        snprintf(name, sizeof name, "v%u", s->sheet.graph->results[r].value);
        test_buffer mine = *test_buffers_find(fused, s->sheet.graph->results[r].name);
        mine.name = name;
        test_buffers one = {&mine, 1};
        if (!test_judge_same_bits(&one, values, what, verdict)) return false;
    }
    return true;
}

static void check(int i, const int64_t *at)
{
    const subject *s = &subjects[i];
    static const int teams[] = {1, 2, 3, 7};
    test_buffers inputs, values, fused;
    test_verdict verdict = {0};
    assert_ok(test_inputs_fill(&s->sheet, s->exposed, at, 99, false, &inputs));
    assert_ok(test_outputs_make(s->exposed, at, false, &values));
    int code = test_alone_run(&s->alone, s->exposed, at, 2, &inputs, &values);
    test_run run = {s->exposed, at, &inputs, &values};
    bool good = code == 0 && test_judge_nodes(&run, &verdict) && test_judge_sentinels(&values, &verdict);
    for (int k = 0; k < 4 && good; k++) {
        char what[64];
        snprintf(what, sizeof what, "fused with %d threads beside op by op", teams[k]);
        assert_ok(test_outputs_make(s->sheet.graph, at, false, &fused));
        code = test_kernel_run(s->fused, s->sheet.graph, at, teams[k], &inputs, &fused);
        good = code == 0 && same_as_alone(s, &fused, &values, what, &verdict) && test_judge_sentinels(&fused, &verdict) &&
               test_judge_sentinels(&inputs, &verdict);
        test_buffers_release(&fused);
    }
    test_buffers_release(&inputs), test_buffers_release(&values);
    if (!good) fail_msg("%s at B = %lld, T = %lld: code %d: %s", kernel_graph_rows[i].name, (long long)at[0], (long long)at[1], code, verdict.text);
}

static void fused_is_op_by_op(void **state)
{
    (void)state;
    for (int i = 0; i < kernel_graph_count; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) check(i, sizes[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fused_is_op_by_op)};
    return cmocka_run_group_tests(tests, prepare, clean_up);
}
