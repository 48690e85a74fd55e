/* Training computes the head's loss and its gradient from the same logits. When the gradient's scale does not depend on the
 * loss (it is a weight of the row, known up front), both become one sweep over the vocabulary. */
#include "passes/passes.h"

/* True when `value` needs `from` somewhere above it. */
static bool depends_on(const lj_graph *graph, lj_value value, const lj_node *from, bool *seen)
{
    size_t n = graph->values[value].node;
    const lj_node *node = &graph->nodes[n];
    if (node == from) return true;
    if (node < from || seen[n]) return false; /* older nodes cannot depend on it */
    seen[n] = true;
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && depends_on(graph, node->inputs[i], from, seen)) return true;
    return false;
}

/* The gradient node that belongs to a head_loss and may join it, or NULL. */
static const lj_node *partner(const lj_graph *graph, const lj_node *loss)
{
    const lj_node *found = NULL;
    for (size_t n = 0; n < graph->node_count; n++) {
        const lj_node *node = &graph->nodes[n];
        if (node->op != LJ_OP_head_loss_grad || node->inputs[3] != loss->output + 1) continue;
        if (node->input_count != 5) return NULL; /* it adds into something that may not be there yet */
        if (found || node->inputs[0] != loss->inputs[0] || node->inputs[1] != loss->inputs[1] || node->inputs[2] != loss->inputs[2]) return NULL;
        found = node;
    }
    return found;
}

static bool may_join(const lj_graph *graph, const lj_node *loss, const lj_node *grad)
{
    void *memory;
    if (!grad || lj_alloc_zero("passes", graph->node_count, &memory) != LJ_OK) return false;
    bool joined = !depends_on(graph, grad->inputs[4], loss, memory);
    lj_free(memory);
    return joined;
}

/* Both in one, at the place of the loss. */
static lj_status join(lj_rewrite *rewrite, const lj_node *loss, const lj_node *grad)
{
    lj_value *map = rewrite->map;
    lj_value operands[4] = {map[loss->inputs[0]], map[loss->inputs[1]], map[loss->inputs[2]], map[grad->inputs[4]]};
    lj_graph_at(rewrite->to, loss->file, loss->line);
    lj_value first = lj_node_append(rewrite->to, LJ_OP_head_loss_train, operands, 4, NULL, NULL, 0);
    if (!first) return lj_graph_status(rewrite->to);
    lj_producer(rewrite->to, first)->name = "head";
    map[loss->output] = first, map[loss->output + 1] = lj_output_of(first, 1);
    map[grad->output] = lj_output_of(first, 2), map[grad->output + 1] = lj_output_of(first, 3);
    return LJ_OK;
}

/* Copies `value`'s node and all it needs, if not yet there. */
static lj_status copy_with_needs(lj_rewrite *rewrite, lj_value value)
{
    if (!value || rewrite->map[value]) return LJ_OK;
    const lj_node *node = lj_producer(rewrite->from, value);
    for (int i = 0; i < node->input_count; i++) LJ_TRY(copy_with_needs(rewrite, node->inputs[i]));
    return lj_rewrite_copy(rewrite, node);
}

static lj_status node_rewrite(lj_rewrite *rewrite, const lj_node *node)
{
    const lj_graph *from = rewrite->from;
    if (rewrite->map[node->output]) return LJ_OK;
    if (node->op == LJ_OP_head_loss) {
        const lj_node *grad = partner(from, node);
        if (may_join(from, node, grad)) {
            LJ_TRY(copy_with_needs(rewrite, grad->inputs[4]));
            return join(rewrite, node, grad);
        }
    }
    return lj_rewrite_copy(rewrite, node);
}

lj_status lj_pass_head(lj_graph **graph, const lj_pass_context *context)
{
    (void)context;
    const lj_graph *from = *graph;
    lj_rewrite rewrite;
    LJ_TRY(lj_rewrite_begin(&rewrite, from));
    lj_status status = LJ_OK;
    for (size_t n = 0; n < from->node_count && status == LJ_OK; n++) status = node_rewrite(&rewrite, &from->nodes[n]);
    return lj_rewrite_end(&rewrite, graph, status);
}
