/* Leaves and elementwise ops. Operands have the result's shape (broadcasting is an op of its own). */
#include "ref/tensor.h"

#include <math.h>

/* Nearest even whole number of `value`, clamped to the dtype; NaN gives 0; to bool: not zero. */
static lj_ref_cell float_to_cell(lj_dtype to, double value)
{
    if (lj_dtype_rows[to].is_float) return (lj_ref_cell){.f = value};
    if (to == LJ_BOOL) return (lj_ref_cell){.i = value != 0};
    uint64_t store = 0;
    lj_element_set(to, &store, 0, value); /* rounds and clamps */
    if (to == LJ_I64 || to == LJ_U64) return (lj_ref_cell){.i = (int64_t)store};
    return (lj_ref_cell){.i = (int64_t)lj_element_get(to, &store, 0)};
}

/* 64-bit magnitude -> double that later rounding to 32 bits or fewer cannot round twice: the last bit is sticky. */
static double sticky_double(uint64_t magnitude)
{
    if (magnitude < (uint64_t)1 << 53) return (double)magnitude;
    int shift = 11 - __builtin_clzll(magnitude); /* bits below the 53 that fit */
    uint64_t kept = magnitude >> shift, lost = magnitude & (((uint64_t)1 << shift) - 1);
    return ldexp((double)(kept | (lost != 0)), shift);
}

static double integer_to_float(lj_dtype from, int64_t value, lj_dtype to)
{
    if (to == LJ_F64) return lj_ref_cell_number(from, (lj_ref_cell){.i = value});
    if (from == LJ_U64 || value >= 0) return sticky_double((uint64_t)value);
    return -sticky_double(0 - (uint64_t)value);
}

/* Integers clamp. The source is compared in its own sign, so that u64 and i64 clamp to each other rightly. */
static int64_t integer_to_integer(lj_dtype from, int64_t value, lj_dtype to)
{
    if (to == LJ_BOOL) return value != 0;
    bool above_i64 = from == LJ_U64 && value < 0; /* a u64 from 2^63 on */
    if (to == LJ_U64) return above_i64 || value > 0 ? value : 0;
    if (to == LJ_I64) return above_i64 ? INT64_MAX : value;
    int64_t high = (int64_t)lj_dtype_rows[to].max, low = lj_dtype_rows[to].is_signed ? -high - 1 : 0;
    return above_i64 || value > high ? high : value < low ? low : value;
}

lj_status lj_ref_cast(const lj_ref_op *op)
{
    const lj_ref_tensor *x = op->inputs[0];
    lj_ref_tensor *out = &op->outputs[0];
    for (int64_t at = 0; at < out->count; at++) {
        if (lj_ref_is_float(x))
            out->cells[at] = float_to_cell(out->dtype, x->cells[at].f);
        else if (lj_ref_is_float(out))
            out->cells[at].f = integer_to_float(x->dtype, x->cells[at].i, out->dtype);
        else
            out->cells[at].i = integer_to_integer(x->dtype, x->cells[at].i, out->dtype);
    }
    return LJ_OK;
}

lj_status lj_ref_const(const lj_ref_op *op)
{
    lj_ref_tensor *out = &op->outputs[0];
    lj_ref_cell cell = float_to_cell(out->dtype, op->node->attributes.f[0]);
    cell = lj_ref_cell_round(out->dtype, cell, false); /* also when exact: a constant is what its dtype holds, as an input is */
    for (int64_t at = 0; at < out->count; at++) out->cells[at] = cell;
    return LJ_OK;
}

lj_status lj_ref_iota(const lj_ref_op *op)
{
    lj_ref_tensor *out = &op->outputs[0];
    for (int64_t at = 0; at < out->count; at++) {
        int64_t index[LJ_MAX_RANK];
        lj_ref_unravel(out, at, index);
        out->cells[at] = float_to_cell(out->dtype, (double)index[op->node->attributes.i[0]]);
    }
    return LJ_OK;
}

/* As the head of ops.def defines it. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

lj_status lj_ref_random(const lj_ref_op *op)
{
    const uint64_t step = 0x9e3779b97f4a7c15u;
    lj_ref_tensor *out = &op->outputs[0];
    uint64_t seed = (uint64_t)op->inputs[0]->cells[0].i, stream = (uint64_t)op->node->attributes.i[0];
    uint64_t key = mix(seed + step * (stream + 1));
    for (int64_t at = 0; at < out->count; at++)
        out->cells[at].f = ldexp((double)(mix(key + step * ((uint64_t)at + 1)) >> 40), -24);
    return LJ_OK;
}

lj_status lj_ref_input(const lj_ref_op *op)
{
    return lj_fail(LJ_ERR_NOT_FOUND, "reference: no buffer for input '%s': bind it by that name", op->node->name);
}

/* -- one operand ---------------------------------------------------------------------------------------------------------- */

typedef double (*float_fn)(double x);
typedef int64_t (*integer_fn)(int64_t x);

static lj_status unary(const lj_ref_op *op, float_fn on_float, integer_fn on_integer)
{
    const lj_ref_tensor *x = op->inputs[0];
    lj_ref_tensor *out = &op->outputs[0];
    for (int64_t at = 0; at < out->count; at++) {
        if (lj_ref_is_float(x))
            out->cells[at].f = on_float(x->cells[at].f);
        else
            out->cells[at].i = on_integer(x->cells[at].i);
    }
    return LJ_OK;
}

static double float_neg(double x) { return -x; }
static int64_t integer_neg(int64_t x) { return (int64_t)(0 - (uint64_t)x); }
static int64_t integer_abs(int64_t x) { return x < 0 ? integer_neg(x) : x; }
static int64_t integer_same(int64_t x) { return x; }
static int64_t integer_not(int64_t x) { return !x; }
static double float_rsqrt(double x) { return 1 / sqrt(x); }
static double float_recip(double x) { return 1 / x; }
static double float_sigmoid(double x) { return 1 / (1 + exp(-x)); }

lj_status lj_ref_neg(const lj_ref_op *op) { return unary(op, float_neg, integer_neg); }
lj_status lj_ref_abs(const lj_ref_op *op)
{
    return unary(op, fabs, op->inputs[0]->dtype == LJ_U64 ? integer_same : integer_abs);
}
lj_status lj_ref_exp(const lj_ref_op *op) { return unary(op, exp, NULL); }
lj_status lj_ref_log(const lj_ref_op *op) { return unary(op, log, NULL); }
lj_status lj_ref_sqrt(const lj_ref_op *op) { return unary(op, sqrt, NULL); }
lj_status lj_ref_rsqrt(const lj_ref_op *op) { return unary(op, float_rsqrt, NULL); }
lj_status lj_ref_recip(const lj_ref_op *op) { return unary(op, float_recip, NULL); }
lj_status lj_ref_sin(const lj_ref_op *op) { return unary(op, sin, NULL); }
lj_status lj_ref_cos(const lj_ref_op *op) { return unary(op, cos, NULL); }
lj_status lj_ref_tanh(const lj_ref_op *op) { return unary(op, tanh, NULL); }
lj_status lj_ref_sigmoid(const lj_ref_op *op) { return unary(op, float_sigmoid, NULL); }
lj_status lj_ref_floor(const lj_ref_op *op) { return unary(op, floor, NULL); }
lj_status lj_ref_not(const lj_ref_op *op) { return unary(op, NULL, integer_not); }

/* -- two operands --------------------------------------------------------------------------------------------------------- */

typedef lj_ref_cell (*pair_fn)(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b);

static lj_status binary(const lj_ref_op *op, pair_fn fn)
{
    const lj_ref_tensor *a = op->inputs[0], *b = op->inputs[1];
    lj_ref_tensor *out = &op->outputs[0];
    for (int64_t at = 0; at < out->count; at++) out->cells[at] = fn(a->dtype, a->cells[at], b->cells[at]);
    return LJ_OK;
}

static bool is_float(lj_dtype dtype) { return lj_dtype_rows[dtype].is_float; }

static lj_ref_cell pair_add(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    if (is_float(dtype)) return (lj_ref_cell){.f = a.f + b.f};
    return (lj_ref_cell){.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i)};
}
static lj_ref_cell pair_sub(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    if (is_float(dtype)) return (lj_ref_cell){.f = a.f - b.f};
    return (lj_ref_cell){.i = (int64_t)((uint64_t)a.i - (uint64_t)b.i)};
}
static lj_ref_cell pair_mul(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    if (is_float(dtype)) return (lj_ref_cell){.f = a.f * b.f};
    return (lj_ref_cell){.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i)};
}
static lj_ref_cell pair_div(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    (void)dtype;
    return (lj_ref_cell){.f = a.f / b.f};
}
static bool either_nan(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    return is_float(dtype) && (isnan(a.f) || isnan(b.f));
}
static lj_ref_cell pair_max(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    if (either_nan(dtype, a, b)) return (lj_ref_cell){.f = NAN};
    return lj_ref_cell_less(dtype, a, b) ? b : a;
}
static lj_ref_cell pair_min(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    if (either_nan(dtype, a, b)) return (lj_ref_cell){.f = NAN};
    return lj_ref_cell_less(dtype, b, a) ? b : a;
}
static lj_ref_cell pair_lt(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    return (lj_ref_cell){.i = lj_ref_cell_less(dtype, a, b)};
}
static lj_ref_cell pair_eq(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    return (lj_ref_cell){.i = is_float(dtype) ? a.f == b.f : a.i == b.i};
}
static lj_ref_cell pair_le(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    return (lj_ref_cell){.i = pair_lt(dtype, a, b).i || pair_eq(dtype, a, b).i};
}
static lj_ref_cell pair_and(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    (void)dtype;
    return (lj_ref_cell){.i = a.i && b.i};
}
static lj_ref_cell pair_or(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    (void)dtype;
    return (lj_ref_cell){.i = a.i || b.i};
}

lj_status lj_ref_add(const lj_ref_op *op) { return binary(op, pair_add); }
lj_status lj_ref_sub(const lj_ref_op *op) { return binary(op, pair_sub); }
lj_status lj_ref_mul(const lj_ref_op *op) { return binary(op, pair_mul); }
lj_status lj_ref_div(const lj_ref_op *op) { return binary(op, pair_div); }
lj_status lj_ref_max(const lj_ref_op *op) { return binary(op, pair_max); }
lj_status lj_ref_min(const lj_ref_op *op) { return binary(op, pair_min); }
lj_status lj_ref_lt(const lj_ref_op *op) { return binary(op, pair_lt); }
lj_status lj_ref_le(const lj_ref_op *op) { return binary(op, pair_le); }
lj_status lj_ref_eq(const lj_ref_op *op) { return binary(op, pair_eq); }
lj_status lj_ref_and(const lj_ref_op *op) { return binary(op, pair_and); }
lj_status lj_ref_or(const lj_ref_op *op) { return binary(op, pair_or); }

lj_status lj_ref_where(const lj_ref_op *op)
{
    const lj_ref_tensor *condition = op->inputs[0], *a = op->inputs[1], *b = op->inputs[2];
    lj_ref_tensor *out = &op->outputs[0];
    for (int64_t at = 0; at < out->count; at++) out->cells[at] = condition->cells[at].i ? a->cells[at] : b->cells[at];
    return LJ_OK;
}
