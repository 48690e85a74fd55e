/* Local simplification while copying. A rule looks at one node and the makers of its operands and answers with a value that
 * is the same element for element (a sum with zeros may turn -0 into +0), or 0 for "nothing to do". */
#include "passes/passes.h"

#include <math.h>

typedef lj_value (*fold_fn)(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type);

static const lj_node *made_by(const lj_graph *g, lj_value value, lj_op op)
{
    return lj_is(g, value, op) ? lj_producer(g, value) : NULL;
}

static bool same_type(const lj_graph *g, lj_value value, const lj_type *type)
{
    return lj_type_equal(lj_type_get(g, value), type);
}

/* A view of a constant is that constant. */
static lj_value constant_view(lj_graph *g, lj_value x, const lj_type *type)
{
    const lj_node *constant = made_by(g, x, LJ_OP_const);
    if (!constant) return 0;
    double value = lj_dtype_round(lj_type_get(g, x)->dtype, constant->attributes.f[0]); /* what it holds, then the cast of that */
    return lj_const(g, *type, lj_dtype_round(type->dtype, value));
}

static bool widens(lj_dtype from, lj_dtype to);

/* A widening cast stands behind the views of its operand, where kernels do it as they load. */
static lj_value reshape_of_cast(lj_graph *g, lj_value x, const lj_type *type)
{
    const lj_node *cast = made_by(g, x, LJ_OP_cast);
    if (!cast || !widens(lj_type_get(g, cast->inputs[0])->dtype, type->dtype)) return 0;
    return lj_cast(g, lj_reshape(g, cast->inputs[0], type->rank, type->dim), type->dtype);
}

static lj_value fold_reshape(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    (void)node;
    const lj_node *inner = made_by(g, in[0], LJ_OP_reshape);
    if (same_type(g, in[0], type)) return in[0];
    if (inner) return lj_reshape(g, inner->inputs[0], type->rank, type->dim);
    lj_value moved = reshape_of_cast(g, in[0], type);
    return moved ? moved : constant_view(g, in[0], type);
}

static lj_value fold_broadcast(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    (void)node;
    const lj_node *inner = made_by(g, in[0], LJ_OP_broadcast);
    if (same_type(g, in[0], type)) return in[0];
    if (inner) return lj_broadcast(g, inner->inputs[0], type->rank, type->dim);
    return constant_view(g, in[0], type);
}

static lj_value fold_transpose(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    const lj_node *inner = made_by(g, in[0], LJ_OP_transpose);
    int permutation[LJ_MAX_RANK];
    bool identity = true;
    for (int i = 0; i < type->rank; i++) {
        permutation[i] = (int)node->attributes.i[i];
        if (inner) permutation[i] = (int)inner->attributes.i[permutation[i]];
        identity &= permutation[i] == i;
    }
    if (identity) return inner ? inner->inputs[0] : in[0];
    if (inner) return lj_transpose(g, inner->inputs[0], permutation);
    return constant_view(g, in[0], type);
}

/* True when every value of `from` is a value of `to`. */
static bool widens(lj_dtype from, lj_dtype to)
{
    if (!lj_dtype_rows[from].is_float || !lj_dtype_rows[to].is_float) return false;
    return lj_dtype_rows[from].mantissa_bits <= lj_dtype_rows[to].mantissa_bits && lj_dtype_rows[from].max <= lj_dtype_rows[to].max;
}

static lj_value fold_cast(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    (void)node;
    const lj_node *inner = made_by(g, in[0], LJ_OP_cast);
    if (same_type(g, in[0], type)) return in[0];
    if (inner) {
        lj_dtype from = lj_type_get(g, inner->inputs[0])->dtype, between = lj_type_get(g, in[0])->dtype;
        if (widens(from, between)) return lj_cast(g, inner->inputs[0], type->dtype);
    }
    return constant_view(g, in[0], type);
}

static lj_value fold_slice(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    int axis = (int)node->attributes.i[0];
    int64_t start = node->attributes.i[1];
    if (same_type(g, in[0], type)) return in[0];
    const lj_node *slice = made_by(g, in[0], LJ_OP_slice), *concat = made_by(g, in[0], LJ_OP_concat);
    if (slice && slice->attributes.i[0] == axis) return lj_slice(g, slice->inputs[0], axis, slice->attributes.i[1] + start, node->attributes.i[2]);
    int64_t at = 0;
    for (int i = 0; concat && concat->attributes.i[0] == axis && i < concat->input_count; i++) {
        if (at == start && same_type(g, concat->inputs[i], type)) return concat->inputs[i];
        at += lj_type_get(g, concat->inputs[i])->dim[axis].factor;
    }
    return constant_view(g, in[0], type);
}

static lj_value fold_pad(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    (void)node;
    return same_type(g, in[0], type) ? in[0] : 0;
}

static lj_value fold_sum(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    (void)node;
    return same_type(g, in[0], type) ? in[0] : 0;
}

static bool is_const(const lj_graph *g, lj_value value, double expected)
{
    const lj_node *constant = made_by(g, value, LJ_OP_const);
    return constant && constant->attributes.f[0] == expected && !(expected == 0 && signbit(constant->attributes.f[0]));
}

static lj_value fold_mul(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    (void)node, (void)type;
    return is_const(g, in[1], 1) ? in[0] : is_const(g, in[0], 1) ? in[1] : 0;
}

static lj_value fold_sub(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    (void)node, (void)type;
    return is_const(g, in[1], 0) ? in[0] : 0;
}

/* Gradients of slices: pads that lie side by side become one concat (padded, while parts are still missing). */
static lj_value join_pads(lj_graph *g, const lj_node *low, const lj_node *high)
{
    int axis = (int)low->attributes.i[0];
    int64_t length = lj_type_get(g, low->inputs[0])->dim[axis].factor;
    if (high->attributes.i[0] != axis || high->attributes.i[1] != low->attributes.i[1] + length) return 0;
    int64_t before = low->attributes.i[1], after = high->attributes.i[2];
    lj_value parts[2] = {low->inputs[0], high->inputs[0]};
    lj_value joined = lj_concat(g, parts, 2, axis);
    return before || after ? lj_pad(g, joined, axis, before, after) : joined;
}

static lj_value fold_add(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    (void)node, (void)type;
    const lj_node *a = made_by(g, in[0], LJ_OP_pad), *b = made_by(g, in[1], LJ_OP_pad);
    if (!a || !b) return 0;
    lj_node low = *a, high = *b; /* copies: appending moves nodes */
    lj_value joined = join_pads(g, &low, &high);
    return joined ? joined : join_pads(g, &high, &low);
}

/* A transpose of the last two dims under a product is the product's own flag. */
static lj_value through_transpose(const lj_graph *g, lj_value x, int64_t *flag)
{
    const lj_node *t = made_by(g, x, LJ_OP_transpose);
    int rank = t ? lj_type_get(g, x)->rank : 0;
    if (!t || rank < 2) return x;
    for (int i = 0; i < rank; i++) {
        int from = i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i;
        if (t->attributes.i[i] != from) return x;
    }
    *flag = !*flag;
    return t->inputs[0];
}

static lj_value fold_matmul(lj_graph *g, const lj_node *node, const lj_value *in, const lj_type *type)
{
    lj_attributes attributes = node->attributes;
    lj_value operands[3] = {through_transpose(g, in[0], &attributes.i[0]), through_transpose(g, in[1], &attributes.i[1]),
                            node->input_count > 2 ? in[2] : 0};
    if (operands[0] == in[0] && operands[1] == in[1]) return 0;
    return lj_node_append(g, LJ_OP_matmul, operands, node->input_count, &attributes, type, 1);
}

/* A row an op that has a rule. */
static const fold_fn rules[LJ_OP_COUNT] = {
    [LJ_OP_reshape] = fold_reshape, [LJ_OP_broadcast] = fold_broadcast, [LJ_OP_transpose] = fold_transpose, [LJ_OP_cast] = fold_cast,
    [LJ_OP_slice] = fold_slice,     [LJ_OP_pad] = fold_pad,             [LJ_OP_sum] = fold_sum,
    [LJ_OP_maximum] = fold_sum,     [LJ_OP_mul] = fold_mul,             [LJ_OP_sub] = fold_sub,             [LJ_OP_add] = fold_add,
    [LJ_OP_matmul] = fold_matmul,
};

static lj_status fold_node(lj_rewrite *rewrite, const lj_node *node)
{
    lj_value in[16];
    lj_graph *to = rewrite->to;
    if (!rules[node->op] || node->input_count > 16) return lj_rewrite_copy(rewrite, node);
    for (int i = 0; i < node->input_count; i++) in[i] = rewrite->map[node->inputs[i]];
    lj_type type = *lj_type_get(rewrite->from, node->output);
    lj_graph_at(to, node->file, node->line);
    to->scope = lj_arena_strdup(&to->arena, node->name);
    if (!to->scope) return to->scope = "", lj_fail(LJ_ERR_NOMEM, "graph copy");
    lj_value folded = rules[node->op](to, node, in, &type);
    to->scope = "";
    if (!folded) return lj_rewrite_copy(rewrite, node);
    rewrite->map[node->output] = folded;
    return LJ_OK;
}

lj_status lj_pass_fold(lj_graph **graph, const lj_pass_context *context)
{
    (void)context;
    const lj_graph *from = *graph;
    lj_rewrite rewrite;
    LJ_TRY(lj_rewrite_begin(&rewrite, from));
    lj_status status = LJ_OK;
    for (size_t n = 0; n < from->node_count && status == LJ_OK; n++) status = fold_node(&rewrite, &from->nodes[n]);
    return lj_rewrite_end(&rewrite, graph, status);
}
