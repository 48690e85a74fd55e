/* The verifier: a good graph passes; each rule broken once is reported by name. Graphs are broken behind the builders' back. */
#include "support/op_cases.h"
#include "support/testing.h"

/* x f32[2,3] and y = exp(x + x), out "y"; state s = x; nodes 0 input x, 1 input s, 2 add, 3 exp. */
static lj_graph *sound_graph(void)
{
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    lj_type type = lj_type_of(LJ_F32, 2, (int64_t[]){2, 3});
    lj_value x = lj_input(g, "x", type, LJ_ROLE_DATA), s = lj_input(g, "s", type, LJ_ROLE_STATE);
    lj_value y = lj_exp(lj_graph_at(g, "where.c", 7), lj_add(g, x, x));
    assert_ok(lj_graph_output(g, "y", y));
    assert_ok(lj_graph_assign(g, s, y));
    assert_ok(lj_graph_verify(g));
    return g;
}

typedef struct {
    const char *what;
    void (*break_it)(lj_graph *g);
    const char *message;
} rule;

static void operand_missing(lj_graph *g) { g->nodes[2].inputs[1] = 0; }
static void operand_out_of_range(lj_graph *g) { g->nodes[2].inputs[1] = 4000; }
static void operand_after_use(lj_graph *g) { g->nodes[2].inputs[1] = g->nodes[3].output; }
static void operand_of_itself(lj_graph *g) { g->nodes[2].inputs[0] = g->nodes[2].output; }
static void operand_dead(lj_graph *g) { g->nodes[2].dead = true; }
static void operand_count(lj_graph *g) { g->nodes[3].input_count = 0; }
static void operand_excess(lj_graph *g)
{
    lj_value x = g->nodes[0].output;
    lj_value *inputs = lj_arena_alloc(&g->arena, 3 * sizeof *inputs);
    inputs[0] = inputs[1] = inputs[2] = x;
    g->nodes[2].inputs = inputs, g->nodes[2].input_count = 3;
}
static void result_count(lj_graph *g) { g->nodes[3].output_count = 2; }
static void result_of_another(lj_graph *g) { g->values[g->nodes[3].output].node = 0; }
static void result_index(lj_graph *g) { g->values[g->nodes[3].output].index = 1; }
static void result_range(lj_graph *g) { g->nodes[3].output = 999; }
static void type_wrong(lj_graph *g) { g->values[g->nodes[3].output].type.dim[1] = lj_dim_const(4); }
static void type_dtype(lj_graph *g) { g->values[g->nodes[3].output].type.dtype = LJ_BF16; }
static void type_not_allowed(lj_graph *g)
{
    for (size_t v = 1; v < g->value_count; v++) g->values[v].type.dtype = LJ_I32; /* exp takes floats only */
}
static void op_unknown(lj_graph *g) { g->nodes[3].op = (lj_op)LJ_OP_COUNT; }
static void attribute_range(lj_graph *g) { g->nodes[3].op = LJ_OP_sum, g->nodes[3].attributes.i[0] = 2; }
static void name_twice(lj_graph *g) { g->nodes[1].name = "x"; }
static void result_dead(lj_graph *g) { g->nodes[3].dead = true; }
static void result_none(lj_graph *g) { g->results[0].value = 0; }
static void result_far(lj_graph *g) { g->results[0].value = 77; }
static void assign_type(lj_graph *g) { g->values[g->nodes[1].output].type.dtype = LJ_F64; }
static void assign_target(lj_graph *g) { g->results[1].state = g->nodes[2].output; }
static void assign_role(lj_graph *g) { g->nodes[1].attributes.i[0] = LJ_ROLE_DATA; }
static void assign_twice(lj_graph *g)
{
    lj_result result = g->results[1];
    g->results[0] = result;
}
static void output_name_twice(lj_graph *g)
{
    lj_result result = g->results[0];
    g->results[1] = result;
}
static void output_name_of_an_input(lj_graph *g) { g->results[0].name = "x"; }
static void builder_failed(lj_graph *g) { lj_add(g, g->nodes[0].output, 0), lj_node_append(g, LJ_OP_add, NULL, 0, NULL, NULL, 0); }

static const rule rules[] = {
    {"an operand is missing", operand_missing, "add %3"},
    {"an operand is out of range", operand_out_of_range, "an operand is no value"},
    {"an operand comes later", operand_after_use, "made after its use"},
    {"a node reads itself", operand_of_itself, "made after its use"},
    {"an operand's node is dead", operand_dead, "dead"},
    {"too few operands", operand_count, "wrong number of operands"},
    {"too many operands", operand_excess, "wrong number of operands"},
    {"too many results", result_count, "wrong number of results"},
    {"a result names another node", result_of_another, "point back"},
    {"a result has another index", result_index, "point back"},
    {"a result is out of range", result_range, "point back"},
    {"a result's shape is not the inferred one", type_wrong, "not the inferred one"},
    {"a result's dtype is not the inferred one", type_dtype, "not the inferred one"},
    {"a dtype that the op does not take", type_not_allowed, "does not take"},
    {"an op that is none", op_unknown, "no op"},
    {"an axis out of range", attribute_range, "axis 2"},
    {"an input's name twice", name_twice, "used twice"},
    {"an output of a dead node", result_dead, "no live value"},
    {"an output of nothing", result_none, "no live value"},
    {"an output out of range", result_far, "no live value"},
    {"an assignment of another type", assign_type, "does not fit"},
    {"an assignment to no input", assign_target, "does not fit"},
    {"an assignment to an input that is no state", assign_role, "does not fit"},
    {"a state assigned twice", assign_twice, "twice"},
    {"an output's name twice", output_name_twice, "twice"},
    {"an output with an input's name", output_name_of_an_input, "twice"},
    {"a builder that failed", builder_failed, "add takes 2"},
};

static void each_rule_is_noticed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        lj_graph *g = sound_graph();
        rules[i].break_it(g);
        lj_status status = lj_graph_verify(g);
        if (status != LJ_ERR_INVALID) print_error("not noticed: %s\n", rules[i].what);
        assert_int_equal(status, LJ_ERR_INVALID);
        if (!strstr(lj_error_message(), rules[i].message)) fail_msg("%s: the message is \"%s\"", rules[i].what, lj_error_message());
        lj_graph_destroy(g);
    }
}

static void a_fault_is_told_with_its_place(void **state)
{
    (void)state;
    lj_graph *g = sound_graph();
    type_wrong(g);
    assert_fails(lj_graph_verify(g), LJ_ERR_INVALID, "where.c:7");
    lj_graph_destroy(g);
}

/* Every op's sheet, with its gradient where it has one, is sound. */
static void op_sheets_verify(void **state)
{
    (void)state;
    for (int op = 0; op < LJ_OP_COUNT; op++)
        for (int dtype = 0; dtype < LJ_DTYPE_COUNT; dtype++) {
            if (!(lj_op_rows[op].types >> dtype & 1) || op_dtype_refused((lj_op)op, (lj_dtype)dtype)) continue;
            test_sheet sheet;
            op_case c;
            test_sheet_init(&sheet);
            op_case_begin(&c, &sheet, false);
            c.dtype = (lj_dtype)dtype;
            op_cases[op](&c);
            assert_ok(lj_graph_verify(sheet.graph));
            test_sheet_release(&sheet);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_rule_is_noticed), cmocka_unit_test(a_fault_is_told_with_its_place),
                                       cmocka_unit_test(op_sheets_verify)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
