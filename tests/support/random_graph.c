#include "support/random_graph.h"

#include "support/op_cases.h"
#include "support/testing.h"

#include <stdlib.h>

enum { MOST_VALUES = 256, MOST_ELEMENTS = 6000 };

/* What a step works with: its own random numbers, and the values so far. */
typedef struct {
    const random_recipe *recipe;
    test_sheet *sheet;
    lj_graph *graph;
    lj_dim symbols[3];
    lj_value pool[MOST_VALUES];
    int pool_count;
    uint64_t random;
} maker;

static int64_t range(maker *m, int64_t low, int64_t high)
{
    return test_random_range(&m->random, low, high);
}

static bool chance(maker *m, int percent)
{
    return range(m, 0, 99) < percent;
}

static const lj_type *type_of(const maker *m, lj_value value)
{
    return lj_type_get(m->graph, value);
}

static bool is_float(const maker *m, lj_value value)
{
    return lj_dtype_rows[type_of(m, value)->dtype].is_float;
}

static int64_t elements(const maker *m, const lj_type *type)
{
    int64_t count;
    return lj_type_elements(type, m->recipe->sizes, &count) == LJ_OK ? count : INT64_MAX;
}

static void keep(maker *m, lj_value value)
{
    if (value && m->pool_count < MOST_VALUES) m->pool[m->pool_count++] = value;
}

/* -- types and inputs ---------------------------------------------------------------------------------------------------------- */

static lj_dtype random_dtype(maker *m, uint32_t allowed)
{
    static const lj_dtype often[] = {LJ_F32, LJ_F32, LJ_F32, LJ_F32, LJ_BF16, LJ_BF16, LJ_BF16, LJ_F16,
                                     LJ_F64, LJ_I32, LJ_I64, LJ_BOOL, LJ_I8,   LJ_U8,   LJ_U32,  LJ_U64};
    for (int turn = 0; turn < 200; turn++) {
        lj_dtype dtype = often[range(m, 0, 15)];
        if (allowed >> dtype & 1) return dtype;
    }
    return LJ_F32;
}

static lj_dim random_dim(maker *m)
{
    if (chance(m, 60)) return m->symbols[range(m, 0, 2)];
    static const int64_t constants[] = {1, 1, 2, 3, 4, 5, 8, 19};
    return lj_dim_const(constants[range(m, 0, 7)]);
}

static lj_type random_type(maker *m, uint32_t allowed)
{
    lj_type type = {.dtype = random_dtype(m, allowed)};
    type.rank = (int)range(m, 0, 4);
    for (int d = 0; d < type.rank; d++) type.dim[d] = random_dim(m);
    while (elements(m, &type) > MOST_ELEMENTS / 4) type.dim[range(m, 0, type.rank - 1)] = lj_dim_const(1);
    return type;
}

static lj_value new_input(maker *m, lj_type type)
{
    bool state = chance(m, 15);
    lj_value value = state ? test_sheet_state(m->sheet, type, FILL_NORMAL) : test_sheet_input(m->sheet, type, FILL_NORMAL);
    keep(m, value);
    return value;
}

typedef bool (*fits_fn)(const maker *m, lj_value value);

/* A value of the pool that fits, the later the likelier; 0 when none does. */
static lj_value pick(maker *m, uint32_t allowed, fits_fn fits)
{
    for (int turn = 0; turn < 24 && m->pool_count; turn++) {
        int at = (int)range(m, 0, m->pool_count - 1);
        if (chance(m, 60)) at = (at + m->pool_count) / 2; /* chains rather than bushes */
        lj_value value = m->pool[at];
        if (allowed >> type_of(m, value)->dtype & 1 && (!fits || fits(m, value))) return value;
    }
    return 0;
}

static lj_value pick_or_make(maker *m, uint32_t allowed)
{
    lj_value value = chance(m, 85) ? pick(m, allowed, NULL) : 0;
    return value ? value : new_input(m, random_type(m, allowed));
}

/* Of exactly this type. */
static lj_value pick_like(maker *m, const lj_type *type)
{
    for (int at = m->pool_count - 1; at >= 0; at--)
        if (lj_type_equal(type_of(m, m->pool[at]), type) && chance(m, 60)) return m->pool[at];
    return new_input(m, *type);
}

/* The same type, or one that broadcasts to it. */
static lj_value pick_partner(maker *m, lj_value x)
{
    lj_type type = *type_of(m, x);
    if (chance(m, 70)) return pick_like(m, &type);
    int dropped = type.rank ? (int)range(m, 0, type.rank) : 0;
    lj_type part = {.dtype = type.dtype, .rank = type.rank - dropped};
    for (int d = 0; d < part.rank; d++) part.dim[d] = chance(m, 40) ? lj_dim_const(1) : type.dim[d + dropped];
    return pick_like(m, &part);
}

/* Mostly into (0.5, 1.5), so that exponentials, quotients and roots stay in range. */
static lj_value tame(maker *m, lj_value x)
{
    if (chance(m, 25)) return x;
    return lj_add(m->graph, lj_sigmoid(m->graph, x), lj_const(m->graph, (lj_type){.dtype = type_of(m, x)->dtype}, 0.5));
}

/* -- a function a row ------------------------------------------------------------------------------------------------------------ */

typedef void (*step_fn)(maker *m, lj_op op);

static uint32_t allowed_types(lj_op op)
{
    return lj_op_rows[op].types;
}

static void step_input(maker *m, lj_op op)
{
    new_input(m, random_type(m, allowed_types(op)));
}

static void step_const(maker *m, lj_op op)
{
    keep(m, lj_const(m->graph, random_type(m, allowed_types(op)), (double)range(m, -8, 8) / 4));
}

static void step_iota(maker *m, lj_op op)
{
    lj_type type = random_type(m, allowed_types(op));
    if (type.rank) keep(m, lj_iota(m->graph, type, (int)range(m, 0, type.rank - 1)));
}

static lj_value seed_input(maker *m)
{
    return test_sheet_input(m->sheet, (lj_type){.dtype = LJ_I64}, FILL_WIDE);
}

static void step_random(maker *m, lj_op op)
{
    (void)op;
    keep(m, lj_random(m->graph, seed_input(m), random_type(m, 1u << LJ_F32), range(m, 0, 9)));
}

static void step_unary(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    bool careful = op == LJ_OP_exp || op == LJ_OP_log || op == LJ_OP_sqrt || op == LJ_OP_rsqrt || op == LJ_OP_recip;
    if (careful) x = tame(m, x);
    keep(m, lj_node_append(m->graph, op, &x, 1, NULL, NULL, 0));
}

static void step_cast(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    keep(m, lj_cast(m->graph, x, random_dtype(m, allowed_types(op))));
}

/* Through the builders' broadcasting where shapes differ. */
static void step_binary(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op)), y = pick_partner(m, x);
    lj_type shape = *type_of(m, x);
    if (op == LJ_OP_div) y = tame(m, y);
    int missing = shape.rank - type_of(m, y)->rank;
    if (missing) {
        lj_dim dims[LJ_MAX_RANK];
        for (int d = 0; d < shape.rank; d++) dims[d] = d < missing ? lj_dim_const(1) : type_of(m, y)->dim[d - missing];
        y = lj_reshape(m->graph, y, shape.rank, dims);
    }
    y = lj_broadcast(m->graph, y, shape.rank, shape.dim);
    lj_value operands[2] = {x, y};
    if (chance(m, 30)) operands[0] = y, operands[1] = x;
    keep(m, lj_node_append(m->graph, op, operands, 2, NULL, NULL, 0));
}

static void step_where(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op)), y = pick_partner(m, x);
    lj_type condition = *type_of(m, x);
    condition.dtype = LJ_BOOL;
    keep(m, lj_where(m->graph, pick_like(m, &condition), x, y));
}

static void step_reshape(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    lj_type type = *type_of(m, x), to = {.rank = 0};
    for (int d = 0; d < type.rank; d++) { /* merge neighbours, put ones between */
        if (to.rank && chance(m, 50))
            to.dim[to.rank - 1] = lj_dim_mul(to.dim[to.rank - 1], type.dim[d]);
        else if (to.rank < LJ_MAX_RANK)
            to.dim[to.rank++] = type.dim[d];
        else
            return;
        if (to.rank < LJ_MAX_RANK - 2 && chance(m, 15)) to.dim[to.rank++] = lj_dim_const(1);
    }
    keep(m, lj_reshape(m->graph, x, to.rank, to.dim));
}

static void step_transpose(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    int order[LJ_MAX_RANK], rank = type_of(m, x)->rank;
    for (int d = 0; d < rank; d++) {
        int j = (int)range(m, 0, d);
        order[d] = order[j];
        order[j] = d;
    }
    keep(m, lj_transpose(m->graph, x, order));
}

static void step_broadcast(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    lj_type type = *type_of(m, x);
    for (int d = 0; d < type.rank; d++)
        if (lj_dim_is_const(type.dim[d], 1)) type.dim[d] = random_dim(m);
    if (elements(m, &type) <= MOST_ELEMENTS) keep(m, lj_broadcast(m->graph, x, type.rank, type.dim));
}

/* An axis of constant size, or -1. */
static int constant_axis(maker *m, lj_value x)
{
    const lj_type *type = type_of(m, x);
    for (int turn = 0; turn < 8 && type->rank; turn++) {
        int axis = (int)range(m, 0, type->rank - 1);
        if (lj_dim_is_const(type->dim[axis], type->dim[axis].factor)) return axis;
    }
    return -1;
}

static void step_slice(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    int axis = constant_axis(m, x);
    if (axis < 0) return;
    int64_t size = type_of(m, x)->dim[axis].factor, start = range(m, 0, size), length = range(m, size > start, size - start);
    keep(m, lj_slice(m->graph, x, axis, start, length));
}

static void step_pad(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    int axis = constant_axis(m, x);
    if (axis < 0 || elements(m, type_of(m, x)) > MOST_ELEMENTS / 8) return;
    keep(m, lj_pad(m->graph, x, axis, range(m, 0, 3), range(m, 0, 3)));
}

static void step_concat(maker *m, lj_op op)
{
    lj_value parts[4], x = pick_or_make(m, allowed_types(op));
    lj_type type = *type_of(m, x);
    int count = (int)range(m, 1, 4);
    if (!type.rank || elements(m, &type) > MOST_ELEMENTS / 4) return;
    parts[0] = x;
    for (int i = 1; i < count; i++) parts[i] = pick_like(m, &type);
    keep(m, lj_concat(m->graph, parts, count, (int)range(m, 0, type.rank - 1)));
}

static bool is_table(const maker *m, lj_value value)
{
    const lj_type *type = type_of(m, value);
    return type->rank >= 1 && type->rank <= 3 && type->dim[0].factor >= 1 && lj_dim_is_const(type->dim[0], type->dim[0].factor);
}

static lj_value pick_table(maker *m, uint32_t allowed)
{
    lj_value table = pick(m, allowed, is_table);
    if (table) return table;
    lj_type type = {.dtype = random_dtype(m, allowed), .rank = 2, .dim = {lj_dim_const(range(m, 1, 9)), random_dim(m)}};
    return new_input(m, type);
}

static lj_value ids_for(maker *m, lj_value table)
{
    lj_dim dims[2] = {random_dim(m), random_dim(m)};
    return test_sheet_ids(m->sheet, (int)range(m, 0, 2), dims, FILL_IDS, type_of(m, table)->dim[0]);
}

static void step_gather(maker *m, lj_op op)
{
    lj_value table = pick_table(m, allowed_types(op)), ids = ids_for(m, table);
    keep(m, lj_gather(m->graph, table, ids));
}

static void step_scatter_add(maker *m, lj_op op)
{
    lj_value base = pick_table(m, allowed_types(op)), ids = ids_for(m, base);
    lj_type rows = *type_of(m, ids), table = *type_of(m, base);
    rows.dtype = table.dtype;
    for (int d = 1; d < table.rank; d++) rows.dim[rows.rank++] = table.dim[d];
    if (elements(m, &rows) <= MOST_ELEMENTS) keep(m, lj_scatter_add(m->graph, base, ids, pick_like(m, &rows)));
}

static void step_update_rows(maker *m, lj_op op)
{
    lj_dim batch = random_dim(m), width = random_dim(m);
    int64_t room = range(m, 1, 6), taken = range(m, 1, room);
    lj_type type = {.dtype = random_dtype(m, allowed_types(op)), .rank = 3, .dim = {batch, lj_dim_const(room), width}}, part = type;
    part.dim[1] = lj_dim_const(taken);
    lj_value x = pick_like(m, &type), update = pick_like(m, &part);
    lj_value start = test_sheet_ids(m->sheet, 1, &batch, FILL_STARTS, lj_dim_const(room));
    test_sheet_last(m->sheet)->less = lj_dim_const(taken);
    keep(m, lj_update_rows(m->graph, x, update, start));
}

static void step_reduce(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    int rank = type_of(m, x)->rank;
    if (!rank) return;
    lj_attributes attributes = {.i = {range(m, 0, rank - 1)}};
    keep(m, lj_node_append(m->graph, op, &x, 1, &attributes, NULL, 0));
}

static bool is_matrix(const maker *m, lj_value value)
{
    return type_of(m, value)->rank >= 2;
}

static void step_matmul(maker *m, lj_op op)
{
    lj_value a = pick(m, allowed_types(op), is_matrix);
    lj_type type = {.dtype = random_dtype(m, allowed_types(op)), .rank = 2, .dim = {random_dim(m), random_dim(m)}};
    if (!a) a = new_input(m, type);
    type = *type_of(m, a);
    int ta = chance(m, 40), tb = chance(m, 40), r = type.rank;
    lj_dim rows = type.dim[r - (ta ? 1 : 2)], inner = type.dim[r - (ta ? 2 : 1)], columns = random_dim(m);
    lj_type b = type, result = type;
    b.dim[r - 2] = tb ? columns : inner, b.dim[r - 1] = tb ? inner : columns;
    result.dim[r - 2] = rows, result.dim[r - 1] = columns;
    if (chance(m, 25) && type.dtype != LJ_F64) result.dtype = type.dtype == LJ_F32 ? LJ_BF16 : LJ_F32;
    if (elements(m, &result) > MOST_ELEMENTS || elements(m, &b) > MOST_ELEMENTS) return;
    lj_value addend = chance(m, 30) ? pick_like(m, &result) : 0;
    keep(m, lj_matmul(m->graph, a, pick_like(m, &b), ta, tb, result.dtype, addend));
}

static bool has_axis(const maker *m, lj_value value)
{
    return type_of(m, value)->rank >= 1;
}

static void step_collective(maker *m, lj_op op)
{
    lj_value x = pick(m, allowed_types(op), has_axis);
    if (op == LJ_OP_send || op == LJ_OP_recv || !x) return; /* letters to oneself are the op sheets' matter */
    lj_attributes one = {.i = {1}};
    keep(m, lj_node_append(m->graph, op, &x, 1, &one, NULL, 0));
}

static void step_call(maker *m, lj_op op)
{
    (void)op;
    lj_value inputs[2], results[2] = {0, 0};
    inputs[0] = pick_or_make(m, 1u << LJ_F32 | 1u << LJ_BF16 | 1u << LJ_F64);
    lj_type type = *type_of(m, inputs[0]);
    inputs[1] = pick_like(m, &type);
    lj_call(m->graph, &op_call_row, inputs, 2, (lj_type[]){type, type}, 2, results);
    keep(m, results[0]), keep(m, results[1]);
}

static void keep_all(maker *m, lj_value first)
{
    for (int k = 0; first && k < lj_producer(m->graph, first)->output_count; k++) keep(m, lj_output_of(first, k));
}

static bool has_constant_row(const maker *m, lj_value value)
{
    const lj_type *type = type_of(m, value);
    return type->rank >= 1 && type->dim[type->rank - 1].factor >= 1 && lj_dim_is_const(type->dim[type->rank - 1], type->dim[type->rank - 1].factor);
}

static lj_value pick_rows(maker *m, uint32_t allowed)
{
    lj_value x = pick(m, allowed, has_constant_row);
    if (x) return x;
    return new_input(m, (lj_type){.dtype = random_dtype(m, allowed), .rank = 3, .dim = {random_dim(m), random_dim(m), lj_dim_const(range(m, 1, 20))}});
}

static lj_dtype wide(lj_dtype dtype)
{
    return dtype == LJ_F64 ? LJ_F64 : LJ_F32;
}

static void step_rms_norm(maker *m, lj_op op)
{
    lj_value x = pick_rows(m, allowed_types(op));
    lj_type type = *type_of(m, x), weight = {.dtype = type.dtype, .rank = 1, .dim = {type.dim[type.rank - 1]}};
    keep_all(m, lj_rms_norm(m->graph, x, pick_like(m, &weight), 1e-5));
}

static void step_rms_norm_grad(maker *m, lj_op op)
{
    lj_value x = pick_rows(m, allowed_types(op));
    lj_type type = *type_of(m, x), weight = {.dtype = type.dtype, .rank = 1, .dim = {type.dim[type.rank - 1]}};
    lj_value w = pick_like(m, &weight), norm = lj_rms_norm(m->graph, x, w, 1e-5);
    lj_value operands[4] = {x, w, lj_output_of(norm, 1), pick_like(m, &type)};
    keep_all(m, lj_node_append(m->graph, op, operands, 4, NULL, NULL, 0));
}

static void step_rotary(maker *m, lj_op op)
{
    int64_t half = range(m, 1, 5);
    lj_dim b = random_dim(m), t = random_dim(m), angles[2] = {lj_dim_const(21), lj_dim_const(2 * half)};
    lj_type type = {.dtype = random_dtype(m, allowed_types(op)), .rank = 4, .dim = {b, t, lj_dim_const(range(m, 1, 3)), lj_dim_const(2 * half)}};
    if (elements(m, &type) > MOST_ELEMENTS / 2) return;
    lj_type table = lj_type_dims(LJ_F32, 2, angles);
    lj_value cosines = test_sheet_input(m->sheet, table, FILL_NORMAL), sines = test_sheet_input(m->sheet, table, FILL_NORMAL);
    lj_value positions = test_sheet_ids(m->sheet, 2, (lj_dim[]){b, t}, FILL_IDS, lj_dim_const(21));
    lj_value operands[4] = {pick_like(m, &type), cosines, sines, positions};
    lj_attributes attributes = {.i = {range(m, 0, 1)}};
    keep(m, lj_node_append(m->graph, op, operands, 4, &attributes, NULL, 0));
}

static void step_same_types(maker *m, lj_op op)
{
    lj_value operands[3];
    operands[0] = pick_or_make(m, allowed_types(op));
    lj_type type = *type_of(m, operands[0]);
    for (int j = 1; j < lj_op_rows[op].inputs_min; j++) operands[j] = pick_like(m, &type);
    keep_all(m, lj_node_append(m->graph, op, operands, lj_op_rows[op].inputs_min, NULL, NULL, 0));
}

static lj_value attention_forward(maker *m, lj_op op, lj_value *operands, lj_attributes *attributes, int *count)
{
    lj_dim b = random_dim(m), t = random_dim(m), s = chance(m, 60) ? t : random_dim(m), d = lj_dim_const(range(m, 1, 9));
    int64_t kv = range(m, 1, 2), q = kv * range(m, 1, 3);
    bool cached = chance(m, 25);
    if (cached) s = lj_dim_mul(lj_dim_const(2), t);
    lj_type queries = {.dtype = random_dtype(m, allowed_types(op)), .rank = 4, .dim = {b, t, lj_dim_const(q), d}}, keys = queries;
    keys.dim[1] = s, keys.dim[2] = lj_dim_const(kv);
    if (elements(m, &queries) > MOST_ELEMENTS / 4 || elements(m, &keys) > MOST_ELEMENTS / 4) return 0;
    operands[0] = pick_like(m, &queries), operands[1] = pick_like(m, &keys), operands[2] = pick_like(m, &keys);
    operands[3] = operands[4] = 0;
    if (chance(m, 25)) operands[3] = test_sheet_ids(m->sheet, 2, (lj_dim[]){b, t}, FILL_STARTS, lj_dim_const(3));
    if (cached) operands[4] = test_sheet_ids(m->sheet, 1, &b, FILL_STARTS, t);
    *count = operands[4] ? 5 : operands[3] ? 4 : 3;
    *attributes = (lj_attributes){.i = {chance(m, 70), 0}, .f = {0.4}};
    if (attributes->i[0] && chance(m, 25)) attributes->i[1] = range(m, 1, 5);
    return lj_node_append(m->graph, LJ_OP_attention, operands, *count, attributes, NULL, 0);
}

static void step_attention(maker *m, lj_op op)
{
    lj_value operands[5];
    lj_attributes attributes;
    int count;
    keep_all(m, attention_forward(m, op, operands, &attributes, &count));
}

static void step_attention_grad(maker *m, lj_op op)
{
    lj_value o[5];
    lj_attributes attributes;
    int count;
    lj_value forward = attention_forward(m, op, o, &attributes, &count);
    if (!forward) return;
    lj_type type = *type_of(m, o[0]);
    lj_value operands[8] = {o[0], o[1], o[2], forward, lj_output_of(forward, 1), pick_like(m, &type), o[3], o[4]};
    keep_all(m, lj_node_append(m->graph, op, operands, count + 3, &attributes, NULL, 0));
}

/* x, weight, targets, lse and dloss for the head's rows. */
static void head_operands(maker *m, lj_op op, lj_value *operands)
{
    lj_dim n = random_dim(m), columns = lj_dim_const(range(m, 1, 12)), classes = lj_dim_const(range(m, 2, 30));
    lj_type x = {.dtype = random_dtype(m, allowed_types(op)), .rank = 2, .dim = {n, columns}}, weight = x, row = {.rank = 1, .dim = {n}};
    weight.dim[0] = classes, row.dtype = wide(x.dtype);
    operands[0] = pick_like(m, &x), operands[1] = pick_like(m, &weight);
    operands[2] = test_sheet_ids(m->sheet, 1, &n, FILL_TARGETS, classes);
    operands[4] = pick_like(m, &row);
}

static void step_head_loss(maker *m, lj_op op)
{
    lj_value operands[5];
    head_operands(m, op, operands);
    keep_all(m, lj_head_loss(m->graph, operands[0], operands[1], operands[2]));
}

static void step_head_loss_grad(maker *m, lj_op op)
{
    lj_value operands[5];
    head_operands(m, op, operands);
    operands[3] = lj_output_of(lj_head_loss(m->graph, operands[0], operands[1], operands[2]), 1);
    keep_all(m, lj_node_append(m->graph, op, operands, 5, NULL, NULL, 0));
}

static void step_head_loss_train(maker *m, lj_op op)
{
    lj_value operands[5];
    head_operands(m, op, operands);
    operands[3] = operands[4];
    keep_all(m, lj_node_append(m->graph, op, operands, 4, NULL, NULL, 0));
}

static void step_dropout(maker *m, lj_op op)
{
    lj_value x = pick_or_make(m, allowed_types(op));
    keep(m, lj_dropout(m->graph, x, seed_input(m), (double)range(m, 0, 9) / 10, range(m, 0, 5)));
}

static void step_adamw(maker *m, lj_op op)
{
    (void)op;
    lj_type flat = {.dtype = LJ_F32, .rank = 1, .dim = {random_dim(m)}}, scalars = {.dtype = LJ_F32, .rank = 1, .dim = {lj_dim_const(4)}};
    lj_value master = pick_like(m, &flat), first = pick_like(m, &flat), results[3] = {0};
    lj_value second = lj_mul(m->graph, master, master); /* a mean square is not negative */
    if (chance(m, 30)) flat.dtype = LJ_BF16;
    lj_value gradient = pick_like(m, &flat), steps = test_sheet_input(m->sheet, scalars, FILL_POSITIVE);
    lj_adamw(m->graph, master, first, second, gradient, steps, &(lj_adamw_options){0.9, 0.95, 1e-6, 0.1}, results);
    for (int k = 0; k < 3; k++) keep(m, results[k]);
}

#define STEP_LEAF(name) step_##name
#define STEP_UNARY(name) (LJ_OP_##name == LJ_OP_cast ? step_cast : step_unary)
#define STEP_BINARY(name) step_binary
#define STEP_TERNARY(name) step_##name
#define STEP_VIEW(name) step_##name
#define STEP_MOVE(name) step_##name
#define STEP_REDUCE(name) step_reduce
#define STEP_MATMUL(name) step_##name
#define STEP_COLLECTIVE(name) step_collective
#define STEP_CALL(name) step_##name
#define STEP_COMPOSITE(name) step_##name
#define step_swiglu step_same_types
#define step_swiglu_grad step_same_types
#define step_sum_squares step_same_types

static const step_fn steps[LJ_OP_COUNT] = {
#define OP(name, class, ...) [LJ_OP_##name] = STEP_##class(name),
#include "ir/ops.def"
#undef OP
};

/* -- recipes -------------------------------------------------------------------------------------------------------------------- */

void random_recipe_make(random_recipe *recipe, uint64_t seed)
{
    static const int64_t sizes[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33};
    uint64_t random = seed;
    *recipe = (random_recipe){.seed = seed, .step_count = (int)test_random_range(&random, 3, 16)};
    for (int i = 0; i < recipe->step_count; i++) recipe->steps[i] = test_random(&random);
    for (int i = 0; i < 3; i++) recipe->sizes[i] = sizes[test_random_range(&random, i && recipe->sizes[0] == 0, 13)];
    recipe->gradient = test_random_range(&random, 0, 99) < 35;
    recipe->small_results = test_random_range(&random, 0, 99) < 60;
}

/* Results: the last values, some others; each state gets a value of its type when there is one. */
static void add_results(maker *m)
{
    for (int i = 0; i < m->pool_count; i++) {
        bool last = i + 2 >= m->pool_count;
        if (last || chance(m, m->recipe->small_results ? 10 : 40)) test_sheet_output(m->sheet, m->pool[i]);
    }
    for (size_t n = 0; n < m->graph->node_count; n++) {
        lj_node node = m->graph->nodes[n];
        if (node.op != LJ_OP_input || node.attributes.i[0] != LJ_ROLE_STATE) continue;
        lj_type type = *type_of(m, node.output);
        for (int i = m->pool_count - 1; i >= 0; i--) {
            if (!lj_type_equal(type_of(m, m->pool[i]), &type) || m->pool[i] == node.output) continue;
            lj_graph_assign(m->graph, node.output, m->pool[i]);
            break;
        }
    }
}

static void add_gradient(maker *m)
{
    lj_value x = pick(m, 1u << LJ_F32 | 1u << LJ_BF16 | 1u << LJ_F64, NULL), with[3], gradients[3];
    size_t count = 0;
    if (!x || !is_float(m, x)) return;
    for (size_t n = 0; n < m->graph->node_count && count < 3; n++) {
        const lj_node *node = &m->graph->nodes[n];
        if (node->op == LJ_OP_input && is_float(m, node->output) && chance(m, 50)) with[count++] = node->output;
    }
    lj_value loss = lj_sum_all(m->graph, lj_cast(m->graph, x, LJ_F32));
    if (!count || lj_graph_differentiate(m->graph, loss, with, count, gradients) != LJ_OK) return;
    for (size_t i = 0; i < count; i++) test_sheet_output(m->sheet, gradients[i]);
}

static lj_status build(const random_recipe *recipe, test_sheet *sheet, bool gradient)
{
    static const char *const names[3] = {"A", "B", "C"};
    test_sheet_init(sheet);
    maker m = {.recipe = recipe, .sheet = sheet, .graph = sheet->graph};
    for (int i = 0; i < 3; i++) m.symbols[i] = lj_dim_symbol(m.graph, names[i]);
    for (int i = 0; i < recipe->step_count && lj_graph_status(m.graph) == LJ_OK; i++) {
        m.random = recipe->steps[i];
        lj_op op = (lj_op)range(&m, 0, LJ_OP_COUNT - 1);
        steps[op](&m, op);
    }
    if (!m.pool_count) step_input(&m, LJ_OP_input);
    m.random = recipe->seed ^ 0x5eed;
    if (gradient) add_gradient(&m);
    add_results(&m);
    return lj_graph_status(sheet->graph);
}

lj_status random_graph_build(const random_recipe *recipe, test_sheet *sheet)
{
    lj_status status = build(recipe, sheet, recipe->gradient);
    if (status != LJ_ERR_UNSUPPORTED) return status;
    test_sheet_release(sheet); /* something on the way has no gradient */
    return build(recipe, sheet, false);
}

/* -- shrinking ------------------------------------------------------------------------------------------------------------------ */

static void drop_steps(random_recipe *recipe, int first, int count)
{
    memmove(recipe->steps + first, recipe->steps + first + count, (size_t)(recipe->step_count - first - count) * sizeof *recipe->steps);
    recipe->step_count -= count;
}

/* Tries one simpler recipe; takes it when it still fails. */
static bool try_recipe(random_recipe *recipe, const random_recipe *simpler, random_fails_fn fails, void *user, int *asked)
{
    (*asked)++;
    if (!fails(user, simpler)) return false;
    *recipe = *simpler;
    return true;
}

static bool shrink_once(random_recipe *recipe, random_fails_fn fails, void *user, int *asked)
{
    bool better = false;
    for (int count = recipe->step_count / 2; count > 0; count /= 2)
        for (int first = 0; first + count <= recipe->step_count;) {
            random_recipe simpler = *recipe;
            drop_steps(&simpler, first, count);
            bool taken = try_recipe(recipe, &simpler, fails, user, asked);
            better |= taken;
            first += taken ? 0 : count;
        }
    for (int i = 0; i < 3; i++)
        for (int64_t size = 1; size < recipe->sizes[i]; size++) {
            random_recipe simpler = *recipe;
            simpler.sizes[i] = size;
            if (try_recipe(recipe, &simpler, fails, user, asked)) better = true;
        }
    random_recipe simpler = *recipe;
    simpler.gradient = false;
    if (recipe->gradient) better |= try_recipe(recipe, &simpler, fails, user, asked);
    return better;
}

int random_recipe_shrink(random_recipe *recipe, random_fails_fn fails, void *user)
{
    int asked = 0;
    while (asked < 400 && shrink_once(recipe, fails, user, &asked)) {}
    return asked;
}
