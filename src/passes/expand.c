/* Writes composites out in primitives, except those that a library kernel runs as one step; and products that add into 16 bits. */
#include "passes/passes.h"

typedef bool (*accepts_fn)(const lj_graph *graph, const lj_node *node);

static bool is_16_or_32(const lj_graph *graph, const lj_node *node)
{
    lj_dtype dtype = lj_type_get(graph, node->inputs[0])->dtype;
    return dtype == LJ_BF16 || dtype == LJ_F32;
}

static bool attention_accepts(const lj_graph *graph, const lj_node *node)
{
    return is_16_or_32(graph, node) && (node->attributes.i[1] == 0 || node->attributes.i[0]);
}

static bool adamw_accepts(const lj_graph *graph, const lj_node *node)
{
    lj_dtype gradient = lj_type_get(graph, node->inputs[3])->dtype;
    return lj_type_get(graph, node->inputs[0])->dtype == LJ_F32 && (gradient == LJ_F32 || gradient == LJ_BF16);
}

/* Which composites have a kernel of src/kernels behind them, for which dtypes, and whether an eager program may use it. */
static const struct {
    accepts_fn accepts;
    bool in_eager;
} library[LJ_OP_COUNT] = {
    [LJ_OP_attention] = {attention_accepts, true},
    [LJ_OP_attention_grad] = {attention_accepts, true},
    [LJ_OP_head_loss] = {is_16_or_32, false},
    [LJ_OP_head_loss_grad] = {is_16_or_32, false},
    [LJ_OP_head_loss_train] = {is_16_or_32, false},
    [LJ_OP_sum_squares] = {is_16_or_32, true},
    [LJ_OP_adamw] = {adamw_accepts, true},
};

bool lj_has_library_kernel(const lj_graph *graph, const lj_node *node, bool eager)
{
    return library[node->op].accepts && (!eager || library[node->op].in_eager) && library[node->op].accepts(graph, node);
}

/* GEMM libraries add into f32 and f64 results only. */
static bool adds_into_16_bits(const lj_graph *graph, const lj_node *node)
{
    return node->op == LJ_OP_matmul && node->input_count > 2 && node->inputs[2] && lj_dtype_bytes(lj_type_get(graph, node->output)->dtype) == 2;
}

/* The product and the sum in f32, rounded once to 16 bits. */
static lj_status expand_addend(lj_rewrite *rewrite, const lj_node *node)
{
    lj_graph *to = rewrite->to;
    lj_value a = rewrite->map[node->inputs[0]], b = rewrite->map[node->inputs[1]], c = rewrite->map[node->inputs[2]];
    lj_graph_at(to, node->file, node->line);
    lj_value product = lj_matmul(to, a, b, node->attributes.i[0] != 0, node->attributes.i[1] != 0, LJ_F32, 0);
    lj_value sum = lj_add(to, product, lj_cast(to, c, LJ_F32));
    rewrite->map[node->output] = lj_cast(to, sum, lj_type_get(rewrite->from, node->output)->dtype);
    return lj_graph_status(to);
}

static lj_status expand_node(lj_rewrite *rewrite, const lj_node *node)
{
    lj_value inputs[16], outputs[LJ_MAX_OUTPUTS];
    for (int i = 0; i < node->input_count; i++) inputs[i] = rewrite->map[node->inputs[i]];
    lj_graph_at(rewrite->to, node->file, node->line);
    lj_graph_scope_push(rewrite->to, "%s%s%s", node->name, *node->name ? "." : "", lj_op_rows[node->op].name);
    LJ_TRY(lj_decompose(rewrite->to, node, inputs, outputs));
    lj_graph_scope_pop(rewrite->to);
    for (int k = 0; k < node->output_count; k++) rewrite->map[node->output + (lj_value)k] = outputs[k];
    return LJ_OK;
}

/* An attention that is differentiated keeps its v until the backward pass. Read in place from the fused q, k, v product it would keep
 * all of that; a copy (a concat of one) keeps a fifth of it. Inference reads in place. */
static lj_status copy_kept_v(lj_rewrite *rewrite, const lj_node *node)
{
    lj_value v = node->inputs[2];
    if (!lj_is(rewrite->from, v, LJ_OP_slice) || !lj_is(rewrite->to, rewrite->map[v], LJ_OP_slice)) return LJ_OK;
    for (const lj_node *reader = node + 1; reader < rewrite->from->nodes + rewrite->from->node_count; reader++) {
        if (reader->op != LJ_OP_attention_grad || reader->inputs[2] != v) continue;
        lj_graph_at(rewrite->to, node->file, node->line);
        rewrite->map[v] = lj_concat(rewrite->to, &rewrite->map[v], 1, 2);
        return lj_graph_status(rewrite->to);
    }
    return LJ_OK;
}

lj_status lj_pass_expand(lj_graph **graph, const lj_pass_context *context)
{
    const lj_graph *from = *graph;
    lj_rewrite rewrite;
    LJ_TRY(lj_rewrite_begin(&rewrite, from));
    lj_status status = LJ_OK;
    for (size_t n = 0; n < from->node_count && status == LJ_OK; n++) {
        const lj_node *node = &from->nodes[n];
        if (node->op == LJ_OP_attention) status = copy_kept_v(&rewrite, node);
        if (status != LJ_OK) break;
        bool keep = lj_op_rows[node->op].class != LJ_CLASS_COMPOSITE || lj_has_library_kernel(from, node, context->eager);
        if (adds_into_16_bits(from, node))
            status = expand_addend(&rewrite, node);
        else
            status = keep ? lj_rewrite_copy(&rewrite, node) : expand_node(&rewrite, node);
    }
    return lj_rewrite_end(&rewrite, graph, status);
}
