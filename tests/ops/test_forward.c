/* Every row of ops.def compiled and run: all its dtypes, odd, single, empty and larger sizes, 1 to 3 threads, eager and fused, against
 * the reference node by node, with sentinels round each buffer. A row without a case does not compile (op_cases.h); a dtype
 * without one fails here. */
#include "support/compiled.h"
#include "support/op_cases.h"
#include "support/testing.h"

#include <stdlib.h>

enum { MOST_THREADS = 3 };

/* Needs other ranks: refused when planned, with the reason. */
static bool needs_ranks(lj_op op)
{
    return op == LJ_OP_send || op == LJ_OP_recv;
}

/* A sheet with the row's cases for every dtype it takes. Returns how many dtypes. */
static int sheet_of(lj_op op, test_sheet *sheet)
{
    int dtypes = 0;
    op_case c;
    test_sheet_init(sheet);
    op_case_begin(&c, sheet, false);
    for (int dtype = 0; dtype < LJ_DTYPE_COUNT; dtype++) {
        if (!(lj_op_rows[op].types >> dtype & 1) || op_dtype_refused(op, (lj_dtype)dtype)) continue;
        c.dtype = (lj_dtype)dtype;
        int before = sheet->output_count;
        op_cases[op](&c);
        if (sheet->output_count == before) fail_msg("%s has no case for %s", lj_op_rows[op].name, lj_dtype_name((lj_dtype)dtype));
        dtypes++;
    }
    assert_ok(lj_graph_status(sheet->graph));
    return dtypes;
}

static bool judge_op(lj_op op)
{
    test_sheet sheet;
    test_subject subject;
    test_verdict verdict = {.worst_share = 0};
    sheet_of(op, &sheet);
    lj_status status = test_subject_init(&subject, &sheet, 1, MOST_THREADS);
    if (status != LJ_OK) test_verdict_fail(&verdict, "compiling: %s", lj_error_message());
    for (int s = 0; s < op_size_count && !*verdict.text; s++) {
        if (test_subject_judge(&subject, op_sizes[s].size, (uint64_t)s + 1, &verdict)) continue;
        char text[600];
        snprintf(text, sizeof text, "%s", verdict.text);
        snprintf(verdict.text, sizeof verdict.text, "sizes '%s': %.550s", op_sizes[s].name, text);
    }
    if (*verdict.text) print_error("%s: %s\n", lj_op_rows[op].name, verdict.text);
    if (getenv("LJ_TEST_SHARES")) printf("%-16s worst share of its tolerance %.3f\n", lj_op_rows[op].name, verdict.worst_share);
    test_subject_release(&subject);
    test_sheet_release(&sheet);
    return !*verdict.text;
}

static void every_row_matches_the_reference(void **state)
{
    (void)state;
    const char *only = getenv("LJ_TEST_OP");
    int wrong = 0, rows = 0;
    for (int op = 0; op < LJ_OP_COUNT; op++) {
        if (needs_ranks((lj_op)op) || (only && strcmp(only, lj_op_rows[op].name) != 0)) continue;
        wrong += !judge_op((lj_op)op);
        rows++;
    }
    printf("%d rows compiled and judged\n", rows);
    assert_int_equal(wrong, 0);
}

static void what_needs_ranks_is_refused(void **state)
{
    (void)state;
    for (int op = 0; op < LJ_OP_COUNT; op++) {
        if (!needs_ranks((lj_op)op)) continue;
        test_sheet sheet;
        lj_program *program = NULL;
        lj_plan_info info;
        sheet_of((lj_op)op, &sheet);
        lj_status status = test_compile(sheet.graph, &(test_mode){.threads = 1}, &program);
        const lj_size sizes[] = {{"A", 1}, {"B", 1}, {"C", 1}, {"D", 1}};
        if (status == LJ_OK) status = lj_program_plan(program, sizes, 4, &info);
        assert_int_equal(status, LJ_ERR_UNSUPPORTED);
        assert_non_null(strstr(lj_error_message(), "rank"));
        lj_program_destroy(program);
        test_sheet_release(&sheet);
    }
}

/* A dtype that the row's mask has and its rule has not must be refused when built. */
static void refused_dtypes_are_refused(void **state)
{
    (void)state;
    for (int op = 0; op < LJ_OP_COUNT; op++)
        for (int dtype = 0; dtype < LJ_DTYPE_COUNT; dtype++) {
            bool allowed = lj_op_rows[op].types >> dtype & 1 && !op_dtype_refused((lj_op)op, (lj_dtype)dtype);
            bool free_choice = op == LJ_OP_call;
            if (allowed || free_choice) continue;
            test_sheet sheet;
            op_case c;
            test_sheet_init(&sheet);
            op_case_begin(&c, &sheet, false);
            c.dtype = (lj_dtype)dtype;
            op_cases[op](&c);
            if (lj_graph_status(sheet.graph) == LJ_OK) fail_msg("%s took %s", lj_op_rows[op].name, lj_dtype_name((lj_dtype)dtype));
            test_sheet_release(&sheet);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_matches_the_reference), cmocka_unit_test(what_needs_ranks_is_refused),
                                       cmocka_unit_test(refused_dtypes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
