#include "ir/patterns.h"

#include <math.h>

/* The second also stands where a graph has whole numbers (i32). */
static const double marks[] = {7.0490137e-41, 1879049013.0};

int lj_pattern_mark_index(double value)
{
    for (int i = 0; i < 2; i++)
        if (value == marks[i]) return i;
    return -1;
}

/* Number k of a spelling: the one found, or its mark. */
static double number(const double *numbers, int k)
{
    return numbers ? numbers[k] : marks[k];
}

static lj_dtype wide_of(lj_dtype dtype)
{
    return dtype == LJ_F64 ? LJ_F64 : LJ_F32;
}

static lj_value scalar(lj_graph *p, lj_dtype dtype, double value)
{
    return lj_const(p, (lj_type){.dtype = dtype}, value);
}

/* The definition of a composite over holes. */
static lj_value definition(lj_graph *p, lj_op op, const lj_attributes *attributes, lj_value *holes, int count)
{
    lj_value outputs[LJ_MAX_OUTPUTS] = {0};
    lj_node node = {.op = op, .attributes = *attributes, .inputs = holes, .input_count = (uint16_t)count, .name = "", .file = ""};
    return lj_decompose(p, &node, holes, outputs) == LJ_OK ? outputs[0] : 0;
}

static bool last_is_product(const lj_graph *graph, lj_value root, lj_op made_by)
{
    return made_by == LJ_OP_mul || (made_by == LJ_OP_cast && lj_is(graph, lj_producer(graph, root)->inputs[0], LJ_OP_mul)) || made_by == LJ_OP_div;
}

/* -- rms_norm: eps is mark 0 ------------------------------------------------------------------------------------------------- */

enum { NORM_DEFINITION, NORM_F32_WEIGHT, NORM_DIVIDED_MEAN, NORM_WEIGHT_FIRST, NORM_DIVIDED, NORM_SPELLINGS };

static bool norm_may_root(const lj_graph *graph, lj_value root, lj_op made_by)
{
    const lj_type *type = lj_type_get(graph, root);
    return last_is_product(graph, root, made_by) && type->rank >= 1 && lj_dim_is_const(type->dim[type->rank - 1], type->dim[type->rank - 1].factor) &&
           type->dim[type->rank - 1].factor > 0 && lj_dtype_rows[type->dtype].is_float;
}

static lj_value norm_spelled(lj_graph *p, lj_value x, lj_value w, int spelling, double eps)
{
    if (!x || !w) return 0; /* the graph has failed; its status says why */
    lj_type type = lj_value_type(p, x);
    lj_dtype wide = wide_of(type.dtype);
    double columns = (double)type.dim[type.rank - 1].factor;
    lj_value f = lj_cast(p, x, wide), weight = lj_cast(p, w, wide), sum = lj_sum(p, lj_mul(p, f, f), type.rank - 1);
    lj_value mean = spelling == NORM_WEIGHT_FIRST ? lj_mul(p, sum, scalar(p, wide, 1 / columns)) : lj_div(p, sum, scalar(p, wide, columns));
    lj_value inside = lj_add(p, mean, scalar(p, wide, eps)), y;
    if (spelling == NORM_DIVIDED)
        y = lj_mul(p, lj_div(p, f, lj_sqrt(p, inside)), weight);
    else if (spelling == NORM_WEIGHT_FIRST)
        y = lj_mul(p, lj_mul(p, f, weight), lj_rsqrt(p, inside));
    else
        y = lj_mul(p, lj_mul(p, f, lj_rsqrt(p, inside)), weight);
    return lj_cast(p, y, type.dtype);
}

static lj_value norm_build(lj_graph *p, const lj_graph *graph, lj_value root, int spelling, const double *numbers)
{
    lj_type type = lj_value_type(graph, root), weight = {.dtype = type.dtype, .rank = 1, .dim = {type.dim[type.rank - 1]}};
    if (spelling == NORM_F32_WEIGHT) weight.dtype = LJ_F32;
    lj_value holes[2] = {lj_input(p, "x", type, LJ_ROLE_DATA), lj_input(p, "weight", weight, LJ_ROLE_DATA)};
    if (spelling > NORM_F32_WEIGHT) return norm_spelled(p, holes[0], holes[1], spelling, number(numbers, 0));
    return definition(p, LJ_OP_rms_norm, &(lj_attributes){.f = {number(numbers, 0)}}, holes, 2);
}

static bool norm_finish(const lj_graph *graph, lj_value root, int spelling, const lj_value *holes, const double *numbers, lj_match *match)
{
    (void)graph, (void)root, (void)spelling;
    match->inputs[0] = holes[0], match->inputs[1] = holes[1], match->input_count = 2;
    match->attributes.f[0] = numbers[0];
    return holes[0] && holes[1] && numbers[0] >= 0;
}

/* -- swiglu -------------------------------------------------------------------------------------------------------------------- */

enum { SWIGLU_DEFINITION, SWIGLU_GATE_LAST, SWIGLU_DIVIDED, SWIGLU_SPELLINGS };

static bool swiglu_may_root(const lj_graph *graph, lj_value root, lj_op made_by)
{
    return last_is_product(graph, root, made_by) && lj_dtype_rows[lj_type_get(graph, root)->dtype].is_float;
}

static lj_value swiglu_build(lj_graph *p, const lj_graph *graph, lj_value root, int spelling, const double *numbers)
{
    (void)numbers;
    lj_type type = lj_value_type(graph, root);
    lj_dtype wide = wide_of(type.dtype);
    lj_value holes[2] = {lj_input(p, "gate", type, LJ_ROLE_DATA), lj_input(p, "up", type, LJ_ROLE_DATA)}, y;
    if (spelling == SWIGLU_DEFINITION) return definition(p, LJ_OP_swiglu, &(lj_attributes){0}, holes, 2);
    lj_value gate = lj_cast(p, holes[0], wide), up = lj_cast(p, holes[1], wide);
    if (spelling == SWIGLU_GATE_LAST)
        y = lj_mul(p, gate, lj_mul(p, lj_sigmoid(p, gate), up));
    else
        y = lj_mul(p, lj_div(p, gate, lj_add(p, scalar(p, wide, 1), lj_exp(p, lj_neg(p, gate)))), up);
    return lj_cast(p, y, type.dtype);
}

static bool swiglu_finish(const lj_graph *graph, lj_value root, int spelling, const lj_value *holes, const double *numbers, lj_match *match)
{
    (void)graph, (void)root, (void)spelling, (void)numbers;
    match->inputs[0] = holes[0], match->inputs[1] = holes[1], match->input_count = 2;
    return holes[0] && holes[1];
}

/* -- rotary ---------------------------------------------------------------------------------------------------------------------- */

static bool rotary_may_root(const lj_graph *graph, lj_value root, lj_op made_by)
{
    return made_by == LJ_OP_concat && lj_type_get(graph, root)->rank == 4;
}

/* First gather above a value: its table gives the size of the tables. */
static const lj_node *gather_above(const lj_graph *graph, lj_value value, int depth)
{
    const lj_node *node = lj_producer(graph, value);
    if (node->op == LJ_OP_gather) return node;
    for (int i = 0; depth > 0 && i < node->input_count; i++) {
        const lj_node *found = node->inputs[i] ? gather_above(graph, node->inputs[i], depth - 1) : NULL;
        if (found) return found;
    }
    return NULL;
}

/* spelling 0: forward, 1: inverse */
static lj_value rotary_build(lj_graph *p, const lj_graph *graph, lj_value root, int spelling, const double *numbers)
{
    (void)numbers;
    lj_type x = lj_value_type(graph, root), table = {.dtype = LJ_F32, .rank = 2}, positions = {.dtype = LJ_I32, .rank = 2, .dim = {x.dim[0], x.dim[1]}};
    const lj_node *gather = gather_above(graph, root, 6);
    if (!gather || x.dim[3].factor % 2) return 0;
    table.dim[0] = lj_type_get(graph, gather->inputs[0])->dim[0], table.dim[1] = x.dim[3];
    lj_value holes[4] = {lj_input(p, "x", x, LJ_ROLE_DATA), lj_input(p, "cos", table, LJ_ROLE_DATA), lj_input(p, "sin", table, LJ_ROLE_DATA),
                         lj_input(p, "positions", positions, LJ_ROLE_DATA)};
    return definition(p, LJ_OP_rotary, &(lj_attributes){.i = {spelling}}, holes, 4);
}

static bool rotary_finish(const lj_graph *graph, lj_value root, int spelling, const lj_value *holes, const double *numbers, lj_match *match)
{
    (void)graph, (void)root, (void)numbers;
    for (int i = 0; i < 4; i++) match->inputs[i] = holes[i];
    match->input_count = 4;
    match->attributes.i[0] = spelling;
    return holes[0] && holes[1] && holes[2] && holes[3];
}

/* -- attention: scale is mark 0, the window mark 1. A spelling is a set of masks. ---------------------------------------------- */

enum { MASK_CAUSAL = 1, MASK_WINDOW = 2, MASK_STARTS = 4, MASK_Q_START = 8, ATTENTION_SPELLINGS = 16 };

static bool attention_may_root(const lj_graph *graph, lj_value root, lj_op made_by)
{
    return made_by == LJ_OP_transpose && lj_type_get(graph, root)->rank == 4 && lj_is(graph, lj_producer(graph, root)->inputs[0], LJ_OP_matmul);
}

/* v is what the second operand of the last product transposes first. */
static lj_value attention_v(const lj_graph *graph, lj_value root)
{
    lj_value v = lj_producer(graph, lj_producer(graph, root)->inputs[0])->inputs[1];
    while (lj_is(graph, v, LJ_OP_reshape) || lj_is(graph, v, LJ_OP_broadcast)) v = lj_producer(graph, v)->inputs[0];
    return lj_is(graph, v, LJ_OP_transpose) ? lj_producer(graph, v)->inputs[0] : 0;
}

static lj_value attention_build(lj_graph *p, const lj_graph *graph, lj_value root, int spelling, const double *numbers)
{
    lj_value v = attention_v(graph, root);
    lj_type q = lj_value_type(graph, root), k = lj_value_type(graph, v);
    if (!v || k.rank != 4 || k.dim[2].factor < 1 || q.dim[2].factor % k.dim[2].factor) return 0;
    lj_type starts = {.dtype = LJ_I32, .rank = 2, .dim = {q.dim[0], q.dim[1]}}, first = {.dtype = LJ_I32, .rank = 1, .dim = {q.dim[0]}};
    lj_value holes[5] = {lj_input(p, "q", q, LJ_ROLE_DATA), lj_input(p, "k", k, LJ_ROLE_DATA), lj_input(p, "v", k, LJ_ROLE_DATA),
                         lj_input(p, "starts", starts, LJ_ROLE_DATA), lj_input(p, "q_start", first, LJ_ROLE_DATA)};
    if (!(spelling & MASK_STARTS)) holes[3] = 0;
    if (!(spelling & MASK_Q_START)) holes[4] = 0;
    int64_t window = spelling & MASK_WINDOW ? (int64_t)number(numbers, 1) : 0;
    lj_attributes attributes = {.i = {(spelling & MASK_CAUSAL) != 0, window}, .f = {number(numbers, 0)}};
    return definition(p, LJ_OP_attention, &attributes, holes, 5);
}

static bool attention_finish(const lj_graph *graph, lj_value root, int spelling, const lj_value *holes, const double *numbers, lj_match *match)
{
    (void)graph, (void)root;
    for (int i = 0; i < 5; i++) match->inputs[i] = holes[i];
    match->input_count = spelling & MASK_Q_START ? 5 : spelling & MASK_STARTS ? 4 : 3;
    match->attributes = (lj_attributes){.i = {(spelling & MASK_CAUSAL) != 0, spelling & MASK_WINDOW ? (int64_t)numbers[1] : 0}, .f = {numbers[0]}};
    bool starts = !(spelling & MASK_STARTS) || holes[3], q_start = !(spelling & MASK_Q_START) || holes[4];
    return holes[0] && holes[1] && holes[2] && starts && q_start && isfinite(numbers[0]);
}

/* -- head_loss -------------------------------------------------------------------------------------------------------------------- */

static bool head_may_root(const lj_graph *graph, lj_value root, lj_op made_by)
{
    return made_by == LJ_OP_where && lj_type_get(graph, root)->rank == 1;
}

/* First product above a value: x and the head's weight. */
static const lj_node *product_above(const lj_graph *graph, lj_value value, int depth)
{
    const lj_node *node = lj_producer(graph, value);
    if (node->op == LJ_OP_matmul) return node;
    for (int i = 0; depth > 0 && i < node->input_count; i++) {
        const lj_node *found = node->inputs[i] ? product_above(graph, node->inputs[i], depth - 1) : NULL;
        if (found) return found;
    }
    return NULL;
}

static lj_value head_build(lj_graph *p, const lj_graph *graph, lj_value root, int spelling, const double *numbers)
{
    (void)spelling, (void)numbers;
    const lj_node *product = product_above(graph, root, 9);
    if (!product || lj_type_get(graph, product->output)->rank != 2) return 0;
    lj_type x = lj_value_type(graph, product->inputs[0]), w = lj_value_type(graph, product->inputs[1]), t = {.dtype = LJ_I32, .rank = 1, .dim = {x.dim[0]}};
    lj_value holes[3] = {lj_input(p, "x", x, LJ_ROLE_DATA), lj_input(p, "weight", w, LJ_ROLE_DATA), lj_input(p, "targets", t, LJ_ROLE_DATA)};
    return definition(p, LJ_OP_head_loss, &(lj_attributes){0}, holes, 3);
}

static bool head_finish(const lj_graph *graph, lj_value root, int spelling, const lj_value *holes, const double *numbers, lj_match *match)
{
    (void)graph, (void)root, (void)spelling, (void)numbers;
    for (int i = 0; i < 3; i++) match->inputs[i] = holes[i];
    match->input_count = 3;
    return holes[0] && holes[1] && holes[2];
}

const lj_pattern_row lj_patterns[] = {
    {LJ_OP_rms_norm, NORM_SPELLINGS, norm_may_root, norm_build, norm_finish},
    {LJ_OP_swiglu, SWIGLU_SPELLINGS, swiglu_may_root, swiglu_build, swiglu_finish},
    {LJ_OP_rotary, 2, rotary_may_root, rotary_build, rotary_finish},
    {LJ_OP_attention, ATTENTION_SPELLINGS, attention_may_root, attention_build, attention_finish},
    {LJ_OP_head_loss, 1, head_may_root, head_build, head_finish},
};
const size_t lj_pattern_count = sizeof lj_patterns / sizeof *lj_patterns;
