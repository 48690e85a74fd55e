/* Rules that every graph keeps between passes. Each is checked again from scratch: a pass that breaks one is found by name. */
#include "ir/ops.h"

#include <string.h>

static lj_status rule_fail(const lj_graph *graph, const lj_node *node, const char *rule)
{
    return lj_fail(LJ_ERR_INVALID, "%s: %s", lj_node_describe(graph, node), rule);
}

/* Operands exist and stand before the node; only optional ones may be missing. */
static lj_status operands_check(const lj_graph *graph, const lj_node *node, size_t index)
{
    const lj_op_row *row = &lj_op_rows[node->op];
    if (node->input_count < row->inputs_min || (row->inputs_max != LJ_ANY_COUNT && node->input_count > row->inputs_max))
        return rule_fail(graph, node, "wrong number of operands");
    for (int i = 0; i < node->input_count; i++) {
        lj_value v = node->inputs[i];
        if (!v && i >= row->inputs_min && row->inputs_max != LJ_ANY_COUNT) continue;
        if (!v || v >= graph->value_count) return rule_fail(graph, node, "an operand is no value");
        if (graph->values[v].node >= index) return rule_fail(graph, node, "an operand is made after its use");
        if (graph->nodes[graph->values[v].node].dead) return rule_fail(graph, node, "an operand's node is dead");
    }
    return LJ_OK;
}

static lj_status outputs_check(const lj_graph *graph, const lj_node *node, size_t index)
{
    const lj_op_row *row = &lj_op_rows[node->op];
    if (row->outputs != LJ_ANY_COUNT && node->output_count != row->outputs) return rule_fail(graph, node, "wrong number of results");
    for (int k = 0; k < node->output_count; k++) {
        lj_value v = node->output + (lj_value)k;
        if (v >= graph->value_count || graph->values[v].node != index || graph->values[v].index != k)
            return rule_fail(graph, node, "a result does not point back to its node");
    }
    return LJ_OK;
}

static lj_status types_check(const lj_graph *graph, const lj_node *node)
{
    const lj_op_row *row = &lj_op_rows[node->op];
    if (node->op == LJ_OP_call) return node->attributes.s ? LJ_OK : rule_fail(graph, node, "a call without a name");
    const lj_type *declared = lj_type_get(graph, node->output);
    lj_infer infer = {.graph = graph, .node = node, .declared = declared};
    LJ_TRY(lj_fail_in(row->infer(&infer), "%s", lj_node_describe(graph, node)));
    for (int k = 0; k < node->output_count; k++)
        if (!lj_type_equal(&infer.outputs[k], lj_type_get(graph, node->output + (lj_value)k))) return rule_fail(graph, node, "a result's type is not the inferred one");
    const lj_type *main_type = node->input_count ? lj_type_get(graph, node->inputs[node->op == LJ_OP_where ? 1 : 0]) : declared;
    return row->types >> main_type->dtype & 1 ? LJ_OK : rule_fail(graph, node, "a dtype that the op does not take");
}

static lj_status names_check(const lj_graph *graph)
{
    for (size_t a = 0; a < graph->node_count; a++) {
        if (graph->nodes[a].op != LJ_OP_input || graph->nodes[a].dead) continue;
        for (size_t b = a + 1; b < graph->node_count; b++)
            if (graph->nodes[b].op == LJ_OP_input && !graph->nodes[b].dead && strcmp(graph->nodes[a].name, graph->nodes[b].name) == 0)
                return rule_fail(graph, &graph->nodes[b], "an input's name is used twice");
    }
    return LJ_OK;
}

/* Outputs by name and assigned states: each once; no output has the name of an input. */
static lj_status results_differ(const lj_graph *graph, size_t i)
{
    const lj_result *r = &graph->results[i];
    for (size_t j = 0; j < i; j++) {
        const lj_result *other = &graph->results[j];
        if (r->state ? r->state == other->state : !other->state && strcmp(r->name, other->name) == 0)
            return lj_fail(LJ_ERR_INVALID, "results %zu and %zu ('%s') are the same state or name twice", j, i, r->name);
    }
    for (size_t n = 0; n < graph->node_count && !r->state; n++)
        if (graph->nodes[n].op == LJ_OP_input && !graph->nodes[n].dead && strcmp(graph->nodes[n].name, r->name) == 0)
            return lj_fail(LJ_ERR_INVALID, "result %zu: the name '%s' is used twice, for an input too", i, r->name);
    return LJ_OK;
}

static lj_status results_check(const lj_graph *graph)
{
    for (size_t i = 0; i < graph->result_count; i++) {
        const lj_result *r = &graph->results[i];
        if (!r->value || r->value >= graph->value_count || lj_producer(graph, r->value)->dead)
            return lj_fail(LJ_ERR_INVALID, "result %zu ('%s') is no live value", i, r->name);
        if (r->state && (!lj_is(graph, r->state, LJ_OP_input) || lj_producer(graph, r->state)->attributes.i[0] != LJ_ROLE_STATE || !lj_type_equal(lj_type_get(graph, r->state), lj_type_get(graph, r->value))))
            return lj_fail(LJ_ERR_INVALID, "assignment %zu does not fit its state", i);
        LJ_TRY(results_differ(graph, i));
    }
    return LJ_OK;
}

lj_status lj_graph_verify(const lj_graph *graph)
{
    LJ_TRY(lj_graph_status(graph));
    for (size_t n = 0; n < graph->node_count; n++) {
        const lj_node *node = &graph->nodes[n];
        if (node->dead) continue;
        if ((unsigned)node->op >= LJ_OP_COUNT) return lj_fail(LJ_ERR_INVALID, "node %zu has no op", n);
        LJ_TRY(operands_check(graph, node, n));
        LJ_TRY(outputs_check(graph, node, n));
        LJ_TRY(types_check(graph, node));
    }
    LJ_TRY(names_check(graph));
    return results_check(graph);
}
