#include "support/kernel_graphs.h"

#include <math.h>

#define DIMS(...) (int)(sizeof((lj_dim[]){__VA_ARGS__}) / sizeof(lj_dim)), (lj_dim[]){__VA_ARGS__}
#define K(n) lj_dim_const(n)

typedef struct {
    test_sheet *sheet;
    lj_graph *g;
    lj_dim b, t;
} maker;

static maker make(test_sheet *sheet)
{
    return (maker){sheet, sheet->graph, lj_dim_symbol(sheet->graph, "B"), lj_dim_symbol(sheet->graph, "T")};
}

static lj_value in(const maker *m, lj_dtype dtype, int rank, const lj_dim *dims)
{
    return test_sheet_input(m->sheet, lj_type_dims(dtype, rank, dims), FILL_NORMAL);
}

static lj_value f32(const maker *m, lj_value x)
{
    return lj_cast(m->g, x, LJ_F32);
}

static lj_value like(const maker *m, lj_value x, double value)
{
    return lj_const(m->g, lj_value_type(m->g, x), value);
}

static void out(const maker *m, lj_value value)
{
    test_sheet_output(m->sheet, value);
}

/* -- rows ------------------------------------------------------------------------------------------------------------------ */

static lj_value rstd(const maker *m, lj_value x, int axis, int64_t columns)
{
    lj_value mean = lj_sum(m->g, lj_mul(m->g, x, x), axis);
    mean = lj_mul(m->g, mean, like(m, mean, 1.0 / (double)columns));
    return lj_rsqrt(m->g, lj_add(m->g, mean, like(m, mean, 1e-5)));
}

/* x = a + b; y = norm(x) w: three results. */
static void norm_residual(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = lj_add(m.g, in(&m, LJ_BF16, DIMS(m.b, m.t, K(576))), in(&m, LJ_BF16, DIMS(m.b, m.t, K(576))));
    lj_value wide = f32(&m, x), r = rstd(&m, wide, 2, 576), w = in(&m, LJ_BF16, DIMS(K(576)));
    out(&m, x);
    out(&m, lj_cast(m.g, lj_mul(m.g, lj_mul(m.g, wide, r), f32(&m, w)), LJ_BF16));
    out(&m, r);
}

/* dx of the norm: two sums over the row, one from the other. */
static void norm_gradient(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = f32(&m, in(&m, LJ_BF16, DIMS(m.b, m.t, K(576)))), dy = f32(&m, in(&m, LJ_BF16, DIMS(m.b, m.t, K(576))));
    lj_value w = f32(&m, in(&m, LJ_BF16, DIMS(K(576)))), r = in(&m, LJ_F32, DIMS(m.b, m.t, K(1)));
    lj_value g = lj_mul(m.g, dy, w), dot = lj_sum(m.g, lj_mul(m.g, g, x), 2);
    lj_value scale = lj_mul(m.g, lj_mul(m.g, dot, lj_mul(m.g, r, lj_mul(m.g, r, r))), like(&m, dot, 1.0 / 576));
    out(&m, lj_cast(m.g, lj_sub(m.g, lj_mul(m.g, g, r), lj_mul(m.g, x, scale)), LJ_BF16));
}

static void softmax_rows(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_F32, DIMS(m.b, K(7), m.t)), e = lj_exp(m.g, lj_sub(m.g, x, lj_maximum(m.g, x, 2)));
    out(&m, lj_div(m.g, e, lj_sum(m.g, e, 2)));
}

static void softmax_bf16(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_BF16, DIMS(m.t, K(5000))), e = lj_exp(m.g, lj_sub(m.g, x, lj_maximum(m.g, x, 1)));
    out(&m, lj_div(m.g, e, lj_sum(m.g, e, 1)));
}

/* gate | up in one buffer, f16. */
static void swiglu(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value both = in(&m, LJ_F16, DIMS(m.b, m.t, K(384))), gate = f32(&m, lj_slice(m.g, both, 2, 0, 192));
    lj_value up = f32(&m, lj_slice(m.g, both, 2, 192, 192));
    out(&m, lj_cast(m.g, lj_mul(m.g, lj_mul(m.g, gate, lj_sigmoid(m.g, gate)), up), LJ_F16));
}

/* dgate | dup written side by side. */
static void swiglu_gradient(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value both = in(&m, LJ_BF16, DIMS(m.b, m.t, K(3072))), gate = f32(&m, lj_slice(m.g, both, 2, 0, 1536));
    lj_value up = f32(&m, lj_slice(m.g, both, 2, 1536, 1536)), dy = f32(&m, in(&m, LJ_BF16, DIMS(m.b, m.t, K(1536))));
    lj_value s = lj_sigmoid(m.g, gate), silu = lj_mul(m.g, gate, s), one = like(&m, s, 1);
    lj_value slope = lj_mul(m.g, s, lj_add(m.g, one, lj_mul(m.g, gate, lj_sub(m.g, one, s))));
    lj_value parts[2] = {lj_cast(m.g, lj_mul(m.g, lj_mul(m.g, dy, up), slope), LJ_BF16), lj_cast(m.g, lj_mul(m.g, dy, silu), LJ_BF16)};
    out(&m, lj_concat(m.g, parts, 2, 2));
}

static void residual(test_sheet *sheet)
{
    maker m = make(sheet);
    out(&m, lj_add(m.g, in(&m, LJ_BF16, DIMS(m.b, m.t, K(576))), in(&m, LJ_BF16, DIMS(m.b, m.t, K(576)))));
}

/* Halves turned by table rows that ids pick. */
static lj_value turned(const maker *m, lj_value x, lj_value cosines, lj_value sines, lj_value positions, int64_t heads)
{
    lj_value half[2], c[2], s[2];
    for (int i = 0; i < 2; i++) {
        lj_dim dims[4] = {m->b, m->t, K(1), K(32)}, wide[4] = {m->b, m->t, K(heads), K(32)};
        half[i] = f32(m, lj_slice(m->g, x, 3, i * 32, 32));
        c[i] = lj_broadcast(m->g, lj_reshape(m->g, lj_slice(m->g, lj_gather(m->g, cosines, positions), 2, i * 32, 32), 4, dims), 4, wide);
        s[i] = lj_broadcast(m->g, lj_reshape(m->g, lj_slice(m->g, lj_gather(m->g, sines, positions), 2, i * 32, 32), 4, dims), 4, wide);
    }
    lj_value low = lj_sub(m->g, lj_mul(m->g, half[0], c[0]), lj_mul(m->g, half[1], s[0]));
    lj_value high = lj_add(m->g, lj_mul(m->g, half[1], c[1]), lj_mul(m->g, half[0], s[1]));
    return lj_concat(m->g, (lj_value[]){lj_cast(m->g, low, LJ_BF16), lj_cast(m->g, high, LJ_BF16)}, 2, 3);
}

static void rotary(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_BF16, DIMS(m.b, m.t, K(9), K(64))), c = in(&m, LJ_F32, DIMS(K(300), K(64))), s = in(&m, LJ_F32, DIMS(K(300), K(64)));
    lj_value positions = test_sheet_ids(sheet, DIMS(m.b, m.t), FILL_IDS, K(300));
    out(&m, turned(&m, x, c, s, positions, 9));
}

/* dq | dk | dv of the heads, the first two turned. */
static void qkv_gradient(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value q = in(&m, LJ_BF16, DIMS(m.b, m.t, K(9), K(64))), k = in(&m, LJ_BF16, DIMS(m.b, m.t, K(3), K(64)));
    lj_value v = in(&m, LJ_BF16, DIMS(m.b, m.t, K(3), K(64)));
    lj_value c = in(&m, LJ_F32, DIMS(K(300), K(64))), s = in(&m, LJ_F32, DIMS(K(300), K(64)));
    lj_value positions = test_sheet_ids(sheet, DIMS(m.b, m.t), FILL_IDS, K(300));
    lj_value parts[3] = {turned(&m, q, c, s, positions, 9), turned(&m, k, c, s, positions, 3), v};
    out(&m, lj_reshape(m.g, lj_concat(m.g, parts, 3, 2), DIMS(m.b, m.t, K(15 * 64))));
}

static void qkv_concat(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value parts[3] = {in(&m, LJ_BF16, DIMS(m.b, m.t, K(9), K(64))), in(&m, LJ_BF16, DIMS(m.b, m.t, K(3), K(64))),
                         in(&m, LJ_BF16, DIMS(m.b, m.t, K(3), K(64)))};
    out(&m, lj_concat(m.g, parts, 3, 2));
}

/* Norm of each head, then the turn: rows of 64 reduced, halves of 32 stored. */
static void head_norm_rotary(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = f32(&m, lj_reshape(m.g, in(&m, LJ_BF16, DIMS(m.b, m.t, K(512))), DIMS(m.b, m.t, K(8), K(64))));
    lj_value y = lj_cast(m.g, lj_mul(m.g, x, rstd(&m, x, 3, 64)), LJ_BF16);
    lj_value c = in(&m, LJ_F32, DIMS(K(300), K(64))), s = in(&m, LJ_F32, DIMS(K(300), K(64)));
    lj_value positions = test_sheet_ids(sheet, DIMS(m.b, m.t), FILL_IDS, K(300));
    out(&m, turned(&m, y, c, s, positions, 8));
}

static void embedding(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value ids = test_sheet_ids(sheet, DIMS(m.b, m.t), FILL_IDS, K(100));
    lj_value row = lj_gather(m.g, in(&m, LJ_BF16, DIMS(K(100), K(72))), ids);
    out(&m, lj_mul(m.g, row, like(&m, row, 12)));
}

static void dropout(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_BF16, DIMS(m.b, m.t, K(65))), seed = test_sheet_input(sheet, (lj_type){.dtype = LJ_I64}, FILL_WIDE);
    lj_value u = lj_random(m.g, seed, lj_type_dims(LJ_F32, DIMS(m.b, m.t, K(65))), 3);
    lj_value kept = lj_le(m.g, like(&m, u, 0.1), u), scaled = lj_mul(m.g, f32(&m, x), like(&m, u, 1 / 0.9));
    out(&m, lj_cast(m.g, lj_where(m.g, kept, scaled, like(&m, u, 0)), LJ_BF16));
}

/* A causal mask from indices, with a window. */
static void mask(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_type type = lj_type_dims(LJ_I32, DIMS(m.t, m.t)), scores = lj_type_dims(LJ_F32, DIMS(m.b, m.t, m.t));
    lj_value query = lj_iota(m.g, type, 0), key = lj_iota(m.g, type, 1);
    lj_value near = lj_lt(m.g, lj_sub(m.g, query, key), like(&m, query, 5));
    lj_value seen = lj_and(m.g, lj_le(m.g, key, query), lj_not(m.g, lj_not(m.g, near)));
    lj_value x = test_sheet_input(sheet, scores, FILL_NORMAL);
    out(&m, lj_where(m.g, seen, x, like(&m, x, -INFINITY)));
}

/* Rows of an integer and a bool path: sum of i64, maximum of i8, comparisons. */
static void integers(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_I8, DIMS(m.b, m.t, K(33))), wide = lj_cast(m.g, x, LJ_I64), sum = lj_sum(m.g, wide, 2);
    out(&m, lj_mul(m.g, wide, sum));
    out(&m, lj_maximum(m.g, x, 2));
    out(&m, lj_eq(m.g, x, lj_maximum(m.g, x, 2)));
    out(&m, lj_sum(m.g, lj_cast(m.g, lj_lt(m.g, x, like(&m, x, 3)), LJ_U32), 2));
}

static void doubles(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_F64, DIMS(m.b, m.t, K(100))), shifted = lj_sub(m.g, x, lj_maximum(m.g, x, 2)), e = lj_exp(m.g, shifted);
    out(&m, lj_add(m.g, lj_ln(m.g, lj_sum(m.g, e, 2)), shifted));
    out(&m, lj_cast(m.g, lj_tanh(m.g, x), LJ_BF16));
}

static void scalars(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value norm = in(&m, LJ_F32, 0, NULL), limit = in(&m, LJ_F32, 0, NULL), one = like(&m, norm, 1);
    out(&m, lj_min(m.g, one, lj_div(m.g, limit, lj_add(m.g, norm, like(&m, norm, 1e-6)))));
    out(&m, lj_cast(m.g, lj_lt(m.g, norm, limit), LJ_I32));
}

/* One number from a vector, and the vector again: a single row. */
static void whole_vector(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_F32, DIMS(lj_dim_mul(m.b, m.t)));
    lj_value norm = lj_sqrt(m.g, lj_sum(m.g, lj_mul(m.g, x, x), 0));
    out(&m, lj_reshape(m.g, norm, 0, NULL));
    out(&m, lj_div(m.g, x, norm));
}

static void padded(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_BF16, DIMS(m.b, K(4), m.t, K(40)));
    out(&m, lj_pad(m.g, lj_pad(m.g, lj_neg(m.g, x), 3, 3, 5), 1, 1, 0));
}

static void transposed(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_BF16, DIMS(m.t, lj_dim_mul(m.b, K(24))));
    out(&m, lj_transpose(m.g, x, (int[]){1, 0}));
    lj_value heads = in(&m, LJ_BF16, DIMS(m.b, m.t, K(6), K(16)));
    out(&m, lj_add(m.g, lj_transpose(m.g, heads, (int[]){0, 2, 1, 3}), in(&m, LJ_BF16, DIMS(m.b, K(6), m.t, K(16)))));
}

/* -- columns ---------------------------------------------------------------------------------------------------------------- */

static void weight_gradient(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = f32(&m, in(&m, LJ_BF16, DIMS(m.b, m.t, K(576)))), dy = f32(&m, in(&m, LJ_BF16, DIMS(m.b, m.t, K(576))));
    lj_value r = in(&m, LJ_F32, DIMS(m.b, m.t, K(1))), product = lj_mul(m.g, lj_mul(m.g, dy, x), r);
    out(&m, lj_reshape(m.g, lj_sum(m.g, lj_sum(m.g, product, 0), 1), DIMS(K(576))));
}

/* Rounded to bf16 after each sum, then scaled: what follows the total. */
static void bias_gradient(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value total = lj_sum(m.g, lj_sum(m.g, in(&m, LJ_BF16, DIMS(m.t, m.b, K(1300))), 1), 0);
    out(&m, lj_mul(m.g, total, like(&m, total, 0.125)));
}

/* Two totals over the same rows, each with its part of scratch. */
static void two_totals(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_BF16, DIMS(m.t, K(48))), y = in(&m, LJ_F64, DIMS(lj_dim_mul(m.b, m.t), K(20)));
    out(&m, lj_sum(m.g, f32(&m, x), 0));
    out(&m, lj_maximum(m.g, y, 0));
}

/* Columns of an input and of the ids' rows: gather inside a sum. */
static void gathered_columns(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value ids = test_sheet_ids(sheet, DIMS(m.t), FILL_IDS, K(50)), table = in(&m, LJ_F32, DIMS(K(50), K(18)));
    out(&m, lj_sum(m.g, lj_mul(m.g, lj_gather(m.g, table, ids), in(&m, LJ_F32, DIMS(m.t, K(18)))), 0));
}

static void few_columns(test_sheet *sheet)
{
    maker m = make(sheet);
    out(&m, lj_sum(m.g, in(&m, LJ_F32, DIMS(lj_dim_mul(m.b, m.t), K(3))), 0));
}

static void any_columns(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_F64, DIMS(m.t, m.b));
    out(&m, lj_add(m.g, lj_sum(m.g, x, 0), in(&m, LJ_F64, DIMS(K(1), m.b))));
}

static void middle_axis(test_sheet *sheet)
{
    maker m = make(sheet);
    lj_value x = in(&m, LJ_BF16, DIMS(m.b, m.t, K(8), K(12)));
    out(&m, lj_sum(m.g, lj_abs(m.g, x), 1));
    out(&m, lj_maximum(m.g, x, 2));
}

const kernel_graph_row kernel_graph_rows[] = {
    {"norm_residual", norm_residual, 0}, {"norm_gradient", norm_gradient, 0}, {"softmax_rows", softmax_rows, 0},
    {"softmax_bf16", softmax_bf16, 0},   {"swiglu", swiglu, 0},               {"swiglu_gradient", swiglu_gradient, 0},
    {"residual", residual, 0},           {"rotary", rotary, 300},             {"qkv_gradient", qkv_gradient, 300},
    {"qkv_concat", qkv_concat, 0},       {"head_norm_rotary", head_norm_rotary, 300}, {"embedding", embedding, 100},
    {"dropout", dropout, 0},             {"mask", mask, 0},                   {"integers", integers, 0},
    {"doubles", doubles, 0},             {"scalars", scalars, 0},             {"whole_vector", whole_vector, 0},
    {"padded", padded, 0},               {"transposed", transposed, 0},       {"weight_gradient", weight_gradient, 0},
    {"bias_gradient", bias_gradient, 0}, {"few_columns", few_columns, 0},     {"any_columns", any_columns, 0},
    {"middle_axis", middle_axis, 0},     {"two_totals", two_totals, 0},         {"gathered_columns", gathered_columns, 50},
};
const int kernel_graph_count = sizeof kernel_graph_rows / sizeof *kernel_graph_rows;
