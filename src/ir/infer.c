/* Result types of every op from its operands and attributes. One function a rule; the messages say what differs. */
#include "ir/ops.h"

#include <string.h>

static const lj_type *operand(const lj_infer *infer, int index)
{
    return lj_type_get(infer->graph, infer->node->inputs[index]);
}

static lj_value operand_value(const lj_infer *infer, int index)
{
    return index < infer->node->input_count ? infer->node->inputs[index] : 0;
}

/* A type's text in one of a few thread-local buffers, for messages. */
static const char *type_text(const lj_infer *infer, const lj_type *type)
{
    static _Thread_local char buffers[4][160];
    static _Thread_local unsigned turn;
    char *out = buffers[turn++ % 4];
    lj_text text;
    lj_text_init(&text);
    lj_type_print(&text, infer->graph, type);
    strncpy(out, text.data ? text.data : "?", 159);
    out[159] = 0;
    lj_text_release(&text);
    return out;
}

static lj_status mismatch(const lj_infer *infer, const char *what, const lj_type *a, const lj_type *b)
{
    return lj_fail(LJ_ERR_INVALID, "%s: %s and %s", what, type_text(infer, a), type_text(infer, b));
}

static lj_status axis_check(const lj_infer *infer, const lj_type *type, int64_t axis)
{
    if (axis >= 0 && axis < type->rank) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "axis %lld of %s", (long long)axis, type_text(infer, type));
}

static lj_status expect_dtype(const lj_infer *infer, int index, lj_dtype dtype, const char *what)
{
    if (operand(infer, index)->dtype == dtype) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s must be %s, got %s", what, lj_dtype_name(dtype), type_text(infer, operand(infer, index)));
}

static lj_status type_valid(const lj_type *type)
{
    if (type->rank < 0 || type->rank > LJ_MAX_RANK) return lj_fail(LJ_ERR_INVALID, "rank %d is outside 0 .. %d", type->rank, LJ_MAX_RANK);
    if ((unsigned)type->dtype >= LJ_DTYPE_COUNT) return lj_fail(LJ_ERR_INVALID, "no such dtype: %d", (int)type->dtype);
    for (int i = 0; i < type->rank; i++)
        if (type->dim[i].factor < 0) return lj_fail(LJ_ERR_INVALID, "dim %d is negative or overflows", i);
    return LJ_OK;
}

lj_status lj_infer_declared(lj_infer *infer)
{
    if (!infer->declared) return lj_fail(LJ_ERR_INVALID, "needs a declared type");
    LJ_TRY(type_valid(infer->declared));
    if (infer->node->op == LJ_OP_iota) LJ_TRY(axis_check(infer, infer->declared, infer->node->attributes.i[0]));
    infer->outputs[0] = *infer->declared;
    return LJ_OK;
}

lj_status lj_infer_random(lj_infer *infer)
{
    LJ_TRY(expect_dtype(infer, 0, LJ_I64, "the seed"));
    if (operand(infer, 0)->rank != 0) return lj_fail(LJ_ERR_INVALID, "the seed must be a scalar");
    LJ_TRY(lj_infer_declared(infer));
    if (infer->outputs[0].dtype != LJ_F32) return lj_fail(LJ_ERR_INVALID, "random gives f32");
    return LJ_OK;
}

lj_status lj_infer_same(lj_infer *infer)
{
    infer->outputs[0] = *operand(infer, 0);
    return LJ_OK;
}

lj_status lj_infer_cast(lj_infer *infer)
{
    if (!infer->declared) return lj_fail(LJ_ERR_INVALID, "cast needs a declared type");
    infer->outputs[0] = *operand(infer, 0);
    infer->outputs[0].dtype = infer->declared->dtype;
    return type_valid(&infer->outputs[0]);
}

lj_status lj_infer_same2(lj_infer *infer)
{
    if (!lj_type_equal(operand(infer, 0), operand(infer, 1))) return mismatch(infer, "operands differ", operand(infer, 0), operand(infer, 1));
    return lj_infer_same(infer);
}

lj_status lj_infer_compare(lj_infer *infer)
{
    LJ_TRY(lj_infer_same2(infer));
    infer->outputs[0].dtype = LJ_BOOL;
    return LJ_OK;
}

lj_status lj_infer_where(lj_infer *infer)
{
    LJ_TRY(expect_dtype(infer, 0, LJ_BOOL, "the condition"));
    if (!lj_type_equal(operand(infer, 1), operand(infer, 2))) return mismatch(infer, "branches differ", operand(infer, 1), operand(infer, 2));
    if (!lj_type_same_shape(operand(infer, 0), operand(infer, 1)))
        return mismatch(infer, "condition and branches differ in shape", operand(infer, 0), operand(infer, 1));
    infer->outputs[0] = *operand(infer, 1);
    return LJ_OK;
}

lj_status lj_infer_reshape(lj_infer *infer)
{
    if (!infer->declared) return lj_fail(LJ_ERR_INVALID, "reshape needs a declared type");
    lj_type out = *infer->declared;
    out.dtype = operand(infer, 0)->dtype;
    LJ_TRY(type_valid(&out));
    if (!lj_dim_equal(lj_type_elements_dim(&out), lj_type_elements_dim(operand(infer, 0))))
        return mismatch(infer, "element counts differ", operand(infer, 0), &out);
    infer->outputs[0] = out;
    return LJ_OK;
}

lj_status lj_infer_transpose(lj_infer *infer)
{
    const lj_type *in = operand(infer, 0);
    unsigned seen = 0;
    infer->outputs[0] = *in;
    for (int i = 0; i < in->rank; i++) {
        int64_t from = infer->node->attributes.i[i];
        if (from < 0 || from >= in->rank || seen >> from & 1) return lj_fail(LJ_ERR_INVALID, "not a permutation of %d dims", in->rank);
        seen |= 1u << from;
        infer->outputs[0].dim[i] = in->dim[from];
    }
    return LJ_OK;
}

lj_status lj_infer_broadcast(lj_infer *infer)
{
    const lj_type *in = operand(infer, 0);
    if (!infer->declared) return lj_fail(LJ_ERR_INVALID, "broadcast needs a declared type");
    lj_type out = *infer->declared;
    out.dtype = in->dtype;
    LJ_TRY(type_valid(&out));
    bool fits = out.rank == in->rank;
    for (int i = 0; fits && i < in->rank; i++) fits = lj_dim_is_const(in->dim[i], 1) || lj_dim_equal(in->dim[i], out.dim[i]);
    if (!fits) return mismatch(infer, "cannot broadcast", in, &out);
    infer->outputs[0] = out;
    return LJ_OK;
}

/* A constant size of an axis, as slicing and padding need it. */
static lj_status constant_axis(const lj_infer *infer, const lj_type *type, int64_t axis, int64_t *size)
{
    LJ_TRY(axis_check(infer, type, axis));
    if (!lj_dim_is_const(type->dim[axis], type->dim[axis].factor))
        return lj_fail(LJ_ERR_INVALID, "axis %lld of %s has no constant size", (long long)axis, type_text(infer, type));
    *size = type->dim[axis].factor;
    return LJ_OK;
}

lj_status lj_infer_slice(lj_infer *infer)
{
    const int64_t *a = infer->node->attributes.i;
    int64_t size;
    LJ_TRY(constant_axis(infer, operand(infer, 0), a[0], &size));
    if (a[1] < 0 || a[2] < 0 || a[1] > size || a[2] > size - a[1])
        return lj_fail(LJ_ERR_INVALID, "slice %lld .. +%lld of an axis of %lld", (long long)a[1], (long long)a[2], (long long)size);
    infer->outputs[0] = *operand(infer, 0);
    infer->outputs[0].dim[a[0]] = lj_dim_const(a[2]);
    return LJ_OK;
}

lj_status lj_infer_pad(lj_infer *infer)
{
    const int64_t *a = infer->node->attributes.i;
    int64_t size;
    LJ_TRY(constant_axis(infer, operand(infer, 0), a[0], &size));
    if (a[1] < 0 || a[2] < 0 || a[1] > INT32_MAX || a[2] > INT32_MAX) return lj_fail(LJ_ERR_INVALID, "pad by a negative or huge count");
    infer->outputs[0] = *operand(infer, 0);
    infer->outputs[0].dim[a[0]] = lj_dim_const(size + a[1] + a[2]);
    return LJ_OK;
}

/* Dims that differ only in their factor add up: 2*T beside 3*T. */
static lj_status dim_add(lj_dim *sum, lj_dim part)
{
    if (part.factor == 0) return LJ_OK;
    if (sum->factor == 0) return *sum = part, LJ_OK;
    if (memcmp(sum->power, part.power, sizeof part.power) != 0 || __builtin_add_overflow(sum->factor, part.factor, &sum->factor))
        return lj_fail(LJ_ERR_INVALID, "the sizes along the axis cannot be added: they depend on different symbols");
    return LJ_OK;
}

lj_status lj_infer_concat(lj_infer *infer)
{
    int64_t axis = infer->node->attributes.i[0];
    lj_type out = *operand(infer, 0);
    LJ_TRY(axis_check(infer, &out, axis));
    for (int i = 1; i < infer->node->input_count; i++) {
        lj_type part = *operand(infer, i);
        if (part.rank != out.rank) return mismatch(infer, "ranks differ", operand(infer, 0), &part);
        LJ_TRY(dim_add(&out.dim[axis], part.dim[axis]));
        part.dim[axis] = out.dim[axis];
        if (!lj_type_equal(&part, &out)) return mismatch(infer, "parts differ beside the axis", operand(infer, 0), operand(infer, i));
    }
    infer->outputs[0] = out;
    return LJ_OK;
}

/* [I...] and the row [...] of a table. */
static lj_status rows_type(const lj_infer *infer, const lj_type *table, const lj_type *ids, lj_type *out)
{
    if (ids->dtype != LJ_I32) return lj_fail(LJ_ERR_INVALID, "ids must be i32, got %s", type_text(infer, ids));
    if (table->rank < 1 || ids->rank + table->rank - 1 > LJ_MAX_RANK) return mismatch(infer, "ranks do not fit", table, ids);
    *out = (lj_type){.dtype = table->dtype, .rank = ids->rank + table->rank - 1};
    for (int i = 0; i < ids->rank; i++) out->dim[i] = ids->dim[i];
    for (int i = 1; i < table->rank; i++) out->dim[ids->rank + i - 1] = table->dim[i];
    return LJ_OK;
}

lj_status lj_infer_gather(lj_infer *infer)
{
    return rows_type(infer, operand(infer, 0), operand(infer, 1), &infer->outputs[0]);
}

lj_status lj_infer_scatter_add(lj_infer *infer)
{
    lj_type rows;
    LJ_TRY(rows_type(infer, operand(infer, 0), operand(infer, 1), &rows));
    if (!lj_type_same_shape(&rows, operand(infer, 2))) return mismatch(infer, "updates differ from the rows", &rows, operand(infer, 2));
    if (!lj_dtype_rows[operand(infer, 2)->dtype].is_float != !lj_dtype_rows[rows.dtype].is_float)
        return mismatch(infer, "base and updates must both be floats or both integers", &rows, operand(infer, 2));
    return lj_infer_same(infer);
}

lj_status lj_infer_update_rows(lj_infer *infer)
{
    const lj_type *x = operand(infer, 0), *update = operand(infer, 1), *start = operand(infer, 2);
    bool fits = x->rank >= 2 && update->rank == x->rank && update->dtype == x->dtype;
    for (int i = 0; fits && i < x->rank; i++) fits = i == 1 || lj_dim_equal(x->dim[i], update->dim[i]);
    if (!fits) return mismatch(infer, "update does not fit", x, update);
    if (start->dtype != LJ_I32 || start->rank != 1 || !lj_dim_equal(start->dim[0], x->dim[0]))
        return mismatch(infer, "start must be i32, one for each of the first axis", x, start);
    return lj_infer_same(infer);
}

lj_status lj_infer_reduce(lj_infer *infer)
{
    LJ_TRY(axis_check(infer, operand(infer, 0), infer->node->attributes.i[0]));
    infer->outputs[0] = *operand(infer, 0);
    infer->outputs[0].dim[infer->node->attributes.i[0]] = lj_dim_const(1);
    return LJ_OK;
}

lj_status lj_infer_argmax(lj_infer *infer)
{
    LJ_TRY(lj_infer_reduce(infer));
    infer->outputs[0].dtype = LJ_I32;
    return LJ_OK;
}

lj_status lj_infer_matmul(lj_infer *infer)
{
    const lj_type *a = operand(infer, 0), *b = operand(infer, 1);
    bool ta = infer->node->attributes.i[0] != 0, tb = infer->node->attributes.i[1] != 0;
    if (a->rank < 2 || a->rank != b->rank || a->dtype != b->dtype) return mismatch(infer, "operands do not fit", a, b);
    int r = a->rank;
    lj_type out = {.dtype = infer->declared ? infer->declared->dtype : a->dtype, .rank = r};
    bool fits = lj_dim_equal(a->dim[r - (ta ? 2 : 1)], b->dim[r - (tb ? 1 : 2)]);
    for (int i = 0; i < r - 2; i++) {
        fits = fits && lj_dim_equal(a->dim[i], b->dim[i]);
        out.dim[i] = a->dim[i];
    }
    if (!fits) return mismatch(infer, "inner or leading dims differ", a, b);
    if (!(lj_op_rows[LJ_OP_matmul].types >> out.dtype & 1)) return lj_fail(LJ_ERR_INVALID, "the result must be a float type of 2 bytes or more");
    out.dim[r - 2] = a->dim[r - (ta ? 1 : 2)];
    out.dim[r - 1] = b->dim[r - (tb ? 2 : 1)];
    if (operand_value(infer, 2) && !lj_type_equal(operand(infer, 2), &out)) return mismatch(infer, "the addend differs from the result", operand(infer, 2), &out);
    infer->outputs[0] = out;
    return LJ_OK;
}

static lj_status ranks_get(lj_infer *infer, int64_t *ranks)
{
    *ranks = infer->node->attributes.i[0];
    if (*ranks < 1 || *ranks > 1 << 20) return lj_fail(LJ_ERR_INVALID, "%lld ranks", (long long)*ranks);
    if (operand(infer, 0)->rank < 1) return lj_fail(LJ_ERR_INVALID, "the operand needs an axis 0");
    infer->outputs[0] = *operand(infer, 0);
    return LJ_OK;
}

static lj_status divide_first(lj_infer *infer, int64_t ranks)
{
    lj_dim *first = &infer->outputs[0].dim[0];
    if (first->factor % ranks) return lj_fail(LJ_ERR_INVALID, "axis 0 of %s does not divide by %lld ranks", type_text(infer, &infer->outputs[0]), (long long)ranks);
    first->factor /= ranks;
    return LJ_OK;
}

lj_status lj_infer_all_gather(lj_infer *infer)
{
    int64_t ranks;
    LJ_TRY(ranks_get(infer, &ranks));
    infer->outputs[0].dim[0] = lj_dim_mul(infer->outputs[0].dim[0], lj_dim_const(ranks));
    return type_valid(&infer->outputs[0]);
}

lj_status lj_infer_reduce_scatter(lj_infer *infer)
{
    int64_t ranks;
    LJ_TRY(ranks_get(infer, &ranks));
    return divide_first(infer, ranks);
}

lj_status lj_infer_all_to_all(lj_infer *infer)
{
    int64_t ranks;
    LJ_TRY(ranks_get(infer, &ranks));
    LJ_TRY(divide_first(infer, ranks));
    infer->outputs[0] = *operand(infer, 0);
    return LJ_OK;
}

/* -- composites ------------------------------------------------------------------------------------------------------------ */

static lj_status norm_check(lj_infer *infer)
{
    const lj_type *x = operand(infer, 0), *w = operand(infer, 1);
    if (x->rank < 1 || w->rank != 1 || !lj_dim_equal(w->dim[0], x->dim[x->rank - 1]) || !lj_dtype_rows[w->dtype].is_float)
        return mismatch(infer, "weight does not fit the last dim", x, w);
    int64_t columns;
    return constant_axis(infer, x, x->rank - 1, &columns);
}

static lj_type row_type(const lj_type *x, lj_dtype dtype)
{
    lj_type out = *x;
    out.dtype = dtype;
    out.dim[x->rank - 1] = lj_dim_const(1);
    return out;
}

/* Wider intermediates of a composite: f32, except that f64 stays f64. */
static lj_dtype wide(lj_dtype dtype)
{
    return dtype == LJ_F64 ? LJ_F64 : LJ_F32;
}

lj_status lj_infer_rms_norm(lj_infer *infer)
{
    LJ_TRY(norm_check(infer));
    infer->outputs[0] = *operand(infer, 0);
    infer->outputs[1] = row_type(operand(infer, 0), wide(operand(infer, 0)->dtype));
    return LJ_OK;
}

lj_status lj_infer_rms_norm_grad(lj_infer *infer)
{
    LJ_TRY(norm_check(infer));
    const lj_type *x = operand(infer, 0);
    lj_type rstd = row_type(x, wide(x->dtype));
    if (!lj_type_equal(operand(infer, 2), &rstd)) return mismatch(infer, "rstd differs", operand(infer, 2), &rstd);
    if (!lj_type_equal(operand(infer, 3), x)) return mismatch(infer, "dy differs from x", operand(infer, 3), x);
    infer->outputs[0] = *x;
    infer->outputs[1] = *operand(infer, 1);
    infer->outputs[1].dtype = wide(x->dtype);
    return LJ_OK;
}

lj_status lj_infer_rotary(lj_infer *infer)
{
    const lj_type *x = operand(infer, 0), *c = operand(infer, 1), *positions = operand(infer, 3);
    int64_t size;
    if (x->rank != 4) return lj_fail(LJ_ERR_INVALID, "x must be [B, T, H, D], got %s", type_text(infer, x));
    LJ_TRY(constant_axis(infer, x, 3, &size));
    if (size % 2) return lj_fail(LJ_ERR_INVALID, "head size %lld is odd", (long long)size);
    if (c->dtype != LJ_F32 || c->rank != 2 || !lj_dim_equal(c->dim[1], x->dim[3]) || !lj_type_equal(c, operand(infer, 2)))
        return mismatch(infer, "tables must be f32 [P, D]", c, operand(infer, 2));
    if (positions->dtype != LJ_I32 || positions->rank != 2 || !lj_dim_equal(positions->dim[0], x->dim[0]) || !lj_dim_equal(positions->dim[1], x->dim[1]))
        return mismatch(infer, "positions must be i32 [B, T]", positions, x);
    return lj_infer_same(infer);
}

lj_status lj_infer_swiglu_grad(lj_infer *infer)
{
    LJ_TRY(lj_infer_same2(infer));
    if (!lj_type_equal(operand(infer, 2), operand(infer, 0))) return mismatch(infer, "dy differs", operand(infer, 2), operand(infer, 0));
    infer->outputs[1] = infer->outputs[0];
    return LJ_OK;
}

static lj_status attention_check(const lj_infer *infer, int starts, int q_start)
{
    const lj_type *q = operand(infer, 0), *k = operand(infer, 1);
    if (q->rank != 4 || k->rank != 4 || !lj_type_equal(k, operand(infer, 2)) || q->dtype != k->dtype) return mismatch(infer, "q, k, v do not fit", q, k);
    int64_t hq, hkv, d;
    LJ_TRY(constant_axis(infer, q, 2, &hq));
    LJ_TRY(constant_axis(infer, k, 2, &hkv));
    LJ_TRY(constant_axis(infer, q, 3, &d));
    if (!lj_dim_equal(q->dim[0], k->dim[0]) || !lj_dim_equal(q->dim[3], k->dim[3]) || hkv < 1 || hq % hkv || d < 1)
        return mismatch(infer, "batch, head size or head counts do not fit", q, k);
    lj_value s = operand_value(infer, starts), p = operand_value(infer, q_start);
    const lj_type *st = s ? lj_type_get(infer->graph, s) : NULL, *pt = p ? lj_type_get(infer->graph, p) : NULL;
    if (st && (st->dtype != LJ_I32 || st->rank != 2 || !lj_dim_equal(st->dim[0], q->dim[0]) || !lj_dim_equal(st->dim[1], q->dim[1])))
        return mismatch(infer, "starts must be i32 [B, T]", st, q);
    if (pt && (pt->dtype != LJ_I32 || pt->rank != 1 || !lj_dim_equal(pt->dim[0], q->dim[0]))) return mismatch(infer, "q_start must be i32 [B]", pt, q);
    if (infer->node->attributes.i[1] < 0) return lj_fail(LJ_ERR_INVALID, "the window is negative");
    return LJ_OK;
}

static lj_type lse_type(const lj_type *q)
{
    lj_dim dims[3] = {q->dim[0], q->dim[2], q->dim[1]};
    return lj_type_dims(wide(q->dtype), 3, dims);
}

lj_status lj_infer_attention(lj_infer *infer)
{
    LJ_TRY(attention_check(infer, 3, 4));
    infer->outputs[0] = *operand(infer, 0);
    infer->outputs[1] = lse_type(operand(infer, 0));
    return LJ_OK;
}

lj_status lj_infer_attention_grad(lj_infer *infer)
{
    LJ_TRY(attention_check(infer, 6, 7));
    const lj_type *q = operand(infer, 0);
    lj_type lse = lse_type(q);
    if (!lj_type_equal(operand(infer, 3), q) || !lj_type_equal(operand(infer, 5), q) || !lj_type_equal(operand(infer, 4), &lse))
        return mismatch(infer, "out, lse or dout differ from the forward", q, operand(infer, 5));
    for (int i = 0; i < 3; i++) infer->outputs[i] = *operand(infer, i);
    return LJ_OK;
}

static lj_status head_check(const lj_infer *infer)
{
    const lj_type *x = operand(infer, 0), *w = operand(infer, 1), *t = operand(infer, 2);
    if (x->rank != 2 || w->rank != 2 || x->dtype != w->dtype || !lj_dim_equal(x->dim[1], w->dim[1])) return mismatch(infer, "x [N, C] and weight [V, C] do not fit", x, w);
    if (t->dtype != LJ_I32 || t->rank != 1 || !lj_dim_equal(t->dim[0], x->dim[0])) return mismatch(infer, "targets must be i32 [N]", t, x);
    return LJ_OK;
}

static lj_type per_row(const lj_type *x)
{
    return lj_type_dims(wide(x->dtype), 1, x->dim);
}

static lj_status expect_row(const lj_infer *infer, int index, const char *what)
{
    lj_type row = per_row(operand(infer, 0));
    if (lj_type_equal(operand(infer, index), &row)) return LJ_OK;
    return mismatch(infer, what, operand(infer, index), &row);
}

lj_status lj_infer_head_loss(lj_infer *infer)
{
    LJ_TRY(head_check(infer));
    infer->outputs[0] = infer->outputs[1] = per_row(operand(infer, 0));
    return LJ_OK;
}

static lj_status head_gradients(lj_infer *infer, int first, int addend)
{
    lj_type dw = *operand(infer, 1);
    dw.dtype = wide(operand(infer, 0)->dtype);
    if (operand_value(infer, addend) && !lj_type_equal(operand(infer, addend), &dw)) return mismatch(infer, "the addend differs from dw", operand(infer, addend), &dw);
    infer->outputs[first] = *operand(infer, 0);
    infer->outputs[first + 1] = dw;
    return LJ_OK;
}

lj_status lj_infer_head_loss_grad(lj_infer *infer)
{
    LJ_TRY(head_check(infer));
    LJ_TRY(expect_row(infer, 3, "lse differs"));
    LJ_TRY(expect_row(infer, 4, "dloss differs"));
    return head_gradients(infer, 0, 5);
}

lj_status lj_infer_head_loss_train(lj_infer *infer)
{
    LJ_TRY(head_check(infer));
    LJ_TRY(expect_row(infer, 3, "dloss differs"));
    infer->outputs[0] = infer->outputs[1] = per_row(operand(infer, 0));
    return head_gradients(infer, 2, 4);
}

lj_status lj_infer_dropout(lj_infer *infer)
{
    const lj_type *seed = operand(infer, 1);
    double rate = infer->node->attributes.f[0];
    if (seed->dtype != LJ_I64 || seed->rank != 0) return lj_fail(LJ_ERR_INVALID, "the seed must be an i64 scalar");
    if (!(rate >= 0 && rate < 1)) return lj_fail(LJ_ERR_INVALID, "rate %g is outside 0 .. 1", rate);
    return lj_infer_same(infer);
}

lj_status lj_infer_sum_squares(lj_infer *infer)
{
    infer->outputs[0] = (lj_type){.dtype = wide(operand(infer, 0)->dtype)};
    return LJ_OK;
}

lj_status lj_infer_adamw(lj_infer *infer)
{
    const lj_type *master = operand(infer, 0), *g = operand(infer, 3), *s = operand(infer, 4);
    for (int i = 0; i < 3; i++) {
        if (!lj_type_equal(operand(infer, i), master)) return mismatch(infer, "master, m and v differ", master, operand(infer, i));
        infer->outputs[i] = *master;
    }
    if (master->dtype != LJ_F32 && master->dtype != LJ_F64) return lj_fail(LJ_ERR_INVALID, "master weights must be f32 or f64");
    if (!lj_type_same_shape(g, master) || !lj_dtype_rows[g->dtype].is_float) return mismatch(infer, "gradient does not fit", g, master);
    if (s->rank != 1 || s->dtype != master->dtype || !lj_dim_is_const(s->dim[0], 4)) return mismatch(infer, "scalars must be [4] in the master's dtype", s, master);
    return LJ_OK;
}
