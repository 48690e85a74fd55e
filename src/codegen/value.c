/* Lowers one value at one index to statements of a group: elementwise ops become statements, views become index arithmetic,
 * leaves become loads. One function a kind of op; the table at the end says which. */
#include "codegen/nest.h"
#include "codegen/reshape.h"

#include <string.h>

typedef int (*lower_fn)(lj_builder *builder, const lj_node *node, const lj_affine *index);

static const lj_type *type_of(const lj_builder *builder, lj_value value)
{
    return lj_type_get(builder->lowered->graph, value);
}

static int too_long(lj_builder *builder)
{
    return lj_lower_refuse(builder, "a position has more than %d terms or a group more than %d atoms", LJ_MAX_TERMS, LJ_MAX_ATOMS);
}

/* Row-major position of an index. */
static bool position(const lj_type *type, const lj_affine *index, lj_affine *at)
{
    lj_affine_zero(at);
    lj_dim stride = lj_dim_const(1);
    for (int i = type->rank - 1; i >= 0; i--) {
        if (!lj_affine_add(at, &index[i], stride)) return false;
        stride = lj_dim_mul(stride, type->dim[i]);
    }
    return true;
}

static int lower_input(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    const lj_type *type = type_of(builder, node->output);
    lj_affine at;
    if (!position(type, index, &at)) return too_long(builder);
    int buffer = builder->input_buffer[node->output];
    for (int i = 0; i < builder->group->stmt_count; i++) { /* other views may have led to the same element */
        const lj_stmt *stmt = &builder->group->stmts[i];
        if (stmt->kind == LJ_STMT_LOAD && stmt->buffer == buffer && lj_affine_equal(stmt->at, &at)) return i;
    }
    return lj_group_stmt(builder, (lj_stmt){.kind = LJ_STMT_LOAD, .op = node->op, .dtype = type->dtype, .buffer = buffer, .at = &at});
}

static int lower_const(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    (void)index;
    lj_dtype dtype = type_of(builder, node->output)->dtype;
    for (int i = 0; i < builder->group->stmt_count; i++) {
        const lj_stmt *stmt = &builder->group->stmts[i];
        bool same = memcmp(&stmt->value, &node->attributes.f[0], sizeof stmt->value) == 0;
        if (stmt->kind == LJ_STMT_CONST && stmt->dtype == dtype && same) return i;
    }
    return lj_group_stmt(builder, (lj_stmt){.kind = LJ_STMT_CONST, .op = node->op, .dtype = dtype, .value = node->attributes.f[0]});
}

static int lower_iota(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    lj_affine at = index[node->attributes.i[0]];
    lj_dtype dtype = type_of(builder, node->output)->dtype;
    return lj_group_stmt(builder, (lj_stmt){.kind = LJ_STMT_INDEX, .op = node->op, .dtype = dtype, .at = &at});
}

static int lower_random(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    lj_affine at;
    if (!position(type_of(builder, node->output), index, &at)) return too_long(builder);
    int seed = lj_lower_value(builder, node->inputs[0], NULL);
    if (seed < 0) return -1;
    lj_stmt stmt = {.kind = LJ_STMT_RANDOM, .op = node->op, .dtype = type_of(builder, node->output)->dtype, .at = &at,
                    .stream = node->attributes.i[0], .operand_count = 1, .operand = {seed}};
    return lj_group_stmt(builder, stmt);
}

static int lower_elementwise(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    lj_stmt stmt = {.kind = LJ_STMT_OP, .op = node->op, .dtype = type_of(builder, node->output)->dtype, .operand_count = node->input_count};
    for (int i = 0; i < node->input_count; i++)
        if ((stmt.operand[i] = lj_lower_value(builder, node->inputs[i], index)) < 0) return -1;
    return lj_group_stmt(builder, stmt);
}

static int lower_reshape(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    lj_affine from[LJ_MAX_RANK];
    if (!lj_reshape_index(builder, type_of(builder, node->inputs[0]), type_of(builder, node->output), index, from))
        return lj_lower_refuse(builder, "%s: no index arithmetic for this reshape", lj_node_describe(builder->lowered->graph, node));
    return lj_lower_value(builder, node->inputs[0], from);
}

static int lower_transpose(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    lj_affine from[LJ_MAX_RANK];
    for (int i = 0; i < type_of(builder, node->output)->rank; i++) from[node->attributes.i[i]] = index[i];
    return lj_lower_value(builder, node->inputs[0], from);
}

static int lower_broadcast(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    const lj_type *in = type_of(builder, node->inputs[0]);
    lj_affine from[LJ_MAX_RANK];
    for (int i = 0; i < in->rank; i++) {
        if (lj_dim_is_const(in->dim[i], 1))
            lj_affine_zero(&from[i]);
        else
            from[i] = index[i];
    }
    return lj_lower_value(builder, node->inputs[0], from);
}

static int lower_slice(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    lj_affine from[LJ_MAX_RANK];
    memcpy(from, index, (size_t)type_of(builder, node->output)->rank * sizeof *from);
    if (!lj_affine_add_term(&from[node->attributes.i[0]], lj_dim_const(node->attributes.i[1]), 0)) return too_long(builder);
    return lj_lower_value(builder, node->inputs[0], from);
}

static int lower_gather(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    const lj_type *table = type_of(builder, node->inputs[0]), *ids = type_of(builder, node->inputs[1]);
    lj_affine from[LJ_MAX_RANK];
    int id = lj_lower_value(builder, node->inputs[1], index);
    if (id < 0) return -1;
    int atom = lj_group_statement_atom(builder->group, id, table->dim[0]);
    if (atom < 0) return too_long(builder);
    lj_affine_zero(&from[0]);
    lj_affine_add_term(&from[0], lj_dim_const(1), atom);
    for (int i = 1; i < table->rank; i++) from[i] = index[ids->rank + i - 1];
    return lj_lower_value(builder, node->inputs[0], from);
}

/* Over the last axis (any that follow have size 1): a reduction of the row. */
static int lower_reduce(lj_builder *builder, const lj_node *node, const lj_affine *index)
{
    const lj_type *in = type_of(builder, node->inputs[0]);
    int axis = (int)node->attributes.i[0];
    if (!lj_is_row_reduce(builder->lowered->graph, node) || builder->group->reduced_count)
        return lj_lower_refuse(builder, "%s: a sum over axis %d of %d inside a kernel of another form",
                               lj_node_describe(builder->lowered->graph, node), axis, in->rank);
    lj_affine from[LJ_MAX_RANK];
    memcpy(from, index, (size_t)in->rank * sizeof *from);
    int over = lj_group_inner(builder->group, in->dim[axis]);
    if (over < 0) return too_long(builder);
    lj_affine_zero(&from[axis]);
    lj_affine_add_term(&from[axis], lj_dim_const(1), builder->group->inner[over]);
    int operand = lj_lower_value(builder, node->inputs[0], from);
    if (operand < 0) return -1;
    lj_stmt stmt = {.kind = LJ_STMT_REDUCE, .op = node->op, .dtype = type_of(builder, node->output)->dtype, .over = over,
                    .operand_count = 1, .operand = {operand}};
    return lj_group_stmt(builder, stmt);
}

static const lower_fn lower_rows[LJ_OP_COUNT] = {
    [LJ_OP_input] = lower_input,         [LJ_OP_const] = lower_const,   [LJ_OP_iota] = lower_iota,
    [LJ_OP_random] = lower_random,       [LJ_OP_reshape] = lower_reshape, [LJ_OP_transpose] = lower_transpose,
    [LJ_OP_broadcast] = lower_broadcast, [LJ_OP_slice] = lower_slice,   [LJ_OP_gather] = lower_gather,
    [LJ_OP_sum] = lower_reduce,          [LJ_OP_maximum] = lower_reduce,
};

static lower_fn lower_of(lj_op op)
{
    lj_op_class class = lj_op_rows[op].class;
    bool elementwise = class == LJ_CLASS_UNARY || class == LJ_CLASS_BINARY || class == LJ_CLASS_TERNARY;
    return elementwise ? lower_elementwise : lower_rows[op];
}

int lj_lower_value(lj_builder *builder, lj_value value, const lj_affine *index)
{
    int found = lj_memo_find(builder, value, index);
    if (found >= 0) return found;
    const lj_graph *graph = builder->lowered->graph;
    const lj_node *node = lj_producer(graph, value);
    lower_fn fn = lower_of(node->op);
    if (!fn)
        return lj_lower_refuse(builder, "%s: op %s stands inside a kernel where only elementwise ops, views and row reductions may",
                               lj_node_describe(graph, node), lj_op_rows[node->op].name);
    int statement = fn(builder, node, index);
    if (statement < 0 || !lj_memo_add(builder, value, index, statement)) return -1;
    return statement;
}
