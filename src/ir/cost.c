/* Operations and bytes of a node at given sizes: what the profile, the report and the recompute choice count with. */
#include "ir/ops.h"

static double elements(const lj_graph *graph, lj_value value, const int64_t *sizes)
{
    int64_t count;
    return lj_type_elements(lj_type_get(graph, value), sizes, &count) == LJ_OK ? (double)count : 0;
}

static double flops_matmul(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    const lj_type *a = lj_type_get(graph, node->inputs[0]);
    int64_t k = lj_dim_eval(a->dim[a->rank - (node->attributes.i[0] ? 2 : 1)], sizes);
    return 2 * elements(graph, node->output, sizes) * (double)k;
}

/* Pairs of query and key that the mask leaves, from q, k and the attributes (document borders and cache offsets not counted). */
static double attention_pairs(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    const lj_type *q = lj_type_get(graph, node->inputs[0]), *k = lj_type_get(graph, node->inputs[1]);
    double b = (double)lj_dim_eval(q->dim[0], sizes), t = (double)lj_dim_eval(q->dim[1], sizes), s = (double)lj_dim_eval(k->dim[1], sizes);
    double heads = (double)q->dim[2].factor, window = (double)node->attributes.i[1], pairs = t * s;
    if (node->attributes.i[0]) pairs = s >= t ? t * (s - t) + t * (t + 1) / 2 : pairs;
    if (window > 0 && pairs > t * window) pairs = t * window;
    return b * heads * pairs;
}

static double head_dim(const lj_graph *graph, const lj_node *node)
{
    return (double)lj_type_get(graph, node->inputs[0])->dim[3].factor;
}

static double flops_attention(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    return 4 * attention_pairs(graph, node, sizes) * head_dim(graph, node);
}

static double flops_attention_grad(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    return 10 * attention_pairs(graph, node, sizes) * head_dim(graph, node); /* scores again, dv, dp, dq, dk */
}

static double head_product(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    const lj_type *w = lj_type_get(graph, node->inputs[1]);
    return 2 * elements(graph, node->inputs[0], sizes) * (double)lj_dim_eval(w->dim[0], sizes);
}

static double flops_head_loss(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    return head_product(graph, node, sizes);
}

static double flops_head_gradient(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    return 3 * head_product(graph, node, sizes);
}

const lj_flops_fn lj_flops_rows[LJ_OP_COUNT] = {
    [LJ_OP_matmul] = flops_matmul,
    [LJ_OP_attention] = flops_attention,
    [LJ_OP_attention_grad] = flops_attention_grad,
    [LJ_OP_head_loss] = flops_head_loss,
    [LJ_OP_head_loss_grad] = flops_head_gradient,
    [LJ_OP_head_loss_train] = flops_head_gradient,
};

double lj_node_flops(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    if (lj_flops_rows[node->op]) return lj_flops_rows[node->op](graph, node, sizes);
    double per_element = lj_op_rows[node->op].flops_per_element;
    if (per_element == 0) return 0;
    lj_op_class class = lj_op_rows[node->op].class;
    bool by_input = class == LJ_CLASS_REDUCE || node->op == LJ_OP_sum_squares || node->op == LJ_OP_scatter_add;
    return per_element * elements(graph, by_input ? node->inputs[node->op == LJ_OP_scatter_add ? 2 : 0] : node->output, sizes);
}

double lj_node_bytes(const lj_graph *graph, const lj_node *node, const int64_t *sizes)
{
    double bytes = 0;
    size_t part;
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && lj_type_bytes(lj_type_get(graph, node->inputs[i]), sizes, &part) == LJ_OK) bytes += (double)part;
    for (int k = 0; k < node->output_count; k++)
        if (lj_type_bytes(lj_type_get(graph, node->output + (lj_value)k), sizes, &part) == LJ_OK) bytes += (double)part;
    return bytes;
}
