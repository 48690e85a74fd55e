/* The judges are judged: a kernel that is wrong in one element, a result that was not rounded, a store past the end, a plan whose
 * buffers overlap. Each is planted in a running program and must be found. */
#include "codegen/kernel.h"
#include "runtime/program.h"
#include "support/compiled.h"
#include "support/op_cases.h"
#include "support/testing.h"

#include <math.h>

typedef enum { NO_FAULT, ONE_ULP, ONE_NAN, NOT_WRITTEN, NOT_ROUNDED, PAST_THE_END, FAULTS } fault;
static const char *const fault_names[FAULTS] = {"none", "one unit of the last place", "one NaN", "one element not written", "a sum inside that was not rounded", "a store past the end"};

/* The kernel of y = bf16(bf16(x + z) * z) and what is wrong with it. */
typedef struct {
    lj_kernel_fn right;
    lj_dtype dtype;
    int64_t count;
    int result; /* buffer of the result */
    fault fault;
} planted;
static planted plan_of_fault;

static void spoil(const planted *p, void *const *buffers)
{
    size_t at = (size_t)p->count / 2;
    unsigned char *data = buffers[p->result];
    double right = lj_element_get(p->dtype, data, at);
    switch (p->fault) {
    case ONE_ULP: lj_element_set(p->dtype, data, at, right + ldexp(fabs(right), -lj_dtype_rows[p->dtype].mantissa_bits)); break;
    case ONE_NAN: lj_element_set(p->dtype, data, at, NAN); break;
    case NOT_WRITTEN: memset(data + at * lj_dtype_bytes(p->dtype), 0x5b, lj_dtype_bytes(p->dtype)); break;
    case PAST_THE_END: data[(size_t)p->count * lj_dtype_bytes(p->dtype) + 64] = 1; break;
    case NOT_ROUNDED:
        for (size_t i = 0; i < (size_t)p->count; i++) {
            double x = lj_element_get(p->dtype, buffers[0], i), z = lj_element_get(p->dtype, buffers[1], i);
            lj_element_set(p->dtype, data, i, (x + z) * z);
        }
        break;
    default: break;
    }
}

static int faulty(void *const *buffers, const int64_t *sizes, int thread, int threads)
{
    int code = plan_of_fault.right(buffers, sizes, thread, threads);
    if (thread == 0) spoil(&plan_of_fault, buffers);
    return code;
}

static void sum_sheet(test_sheet *sheet)
{
    test_sheet_init(sheet);
    lj_dim n = lj_dim_symbol(sheet->graph, "N");
    lj_type type = lj_type_dims(LJ_BF16, 1, &n);
    lj_value x = test_sheet_input(sheet, type, FILL_WIDE), z = test_sheet_input(sheet, type, FILL_WIDE);
    test_sheet_output(sheet, lj_mul(sheet->graph, lj_add(sheet->graph, x, z), z));
    assert_ok(lj_graph_status(sheet->graph));
}

/* Runs with the fault; true when the judges were content. */
static bool content_with(fault f)
{
    static const int64_t sizes[LJ_MAX_SYMBOLS] = {101};
    test_sheet sheet;
    test_buffers inputs, outputs, expected;
    test_verdict verdict = {.worst_share = 0};
    lj_program *program;
    sum_sheet(&sheet);
    assert_ok(test_compile(sheet.graph, &(test_mode){.threads = 1}, &program));
    assert_int_equal(program->units.count, 1); /* fused */
    assert_string_equal(lj_producer(sheet.graph, program->units.units[0].inputs[0])->name, "in0"); /* x, then z */
    lj_kernel *kernel = program->kernels[0];
    plan_of_fault = (planted){kernel->run, LJ_BF16, 101, 2, f};
    kernel->run = faulty;
    assert_ok(test_inputs_fill(&sheet, sheet.graph, sizes, 9, false, &inputs));
    bool good = test_program_run(program, sheet.graph, sizes, &inputs, &outputs, NULL, &verdict);
    kernel->run = plan_of_fault.right; /* kernels are shared */
    assert_ok(test_outputs_make(sheet.graph, sizes, false, &expected));
    assert_ok(test_reference_run(sheet.graph, sizes, &inputs, &expected, false));
    good = good && test_judge_same_bits(&outputs, &expected, "planted", &verdict);
    test_buffers_release(&inputs), test_buffers_release(&outputs), test_buffers_release(&expected);
    lj_program_destroy(program);
    test_sheet_release(&sheet);
    return good;
}

static void faults_in_kernels_are_caught(void **state)
{
    (void)state;
    assert_true(content_with(NO_FAULT));
    for (int f = NO_FAULT + 1; f < FAULTS; f++)
        if (content_with((fault)f)) fail_msg("not caught: %s", fault_names[f]);
}

/* Node by node too: exposed values with one of them wrong beyond its row's tolerance, in each row with a tolerance. */
static void faults_beyond_a_tolerance_are_caught(void **state)
{
    (void)state;
    static const struct {
        lj_op op;
        double relative; /* of the element with the largest magnitude */
    } rows[] = {{LJ_OP_exp, 1e-6}, {LJ_OP_sum, 3e-6}, {LJ_OP_matmul, 4e-6}, {LJ_OP_rms_norm, 5e-6}, {LJ_OP_swiglu, 3e-6}, {LJ_OP_attention, 4e-5}, {LJ_OP_head_loss, 4e-5}};
    static const int64_t sizes[LJ_MAX_SYMBOLS] = {3, 5, 7, 2};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_sheet sheet;
        test_buffers inputs, outputs;
        op_case c;
        test_sheet_init(&sheet);
        op_case_begin(&c, &sheet, true);
        c.dtype = LJ_F32;
        op_cases[rows[i].op](&c);
        lj_graph *exposed = test_graph_expose(sheet.graph);
        assert_ok(test_inputs_fill(&sheet, exposed, sizes, 1, false, &inputs));
        assert_ok(test_outputs_make(exposed, sizes, false, &outputs));
        assert_ok(test_reference_run(exposed, sizes, &inputs, &outputs, false));
        test_run run = {exposed, sizes, &inputs, &outputs};
        test_verdict verdict = {.worst_share = 0};
        if (!test_judge_nodes(&run, &verdict)) fail_msg("%s judged by itself: %s", lj_op_rows[rows[i].op].name, verdict.text);
        lj_value judged = 0;
        for (size_t n = 0; n < exposed->node_count && !judged; n++)
            if (exposed->nodes[n].op == rows[i].op) judged = exposed->nodes[n].output;
        char name[16];
        snprintf(name, sizeof name, "v%u", judged);
        test_buffer *buffer = test_buffers_find(&outputs, name);
        int64_t top = 0;
        float *data = (float *)(void *)buffer->data;
        for (int64_t e = 0; e < buffer->count; e++)
            if (fabsf(data[e]) > fabsf(data[top])) top = e;
        data[top] *= (float)(1 + rows[i].relative * (rows[i].op == LJ_OP_exp ? 1 : 4));
        if (test_judge_nodes(&run, &verdict)) fail_msg("%s: an error of %g went through", lj_op_rows[rows[i].op].name, rows[i].relative * 4);
        test_buffers_release(&inputs), test_buffers_release(&outputs);
        lj_graph_destroy(exposed);
        test_sheet_release(&sheet);
    }
}

/* exp(x) and tanh(x) as products' operands: two workspace buffers that must live side by side. */
static void two_lives(test_sheet *sheet)
{
    test_sheet_init(sheet);
    lj_graph *g = sheet->graph;
    lj_type type = lj_type_of(LJ_F32, 2, (int64_t[]){24, 24});
    lj_value x = test_sheet_input(sheet, type, FILL_NORMAL);
    lj_value a = lj_matmul(g, lj_exp(g, x), lj_tanh(g, x), 0, 1, LJ_F32, 0);
    test_sheet_output(sheet, a);
    assert_ok(lj_graph_status(g));
}

static void overlapping_buffers_are_caught(void **state)
{
    (void)state;
    static const int64_t sizes[LJ_MAX_SYMBOLS] = {0};
    test_sheet sheet;
    test_buffers inputs, right, wrong;
    test_verdict verdict = {.worst_share = 0};
    lj_program *program;
    lj_plan *plan;
    two_lives(&sheet);
    assert_ok(test_compile(sheet.graph, &(test_mode){.threads = 2}, &program));
    assert_ok(test_inputs_fill(&sheet, sheet.graph, sizes, 1, false, &inputs));
    assert_true(test_program_run(program, sheet.graph, sizes, &inputs, &right, NULL, &verdict));
    assert_ok(lj_plan_get(program, sizes, &plan));
    lj_plan_buffer *moved = NULL, *other = NULL;
    for (size_t b = 0; b < program->buffer_count; b++) {
        if (!plan->buffers[b].bytes) continue;
        if (!moved)
            moved = &plan->buffers[b];
        else if (!other)
            other = &plan->buffers[b];
    }
    assert_non_null(other);
    moved->offset = other->offset;
    assert_int_equal(lj_plan_check(plan->buffers, program->buffer_count, plan->workspace_bytes), LJ_ERR_INVALID);
    assert_true(test_program_run(program, sheet.graph, sizes, &inputs, &wrong, NULL, &verdict)); /* it runs, and is wrong */
    assert_false(test_judge_same_bits(&wrong, &right, "overlap", &verdict));
    test_buffers_release(&inputs), test_buffers_release(&right), test_buffers_release(&wrong);
    lj_program_destroy(program);
    test_sheet_release(&sheet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_in_kernels_are_caught), cmocka_unit_test(faults_beyond_a_tolerance_are_caught),
                                       cmocka_unit_test(overlapping_buffers_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
