/* Definitions of the composites in primitives: what the reference runs, what the matcher recognises, what generated kernels
 * compute. Wider intermediates are written out as casts; each result is rounded once, at its end. */
#include "ir/ops.h"

static lj_dtype wide(const lj_graph *g, lj_value x)
{
    return lj_type_get(g, x)->dtype == LJ_F64 ? LJ_F64 : LJ_F32;
}

static lj_dtype dtype_of(lj_graph *g, lj_value x)
{
    return lj_value_type(g, x).dtype;
}

static lj_value widen(lj_graph *g, lj_value x)
{
    return x ? lj_cast(g, x, wide(g, x)) : 0;
}

static lj_value scalar(lj_graph *g, lj_dtype dtype, double value)
{
    return lj_const(g, (lj_type){.dtype = dtype}, value);
}

static lj_value times(lj_graph *g, lj_value x, double factor)
{
    return x ? lj_mul(g, x, scalar(g, dtype_of(g, x), factor)) : 0;
}

static lj_value sum_last(lj_graph *g, lj_value x)
{
    return x ? lj_sum(g, x, lj_value_type(g, x).rank - 1) : 0;
}

/* Sum over every axis but the last, as a vector. */
static lj_value sum_rows(lj_graph *g, lj_value x)
{
    if (!x) return 0;
    lj_type type = lj_value_type(g, x);
    for (int axis = 0; axis < type.rank - 1; axis++) x = lj_sum(g, x, axis);
    return lj_reshape(g, x, 1, &type.dim[type.rank - 1]);
}

static void rms_norm(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    lj_value x = widen(g, in[0]), w = lj_cast(g, in[1], wide(g, in[0]));
    lj_type type = lj_value_type(g, in[0]);
    double columns = (double)type.dim[type.rank - 1].factor;
    lj_value mean = times(g, sum_last(g, lj_mul(g, x, x)), 1 / columns);
    out[1] = lj_rsqrt(g, lj_add(g, mean, scalar(g, dtype_of(g, x), node->attributes.f[0])));
    out[0] = lj_cast(g, lj_mul(g, lj_mul(g, x, out[1]), w), type.dtype);
}

static void rms_norm_grad(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    (void)node;
    lj_dtype dtype = dtype_of(g, in[0]), w_dtype = wide(g, in[0]);
    lj_type type = lj_value_type(g, in[0]);
    lj_value w = lj_cast(g, in[1], w_dtype), dy = widen(g, in[3]), normal = lj_mul(g, widen(g, in[0]), in[2]);
    lj_value dn = lj_mul(g, dy, w);
    lj_value mean = times(g, sum_last(g, lj_mul(g, dn, normal)), 1 / (double)type.dim[type.rank - 1].factor);
    out[0] = lj_cast(g, lj_mul(g, lj_sub(g, dn, lj_mul(g, normal, mean)), in[2]), dtype);
    out[1] = sum_rows(g, lj_mul(g, dy, normal));
}

/* Table rows at positions, [B, T, 1, D]; the axis of heads is put into the table, so that no reshape stands behind the gather. */
static lj_value angles(lj_graph *g, lj_value table, lj_value positions, int64_t start, int64_t length)
{
    if (!table) return 0;
    lj_type type = lj_value_type(g, table);
    lj_value rows = lj_gather(g, lj_reshape(g, table, 3, (lj_dim[]){type.dim[0], lj_dim_const(1), type.dim[1]}), positions);
    return lj_slice(g, rows, 3, start, length);
}

static void rotary(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    lj_type type = lj_value_type(g, in[0]);
    int64_t half = type.dim[3].factor / 2;
    lj_value low = widen(g, lj_slice(g, in[0], 3, 0, half)), high = widen(g, lj_slice(g, in[0], 3, half, half));
    lj_value c1 = angles(g, in[1], in[3], 0, half), c2 = angles(g, in[1], in[3], half, half);
    lj_value s1 = angles(g, in[2], in[3], 0, half), s2 = angles(g, in[2], in[3], half, half);
    if (type.dtype == LJ_F64) {
        lj_value *all[] = {&c1, &c2, &s1, &s2};
        for (int i = 0; i < 4; i++) *all[i] = lj_cast(g, *all[i], LJ_F64);
    }
    bool inverse = node->attributes.i[0] != 0;
    lj_value parts[2];
    /* inverse: the transpose of the turn, so that the sine of the *other* half's row meets each element */
    parts[0] = inverse ? lj_add(g, lj_mul(g, low, c1), lj_mul(g, high, s2)) : lj_sub(g, lj_mul(g, low, c1), lj_mul(g, high, s1));
    parts[1] = inverse ? lj_sub(g, lj_mul(g, high, c2), lj_mul(g, low, s1)) : lj_add(g, lj_mul(g, high, c2), lj_mul(g, low, s2));
    for (int i = 0; i < 2; i++) parts[i] = lj_cast(g, parts[i], type.dtype);
    out[0] = lj_concat(g, parts, 2, 3);
}

static void swiglu(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    (void)node;
    lj_value gate = widen(g, in[0]), up = widen(g, in[1]);
    out[0] = lj_cast(g, lj_mul(g, lj_mul(g, gate, lj_sigmoid(g, gate)), up), dtype_of(g, in[0]));
}

static void swiglu_grad(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    (void)node;
    lj_dtype dtype = dtype_of(g, in[0]);
    lj_value gate = widen(g, in[0]), up = widen(g, in[1]), dy = widen(g, in[2]);
    lj_value s = lj_sigmoid(g, gate), silu = lj_mul(g, gate, s), one = scalar(g, wide(g, in[0]), 1);
    lj_value slope = lj_mul(g, s, lj_add(g, one, lj_mul(g, gate, lj_sub(g, one, s))));
    out[0] = lj_cast(g, lj_mul(g, lj_mul(g, dy, up), slope), dtype);
    out[1] = lj_cast(g, lj_mul(g, dy, silu), dtype);
}

/* -- attention -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    lj_dim batch, queries, keys;
    int64_t heads, kv_heads, head_dim;
    lj_dtype dtype, wide;
} attention_sizes;

static attention_sizes attention_read(lj_graph *g, const lj_value *in)
{
    lj_type q = lj_value_type(g, in[0]), k = lj_value_type(g, in[1]);
    return (attention_sizes){q.dim[0], q.dim[1], k.dim[1], q.dim[2].factor, k.dim[2].factor, q.dim[3].factor, q.dtype, wide(g, in[0])};
}

/* [B, T, H, D] -> [B, H, T, D] */
static lj_value heads_first(lj_graph *g, lj_value x)
{
    return lj_transpose(g, x, (int[]){0, 2, 1, 3});
}

/* [B, S, Hkv, D] -> [B, Hq, S, D]: each key head serves its group. */
static lj_value repeat_heads(lj_graph *g, lj_value x, const attention_sizes *a)
{
    lj_dim kv = lj_dim_const(a->kv_heads), group = lj_dim_const(a->heads / a->kv_heads), one = lj_dim_const(1), d = lj_dim_const(a->head_dim);
    x = heads_first(g, x);
    if (a->heads == a->kv_heads) return x;
    x = lj_reshape(g, x, 5, (lj_dim[]){a->batch, kv, one, a->keys, d});
    x = lj_broadcast(g, x, 5, (lj_dim[]){a->batch, kv, group, a->keys, d});
    return lj_reshape(g, x, 4, (lj_dim[]){a->batch, lj_dim_const(a->heads), a->keys, d});
}

/* [B, Hq, S, D] -> [B, S, Hkv, D], groups summed. */
static lj_value fold_heads(lj_graph *g, lj_value x, const attention_sizes *a)
{
    lj_dim kv = lj_dim_const(a->kv_heads), group = lj_dim_const(a->heads / a->kv_heads), d = lj_dim_const(a->head_dim);
    if (a->heads != a->kv_heads) {
        x = lj_reshape(g, x, 5, (lj_dim[]){a->batch, kv, group, a->keys, d});
        x = lj_reshape(g, lj_sum(g, x, 2), 4, (lj_dim[]){a->batch, kv, a->keys, d});
    }
    return lj_cast(g, heads_first(g, x), a->dtype);
}

/* Number of elements along a dim as i32 [1]. */
static lj_value count_of(lj_graph *g, lj_dim dim)
{
    return lj_sum(g, lj_const(g, lj_type_dims(LJ_I32, 1, &dim), 1), 0);
}

/* Position of each query, i32 [B or 1, 1, T, 1]. */
static lj_value query_positions(lj_graph *g, const attention_sizes *a, lj_value q_start)
{
    lj_dim one = lj_dim_const(1), line[4] = {one, one, a->queries, one};
    lj_value position = lj_iota(g, lj_type_dims(LJ_I32, 4, line), 2);
    if (q_start) return lj_add(g, position, lj_reshape(g, q_start, 4, (lj_dim[]){a->batch, one, one, one}));
    if (lj_dim_equal(a->queries, a->keys)) return position;
    lj_value offset = lj_sub(g, count_of(g, a->keys), count_of(g, a->queries));
    return lj_add(g, position, lj_reshape(g, offset, 4, (lj_dim[]){one, one, one, one}));
}

/* Which keys each query may see, bool broadcastable to [B, H, T, S]; 0 when all. */
static lj_value attention_mask(lj_graph *g, const lj_node *node, const attention_sizes *a, lj_value starts, lj_value q_start)
{
    lj_dim one = lj_dim_const(1), line[4] = {one, one, one, a->keys};
    lj_value mask = 0, key = lj_iota(g, lj_type_dims(LJ_I32, 4, line), 3), query = query_positions(g, a, q_start);
    if (node->attributes.i[0]) mask = lj_le(g, key, query);
    if (node->attributes.i[1] > 0) {
        lj_value first = lj_sub(g, query, scalar(g, LJ_I32, (double)node->attributes.i[1])), near = lj_lt(g, first, key);
        mask = mask ? lj_and(g, mask, near) : near;
    }
    if (starts) {
        lj_value first = lj_reshape(g, starts, 4, (lj_dim[]){a->batch, one, a->queries, one}), inside = lj_le(g, first, key);
        mask = mask ? lj_and(g, mask, inside) : inside;
    }
    return mask;
}

static lj_value scores(lj_graph *g, const lj_node *node, const attention_sizes *a, lj_value q, lj_value k)
{
    return times(g, lj_matmul(g, heads_first(g, q), repeat_heads(g, k, a), 0, 1, a->wide, 0), node->attributes.f[0]);
}

static void attention(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    attention_sizes a = attention_read(g, in);
    lj_value starts = node->input_count > 3 ? in[3] : 0, q_start = node->input_count > 4 ? in[4] : 0;
    lj_value s = scores(g, node, &a, in[0], in[1]), mask = attention_mask(g, node, &a, starts, q_start);
    lj_value zero = scalar(g, a.wide, 0), least = scalar(g, a.wide, -1e30);
    if (mask) s = lj_where(g, mask, s, least);
    lj_value top = lj_maximum(g, s, 3), e = lj_exp(g, lj_sub(g, s, top));
    if (mask) e = lj_where(g, mask, e, zero);
    lj_value total = lj_sum(g, e, 3);
    lj_value none = lj_eq(g, total, zero), divisor = lj_where(g, none, scalar(g, a.wide, 1), total);
    lj_value p = lj_cast(g, lj_div(g, e, divisor), a.dtype);
    out[0] = heads_first(g, lj_matmul(g, p, repeat_heads(g, in[2], &a), 0, 0, a.dtype, 0));
    out[1] = lj_reshape(g, lj_add(g, lj_ln(g, total), top), 3, (lj_dim[]){a.batch, lj_dim_const(a.heads), a.queries});
}

static void attention_grad(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    attention_sizes a = attention_read(g, in);
    lj_value starts = node->input_count > 6 ? in[6] : 0, q_start = node->input_count > 7 ? in[7] : 0;
    lj_dim row[4] = {a.batch, lj_dim_const(a.heads), a.queries, lj_dim_const(1)};
    lj_value s = scores(g, node, &a, in[0], in[1]), mask = attention_mask(g, node, &a, starts, q_start);
    lj_value zero = scalar(g, a.wide, 0), p = lj_exp(g, lj_sub(g, s, lj_reshape(g, in[4], 4, row)));
    if (mask) p = lj_where(g, mask, p, zero);
    lj_value dout = heads_first(g, in[5]), v = repeat_heads(g, in[2], &a);
    lj_value dp = lj_matmul(g, dout, v, 0, 1, a.wide, 0);
    lj_value delta = lj_sum(g, lj_mul(g, widen(g, dout), widen(g, heads_first(g, in[3]))), 3);
    lj_value ds = lj_cast(g, times(g, lj_mul(g, p, lj_sub(g, dp, delta)), node->attributes.f[0]), a.dtype);
    out[0] = heads_first(g, lj_matmul(g, ds, repeat_heads(g, in[1], &a), 0, 0, a.dtype, 0));
    out[1] = fold_heads(g, lj_matmul(g, ds, heads_first(g, in[0]), 1, 0, a.wide, 0), &a);
    out[2] = fold_heads(g, lj_matmul(g, lj_cast(g, p, a.dtype), dout, 1, 0, a.wide, 0), &a);
}

/* -- head and loss ---------------------------------------------------------------------------------------------------------- */

static lj_value column(lj_graph *g, lj_value row)
{
    return row ? lj_reshape(g, row, 2, (lj_dim[]){lj_value_type(g, row).dim[0], lj_dim_const(1)}) : 0;
}

static lj_value vector(lj_graph *g, lj_value x)
{
    return x ? lj_reshape(g, x, 1, lj_value_type(g, x).dim) : 0;
}

/* True where the class is the row's target, [N, V]. */
static lj_value hits(lj_graph *g, lj_value weight, lj_value targets)
{
    if (!weight) return 0;
    lj_dim line[2] = {lj_dim_const(1), lj_value_type(g, weight).dim[0]};
    return lj_eq(g, lj_iota(g, lj_type_dims(LJ_I32, 2, line), 1), column(g, targets));
}

static void head_loss(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    (void)node;
    lj_value logits = lj_matmul(g, in[0], in[1], 0, 1, wide(g, in[0]), 0), zero = scalar(g, wide(g, in[0]), 0);
    lj_value top = lj_maximum(g, logits, 1);
    lj_value lse = lj_add(g, lj_ln(g, lj_sum(g, lj_exp(g, lj_sub(g, logits, top)), 1)), top);
    lj_value picked = lj_sum(g, lj_where(g, hits(g, in[1], in[2]), logits, zero), 1);
    lj_value counted = lj_le(g, scalar(g, LJ_I32, 0), in[2]);
    out[1] = vector(g, lse);
    out[0] = lj_where(g, counted, vector(g, lj_sub(g, lse, picked)), zero);
}

static void head_loss_grad(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    lj_dtype dtype = dtype_of(g, in[0]), w = wide(g, in[0]);
    lj_value addend = node->input_count == 6 || node->op == LJ_OP_head_loss_train ? in[5] : 0;
    lj_value logits = lj_matmul(g, in[0], in[1], 0, 1, w, 0), zero = scalar(g, w, 0), one = scalar(g, w, 1);
    lj_value p = lj_exp(g, lj_sub(g, logits, column(g, in[3])));
    lj_value scale = column(g, lj_where(g, lj_le(g, scalar(g, LJ_I32, 0), in[2]), in[4], zero));
    lj_value d = lj_mul(g, lj_sub(g, p, lj_where(g, hits(g, in[1], in[2]), one, zero)), scale);
    d = lj_cast(g, d, dtype);
    out[0] = lj_matmul(g, d, in[1], 0, 0, dtype, 0);
    out[1] = lj_matmul(g, d, in[0], 1, 0, w, addend);
}

static void head_loss_train(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    head_loss(g, node, in, out);
    lj_value addend = node->input_count == 5 ? in[4] : 0;
    head_loss_grad(g, node, (lj_value[]){in[0], in[1], in[2], out[1], in[3], addend}, out + 2);
}

static void dropout(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    lj_type type = lj_value_type(g, in[0]);
    lj_dtype w = wide(g, in[0]);
    type.dtype = LJ_F32;
    lj_value u = lj_random(g, in[1], type, node->attributes.i[0]);
    lj_value keep = lj_le(g, scalar(g, LJ_F32, node->attributes.f[0]), u);
    lj_value kept = times(g, widen(g, in[0]), 1 / (1 - node->attributes.f[0]));
    out[0] = lj_cast(g, lj_where(g, keep, kept, scalar(g, w, 0)), dtype_of(g, in[0]));
}

static void sum_squares(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    (void)node;
    lj_value x = lj_cast(g, in[0], LJ_F64);
    out[0] = lj_cast(g, lj_sum_all(g, lj_mul(g, x, x)), wide(g, in[0]));
}

/* Scalar k of {learning rate, gradient scale, 1 - beta1^t, 1 - beta2^t}, broadcastable to the flat buffer. */
static lj_value adamw_scalar(lj_graph *g, lj_value scalars, int k)
{
    return lj_reshape(g, lj_slice(g, scalars, 0, k, 1), 0, NULL);
}

static void adamw(lj_graph *g, const lj_node *node, const lj_value *in, lj_value *out)
{
    const double *f = node->attributes.f; /* beta1 beta2 eps weight_decay */
    lj_dtype w = wide(g, in[0]);
    lj_value rate = adamw_scalar(g, in[4], 0), grad = lj_mul(g, lj_cast(g, in[3], w), adamw_scalar(g, in[4], 1));
    out[1] = lj_add(g, times(g, in[1], f[0]), times(g, grad, 1 - f[0]));
    out[2] = lj_add(g, times(g, in[2], f[1]), times(g, lj_mul(g, grad, grad), 1 - f[1]));
    lj_value m = lj_div(g, out[1], adamw_scalar(g, in[4], 2)), v = lj_div(g, out[2], adamw_scalar(g, in[4], 3));
    lj_value step = lj_div(g, m, lj_add(g, lj_sqrt(g, v), scalar(g, w, f[2])));
    lj_value decayed = lj_sub(g, in[0], lj_mul(g, times(g, in[0], f[3]), rate));
    out[0] = lj_sub(g, decayed, lj_mul(g, step, rate));
}

const lj_decompose_fn lj_decompose_rows[LJ_OP_COUNT] = {
    [LJ_OP_rms_norm] = rms_norm,
    [LJ_OP_rms_norm_grad] = rms_norm_grad,
    [LJ_OP_rotary] = rotary,
    [LJ_OP_swiglu] = swiglu,
    [LJ_OP_swiglu_grad] = swiglu_grad,
    [LJ_OP_attention] = attention,
    [LJ_OP_attention_grad] = attention_grad,
    [LJ_OP_head_loss] = head_loss,
    [LJ_OP_head_loss_grad] = head_loss_grad,
    [LJ_OP_head_loss_train] = head_loss_train,
    [LJ_OP_dropout] = dropout,
    [LJ_OP_sum_squares] = sum_squares,
    [LJ_OP_adamw] = adamw,
};

lj_status lj_decompose(lj_graph *graph, const lj_node *node, const lj_value *inputs, lj_value *outputs)
{
    lj_node copy = *node; /* appending may move the nodes that `node` is one of */
    LJ_TRY(lj_graph_status(graph)); /* else an operand may be the 0 of a builder that failed */
    if (!lj_decompose_rows[copy.op]) return lj_fail(LJ_ERR_INVALID, "%s is no composite", lj_op_rows[copy.op].name);
    lj_decompose_rows[copy.op](graph, &copy, inputs, outputs);
    return lj_graph_status(graph);
}
