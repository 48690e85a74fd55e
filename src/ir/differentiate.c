/* Reverse mode over the graph: walks the nodes backwards from the loss, collects contributions, asks each op's gradient.
 * Patterns of primitives are first given their composite beside them, so that the composite's own gradient is used. */
#include "ir/match.h"
#include "ir/ops.h"

#include <string.h>

typedef struct {
    lj_graph *graph;
    lj_value *gradient; /* by value */
    bool *needed;       /* values that depend on one of `with` */
    size_t count;       /* values at the start: those that have slots */
    lj_value *lifted;   /* by value: first result of the composite that computes it too, or 0 */
} reverse;

static void mark_needed(reverse *r, const lj_value *with, size_t with_count)
{
    lj_graph *g = r->graph;
    for (size_t i = 0; i < with_count; i++) r->needed[with[i]] = true;
    for (size_t n = 0; n < g->node_count; n++) {
        const lj_node *node = &g->nodes[n];
        bool needed = false;
        for (int i = 0; i < node->input_count; i++) needed |= r->needed[node->inputs[i]];
        for (int k = 0; needed && k < node->output_count; k++) {
            lj_value v = node->output + (lj_value)k;
            r->needed[v] |= lj_dtype_rows[lj_type_get(g, v)->dtype].is_float;
        }
    }
}

/* A contribution to the gradient of `value`; dtypes are brought to the gradient's own. */
static void contribute(reverse *r, lj_value value, lj_value part)
{
    lj_graph *g = r->graph;
    if (!value || !part || value >= r->count || !r->needed[value]) return;
    part = lj_cast(g, part, lj_gradient_dtype_of(g, value));
    r->gradient[value] = r->gradient[value] ? lj_add(g, r->gradient[value], part) : part;
}

static void node_reverse(reverse *r, const lj_node *node, const lj_value *douts)
{
    lj_graph *g = r->graph;
    const lj_op_row *row = &lj_op_rows[node->op];
    lj_value dins[64] = {0};
    if (!row->gradient || node->input_count > 64) return;
    char *scope = lj_arena_printf(&g->arena, "%s%sgrad", node->op == LJ_OP_input ? "" : node->name, *node->name ? "." : "");
    const char *saved = g->scope;
    g->scope = scope ? scope : saved;
    lj_graph_at(g, node->file, node->line);
    row->gradient(g, node, douts, dins);
    for (int i = 0; i < node->input_count; i++) contribute(r, node->inputs[i], dins[i]);
    g->scope = saved;
}

static void reverse_run(reverse *r, lj_value loss)
{
    lj_graph *g = r->graph;
    for (size_t n = r->graph->values[loss].node + 1; n-- > 0 && g->status == LJ_OK;) {
        lj_node node = g->nodes[n]; /* a copy: appending moves the array */
        lj_value douts[64] = {0};
        bool any = false;
        for (int k = 0; k < node.output_count && k < 64; k++) any |= (douts[k] = r->gradient[node.output + (lj_value)k]) != 0;
        if (!any) continue;
        if (r->lifted[node.output]) {
            lj_node composite = *lj_producer(g, r->lifted[node.output]);
            node_reverse(r, &composite, douts);
        } else {
            node_reverse(r, &node, douts);
        }
    }
}

/* Gives the values that a composite computes that composite, appended after the forward; CSE and the match pass make them one. */
static void lift(reverse *r)
{
    lj_graph *g = r->graph;
    size_t nodes = g->node_count;
    for (size_t n = 0; n < nodes && g->status == LJ_OK; n++) {
        lj_match match;
        lj_value root = g->nodes[n].output;
        if (!r->needed[root] || !lj_match_root(g, root, &match)) continue;
        lj_graph_at(g, g->nodes[n].file, g->nodes[n].line);
        lj_value first = lj_node_append(g, match.op, match.inputs, match.input_count, &match.attributes, NULL, 0);
        if (first && lj_type_equal(lj_type_get(g, first), lj_type_get(g, root))) r->lifted[root] = first;
    }
}

static lj_status arguments_check(const lj_graph *g, lj_value loss, const lj_value *with, size_t count)
{
    LJ_TRY(lj_graph_status(g));
    if (!loss || loss >= g->value_count) return lj_fail(LJ_ERR_INVALID, "differentiate: the loss is no value of this graph");
    const lj_type *type = lj_type_get(g, loss);
    if (type->rank != 0 || !lj_dtype_rows[type->dtype].is_float) return lj_fail(LJ_ERR_INVALID, "differentiate: the loss must be a float scalar (rank 0)");
    for (size_t i = 0; i < count; i++)
        if (!with[i] || with[i] >= g->value_count || !lj_dtype_rows[lj_type_get(g, with[i])->dtype].is_float)
            return lj_fail(LJ_ERR_INVALID, "differentiate: value %zu of the list is no float value of this graph", i);
    return LJ_OK;
}

static void reverse_start(reverse *r, lj_value loss, const lj_value *with, size_t count)
{
    lj_type type = *lj_type_get(r->graph, loss);
    mark_needed(r, with, count);
    lift(r);
    r->gradient[loss] = lj_const(r->graph, type, 1);
    reverse_run(r, loss);
}

lj_status lj_graph_differentiate(lj_graph *graph, lj_value loss, const lj_value *with, size_t count, lj_value *gradients)
{
    LJ_TRY(arguments_check(graph, loss, with, count));
    lj_arena scratch;
    lj_arena_init(&scratch, "differentiate");
    size_t n = graph->value_count;
    reverse r = {graph, lj_arena_alloc(&scratch, n * sizeof(lj_value)), lj_arena_alloc(&scratch, n), n, lj_arena_alloc(&scratch, n * sizeof(lj_value))};
    if (!r.gradient || !r.needed || !r.lifted) {
        lj_arena_release(&scratch);
        return lj_fail(LJ_ERR_NOMEM, "differentiate: %zu values", n);
    }
    reverse_start(&r, loss, with, count);
    for (size_t i = 0; i < count && graph->status == LJ_OK; i++) {
        lj_type type = *lj_type_get(graph, with[i]);
        type.dtype = lj_gradient_dtype_of(graph, with[i]);
        gradients[i] = r.gradient[with[i]] ? r.gradient[with[i]] : lj_const(graph, type, 0);
    }
    lj_arena_release(&scratch);
    return lj_graph_status(graph);
}
