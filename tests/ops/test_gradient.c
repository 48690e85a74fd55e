/* Every row's gradient against central differences of the reference in doubles, and composites' gradients against the
 * gradients of their definitions. */
#include "support/differential.h"
#include "support/op_cases.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_INPUTS = 128 };
static const int64_t *const sizes = op_gradient_size.size;

/* A row's sheet with a loss: the weighted sum of float results, and the gradients of every float operand as outputs "g<k>". */
typedef struct {
    test_sheet sheet;
    lj_graph *graph;          /* forward and backward */
    const char *with[MOST_INPUTS]; /* names of the inputs that g0, g1, ... belong to */
    int with_count;
    lj_status status;         /* of the differentiation */
} trial;

/* Which result of its node a value is: statistics (index > 0 of a composite) have no gradient. */
static bool is_statistic(const lj_graph *graph, lj_value value)
{
    const lj_value_row *row = &graph->values[value];
    return row->index > 0 && lj_op_rows[graph->nodes[row->node].op].class == LJ_CLASS_COMPOSITE;
}

static lj_value weighted_sum(test_sheet *sheet, lj_value value)
{
    lj_type type = lj_value_type(sheet->graph, value);
    lj_value weight = test_sheet_input(sheet, type, FILL_NORMAL);
    test_sheet_last(sheet)->constant = true;
    return lj_cast(sheet->graph, lj_sum_all(sheet->graph, lj_mul(sheet->graph, value, weight)), LJ_F64);
}

/* The loss over the sheet's outputs that `statistics` picks; 0 when there are none. */
static lj_value add_loss(test_sheet *sheet, bool statistics)
{
    lj_graph *g = sheet->graph;
    lj_value loss = 0;
    for (size_t r = 0, count = g->result_count; r < count; r++) {
        lj_value value = g->results[r].value;
        if (!lj_dtype_rows[lj_type_get(g, value)->dtype].is_float || is_statistic(g, value) != statistics) continue;
        lj_value term = weighted_sum(sheet, value);
        loss = loss ? lj_add(g, loss, term) : term;
    }
    return loss;
}

static void differentiate(trial *t, lj_value loss)
{
    lj_value with[MOST_INPUTS], gradients[MOST_INPUTS];
    for (int i = 0; i < t->sheet.input_count && t->with_count < MOST_INPUTS; i++) {
        if (t->sheet.inputs[i].constant) continue;
        t->with[t->with_count] = t->sheet.inputs[i].name;
        with[t->with_count++] = lj_graph_find(t->graph, t->sheet.inputs[i].name);
    }
    t->status = lj_graph_differentiate(t->graph, loss, with, (size_t)t->with_count, gradients);
    for (int i = 0; i < t->with_count && t->status == LJ_OK; i++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", i);
        t->status = lj_graph_output(t->graph, name, gradients[i]);
    }
}

/* False: the row has no float result to differentiate (of that kind). */
static bool trial_begin(trial *t, lj_op op, bool statistics)
{
    memset(t, 0, sizeof *t);
    test_sheet_init(&t->sheet);
    t->graph = t->sheet.graph;
    op_case c;
    op_case_begin(&c, &t->sheet, true);
    c.dtype = lj_op_rows[op].types >> LJ_F64 & 1 ? LJ_F64 : lj_op_rows[op].types >> LJ_I64 & 1 ? LJ_I64 : LJ_BOOL;
    op_cases[op](&c);
    lj_value loss = add_loss(&t->sheet, statistics);
    assert_ok(lj_graph_status(t->graph));
    if (!loss) return false;
    assert_ok(lj_graph_output(t->graph, "loss", loss));
    return true;
}

static void trial_end(trial *t)
{
    test_sheet_release(&t->sheet);
}

/* A graph with the loss alone as its output, for the many runs of the differences. */
static lj_graph *loss_graph(const lj_graph *graph)
{
    lj_graph *copy = test_graph_copy(graph);
    size_t kept = 0;
    for (size_t r = 0; r < copy->result_count; r++)
        if (strcmp(copy->results[r].name, "loss") == 0) copy->results[kept++] = copy->results[r];
    copy->result_count = kept;
    return copy;
}

static double loss_at(const lj_graph *graph, const test_buffers *inputs)
{
    test_buffers outputs;
    assert_ok(test_outputs_make(graph, sizes, true, &outputs));
    assert_ok(test_reference_run(graph, sizes, inputs, &outputs, true));
    double loss = *(double *)outputs.rows[0].data;
    test_buffers_release(&outputs);
    return loss;
}

static double largest(const test_buffer *buffer)
{
    double most = 0;
    for (int64_t i = 0; i < buffer->count; i++) most = fmax(most, fabs(((double *)buffer->data)[i]));
    return most;
}

/* Every element of every operand moved both ways. Returns the worst error over the largest gradient of that operand. */
static double differences_error(const trial *t, const lj_graph *forward, test_buffers *inputs, const test_buffers *gradients, char *where, size_t room)
{
    double worst = 0;
    for (int k = 0; k < t->with_count; k++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", k);
        test_buffer *input = test_buffers_find(inputs, t->with[k]), *gradient = test_buffers_find(gradients, name);
        double scale = fmax(largest(gradient), 1e-3);
        for (int64_t i = 0; i < input->count; i++) {
            double *x = (double *)input->data + i, saved = *x, step = 1e-5 * fmax(1, fabs(saved));
            double up = (*x = saved + step, loss_at(forward, inputs)), down = (*x = saved - step, loss_at(forward, inputs));
            *x = saved;
            double difference = (up - down) / (2 * step), error = fabs(difference - ((double *)gradient->data)[i]) / scale;
            if (error <= worst && error == error) continue;
            worst = error == error ? error : INFINITY;
            snprintf(where, room, "operand %s element %lld: gradient %.10g, difference %.10g", t->with[k], (long long)i, ((double *)gradient->data)[i], difference);
        }
    }
    return worst;
}

static test_buffers run_exact(const lj_graph *graph, const test_buffers *inputs)
{
    test_buffers outputs;
    assert_ok(test_outputs_make(graph, sizes, true, &outputs));
    assert_ok(test_reference_run(graph, sizes, inputs, &outputs, true));
    return outputs;
}

/* The row's gradient function (or its absence: zero) is right when the differences agree to 1e-6. */
static double row_error(lj_op op, char *where, size_t room)
{
    trial t;
    double worst = 0;
    if (trial_begin(&t, op, false)) {
        lj_value loss = lj_graph_find(t.graph, "loss");
        lj_graph *forward = loss_graph(t.graph);
        test_buffers inputs, outputs;
        differentiate(&t, loss);
        if (t.status == LJ_OK) {
            assert_ok(lj_graph_verify(t.graph));
            assert_ok(test_inputs_fill(&t.sheet, t.graph, sizes, 1, true, &inputs));
            outputs = run_exact(t.graph, &inputs);
            worst = differences_error(&t, forward, &inputs, &outputs, where, room);
            test_buffers_release(&inputs);
            test_buffers_release(&outputs);
        } else {
            worst = INFINITY;
            snprintf(where, room, "%s", lj_error_message());
        }
        lj_graph_destroy(forward);
    }
    trial_end(&t);
    return worst;
}

/* Rows that carry floats but cannot be differentiated: asking for it must be an error, not a silent zero. */
static bool refuses(lj_op op)
{
    switch (op) {
    case LJ_OP_update_rows:
    case LJ_OP_send:
    case LJ_OP_rms_norm_grad:
    case LJ_OP_swiglu_grad:
    case LJ_OP_attention_grad:
    case LJ_OP_head_loss_grad:
    case LJ_OP_head_loss_train:
    case LJ_OP_adamw: return true;
    default: return false;
    }
}

static void gradients_equal_differences(void **state)
{
    (void)state;
    int wrong = 0;
    for (int op = 0; op < LJ_OP_COUNT; op++) {
        char where[400] = "";
        if (refuses((lj_op)op) || op == LJ_OP_recv) continue;
        double error = row_error((lj_op)op, where, sizeof where);
        if (error <= 1e-6) continue;
        print_error("%s: error %.3g; %s\n", lj_op_rows[op].name, error, where);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void what_has_no_gradient_says_so(void **state)
{
    (void)state;
    for (int op = 0; op < LJ_OP_COUNT; op++)
        for (int statistics = 0; statistics < 2; statistics++) {
            trial t;
            bool expected = statistics || refuses((lj_op)op);
            if (trial_begin(&t, (lj_op)op, statistics) && expected) {
                differentiate(&t, lj_graph_find(t.graph, "loss"));
                if (t.status == LJ_OK) fail_msg("%s (%s): differentiated without a word", lj_op_rows[op].name, statistics ? "statistics" : "result");
                assert_int_equal(t.status, LJ_ERR_UNSUPPORTED);
            }
            trial_end(&t);
        }
}

static int composites_in(const lj_graph *graph)
{
    int count = 0;
    for (size_t n = 0; n < graph->node_count; n++) count += lj_op_rows[graph->nodes[n].op].class == LJ_CLASS_COMPOSITE;
    return count;
}

/* The same loss over the definition in primitives, disguised so that it stays primitive. */
static double definition_error(lj_op op)
{
    trial t, plain;
    double worst = 0;
    if (!trial_begin(&t, op, false)) return trial_end(&t), 0;
    plain = t;
    plain.graph = test_graph_decompose(t.graph, true);
    differentiate(&t, lj_graph_find(t.graph, "loss"));
    differentiate(&plain, lj_graph_find(plain.graph, "loss"));
    assert_ok(t.status);
    assert_ok(plain.status);
    assert_int_equal(composites_in(plain.graph), 0);
    test_buffers inputs;
    assert_ok(test_inputs_fill(&t.sheet, t.graph, sizes, 1, true, &inputs));
    test_buffers a = run_exact(t.graph, &inputs), b = run_exact(plain.graph, &inputs);
    for (int k = 0; k < t.with_count; k++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", k);
        test_buffer *x = test_buffers_find(&a, name), *y = test_buffers_find(&b, name);
        double scale = fmax(largest(x), 1e-3);
        for (int64_t i = 0; i < x->count; i++) {
            double error = fabs(((double *)x->data)[i] - ((double *)y->data)[i]) / scale;
            worst = error == error ? fmax(worst, error) : INFINITY;
        }
    }
    test_buffers_release(&inputs), test_buffers_release(&a), test_buffers_release(&b);
    lj_graph_destroy(plain.graph);
    trial_end(&t);
    return worst;
}

static void composites_agree_with_their_definitions(void **state)
{
    (void)state;
    for (int op = 0; op < LJ_OP_COUNT; op++) {
        if (lj_op_rows[op].class != LJ_CLASS_COMPOSITE || refuses((lj_op)op)) continue;
        double error = definition_error((lj_op)op);
        if (!(error <= 1e-9)) fail_msg("%s: its gradient and its definition's differ by %.3g", lj_op_rows[op].name, error);
    }
}

/* -- planted faults ----------------------------------------------------------------------------------------------------------- */

/* Another op of the same class and types in place of a backward node's; false where there is none. */
static bool mutate(lj_node *node)
{
    switch (node->op) {
    case LJ_OP_mul: node->op = LJ_OP_add; return true;
    case LJ_OP_add: node->op = LJ_OP_sub; return true;
    case LJ_OP_sub: node->op = LJ_OP_add; return true;
    case LJ_OP_div: node->op = LJ_OP_mul; return true;
    case LJ_OP_neg: node->op = LJ_OP_abs; return true;
    case LJ_OP_cos: node->op = LJ_OP_sin; return true;
    case LJ_OP_sin: node->op = LJ_OP_cos; return true;
    case LJ_OP_le: node->op = LJ_OP_lt; return false; /* the same but for ties */
    case LJ_OP_where: {
        lj_value a = node->inputs[1];
        node->inputs[1] = node->inputs[2], node->inputs[2] = a;
        return true;
    }
    case LJ_OP_rotary: node->attributes.i[0] = !node->attributes.i[0]; return true;
    case LJ_OP_swiglu_grad: {
        lj_value a = node->inputs[0];
        node->inputs[0] = node->inputs[1], node->inputs[1] = a;
        return true;
    }
    case LJ_OP_attention_grad: node->attributes.f[0] *= 1.01; return true;
    case LJ_OP_dropout: node->attributes.i[0]++; return true;
    default: return false;
    }
}

static bool outputs_equal(const test_buffers *a, const test_buffers *b)
{
    for (size_t r = 0; r < a->count; r++)
        if (memcmp(a->rows[r].data, b->rows[r].data, a->rows[r].bytes) != 0) return false;
    return true;
}

/* Every backward node of a row changed in turn: each change that changes a number must be caught. */
static void mutants_of(lj_op op, int *planted, int *missed)
{
    trial t;
    char where[400];
    if (!trial_begin(&t, op, false)) return trial_end(&t);
    size_t forward_nodes = t.graph->node_count;
    lj_graph *forward = loss_graph(t.graph);
    test_buffers inputs;
    differentiate(&t, lj_graph_find(t.graph, "loss"));
    assert_ok(t.status);
    assert_ok(test_inputs_fill(&t.sheet, t.graph, sizes, 1, true, &inputs));
    test_buffers right = run_exact(t.graph, &inputs);
    int here = 0;
    for (size_t n = forward_nodes; n < t.graph->node_count && here < 3; n++) {
        lj_node saved = t.graph->nodes[n];
        lj_value operands[8] = {0};
        for (int j = 0; j < saved.input_count && j < 8; j++) operands[j] = saved.inputs[j];
        if (!mutate(&t.graph->nodes[n])) {
            t.graph->nodes[n] = saved;
            continue;
        }
        test_buffers wrong = run_exact(t.graph, &inputs);
        if (!outputs_equal(&right, &wrong)) {
            (*planted)++, here++;
            if (differences_error(&t, forward, &inputs, &wrong, where, sizeof where) <= 1e-6) {
                print_error("%s: a gradient with %s changed went through\n", lj_op_rows[op].name, lj_op_rows[saved.op].name);
                (*missed)++;
            }
        }
        test_buffers_release(&wrong);
        t.graph->nodes[n] = saved;
        for (int j = 0; j < saved.input_count && j < 8; j++) saved.inputs[j] = operands[j];
    }
    test_buffers_release(&inputs), test_buffers_release(&right);
    lj_graph_destroy(forward);
    trial_end(&t);
}

static void wrong_gradients_are_caught(void **state)
{
    (void)state;
    int planted = 0, missed = 0;
    for (int op = 0; op < LJ_OP_COUNT; op++)
        if (!refuses((lj_op)op) && op != LJ_OP_recv) mutants_of((lj_op)op, &planted, &missed);
    printf("%d wrong gradients planted\n", planted);
    assert_true(planted >= 40);
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_equal_differences), cmocka_unit_test(what_has_no_gradient_says_so),
                                       cmocka_unit_test(composites_agree_with_their_definitions), cmocka_unit_test(wrong_gradients_are_caught)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
