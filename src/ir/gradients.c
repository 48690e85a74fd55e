/* The gradient of each op, in graph nodes. douts: gradients of the results (0: none reaches one); dins: set for the operands
 * that get one. The chain itself is in differentiate.c. */
#include "ir/ops.h"

#define GRADIENT(name) void lj_gradient_##name(lj_graph *g, const lj_node *node, const lj_value *douts, lj_value *dins)
#define UNUSED(x) (void)(x)

static lj_value in(const lj_node *node, int i)
{
    return i < node->input_count ? node->inputs[i] : 0;
}

static lj_value scalar_like(lj_graph *g, lj_value x, double value)
{
    return lj_const(g, (lj_type){.dtype = lj_value_type(g, x).dtype}, value);
}

/* The dtype a gradient of `value` has: parameters the graph's choice (f64 stays f64), everything else its own. */
lj_dtype lj_gradient_dtype_of(const lj_graph *g, lj_value value)
{
    const lj_node *node = lj_producer(g, value);
    lj_dtype own = lj_type_get(g, value)->dtype;
    while (node->op == LJ_OP_reshape) node = lj_producer(g, node->inputs[0]);
    return node->op == LJ_OP_input && node->attributes.i[0] == LJ_ROLE_PARAM && own != LJ_F64 ? g->gradient_dtype : own;
}

/* Only the first result of a composite carries a gradient: the others are statistics. */
static bool only_first(lj_graph *g, const lj_node *node, const lj_value *douts)
{
    for (int k = 1; k < node->output_count; k++)
        if (douts[k])
            return lj_graph_fail(g, LJ_ERR_UNSUPPORTED, "%s: result %d is a statistic and has no gradient", lj_node_describe(g, node), k), false;
    return douts[0] != 0;
}

GRADIENT(refused)
{
    UNUSED(douts), UNUSED(dins);
    lj_graph_fail(g, LJ_ERR_UNSUPPORTED, "%s has no gradient, and the loss depends on it", lj_node_describe(g, node));
}

GRADIENT(neg)
{
    UNUSED(node);
    dins[0] = lj_neg(g, douts[0]);
}

GRADIENT(abs)
{
    lj_value x = in(node, 0), zero = scalar_like(g, x, 0);
    lj_value signed_one = lj_where(g, lj_lt(g, zero, x), scalar_like(g, x, 1), lj_where(g, lj_lt(g, x, zero), scalar_like(g, x, -1), zero));
    dins[0] = lj_mul(g, douts[0], signed_one);
}

GRADIENT(exp)
{
    dins[0] = lj_mul(g, douts[0], node->output);
}

GRADIENT(log)
{
    dins[0] = lj_div(g, douts[0], in(node, 0));
}

GRADIENT(sqrt)
{
    dins[0] = lj_div(g, lj_mul(g, douts[0], scalar_like(g, douts[0], 0.5)), node->output);
}

GRADIENT(rsqrt)
{
    lj_value y = node->output, cube = lj_mul(g, y, lj_mul(g, y, y));
    dins[0] = lj_mul(g, lj_mul(g, douts[0], cube), scalar_like(g, y, -0.5));
}

GRADIENT(recip)
{
    dins[0] = lj_neg(g, lj_mul(g, douts[0], lj_mul(g, node->output, node->output)));
}

GRADIENT(sin)
{
    dins[0] = lj_mul(g, douts[0], lj_cos(g, in(node, 0)));
}

GRADIENT(cos)
{
    dins[0] = lj_neg(g, lj_mul(g, douts[0], lj_sin(g, in(node, 0))));
}

GRADIENT(tanh)
{
    lj_value y = node->output;
    dins[0] = lj_mul(g, douts[0], lj_sub(g, scalar_like(g, y, 1), lj_mul(g, y, y)));
}

GRADIENT(sigmoid)
{
    lj_value y = node->output;
    dins[0] = lj_mul(g, douts[0], lj_mul(g, y, lj_sub(g, scalar_like(g, y, 1), y)));
}

GRADIENT(cast)
{
    lj_dtype from = lj_value_type(g, in(node, 0)).dtype;
    if (lj_dtype_rows[from].is_float && lj_dtype_rows[lj_value_type(g, node->output).dtype].is_float) dins[0] = lj_cast(g, douts[0], from);
}

GRADIENT(add)
{
    UNUSED(g), UNUSED(node);
    dins[0] = dins[1] = douts[0];
}

GRADIENT(sub)
{
    UNUSED(node);
    dins[0] = douts[0], dins[1] = lj_neg(g, douts[0]);
}

GRADIENT(mul)
{
    dins[0] = lj_mul(g, douts[0], in(node, 1));
    dins[1] = lj_mul(g, douts[0], in(node, 0));
}

GRADIENT(div)
{
    dins[0] = lj_div(g, douts[0], in(node, 1));
    dins[1] = lj_neg(g, lj_div(g, lj_mul(g, douts[0], node->output), in(node, 1)));
}

/* To a where `first` holds, else to b. */
static void split(lj_graph *g, lj_value first, lj_value dout, lj_value *da, lj_value *db)
{
    lj_value zero = scalar_like(g, dout, 0);
    *da = lj_where(g, first, dout, zero);
    *db = lj_where(g, first, zero, dout);
}

GRADIENT(max)
{
    split(g, lj_le(g, in(node, 1), in(node, 0)), douts[0], &dins[0], &dins[1]);
}

GRADIENT(min)
{
    split(g, lj_le(g, in(node, 0), in(node, 1)), douts[0], &dins[0], &dins[1]);
}

GRADIENT(where)
{
    split(g, in(node, 0), douts[0], &dins[1], &dins[2]);
}

GRADIENT(reshape)
{
    lj_type type = lj_value_type(g, in(node, 0));
    dins[0] = lj_reshape(g, douts[0], type.rank, type.dim);
}

GRADIENT(transpose)
{
    int inverse[LJ_MAX_RANK] = {0};
    for (int i = 0; i < lj_value_type(g, node->output).rank; i++) inverse[node->attributes.i[i]] = i;
    dins[0] = lj_transpose(g, douts[0], inverse);
}

GRADIENT(broadcast)
{
    lj_type from = lj_value_type(g, in(node, 0)), to = lj_value_type(g, node->output);
    lj_value sum = douts[0];
    for (int i = 0; i < from.rank; i++)
        if (!lj_dim_equal(from.dim[i], to.dim[i])) sum = lj_sum(g, sum, i);
    dins[0] = sum;
}

GRADIENT(slice)
{
    const int64_t *a = node->attributes.i;
    int64_t size = lj_value_type(g, in(node, 0)).dim[a[0]].factor;
    dins[0] = lj_pad(g, douts[0], (int)a[0], a[1], size - a[1] - a[2]);
}

GRADIENT(pad)
{
    const int64_t *a = node->attributes.i;
    dins[0] = lj_slice(g, douts[0], (int)a[0], a[1], lj_value_type(g, in(node, 0)).dim[a[0]].factor);
}

/* One part of a concatenation. A symbolic axis F*S (S the symbols) is seen as [F, S], so that the cut is of constant size. */
static lj_value concat_part(lj_graph *g, lj_value whole, int axis, lj_dim part, int64_t start)
{
    lj_type type = lj_value_type(g, whole), out = type;
    lj_dim symbols = part, cut[LJ_MAX_RANK + 1];
    symbols.factor = 1;
    if (lj_dim_is_const(symbols, 1)) return lj_slice(g, whole, axis, start, part.factor);
    if (type.rank == LJ_MAX_RANK) return lj_graph_fail(g, LJ_ERR_UNSUPPORTED, "the gradient of a concat of rank %d along a symbolic axis", type.rank);
    for (int i = 0; i < type.rank; i++) cut[i + (i > axis)] = type.dim[i];
    cut[axis] = lj_dim_const(type.dim[axis].factor), cut[axis + 1] = symbols;
    out.dim[axis] = part;
    return lj_reshape(g, lj_slice(g, lj_reshape(g, whole, type.rank + 1, cut), axis, start, part.factor), out.rank, out.dim);
}

GRADIENT(concat)
{
    int axis = (int)node->attributes.i[0];
    int64_t start = 0;
    for (int i = 0; i < node->input_count; i++) {
        lj_dim part = lj_value_type(g, in(node, i)).dim[axis];
        dins[i] = concat_part(g, douts[0], axis, part, start);
        start += part.factor;
    }
}

GRADIENT(gather)
{
    lj_type table = lj_value_type(g, in(node, 0));
    table.dtype = lj_gradient_dtype_of(g, in(node, 0));
    dins[0] = lj_scatter_add(g, lj_const(g, table, 0), in(node, 1), douts[0]);
}

GRADIENT(scatter_add)
{
    dins[0] = douts[0];
    dins[2] = lj_cast(g, lj_gather(g, douts[0], in(node, 1)), lj_value_type(g, in(node, 2)).dtype);
}

GRADIENT(sum)
{
    lj_type type = lj_value_type(g, in(node, 0));
    dins[0] = lj_broadcast(g, douts[0], type.rank, type.dim);
}

GRADIENT(maximum)
{
    lj_type type = lj_value_type(g, in(node, 0)), index = type;
    int axis = (int)node->attributes.i[0];
    index.dtype = LJ_I32;
    lj_value hit = lj_eq(g, lj_iota(g, index, axis), lj_broadcast(g, lj_argmax(g, in(node, 0), axis), type.rank, type.dim));
    dins[0] = lj_where(g, hit, lj_broadcast(g, douts[0], type.rank, type.dim), scalar_like(g, douts[0], 0));
}

GRADIENT(matmul)
{
    lj_value a = in(node, 0), b = in(node, 1), dy = lj_cast(g, douts[0], lj_value_type(g, a).dtype);
    int ta = node->attributes.i[0] != 0, tb = node->attributes.i[1] != 0;
    lj_dtype type_a = lj_gradient_dtype_of(g, a), type_b = lj_gradient_dtype_of(g, b);
    dins[0] = ta ? lj_matmul(g, b, dy, tb, 1, type_a, 0) : lj_matmul(g, dy, b, 0, !tb, type_a, 0);
    dins[1] = tb ? lj_matmul(g, dy, a, 1, ta, type_b, 0) : lj_matmul(g, a, dy, !ta, 0, type_b, 0);
    if (node->input_count > 2 && in(node, 2)) dins[2] = douts[0];
}

GRADIENT(all_gather)
{
    dins[0] = lj_reduce_scatter(g, douts[0], (int)node->attributes.i[0]);
}

GRADIENT(reduce_scatter)
{
    dins[0] = lj_all_gather(g, douts[0], (int)node->attributes.i[0]);
}

GRADIENT(all_reduce)
{
    dins[0] = lj_all_reduce(g, douts[0], (int)node->attributes.i[0]);
}

GRADIENT(all_to_all)
{
    dins[0] = lj_all_to_all(g, douts[0], (int)node->attributes.i[0]);
}

static const lj_call_row *call_find(const lj_graph *g, const char *name)
{
    for (size_t i = 0; i < g->call_count; i++)
        if (__builtin_strcmp(g->calls[i].name, name) == 0) return &g->calls[i];
    return NULL;
}

/* Operands of the backward function: inputs, outputs, gradients of the float outputs (zeros where none arrives). */
static int call_operands(lj_graph *g, const lj_node *node, const lj_value *douts, lj_value *operands)
{
    int count = 0;
    for (int i = 0; i < node->input_count; i++) operands[count++] = in(node, i);
    for (int k = 0; k < node->output_count; k++) operands[count++] = node->output + (lj_value)k;
    for (int k = 0; k < node->output_count; k++)
        operands[count++] = douts[k] ? douts[k] : lj_const(g, lj_value_type(g, node->output + (lj_value)k), 0);
    return count;
}

GRADIENT(call)
{
    const lj_call_row *row = call_find(g, node->attributes.s);
    lj_value operands[192], results[64];
    lj_type types[64];
    int floats = 0;
    if (!row || !row->backward) {
        lj_graph_fail(g, LJ_ERR_UNSUPPORTED, "%s: call '%s' has no backward function, and the loss depends on it", lj_node_describe(g, node), node->attributes.s);
        return;
    }
    for (int i = 0; i < node->input_count; i++) {
        lj_type type = lj_value_type(g, in(node, i));
        if (lj_dtype_rows[type.dtype].is_float) types[floats++] = type;
    }
    char *name = lj_arena_printf(&g->arena, "%s.backward", row->name);
    if (!name || floats == 0) return;
    int count = call_operands(g, node, douts, operands);
    lj_call_row backward = {.name = name, .forward = row->backward, .user = row->user};
    if (lj_call(g, &backward, operands, count, types, floats, results) != LJ_OK) return;
    for (int i = 0, f = 0; i < node->input_count; i++)
        if (lj_dtype_rows[lj_value_type(g, in(node, i)).dtype].is_float) dins[i] = results[f++];
}

/* -- composites ------------------------------------------------------------------------------------------------------------ */

GRADIENT(rms_norm)
{
    if (!only_first(g, node, douts)) return;
    lj_value operands[4] = {in(node, 0), in(node, 1), node->output + 1, douts[0]};
    dins[0] = lj_node_append(g, LJ_OP_rms_norm_grad, operands, 4, NULL, NULL, 0);
    dins[1] = lj_output_of(dins[0], 1);
}

GRADIENT(rotary)
{
    lj_value operands[4] = {douts[0], in(node, 1), in(node, 2), in(node, 3)};
    dins[0] = lj_node_append(g, LJ_OP_rotary, operands, 4, &(lj_attributes){.i = {!node->attributes.i[0]}}, NULL, 0);
}

GRADIENT(swiglu)
{
    lj_value operands[3] = {in(node, 0), in(node, 1), douts[0]};
    dins[0] = lj_node_append(g, LJ_OP_swiglu_grad, operands, 3, NULL, NULL, 0);
    dins[1] = lj_output_of(dins[0], 1);
}

GRADIENT(attention)
{
    if (!only_first(g, node, douts)) return;
    lj_value operands[8] = {in(node, 0), in(node, 1), in(node, 2), node->output, node->output + 1, douts[0], in(node, 3), in(node, 4)};
    int count = node->input_count + 3;
    dins[0] = lj_node_append(g, LJ_OP_attention_grad, operands, count, &node->attributes, NULL, 0);
    dins[1] = lj_output_of(dins[0], 1), dins[2] = lj_output_of(dins[0], 2);
}

GRADIENT(head_loss)
{
    if (!only_first(g, node, douts)) return;
    lj_value operands[5] = {in(node, 0), in(node, 1), in(node, 2), node->output + 1, douts[0]};
    dins[0] = lj_node_append(g, LJ_OP_head_loss_grad, operands, 5, NULL, NULL, 0);
    dins[1] = lj_output_of(dins[0], 1);
}

GRADIENT(dropout)
{
    lj_value operands[2] = {douts[0], in(node, 1)}; /* the same seed and stream redraw the same mask */
    dins[0] = lj_node_append(g, LJ_OP_dropout, operands, 2, &node->attributes, NULL, 0);
}

GRADIENT(sum_squares)
{
    lj_type type = lj_value_type(g, in(node, 0));
    lj_value twice = lj_cast(g, lj_mul(g, douts[0], scalar_like(g, douts[0], 2)), type.dtype);
    dins[0] = lj_mul(g, in(node, 0), twice);
}
