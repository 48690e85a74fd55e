#include "support/op_cases.h"

const op_size op_sizes[] = {
    {"odd", {3, 5, 7, 2}},       {"ones", {1, 1, 1, 1}},      {"no rows", {0, 5, 7, 2}},
    {"no columns", {3, 5, 0, 2}}, {"wide", {2, 3, 131, 4}},   {"tall", {23, 9, 16, 3}},
};
const int op_size_count = sizeof op_sizes / sizeof *op_sizes;
const op_size op_gradient_size = {"gradient", {2, 3, 4, 2}};

void op_case_begin(op_case *c, test_sheet *sheet, bool gradient)
{
    *c = (op_case){.sheet = sheet, .graph = sheet->graph, .gradient = gradient};
    c->a = lj_dim_symbol(c->graph, "A"), c->b = lj_dim_symbol(c->graph, "B");
    c->c = lj_dim_symbol(c->graph, "C"), c->d = lj_dim_symbol(c->graph, "D");
}

bool op_dtype_refused(lj_op op, lj_dtype dtype)
{
    switch (op) {
    case LJ_OP_random: return dtype != LJ_I64;
    case LJ_OP_adamw: return dtype != LJ_F32 && dtype != LJ_F64;
    default: return false;
    }
}

/* -- shorthands ------------------------------------------------------------------------------------------------------------ */

static lj_value in_as(op_case *c, lj_dtype dtype, int rank, const lj_dim *dims, test_fill fill)
{
    return test_sheet_input(c->sheet, lj_type_dims(dtype, rank, dims), fill);
}

static lj_value in(op_case *c, int rank, const lj_dim *dims, test_fill fill)
{
    return in_as(c, c->dtype, rank, dims, fill);
}

static lj_value in_constant(op_case *c, lj_dtype dtype, int rank, const lj_dim *dims, test_fill fill)
{
    lj_value value = in_as(c, dtype, rank, dims, fill);
    test_sheet_last(c->sheet)->constant = true;
    return value;
}

static void out(op_case *c, lj_value value)
{
    test_sheet_output(c->sheet, value);
}

static void outs(op_case *c, lj_value first, int count)
{
    for (int k = 0; k < count; k++) out(c, lj_output_of(first, k));
}

#define DIMS(...) (int)(sizeof((lj_dim[]){__VA_ARGS__}) / sizeof(lj_dim)), (lj_dim[]){__VA_ARGS__}
#define K(n) lj_dim_const(n)

static lj_dtype wide(lj_dtype dtype)
{
    return dtype == LJ_F64 ? LJ_F64 : LJ_F32;
}

/* -- leaves ---------------------------------------------------------------------------------------------------------------- */

static void case_input(op_case *c)
{
    out(c, in(c, DIMS(c->a, c->b, c->c), FILL_WIDE));
    out(c, in(c, 0, NULL, FILL_NORMAL));
}

static void case_const(op_case *c)
{
    out(c, lj_const(c->graph, lj_type_dims(c->dtype, DIMS(c->a, c->c)), 3));
    out(c, lj_const(c->graph, (lj_type){.dtype = c->dtype}, -2.6)); /* unsigned: clamps to 0 */
    out(c, lj_const(c->graph, lj_type_dims(c->dtype, DIMS(c->b)), 0.1));
}

static void case_iota(op_case *c)
{
    for (int axis = 0; axis < 3; axis++)
        out(c, lj_iota(c->graph, lj_type_dims(c->dtype, DIMS(c->a, c->b, K(5))), axis));
}

static void case_random(op_case *c)
{
    for (int stream = 0; stream < 2; stream++) {
        lj_value seed = in(c, 0, NULL, FILL_WIDE);
        out(c, lj_random(c->graph, seed, lj_type_dims(LJ_F32, DIMS(c->a, c->b, c->c)), stream * 77777777777));
    }
}

/* -- elementwise ------------------------------------------------------------------------------------------------------------ */

/* One operand: special numbers among others (for gradients the smooth ones of `fill`), and a scalar. */
static void unary(op_case *c, lj_value (*build)(lj_graph *graph, lj_value x), test_fill fill)
{
    out(c, build(c->graph, in(c, DIMS(c->a, c->b, c->c), c->gradient ? fill : FILL_SPECIAL)));
    out(c, build(c->graph, in(c, 0, NULL, fill)));
}

static void case_neg(op_case *c) { unary(c, lj_neg, FILL_WIDE); }
static void case_abs(op_case *c) { unary(c, lj_abs, c->gradient ? FILL_DISTINCT : FILL_WIDE); }
static void case_exp(op_case *c) { unary(c, lj_exp, c->gradient ? FILL_NORMAL : FILL_WIDE); }
static void case_log(op_case *c) { unary(c, lj_ln, FILL_POSITIVE); }
static void case_sqrt(op_case *c) { unary(c, lj_sqrt, FILL_POSITIVE); }
static void case_rsqrt(op_case *c) { unary(c, lj_rsqrt, FILL_POSITIVE); }
static void case_recip(op_case *c) { unary(c, lj_recip, c->gradient ? FILL_POSITIVE : FILL_WIDE); }
static void case_sin(op_case *c) { unary(c, lj_sin, c->gradient ? FILL_NORMAL : FILL_WIDE); }
static void case_cos(op_case *c) { unary(c, lj_cos, c->gradient ? FILL_NORMAL : FILL_WIDE); }
static void case_tanh(op_case *c) { unary(c, lj_tanh, c->gradient ? FILL_NORMAL : FILL_WIDE); }
static void case_sigmoid(op_case *c) { unary(c, lj_sigmoid, c->gradient ? FILL_NORMAL : FILL_WIDE); }
static void case_floor(op_case *c) { unary(c, lj_floor, c->gradient ? FILL_DISTINCT : FILL_WIDE); }
static void case_not(op_case *c) { unary(c, lj_not, FILL_NORMAL); }

static void case_cast(op_case *c)
{
    lj_value x = in(c, DIMS(c->a, c->b, c->c), c->gradient ? FILL_NORMAL : FILL_SPECIAL);
    for (int to = 0; to < LJ_DTYPE_COUNT; to++) {
        if (to == (int)c->dtype || (c->gradient && !lj_dtype_rows[to].is_float)) continue;
        if (to == LJ_F8E4M3 || to == LJ_F8E5M2) continue; /* no op takes them on: storage of the quantised part */
        out(c, lj_cast(c->graph, x, (lj_dtype)to));
    }
}

/* Two operands: of one shape with special numbers among others, and both broadcast. */
static void binary(op_case *c, lj_value (*build)(lj_graph *graph, lj_value a, lj_value b), test_fill fill)
{
    test_fill same = c->gradient ? fill : FILL_SPECIAL;
    lj_value x = in(c, DIMS(c->a, c->b, c->c), same), y = in(c, DIMS(c->a, c->b, c->c), same);
    out(c, build(c->graph, x, y));
    out(c, build(c->graph, in(c, DIMS(c->b, K(1)), fill), in(c, DIMS(c->a, K(1), c->c), fill)));
}

static void case_add(op_case *c) { binary(c, lj_add, FILL_WIDE); }
static void case_sub(op_case *c) { binary(c, lj_sub, FILL_WIDE); }
static void case_mul(op_case *c) { binary(c, lj_mul, FILL_WIDE); }
static void case_div(op_case *c) { binary(c, lj_div, c->gradient ? FILL_POSITIVE : FILL_WIDE); }
static void case_max(op_case *c) { binary(c, lj_max, c->gradient ? FILL_WIDE : FILL_NORMAL); }
static void case_min(op_case *c) { binary(c, lj_min, c->gradient ? FILL_WIDE : FILL_NORMAL); }
static void case_lt(op_case *c) { binary(c, lj_lt, FILL_NORMAL); }
static void case_le(op_case *c) { binary(c, lj_le, FILL_NORMAL); }
static void case_eq(op_case *c) { binary(c, lj_eq, FILL_NORMAL); }
static void case_and(op_case *c) { binary(c, lj_and, FILL_NORMAL); }
static void case_or(op_case *c) { binary(c, lj_or, FILL_NORMAL); }

static void case_where(op_case *c)
{
    lj_value condition = in_as(c, LJ_BOOL, DIMS(c->a, c->b, c->c), FILL_NORMAL);
    test_fill fill = c->gradient ? FILL_WIDE : FILL_SPECIAL;
    lj_value a = in(c, DIMS(c->a, c->b, c->c), fill), b = in(c, DIMS(c->c), fill);
    out(c, lj_where(c->graph, condition, a, b));
}

/* -- views and movement ------------------------------------------------------------------------------------------------------ */

static void case_reshape(op_case *c)
{
    lj_value x = in(c, DIMS(c->a, c->b, c->c), FILL_WIDE);
    out(c, lj_reshape(c->graph, x, DIMS(lj_dim_mul(c->a, c->b), c->c)));
    out(c, lj_reshape(c->graph, x, DIMS(c->c, K(1), lj_dim_mul(c->a, c->b))));
    out(c, lj_reshape(c->graph, in(c, DIMS(K(1), K(1)), FILL_WIDE), 0, NULL));
}

static void case_transpose(op_case *c)
{
    out(c, lj_transpose(c->graph, in(c, DIMS(c->a, c->c), FILL_WIDE), (int[]){1, 0}));
    lj_value x = in(c, DIMS(c->a, c->b, c->c, c->d), FILL_WIDE);
    static const int orders[][4] = {{0, 2, 1, 3}, {3, 1, 0, 2}, {3, 2, 1, 0}, {0, 1, 2, 3}};
    for (int i = 0; i < 4; i++) out(c, lj_transpose(c->graph, x, orders[i]));
    out(c, lj_transpose(c->graph, in(c, DIMS(c->a, K(2), c->b, K(1), c->c, c->d), FILL_WIDE), (int[]){5, 0, 3, 1, 4, 2}));
}

static void case_broadcast(op_case *c)
{
    out(c, lj_broadcast(c->graph, in(c, DIMS(c->a, K(1), c->c), FILL_WIDE), DIMS(c->a, c->b, c->c)));
    out(c, lj_broadcast(c->graph, in(c, DIMS(K(1), c->b, K(1)), FILL_WIDE), DIMS(c->a, c->b, c->c)));
    out(c, lj_broadcast(c->graph, in(c, DIMS(K(1)), FILL_WIDE), DIMS(c->c)));
}

static void case_slice(op_case *c)
{
    lj_value x = in(c, DIMS(c->a, K(7), c->c), FILL_WIDE), y = in(c, DIMS(c->b, K(19)), FILL_WIDE);
    out(c, lj_slice(c->graph, x, 1, 2, 3));
    out(c, lj_slice(c->graph, y, 1, 18, 1));
    out(c, lj_slice(c->graph, y, 1, 3, 16));
    out(c, lj_slice(c->graph, y, 1, 5, 0));
    out(c, lj_slice(c->graph, in(c, DIMS(K(6), c->c), FILL_WIDE), 0, 1, 4));
}

static void case_pad(op_case *c)
{
    out(c, lj_pad(c->graph, in(c, DIMS(c->a, K(3), c->c), FILL_WIDE), 1, 1, 2));
    out(c, lj_pad(c->graph, in(c, DIMS(c->b, K(13)), FILL_WIDE), 1, 0, 4));
    out(c, lj_pad(c->graph, in(c, DIMS(K(2), c->c), FILL_WIDE), 0, 3, 0));
}

static void case_concat(op_case *c)
{
    lj_value parts[20];
    for (int axis = 0; axis < 3; axis++) {
        for (int i = 0; i < 3; i++) parts[i] = in(c, DIMS(c->a, c->b, c->c), FILL_WIDE);
        out(c, lj_concat(c->graph, parts, 3, axis));
    }
    for (int i = 0; i < 20; i++) parts[i] = in(c, DIMS(c->a, K(i % 4)), FILL_WIDE);
    out(c, lj_concat(c->graph, parts, 20, 1));
    out(c, lj_concat(c->graph, parts + 1, 1, 0));
}

static void case_gather(op_case *c)
{
    out(c, lj_gather(c->graph, in(c, DIMS(K(11), c->c), FILL_WIDE), test_sheet_ids(c->sheet, DIMS(c->a, c->b), FILL_IDS, K(11))));
    out(c, lj_gather(c->graph, in(c, DIMS(c->b, c->c, c->d), FILL_WIDE), test_sheet_ids(c->sheet, DIMS(c->b, c->a), FILL_IDS, c->b)));
    out(c, lj_gather(c->graph, in(c, DIMS(K(7)), FILL_WIDE), test_sheet_ids(c->sheet, DIMS(c->c), FILL_IDS, K(7))));
    out(c, lj_gather(c->graph, in(c, DIMS(K(5), K(3)), FILL_WIDE), test_sheet_ids(c->sheet, 0, NULL, FILL_IDS, K(5))));
}

static void case_scatter_add(op_case *c)
{
    lj_value ids = test_sheet_ids(c->sheet, DIMS(c->a, c->b), FILL_IDS, K(11));
    out(c, lj_scatter_add(c->graph, in(c, DIMS(K(11), c->c), FILL_NORMAL), ids, in(c, DIMS(c->a, c->b, c->c), FILL_NORMAL)));
    lj_value more = test_sheet_ids(c->sheet, DIMS(c->b), FILL_IDS, c->b);
    out(c, lj_scatter_add(c->graph, in(c, DIMS(c->b, c->d), FILL_NORMAL), more, in(c, DIMS(c->b, c->d), FILL_NORMAL)));
    if (lj_dtype_bytes(c->dtype) != 2) return;
    lj_value base = in_as(c, LJ_F32, DIMS(K(11), c->c), FILL_NORMAL); /* f32 gradient of a 16-bit table */
    out(c, lj_scatter_add(c->graph, base, ids, in(c, DIMS(c->a, c->b, c->c), FILL_NORMAL)));
}

static lj_value first_rows(op_case *c, int64_t rows, int64_t taken)
{
    lj_value start = test_sheet_ids(c->sheet, DIMS(c->a), FILL_STARTS, K(rows));
    test_sheet_last(c->sheet)->less = K(taken);
    return start;
}

static void case_update_rows(op_case *c)
{
    lj_value x = in(c, DIMS(c->a, K(7), c->c), FILL_WIDE), update = in(c, DIMS(c->a, K(3), c->c), FILL_WIDE);
    out(c, lj_update_rows(c->graph, x, update, first_rows(c, 7, 3)));
    x = in(c, DIMS(c->a, K(5), K(2), c->d), FILL_WIDE), update = in(c, DIMS(c->a, K(5), K(2), c->d), FILL_WIDE);
    out(c, lj_update_rows(c->graph, x, update, first_rows(c, 5, 5)));
}

/* -- reductions and products ------------------------------------------------------------------------------------------------- */

static void reduction(op_case *c, lj_value (*build)(lj_graph *graph, lj_value x, int axis), test_fill fill)
{
    lj_value x = in(c, DIMS(c->a, c->b, c->c), fill);
    for (int axis = 0; axis < 3; axis++) out(c, build(c->graph, x, axis));
    out(c, build(c->graph, in(c, DIMS(c->b, K(37)), fill), 1));
    if (c->gradient) return;
    out(c, build(c->graph, in(c, DIMS(K(3), K(1037)), fill), 1));
    out(c, build(c->graph, in(c, DIMS(K(517), c->b), fill), 0));
}

static void case_sum(op_case *c)
{
    reduction(c, lj_sum, FILL_NORMAL);
    out(c, lj_sum_all(c->graph, in(c, DIMS(c->a, c->b, c->c), FILL_NORMAL)));
}

static void case_maximum(op_case *c)
{
    reduction(c, lj_maximum, c->gradient ? FILL_DISTINCT : FILL_WIDE);
    if (!c->gradient) out(c, lj_maximum(c->graph, in(c, DIMS(c->a, c->b, c->c), FILL_NORMAL), 2));
}

static void case_argmax(op_case *c)
{
    reduction(c, lj_argmax, FILL_NORMAL); /* whole numbers and 16-bit grids bring ties */
}

static void product(op_case *c, lj_dtype result, bool with_addend)
{
    for (int transposes = 0; transposes < 4; transposes++) {
        lj_value a = transposes & 1 ? in(c, DIMS(c->b, c->a), FILL_NORMAL) : in(c, DIMS(c->a, c->b), FILL_NORMAL);
        lj_value b = transposes & 2 ? in(c, DIMS(c->c, c->b), FILL_NORMAL) : in(c, DIMS(c->b, c->c), FILL_NORMAL);
        lj_value addend = with_addend ? in_as(c, result, DIMS(c->a, c->c), FILL_NORMAL) : 0;
        out(c, lj_matmul(c->graph, a, b, transposes & 1, transposes >> 1, result, addend));
    }
}

static void case_matmul(op_case *c)
{
    product(c, c->dtype, false);
    product(c, c->dtype, true);
    lj_value x = in(c, DIMS(c->a, c->d, c->b, c->c), FILL_NORMAL), y = in(c, DIMS(c->a, c->d, c->c, K(9)), FILL_NORMAL);
    out(c, lj_matmul(c->graph, x, y, 0, 0, c->dtype, 0));
    out(c, lj_matmul(c->graph, x, in(c, DIMS(c->a, c->d, K(6), c->c), FILL_NORMAL), 0, 1, c->dtype, 0));
    if (c->gradient) return;
    lj_value rows = in(c, DIMS(lj_dim_mul(c->a, c->b), K(96)), FILL_NORMAL), weight = in(c, DIMS(K(80), K(96)), FILL_NORMAL);
    out(c, lj_linear(c->graph, rows, weight));
    if (c->dtype == LJ_F64) return;
    product(c, c->dtype == LJ_F32 ? LJ_BF16 : LJ_F32, true);
    if (c->dtype != LJ_F32) out(c, lj_matmul(c->graph, rows, weight, 0, 1, LJ_F32, 0));
}

/* -- collectives of one rank, calls ------------------------------------------------------------------------------------------- */

static void collective(op_case *c, lj_value (*build)(lj_graph *graph, lj_value x, int ranks))
{
    out(c, build(c->graph, in(c, DIMS(c->a, c->c), FILL_WIDE), 1));
}

static void case_all_gather(op_case *c) { collective(c, lj_all_gather); }
static void case_reduce_scatter(op_case *c) { collective(c, lj_reduce_scatter); }
static void case_all_reduce(op_case *c) { collective(c, lj_all_reduce); }
static void case_all_to_all(op_case *c) { collective(c, lj_all_to_all); }

/* A rank's letter to itself. */
static void case_send(op_case *c)
{
    out(c, lj_send(c->graph, in(c, DIMS(c->a, c->c), FILL_WIDE), 0));
    out(c, lj_recv(c->graph, lj_type_dims(c->dtype, DIMS(c->a, c->c)), 0));
}

static void case_recv(op_case *c)
{
    case_send(c);
}

static int call_forward(void *user, const lj_tensor *inputs, int input_count, const lj_tensor *outputs, int output_count)
{
    (void)user;
    if (input_count != 2 || output_count != 2) return 1;
    int64_t count = 1;
    for (int i = 0; i < inputs[0].rank; i++) count *= inputs[0].dim[i];
    for (int64_t i = 0; i < count; i++) {
        double a = lj_element_get(inputs[0].dtype, inputs[0].data, (size_t)i);
        double b = lj_element_get(inputs[1].dtype, inputs[1].data, (size_t)i);
        lj_element_set(outputs[0].dtype, outputs[0].data, (size_t)i, 2 * a + b);
        lj_element_set(outputs[1].dtype, outputs[1].data, (size_t)i, a * b);
    }
    return 0;
}

/* a, b, out0, out1, dout0, dout1 -> da, db */
static int call_backward(void *user, const lj_tensor *inputs, int input_count, const lj_tensor *outputs, int output_count)
{
    (void)user;
    if (input_count != 6 || output_count != 2) return 1;
    int64_t count = 1;
    for (int i = 0; i < inputs[0].rank; i++) count *= inputs[0].dim[i];
    for (int64_t i = 0; i < count; i++) {
        double v[6];
        for (int j = 0; j < 6; j++) v[j] = lj_element_get(inputs[j].dtype, inputs[j].data, (size_t)i);
        lj_element_set(outputs[0].dtype, outputs[0].data, (size_t)i, 2 * v[4] + v[5] * v[1]);
        lj_element_set(outputs[1].dtype, outputs[1].data, (size_t)i, v[4] + v[5] * v[0]);
    }
    return 0;
}

const lj_call_row op_call_row = {"test.combine", call_forward, call_backward, NULL};

static void case_call(op_case *c)
{
    lj_type type = lj_type_dims(c->dtype, DIMS(c->a, c->c));
    lj_value inputs[2] = {test_sheet_input(c->sheet, type, FILL_NORMAL), test_sheet_input(c->sheet, type, FILL_NORMAL)};
    lj_value results[2] = {0, 0};
    lj_call(c->graph, &op_call_row, inputs, 2, (lj_type[]){type, type}, 2, results);
    out(c, results[0]);
    out(c, results[1]);
}

/* -- composites ---------------------------------------------------------------------------------------------------------------- */

static void case_rms_norm(op_case *c)
{
    outs(c, lj_rms_norm(c->graph, in(c, DIMS(c->a, c->b, K(24)), FILL_NORMAL), in(c, DIMS(K(24)), FILL_NORMAL), 1e-5), 2);
    outs(c, lj_rms_norm(c->graph, in(c, DIMS(c->c, K(67)), FILL_NORMAL), in_as(c, wide(c->dtype), DIMS(K(67)), FILL_NORMAL), 1e-2), 2);
    if (!c->gradient) outs(c, lj_rms_norm(c->graph, in(c, DIMS(c->b, K(1)), FILL_WIDE), in(c, DIMS(K(1)), FILL_NORMAL), 1e-6), 2);
}

static void norm_gradient(op_case *c, lj_dim rows, int64_t columns, lj_dtype weight)
{
    lj_value operands[4] = {in(c, DIMS(rows, K(columns)), FILL_NORMAL), in_as(c, weight, DIMS(K(columns)), FILL_NORMAL),
                            in_as(c, wide(c->dtype), DIMS(rows, K(1)), FILL_POSITIVE), in(c, DIMS(rows, K(columns)), FILL_NORMAL)};
    outs(c, lj_node_append(c->graph, LJ_OP_rms_norm_grad, operands, 4, NULL, NULL, 0), 2);
}

static void case_rms_norm_grad(op_case *c)
{
    norm_gradient(c, lj_dim_mul(c->a, c->b), 24, c->dtype);
    norm_gradient(c, c->c, 67, wide(c->dtype));
}

static void case_rotary(op_case *c)
{
    for (int inverse = 0; inverse < 2; inverse++) {
        lj_value x = in(c, DIMS(c->a, c->b, K(3), K(8 + 6 * inverse)), FILL_NORMAL);
        lj_value cosines = in_constant(c, LJ_F32, DIMS(K(33), K(8 + 6 * inverse)), FILL_NORMAL);
        lj_value sines = in_constant(c, LJ_F32, DIMS(K(33), K(8 + 6 * inverse)), FILL_NORMAL);
        lj_value positions = test_sheet_ids(c->sheet, DIMS(c->a, c->b), FILL_IDS, K(33));
        out(c, lj_node_append(c->graph, LJ_OP_rotary, (lj_value[]){x, cosines, sines, positions}, 4,
                              &(lj_attributes){.i = {inverse}}, NULL, 0));
    }
}

static void case_swiglu(op_case *c)
{
    test_fill fill = c->gradient ? FILL_NORMAL : FILL_WIDE;
    out(c, lj_swiglu(c->graph, in(c, DIMS(c->a, c->b, c->c), fill), in(c, DIMS(c->a, c->b, c->c), fill)));
    out(c, lj_swiglu(c->graph, in(c, DIMS(c->c), fill), in(c, DIMS(c->c), fill)));
}

static void case_swiglu_grad(op_case *c)
{
    lj_value operands[3];
    for (int j = 0; j < 3; j++) operands[j] = in(c, DIMS(c->a, c->b, c->c), FILL_NORMAL);
    outs(c, lj_node_append(c->graph, LJ_OP_swiglu_grad, operands, 3, NULL, NULL, 0), 2);
}

/* The kinds of mask that a model asks for. `keys_apart`: keys are the symbol C; a cache has room for twice the queries; else as
 * many keys as queries. */
typedef struct {
    int heads, kv_heads, head_dim, causal, window;
    bool starts, q_start, keys_apart;
    double scale;
} attention_kind;

static const attention_kind attention_kinds[] = {
    {2, 2, 8, 1, 0, false, false, false, 0},   /* causal */
    {6, 2, 5, 1, 0, false, false, false, 0.3}, /* groups of heads, odd head size, own scale */
    {1, 1, 16, 0, 0, false, false, true, 0},   /* every query sees every key */
    {3, 1, 4, 1, 3, false, false, false, 0},   /* sliding window */
    {2, 1, 8, 1, 0, true, false, false, 0},    /* documents in a row; some rows see nothing */
    {2, 2, 6, 1, 0, false, true, true, 0},     /* decoding from a cache */
};
enum { ATTENTION_KINDS = sizeof attention_kinds / sizeof *attention_kinds };

typedef struct {
    lj_value operand[5]; /* q, k, v, starts, q_start */
    int count;
    lj_attributes attributes;
} attention_operands;

static attention_operands attention_make(op_case *c, const attention_kind *kind)
{
    lj_dim keys = kind->q_start ? lj_dim_mul(K(2), c->b) : kind->keys_apart ? c->c : c->b, d = K(kind->head_dim);
    attention_operands a = {.count = kind->q_start ? 5 : kind->starts ? 4 : 3};
    a.operand[0] = in(c, DIMS(c->a, c->b, K(kind->heads), d), FILL_NORMAL);
    a.operand[1] = in(c, DIMS(c->a, keys, K(kind->kv_heads), d), FILL_NORMAL);
    a.operand[2] = in(c, DIMS(c->a, keys, K(kind->kv_heads), d), FILL_NORMAL);
    if (kind->starts) a.operand[3] = test_sheet_ids(c->sheet, DIMS(c->a, c->b), FILL_STARTS, K(c->gradient ? 0 : 4));
    if (kind->q_start) a.operand[4] = test_sheet_ids(c->sheet, DIMS(c->a), FILL_STARTS, c->b);
    a.attributes = (lj_attributes){.i = {kind->causal, kind->window}, .f = {kind->scale != 0 ? kind->scale : 0.35}};
    return a;
}

static lj_value attention_build(op_case *c, const attention_operands *a)
{
    return lj_node_append(c->graph, LJ_OP_attention, a->operand, a->count, &a->attributes, NULL, 0);
}

static void case_attention(op_case *c)
{
    for (int i = 0; i < ATTENTION_KINDS; i++) {
        attention_operands a = attention_make(c, &attention_kinds[i]);
        outs(c, attention_build(c, &a), 2);
    }
}

static void case_attention_grad(op_case *c)
{
    for (int i = 0; i < ATTENTION_KINDS; i++) {
        attention_operands a = attention_make(c, &attention_kinds[i]);
        lj_value forward = attention_build(c, &a), dout = test_sheet_input(c->sheet, lj_value_type(c->graph, a.operand[0]), FILL_NORMAL);
        lj_value operands[8] = {a.operand[0], a.operand[1], a.operand[2], forward, lj_output_of(forward, 1), dout, a.operand[3], a.operand[4]};
        outs(c, lj_node_append(c->graph, LJ_OP_attention_grad, operands, a.count + 3, &a.attributes, NULL, 0), 3);
    }
}

/* x [N, C], weight [V, C], targets [N] */
static void head_make(op_case *c, lj_dim rows, int64_t classes, int64_t columns, lj_value *operands)
{
    operands[0] = in(c, DIMS(rows, K(columns)), FILL_NORMAL);
    operands[1] = in(c, DIMS(K(classes), K(columns)), FILL_NORMAL);
    operands[2] = test_sheet_ids(c->sheet, DIMS(rows), FILL_TARGETS, K(classes));
}

static void case_head_loss(op_case *c)
{
    lj_value operands[3];
    head_make(c, lj_dim_mul(c->a, c->b), 37, 24, operands);
    outs(c, lj_head_loss(c->graph, operands[0], operands[1], operands[2]), 2);
    head_make(c, c->c, 5, 3, operands);
    outs(c, lj_head_loss(c->graph, operands[0], operands[1], operands[2]), 2);
}

/* What is added to the weight's gradient before it is rounded. */
static lj_value head_addend(op_case *c, int64_t classes, int64_t columns)
{
    return in_as(c, wide(c->dtype), DIMS(K(classes), K(columns)), FILL_NORMAL);
}

static void head_gradient(op_case *c, lj_dim rows, int64_t classes, int64_t columns, bool addend)
{
    lj_value operands[6];
    head_make(c, rows, classes, columns, operands);
    operands[3] = lj_output_of(lj_head_loss(c->graph, operands[0], operands[1], operands[2]), 1);
    operands[4] = in_as(c, wide(c->dtype), DIMS(rows), FILL_NORMAL);
    if (addend) operands[5] = head_addend(c, classes, columns);
    outs(c, lj_node_append(c->graph, LJ_OP_head_loss_grad, operands, addend ? 6 : 5, NULL, NULL, 0), 2);
}

static void case_head_loss_grad(op_case *c)
{
    head_gradient(c, lj_dim_mul(c->a, c->b), 37, 24, false);
    head_gradient(c, c->c, 5, 3, true);
}

static void head_train(op_case *c, lj_dim rows, int64_t classes, int64_t columns, bool addend)
{
    lj_value operands[5];
    head_make(c, rows, classes, columns, operands);
    operands[3] = in_as(c, wide(c->dtype), DIMS(rows), FILL_NORMAL);
    if (addend) operands[4] = head_addend(c, classes, columns);
    outs(c, lj_node_append(c->graph, LJ_OP_head_loss_train, operands, addend ? 5 : 4, NULL, NULL, 0), 4);
}

static void case_head_loss_train(op_case *c)
{
    head_train(c, lj_dim_mul(c->a, c->b), 37, 24, false);
    head_train(c, c->c, 5, 3, true);
}

static void case_dropout(op_case *c)
{
    lj_value seed = in_as(c, LJ_I64, 0, NULL, FILL_WIDE);
    out(c, lj_dropout(c->graph, in(c, DIMS(c->a, c->b, c->c), FILL_NORMAL), seed, 0.3, 4));
    out(c, lj_dropout(c->graph, in(c, DIMS(c->c), FILL_NORMAL), seed, 0, 5));
}

static void case_sum_squares(op_case *c)
{
    out(c, lj_sum_squares(c->graph, in(c, DIMS(c->a, c->b, c->c), FILL_NORMAL)));
    if (!c->gradient) out(c, lj_sum_squares(c->graph, in(c, DIMS(K(10007)), FILL_NORMAL)));
}

static void case_adamw(op_case *c)
{
    lj_dim flat = lj_dim_mul(lj_dim_mul(c->a, c->b), c->c);
    for (int half = 0; half < 2; half++) {
        lj_value master = in(c, DIMS(flat), FILL_NORMAL), m = in(c, DIMS(flat), FILL_NORMAL), v = in(c, DIMS(flat), FILL_POSITIVE);
        lj_value gradient = in_as(c, half ? LJ_BF16 : c->dtype, DIMS(flat), FILL_NORMAL), scalars = in(c, DIMS(K(4)), FILL_POSITIVE);
        lj_value results[3] = {0};
        lj_adamw(c->graph, master, m, v, gradient, scalars, &(lj_adamw_options){0.9, 0.95, 1e-8, 0.1}, results);
        for (int k = 0; k < 3; k++) out(c, results[k]);
    }
}

const op_case_fn op_cases[LJ_OP_COUNT] = {
#define OP(name, ...) [LJ_OP_##name] = case_##name,
#include "ir/ops.def"
#undef OP
};
