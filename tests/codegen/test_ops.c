/* Every primitive op that is generated, alone in a kernel, for every dtype of its row, at odd, zero and large sizes, against the
 * reference; the same bits for any number of threads. The cases are those of ops.def (tests/support/op_cases.h), so a new row
 * without a case does not compile. */
#include "support/testing.h"

#include "support/alone.h"
#include "support/differential.h"
#include "support/op_cases.h"

#include <stdlib.h>

static bool is_generated(lj_op op)
{
    switch (lj_op_rows[op].class) {
    case LJ_CLASS_LEAF:
    case LJ_CLASS_UNARY:
    case LJ_CLASS_BINARY:
    case LJ_CLASS_TERNARY:
    case LJ_CLASS_VIEW:
    case LJ_CLASS_MOVE:
    case LJ_CLASS_REDUCE: return true;
    default: return false;
    }
}

typedef struct {
    lj_op op;
    lj_dtype dtype;
    test_sheet sheet;
    lj_graph *exposed;
    test_alone alone;
    size_t first; /* of its kernels in the one list that is built */
} subject;

static subject *subjects;
static size_t subject_count;

/* Every case of these dtypes is compiled; of the others every third, a different third for each dtype: the forms are the same. */
static bool is_main_dtype(lj_dtype dtype)
{
    return dtype == LJ_F32 || dtype == LJ_BF16 || dtype == LJ_I32 || dtype == LJ_BOOL;
}

/* A copy with every third result, from `first`, and what they need. */
static lj_graph *thin_out(const lj_graph *graph, size_t first)
{
    lj_rewrite rewrite;
    lj_graph *copy = NULL;
    bool *needed = calloc(graph->value_count, sizeof *needed);
    size_t kept = 0;
    for (size_t r = first % 3; r < graph->result_count; r += 3, kept++) needed[graph->results[r].value] = true;
    if (!kept) needed[graph->results[0].value] = true;
    assert_ok(lj_rewrite_begin(&rewrite, graph));
    for (size_t n = graph->node_count; n-- > 0;) {
        const lj_node *node = &graph->nodes[n];
        for (int j = 0; needed[node->output] && j < node->input_count; j++) needed[node->inputs[j]] = true;
    }
    for (size_t n = 0; n < graph->node_count; n++)
        if (needed[graph->nodes[n].output] || graph->nodes[n].op == LJ_OP_input) assert_ok(lj_rewrite_copy(&rewrite, &graph->nodes[n]));
    copy = rewrite.to;
    lj_free(rewrite.map);
    free(needed);
    return copy;
}

static void make_subject(lj_op op, lj_dtype dtype)
{
    subject *s = &subjects[subject_count++];
    op_case c;
    s->op = op, s->dtype = dtype;
    test_sheet_init(&s->sheet);
    op_case_begin(&c, &s->sheet, false);
    c.dtype = dtype;
    op_cases[op](&c);
    if (lj_graph_status(s->sheet.graph) != LJ_OK) fail_msg("%s %s: %s", lj_op_rows[op].name, lj_dtype_name(dtype), lj_error_message());
    lj_graph *thin = is_main_dtype(dtype) ? test_graph_copy(s->sheet.graph) : thin_out(s->sheet.graph, (size_t)dtype);
    s->exposed = test_graph_expose(thin);
    lj_graph_destroy(thin);
    assert_ok(test_alone_init(&s->alone, s->exposed));
}

/* All kernels in one call, as a program would. */
static void build_all(void)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < subject_count; i++) count += subjects[i].alone.count;
    const lj_graph **graphs = calloc(count, sizeof *graphs);
    lj_kernel **kernels = calloc(count, sizeof *kernels);
    for (size_t i = 0; i < subject_count; i++)
        for (size_t k = 0; k < subjects[i].alone.count; k++) graphs[at++] = subjects[i].alone.graphs[k];
    assert_ok(lj_kernels_build(graphs, count, kernels));
    at = 0;
    for (size_t i = 0; i < subject_count; i++)
        for (size_t k = 0; k < subjects[i].alone.count; k++) subjects[i].alone.kernels[k] = kernels[at++];
    lj_kernel_counters counters = lj_kernel_counters_get();
    print_message("%zu kernel graphs, %llu compiler runs, %llu cache hits, %.1f s\n", count, (unsigned long long)counters.compiles,
                  (unsigned long long)counters.cache_hits, counters.compile_s);
    free(graphs), free(kernels);
}

static int prepare(void **state)
{
    (void)state;
    subjects = calloc((size_t)LJ_OP_COUNT * LJ_DTYPE_COUNT, sizeof *subjects);
    for (int op = 0; op < LJ_OP_COUNT; op++)
        for (int dtype = 0; dtype < LJ_DTYPE_COUNT; dtype++)
            if (is_generated((lj_op)op) && (lj_op_rows[op].types >> dtype & 1) && !op_dtype_refused((lj_op)op, (lj_dtype)dtype))
                make_subject((lj_op)op, (lj_dtype)dtype);
    build_all();
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++) {
        test_alone_release(&subjects[i].alone);
        lj_graph_destroy(subjects[i].exposed);
        test_sheet_release(&subjects[i].sheet);
    }
    free(subjects);
    return 0;
}

/* The worst share of a tolerance by op, for the printed table. */
static double worst[LJ_OP_COUNT];

static void check(const subject *s, const op_size *size)
{
    test_buffers inputs, one, three;
    test_verdict verdict = {0};
    assert_ok(test_inputs_fill(&s->sheet, s->exposed, size->size, 1234 + (uint64_t)s->op, false, &inputs));
    assert_ok(test_outputs_make(s->exposed, size->size, false, &one));
    assert_ok(test_outputs_make(s->exposed, size->size, false, &three));
    int code = test_alone_run(&s->alone, s->exposed, size->size, 1, &inputs, &one);
    int code3 = test_alone_run(&s->alone, s->exposed, size->size, 3, &inputs, &three);
    test_run run = {s->exposed, size->size, &inputs, &one};
    bool good = code == 0 && code3 == 0 && test_judge_nodes(&run, &verdict) && test_judge_sentinels(&one, &verdict) &&
                test_judge_sentinels(&three, &verdict) && test_judge_sentinels(&inputs, &verdict) &&
                test_judge_same_bits(&one, &three, "1 and 3 threads", &verdict);
    if (verdict.worst_share > worst[s->op]) worst[s->op] = verdict.worst_share;
    test_buffers_release(&inputs), test_buffers_release(&one), test_buffers_release(&three);
    if (!good)
        fail_msg("%s %s, sizes '%s': code %d, %d: %s", lj_op_rows[s->op].name, lj_dtype_name(s->dtype), size->name, code, code3, verdict.text);
}

static void every_row_every_dtype(void **state)
{
    (void)state;
    for (size_t i = 0; i < subject_count; i++)
        for (int k = 0; k < op_size_count; k++) check(&subjects[i], &op_sizes[k]);
    for (int op = 0; op < LJ_OP_COUNT; op++)
        if (worst[op] > 0) print_message("%-10s worst share of its tolerance %.2f\n", lj_op_rows[op].name, worst[op]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_every_dtype)};
    return cmocka_run_group_tests(tests, prepare, clean_up);
}
