/* state + product  ->  one product that adds into state. A sum whose other side is a product, a scatter or the head's weight
 * gradient (used nowhere else) is given to that node as its addend, so that gradients accumulate in place:
 *
 *   add(s, matmul(a, b))             -> matmul(a, b, s)
 *   add(s, scatter_add(0, ids, u))   -> scatter_add(s, ids, u)
 *   add(s, scatter_add(b, ids, u))   -> scatter_add(add(s, b), ids, u), then the same for add(s, b)
 *   add(s, head.dw)                  -> head(..., s).dw
 *
 * The order of the additions changes, which the tolerance of these rows covers. */
#include "passes/passes.h"

typedef struct {
    lj_rewrite rewrite;
    uint32_t *uses; /* in the old graph */
    lj_value *addend; /* by old value: what its node is to add (old value), or 0 */
    lj_value *replaced; /* by old value of an add: the value that now holds the sum, or 0 */
} accumulation;

static bool is_zero(const lj_graph *g, lj_value value)
{
    return lj_is(g, value, LJ_OP_const) && lj_producer(g, value)->attributes.f[0] == 0;
}

/* Can the node that makes `part` start from an addend? */
static bool takes_addend(const lj_graph *g, lj_value part)
{
    const lj_node *node = lj_producer(g, part);
    int index = g->values[part].index;
    switch (node->op) {
    case LJ_OP_matmul: return node->input_count == 2 && lj_type_get(g, part)->dtype >= LJ_F32 && lj_type_get(g, part)->dtype <= LJ_F64;
    case LJ_OP_scatter_add: return true;
    case LJ_OP_head_loss_grad: return index == 1 && node->input_count == 5;
    case LJ_OP_head_loss_train: return index == 3 && node->input_count == 4;
    default: return false;
    }
}

/* The addend must be there before the node that is to add it: an input, or made earlier. */
static bool is_ready(const lj_graph *g, lj_value addend, lj_value part)
{
    return g->values[addend].node < g->values[part].node;
}

/* Gives the maker of `part` the addend of `sum`, where it can take one. */
static bool plan_sum(accumulation *a, lj_value sum, lj_value addend, lj_value part)
{
    const lj_graph *g = a->rewrite.from;
    if (a->uses[part] != 1 || a->addend[part] || !takes_addend(g, part) || !is_ready(g, addend, part)) return false;
    const lj_node *node = lj_producer(g, part);
    if (node->op == LJ_OP_scatter_add && !is_zero(g, node->inputs[0])) {
        /* push the addend below the base, which then carries the sum */
        lj_value base = node->inputs[0];
        if (a->uses[base] != 1 || a->addend[base] || !takes_addend(g, base) || !is_ready(g, addend, base)) return false;
        a->addend[base] = addend;
    } else {
        a->addend[part] = addend;
    }
    a->replaced[sum] = part;
    return true;
}

static void plan_sums(accumulation *a)
{
    const lj_graph *g = a->rewrite.from;
    for (size_t n = g->node_count; n-- > 0;) {
        const lj_node *node = &g->nodes[n];
        if (node->op != LJ_OP_add) continue;
        if (!plan_sum(a, node->output, node->inputs[0], node->inputs[1])) plan_sum(a, node->output, node->inputs[1], node->inputs[0]);
    }
}

/* Follows sums that were moved into a later node. */
static lj_value resolve(const accumulation *a, lj_value value)
{
    while (a->replaced[value]) value = a->replaced[value];
    return value;
}

static lj_status copy_with_addend(accumulation *a, const lj_node *node, lj_value addend)
{
    lj_rewrite *r = &a->rewrite;
    lj_value inputs[8], extra = r->map[resolve(a, addend)];
    int count = node->input_count;
    for (int i = 0; i < count; i++) inputs[i] = r->map[resolve(a, node->inputs[i])];
    if (node->op == LJ_OP_scatter_add)
        inputs[0] = extra;
    else
        inputs[count++] = extra;
    lj_graph_at(r->to, node->file, node->line);
    lj_value first = lj_node_append(r->to, node->op, inputs, count, &node->attributes, lj_type_get(r->from, node->output), 1);
    if (!first) return lj_graph_status(r->to);
    lj_producer(r->to, first)->name = lj_arena_strdup(&r->to->arena, node->name);
    if (!lj_producer(r->to, first)->name) return lj_fail(LJ_ERR_NOMEM, "graph copy");
    for (int k = 0; k < node->output_count; k++) r->map[node->output + (lj_value)k] = lj_output_of(first, k);
    return LJ_OK;
}

static lj_status node_rewrite(accumulation *a, const lj_node *node)
{
    lj_rewrite *r = &a->rewrite;
    if (node->op == LJ_OP_add && a->replaced[node->output]) {
        r->map[node->output] = r->map[resolve(a, node->output)];
        return LJ_OK;
    }
    for (int k = 0; k < node->output_count; k++)
        if (a->addend[node->output + (lj_value)k]) return copy_with_addend(a, node, a->addend[node->output + (lj_value)k]);
    return lj_rewrite_copy(r, node);
}

static lj_status run(accumulation *a, lj_graph **graph, lj_arena *scratch)
{
    const lj_graph *from = *graph;
    a->uses = lj_use_counts(from, scratch);
    a->addend = lj_arena_alloc(scratch, from->value_count * sizeof(lj_value));
    a->replaced = lj_arena_alloc(scratch, from->value_count * sizeof(lj_value));
    if (!a->uses || !a->addend || !a->replaced) return lj_fail(LJ_ERR_NOMEM, "accumulate");
    LJ_TRY(lj_rewrite_begin(&a->rewrite, from));
    plan_sums(a);
    lj_status status = LJ_OK;
    for (size_t n = 0; n < from->node_count && status == LJ_OK; n++) status = node_rewrite(a, &from->nodes[n]);
    return lj_rewrite_end(&a->rewrite, graph, status);
}

lj_status lj_pass_accumulate(lj_graph **graph, const lj_pass_context *context)
{
    (void)context;
    accumulation a = {0};
    lj_arena scratch;
    lj_arena_init(&scratch, "passes");
    a.rewrite.from = *graph;
    lj_status status = run(&a, graph, &scratch);
    lj_arena_release(&scratch);
    return status;
}
