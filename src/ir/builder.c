/* The public builders: thin words over lj_node_append, with NumPy broadcasting for elementwise ops. */
#include "ir/ir.h"

#include <math.h>

static lj_value append1(lj_graph *graph, lj_op op, lj_value x, const lj_attributes *attributes)
{
    return lj_node_append(graph, op, &x, 1, attributes, NULL, 0);
}

#define UNARY_BUILDER(name)                                                                                                      \
    lj_value lj_##name(lj_graph *graph, lj_value x)                                                                              \
    {                                                                                                                            \
        return append1(graph, LJ_OP_##name, x, NULL);                                                                            \
    }
UNARY_BUILDER(neg)
UNARY_BUILDER(abs)
UNARY_BUILDER(exp)
UNARY_BUILDER(sqrt)
UNARY_BUILDER(rsqrt)
UNARY_BUILDER(recip)
UNARY_BUILDER(sin)
UNARY_BUILDER(cos)
UNARY_BUILDER(tanh)
UNARY_BUILDER(sigmoid)
UNARY_BUILDER(floor)
UNARY_BUILDER(not)

/* Named lj_ln because lj_log writes log lines. */
lj_value lj_ln(lj_graph *graph, lj_value x)
{
    return append1(graph, LJ_OP_log, x, NULL);
}

lj_value lj_const(lj_graph *graph, lj_type type, double value)
{
    return lj_node_append(graph, LJ_OP_const, NULL, 0, &(lj_attributes){.f = {value}}, &type, 1);
}

lj_value lj_iota(lj_graph *graph, lj_type type, int axis)
{
    return lj_node_append(graph, LJ_OP_iota, NULL, 0, &(lj_attributes){.i = {axis}}, &type, 1);
}

lj_value lj_random(lj_graph *graph, lj_value seed, lj_type type, int64_t stream)
{
    return lj_node_append(graph, LJ_OP_random, &seed, 1, &(lj_attributes){.i = {stream}}, &type, 1);
}

lj_value lj_cast(lj_graph *graph, lj_value x, lj_dtype dtype)
{
    if (x && lj_value_type(graph, x).dtype == dtype) return x;
    lj_type type = {.dtype = dtype};
    return lj_node_append(graph, LJ_OP_cast, &x, 1, NULL, &type, 1);
}

/* Dim of the broadcast result; false when the two do not fit. */
static bool broadcast_dim(lj_dim a, lj_dim b, lj_dim *out)
{
    *out = lj_dim_is_const(a, 1) ? b : a;
    return lj_dim_equal(a, b) || lj_dim_is_const(a, 1) || lj_dim_is_const(b, 1);
}

/* x seen with `rank` dims: missing outer ones become 1. */
static lj_value add_outer_dims(lj_graph *graph, lj_value x, int rank)
{
    lj_type type = lj_value_type(graph, x);
    lj_dim dims[LJ_MAX_RANK];
    int missing = rank - type.rank;
    if (missing <= 0) return x;
    for (int i = 0; i < rank; i++) dims[i] = i < missing ? lj_dim_const(1) : type.dim[i - missing];
    return lj_reshape(graph, x, rank, dims);
}

/* Brings values to their common shape. */
static bool broadcast_together(lj_graph *graph, lj_value *values, int count)
{
    lj_type all = {0};
    for (int i = 0; i < count; i++) {
        if (!values[i] || graph->status != LJ_OK) return false;
        int rank = lj_value_type(graph, values[i]).rank;
        if (rank > all.rank) all.rank = rank;
    }
    for (int d = 0; d < all.rank; d++) all.dim[d] = lj_dim_const(1);
    for (int i = 0; i < count; i++) {
        values[i] = add_outer_dims(graph, values[i], all.rank);
        lj_type type = lj_value_type(graph, values[i]);
        for (int d = 0; d < all.rank; d++)
            if (!broadcast_dim(all.dim[d], type.dim[d], &all.dim[d]))
                return lj_graph_fail(graph, LJ_ERR_INVALID, "operands do not broadcast: dim %d differs (%s:%d)", d, graph->file, graph->line), false;
    }
    for (int i = 0; i < count; i++) values[i] = lj_broadcast(graph, values[i], all.rank, all.dim);
    return true;
}

static lj_value append2(lj_graph *graph, lj_op op, lj_value a, lj_value b)
{
    lj_value values[2] = {a, b};
    return broadcast_together(graph, values, 2) ? lj_node_append(graph, op, values, 2, NULL, NULL, 0) : 0;
}

#define BINARY_BUILDER(name)                                                                                                     \
    lj_value lj_##name(lj_graph *graph, lj_value a, lj_value b)                                                                  \
    {                                                                                                                            \
        return append2(graph, LJ_OP_##name, a, b);                                                                               \
    }
BINARY_BUILDER(add)
BINARY_BUILDER(sub)
BINARY_BUILDER(mul)
BINARY_BUILDER(div)
BINARY_BUILDER(max)
BINARY_BUILDER(min)
BINARY_BUILDER(lt)
BINARY_BUILDER(le)
BINARY_BUILDER(eq)
BINARY_BUILDER(and)
BINARY_BUILDER(or)

lj_value lj_where(lj_graph *graph, lj_value condition, lj_value a, lj_value b)
{
    lj_value values[3] = {condition, a, b};
    return broadcast_together(graph, values, 3) ? lj_node_append(graph, LJ_OP_where, values, 3, NULL, NULL, 0) : 0;
}

static lj_value append_shaped(lj_graph *graph, lj_op op, lj_value x, int rank, const lj_dim *dims)
{
    if (!x || graph->status != LJ_OK) return 0;
    lj_type type = lj_value_type(graph, x), wanted = lj_type_dims(type.dtype, rank, dims);
    if (rank >= 0 && rank <= LJ_MAX_RANK && lj_type_equal(&type, &wanted)) return x;
    return lj_node_append(graph, op, &x, 1, NULL, &wanted, 1);
}

lj_value lj_reshape(lj_graph *graph, lj_value x, int rank, const lj_dim *dims)
{
    return append_shaped(graph, LJ_OP_reshape, x, rank, dims);
}

lj_value lj_broadcast(lj_graph *graph, lj_value x, int rank, const lj_dim *dims)
{
    return append_shaped(graph, LJ_OP_broadcast, x, rank, dims);
}

lj_value lj_transpose(lj_graph *graph, lj_value x, const int *permutation)
{
    lj_attributes attributes = {0};
    if (!x) return 0;
    int rank = lj_value_type(graph, x).rank;
    for (int i = 0; i < rank; i++) attributes.i[i] = permutation[i];
    return append1(graph, LJ_OP_transpose, x, &attributes);
}

lj_value lj_slice(lj_graph *graph, lj_value x, int axis, int64_t start, int64_t length)
{
    return append1(graph, LJ_OP_slice, x, &(lj_attributes){.i = {axis, start, length}});
}

lj_value lj_pad(lj_graph *graph, lj_value x, int axis, int64_t before, int64_t after)
{
    return append1(graph, LJ_OP_pad, x, &(lj_attributes){.i = {axis, before, after}});
}

lj_value lj_concat(lj_graph *graph, const lj_value *xs, int count, int axis)
{
    return lj_node_append(graph, LJ_OP_concat, xs, count, &(lj_attributes){.i = {axis}}, NULL, 0);
}

lj_value lj_sum(lj_graph *graph, lj_value x, int axis)
{
    return append1(graph, LJ_OP_sum, x, &(lj_attributes){.i = {axis}});
}

lj_value lj_maximum(lj_graph *graph, lj_value x, int axis)
{
    return append1(graph, LJ_OP_maximum, x, &(lj_attributes){.i = {axis}});
}

lj_value lj_argmax(lj_graph *graph, lj_value x, int axis)
{
    return append1(graph, LJ_OP_argmax, x, &(lj_attributes){.i = {axis}});
}

lj_value lj_sum_all(lj_graph *graph, lj_value x)
{
    if (!x) return 0;
    lj_type type = lj_value_type(graph, x);
    lj_dim flat = lj_type_elements_dim(&type);
    return lj_reshape(graph, lj_sum(graph, lj_reshape(graph, x, 1, &flat), 0), 0, NULL);
}

lj_value lj_gather(lj_graph *graph, lj_value table, lj_value ids)
{
    return lj_node_append(graph, LJ_OP_gather, (lj_value[]){table, ids}, 2, NULL, NULL, 0);
}

lj_value lj_scatter_add(lj_graph *graph, lj_value base, lj_value ids, lj_value updates)
{
    return lj_node_append(graph, LJ_OP_scatter_add, (lj_value[]){base, ids, updates}, 3, NULL, NULL, 0);
}

lj_value lj_update_rows(lj_graph *graph, lj_value x, lj_value update, lj_value start)
{
    return lj_node_append(graph, LJ_OP_update_rows, (lj_value[]){x, update, start}, 3, NULL, NULL, 0);
}

lj_value lj_matmul(lj_graph *graph, lj_value a, lj_value b, int transpose_a, int transpose_b, lj_dtype out, lj_value c)
{
    lj_type type = {.dtype = out};
    lj_attributes attributes = {.i = {transpose_a != 0, transpose_b != 0}};
    return lj_node_append(graph, LJ_OP_matmul, (lj_value[]){a, b, c}, c ? 3 : 2, &attributes, &type, 1);
}

lj_value lj_linear(lj_graph *graph, lj_value x, lj_value weight)
{
    if (!x || !weight || graph->status != LJ_OK) return 0;
    lj_type type = lj_value_type(graph, x), w = lj_value_type(graph, weight);
    if (type.rank < 1 || w.rank != 2) return lj_graph_fail(graph, LJ_ERR_INVALID, "linear: x needs a last dim, weight must be [N, K]");
    lj_dim rows = lj_dim_const(1), inner = type.dim[type.rank - 1];
    for (int i = 0; i < type.rank - 1; i++) rows = lj_dim_mul(rows, type.dim[i]);
    lj_value flat = lj_reshape(graph, x, 2, (lj_dim[]){rows, inner});
    lj_value y = lj_matmul(graph, flat, weight, 0, 1, type.dtype, 0);
    type.dim[type.rank - 1] = w.dim[0];
    return lj_reshape(graph, y, type.rank, type.dim);
}

static lj_value append_collective(lj_graph *graph, lj_op op, lj_value x, int ranks)
{
    return append1(graph, op, x, &(lj_attributes){.i = {ranks}});
}

lj_value lj_all_gather(lj_graph *graph, lj_value x, int ranks)
{
    return append_collective(graph, LJ_OP_all_gather, x, ranks);
}

lj_value lj_reduce_scatter(lj_graph *graph, lj_value x, int ranks)
{
    return append_collective(graph, LJ_OP_reduce_scatter, x, ranks);
}

lj_value lj_all_reduce(lj_graph *graph, lj_value x, int ranks)
{
    return append_collective(graph, LJ_OP_all_reduce, x, ranks);
}

lj_value lj_all_to_all(lj_graph *graph, lj_value x, int ranks)
{
    return append_collective(graph, LJ_OP_all_to_all, x, ranks);
}

lj_value lj_send(lj_graph *graph, lj_value x, int peer)
{
    return append_collective(graph, LJ_OP_send, x, peer);
}

lj_value lj_recv(lj_graph *graph, lj_type type, int peer)
{
    return lj_node_append(graph, LJ_OP_recv, NULL, 0, &(lj_attributes){.i = {peer}}, &type, 1);
}

/* -- composites ------------------------------------------------------------------------------------------------------------ */

lj_value lj_rms_norm(lj_graph *graph, lj_value x, lj_value weight, double eps)
{
    return lj_node_append(graph, LJ_OP_rms_norm, (lj_value[]){x, weight}, 2, &(lj_attributes){.f = {eps}}, NULL, 0);
}

lj_value lj_softmax(lj_graph *graph, lj_value x)
{
    if (!x) return 0;
    int axis = lj_value_type(graph, x).rank - 1;
    lj_value e = lj_exp(graph, lj_sub(graph, x, lj_maximum(graph, x, axis)));
    return lj_div(graph, e, lj_sum(graph, e, axis));
}

lj_value lj_rotary(lj_graph *graph, lj_value x, lj_value cosines, lj_value sines, lj_value positions)
{
    return lj_node_append(graph, LJ_OP_rotary, (lj_value[]){x, cosines, sines, positions}, 4, NULL, NULL, 0);
}

lj_value lj_swiglu(lj_graph *graph, lj_value gate, lj_value up)
{
    return lj_node_append(graph, LJ_OP_swiglu, (lj_value[]){gate, up}, 2, NULL, NULL, 0);
}

lj_value lj_attention(lj_graph *graph, lj_value q, lj_value k, lj_value v, const lj_attention_options *options)
{
    lj_attention_options o = options ? *options : (lj_attention_options){0};
    if (!q || graph->status != LJ_OK) return 0;
    lj_type type = lj_value_type(graph, q);
    if (o.scale == 0 && type.rank == 4 && type.dim[3].factor > 0) o.scale = 1 / sqrt((double)type.dim[3].factor);
    lj_attributes attributes = {.i = {o.causal != 0, o.window}, .f = {o.scale}};
    int count = o.q_start ? 5 : o.starts ? 4 : 3;
    return lj_node_append(graph, LJ_OP_attention, (lj_value[]){q, k, v, o.starts, o.q_start}, count, &attributes, NULL, 0);
}

lj_value lj_head_loss(lj_graph *graph, lj_value x, lj_value weight, lj_value targets)
{
    return lj_node_append(graph, LJ_OP_head_loss, (lj_value[]){x, weight, targets}, 3, NULL, NULL, 0);
}

lj_value lj_dropout(lj_graph *graph, lj_value x, lj_value seed, double rate, int64_t stream)
{
    return lj_node_append(graph, LJ_OP_dropout, (lj_value[]){x, seed}, 2, &(lj_attributes){.i = {stream}, .f = {rate}}, NULL, 0);
}

lj_value lj_sum_squares(lj_graph *graph, lj_value x)
{
    return append1(graph, LJ_OP_sum_squares, x, NULL);
}

lj_status lj_adamw(lj_graph *graph, lj_value master, lj_value m, lj_value v, lj_value gradient, lj_value scalars,
                   const lj_adamw_options *options, lj_value outputs[3])
{
    lj_attributes attributes = {.f = {options->beta1, options->beta2, options->eps, options->weight_decay}};
    lj_value first = lj_node_append(graph, LJ_OP_adamw, (lj_value[]){master, m, v, gradient, scalars}, 5, &attributes, NULL, 0);
    for (int k = 0; k < 3; k++) outputs[k] = lj_output_of(first, k);
    return lj_graph_status(graph);
}
