/* Kernel graphs to loop nests. A result is first taken apart at its root (concat, pad, reshape: regions of the destination);
 * each region becomes stores of a group with its outer loops, so that regions with equal loops share them. */
#include "codegen/lower.h"
#include "codegen/nest.h"
#include "codegen/reshape.h"

#include <string.h>

/* Where the elements of a value go: offset + index . stride in a buffer. */
typedef struct {
    int buffer;
    lj_affine offset; /* atom 0 only */
    lj_dim stride[LJ_MAX_RANK];
} target;

typedef struct {
    lj_lowered *lowered;
    const int *input_buffer;
    lj_builder builders[LJ_MAX_GROUPS]; /* of groups, by number */
    lj_status status;
} work;

static lj_status refuse(const lj_graph *graph, const lj_node *node, const char *why)
{
    return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: %s: %s", lj_node_describe(graph, node), why);
}

bool lj_is_row_reduce(const lj_graph *graph, const lj_node *node)
{
    if (node->op != LJ_OP_sum && node->op != LJ_OP_maximum) return false;
    const lj_type *in = lj_type_get(graph, node->inputs[0]);
    for (int i = (int)node->attributes.i[0] + 1; i < in->rank; i++)
        if (!lj_dim_is_const(in->dim[i], 1)) return false;
    return true;
}

static bool is_column_reduce(const lj_graph *graph, const lj_node *node)
{
    return (node->op == LJ_OP_sum || node->op == LJ_OP_maximum) && !lj_is_row_reduce(graph, node);
}

typedef bool (*node_test)(const lj_graph *graph, const lj_node *node);

/* The first node under `value` that passes the test. Kernel graphs are small; shared operands may be visited again. */
static const lj_node *cone_find(const lj_graph *graph, lj_value value, node_test test)
{
    const lj_node *node = lj_producer(graph, value);
    if (test(graph, node)) return node;
    for (int i = 0; i < node->input_count; i++) {
        const lj_node *found = node->inputs[i] ? cone_find(graph, node->inputs[i], test) : NULL;
        if (found) return found;
    }
    return NULL;
}

static bool needs_root_view(const lj_graph *graph, const lj_node *node)
{
    (void)graph;
    return node->op == LJ_OP_concat || node->op == LJ_OP_pad || node->op == LJ_OP_sum || node->op == LJ_OP_maximum;
}

/* -- groups ---------------------------------------------------------------------------------------------------------------- */

static lj_builder *group_create(work *w)
{
    lj_lowered *lowered = w->lowered;
    lj_group *group = lj_arena_alloc(&lowered->arena, sizeof *group);
    if (!group) {
        w->status = LJ_ERR_NOMEM;
        return NULL;
    }
    if (lowered->group_count == LJ_MAX_GROUPS) {
        w->status = lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: more than %d different loop nests", LJ_MAX_GROUPS);
        return NULL;
    }
    lj_group_loop(group, LJ_ATOM_ONE, lj_dim_const(1));
    lj_builder *builder = &w->builders[lowered->group_count];
    lowered->groups[lowered->group_count++] = group;
    *builder = (lj_builder){.lowered = lowered, .group = group, .input_buffer = w->input_buffer};
    return builder;
}

static bool has_outer(const lj_group *group, const lj_dim *dims, int count)
{
    if (group->reduced_count || group->outer_count != count) return false;
    for (int i = 0; i < count; i++)
        if (!lj_dim_equal(group->atoms[group->outer[i]].dim, dims[i])) return false;
    return true;
}

static lj_builder *group_with_outer(work *w, const lj_dim *dims, int count)
{
    for (int i = 0; i < w->lowered->group_count; i++)
        if (has_outer(w->lowered->groups[i], dims, count)) return &w->builders[i];
    lj_builder *builder = group_create(w);
    for (int i = 0; builder && i < count; i++)
        builder->group->outer[builder->group->outer_count++] = lj_group_loop(builder->group, LJ_ATOM_OUTER, dims[i]);
    return builder;
}

static void index_of_atom(lj_affine *index, int atom)
{
    lj_affine_zero(index);
    lj_affine_add_term(index, lj_dim_const(1), atom);
}

static bool target_position(const target *to, int rank, const lj_affine *index, lj_affine *at)
{
    *at = to->offset;
    for (int i = 0; i < rank; i++)
        if (!lj_affine_add(at, &index[i], to->stride[i])) return false;
    return true;
}

static lj_status store_value(work *w, lj_builder *builder, lj_value value, const lj_affine *index, const target *to)
{
    lj_affine at;
    int statement = lj_lower_value(builder, value, index);
    if (statement < 0) return builder->status;
    if (!target_position(to, lj_type_get(w->lowered->graph, value)->rank, index, &at))
        return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: a destination has more than %d terms", LJ_MAX_TERMS);
    return lj_group_store(builder, statement, to->buffer, &at) ? LJ_OK : builder->status;
}

/* -- rows ------------------------------------------------------------------------------------------------------------------ */

/* The axis that runs inside a row; -1: the value has one element a row. Where rows are reduced it is the last axis, unless the
 * value is itself one number for each row of the reduction. */
static int inner_axis(const lj_graph *graph, lj_value value)
{
    const lj_type *type = lj_type_get(graph, value);
    const lj_node *reduce = cone_find(graph, value, lj_is_row_reduce);
    int axis = type->rank - 1;
    if (reduce && lj_dim_equal(lj_type_elements_dim(type), lj_type_elements_dim(lj_type_get(graph, reduce->output)))) return -1;
    while (axis >= 0 && lj_dim_is_const(type->dim[axis], 1)) axis--;
    return axis;
}

static lj_status lower_rows(work *w, lj_value value, const target *to)
{
    const lj_type *type = lj_type_get(w->lowered->graph, value);
    int inner = inner_axis(w->lowered->graph, value), count = 0;
    lj_dim outer[LJ_MAX_RANK];
    lj_affine index[LJ_MAX_RANK];
    for (int i = 0; i < type->rank; i++)
        if (i != inner && !lj_dim_is_const(type->dim[i], 1)) outer[count++] = type->dim[i];
    lj_builder *builder = group_with_outer(w, outer, count);
    if (!builder) return w->status;
    count = 0;
    for (int i = 0; i < type->rank; i++) {
        lj_affine_zero(&index[i]);
        if (lj_dim_is_const(type->dim[i], 1)) continue;
        if (i != inner) {
            index_of_atom(&index[i], builder->group->outer[count++]);
            continue;
        }
        int loop = lj_group_inner(builder->group, type->dim[i]);
        if (loop < 0) return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: more than %d loops in a row", LJ_MAX_INNERS);
        index_of_atom(&index[i], builder->group->inner[loop]);
    }
    return store_value(w, builder, value, index, to);
}

/* -- columns --------------------------------------------------------------------------------------------------------------- */

typedef struct {
    const lj_node *top, *bottom; /* sums from the last one added up to the first */
    bool reduced[LJ_MAX_RANK];
    int order[LJ_MAX_RANK], count; /* axes, outermost loop (the top one's) first */
} chain;

static bool chain_follow(const lj_graph *graph, const lj_node *top, chain *out)
{
    *out = (chain){.top = top, .bottom = top};
    const lj_node *node = top;
    while (node->op == top->op && is_column_reduce(graph, node)) {
        int axis = (int)node->attributes.i[0];
        if (out->reduced[axis]) return false;
        out->reduced[axis] = true;
        out->order[out->count++] = axis;
        out->bottom = node;
        node = lj_producer(graph, node->inputs[0]);
    }
    return true;
}

static int last_kept_axis(const lj_type *in, const chain *sums)
{
    for (int i = in->rank - 1; i >= 0; i--)
        if (!sums->reduced[i] && !lj_dim_is_const(in->dim[i], 1)) return i;
    return -1;
}

/* Loops of a column group; fills the index of the summed operand and of the total. */
static bool column_loops(lj_group *group, const lj_type *in, const chain *sums, lj_affine *operand, lj_affine *total)
{
    int inner = last_kept_axis(in, sums);
    for (int i = 0; i < in->rank; i++) {
        lj_affine_zero(&operand[i]), lj_affine_zero(&total[i]);
        if (sums->reduced[i] || lj_dim_is_const(in->dim[i], 1)) continue;
        int atom;
        if (i == inner)
            atom = group->inner[lj_group_inner(group, in->dim[i])];
        else
            group->outer[group->outer_count++] = atom = lj_group_loop(group, LJ_ATOM_OUTER, in->dim[i]);
        index_of_atom(&operand[i], atom), index_of_atom(&total[i], atom);
    }
    for (int k = 0; k < sums->count; k++) {
        int atom = lj_group_loop(group, LJ_ATOM_REDUCED, in->dim[sums->order[k]]);
        group->reduced[group->reduced_count++] = atom;
        index_of_atom(&operand[sums->order[k]], atom);
    }
    return inner >= 0;
}

static lj_status lower_column(work *w, lj_value value, const lj_node *top, const target *to)
{
    const lj_graph *graph = w->lowered->graph;
    chain sums;
    if (!chain_follow(graph, top, &sums)) return refuse(graph, top, "sums twice over one axis");
    lj_value summed = sums.bottom->inputs[0];
    lj_affine operand[LJ_MAX_RANK], total[LJ_MAX_RANK];
    lj_builder *builder = group_create(w);
    if (!builder) return w->status;
    lj_group *group = builder->group;
    if (!column_loops(group, lj_type_get(graph, summed), &sums, operand, total)) return refuse(graph, top, "no axis is left to run along");
    if (!lj_type_same_shape(lj_type_get(graph, value), lj_type_get(graph, top->output)))
        return refuse(graph, top, "its total is used in another shape");
    group->column_op = top->op, group->column_dtype = lj_type_get(graph, top->output)->dtype;
    group->column_operand = lj_lower_value(builder, summed, operand);
    if (group->column_operand < 0) return builder->status;
    lj_stmt stmt = {.kind = LJ_STMT_TOTAL, .op = top->op, .dtype = group->column_dtype};
    int statement = lj_group_stmt(builder, stmt);
    if (statement < 0 || !lj_memo_add(builder, top->output, total, statement)) return builder->status;
    return store_value(w, builder, value, total, to);
}

/* -- roots ----------------------------------------------------------------------------------------------------------------- */

static lj_status lower_root(work *w, lj_value value, const target *to);

static bool shift(target *to, int axis, lj_dim by)
{
    return lj_affine_add_term(&to->offset, lj_dim_mul(by, to->stride[axis]), 0);
}

static lj_status concat_root(work *w, const lj_node *node, const target *to)
{
    target part = *to;
    int axis = (int)node->attributes.i[0];
    for (int i = 0; i < node->input_count; i++) {
        LJ_TRY(lower_root(w, node->inputs[i], &part));
        if (!shift(&part, axis, lj_type_get(w->lowered->graph, node->inputs[i])->dim[axis]))
            return refuse(w->lowered->graph, node, "its offsets have too many terms");
    }
    return LJ_OK;
}

/* Stores zeros to `rows` of the axis. */
static lj_status fill_root(work *w, const lj_type *type, int axis, int64_t rows, const target *to)
{
    int inner = type->rank - 1, count = 0;
    lj_dim outer[LJ_MAX_RANK], dims[LJ_MAX_RANK];
    lj_affine index[LJ_MAX_RANK], at;
    if (rows == 0) return LJ_OK;
    for (int i = 0; i < type->rank; i++) dims[i] = i == axis ? lj_dim_const(rows) : type->dim[i];
    for (int i = 0; i < inner; i++)
        if (!lj_dim_is_const(dims[i], 1)) outer[count++] = dims[i];
    lj_builder *builder = group_with_outer(w, outer, count);
    if (!builder) return w->status;
    count = 0;
    for (int i = 0; i < type->rank; i++) {
        lj_affine_zero(&index[i]);
        if (i == inner) {
            int loop = lj_group_inner(builder->group, dims[i]);
            if (loop < 0) return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: more than %d loops in a row", LJ_MAX_INNERS);
            index_of_atom(&index[i], builder->group->inner[loop]);
        } else if (!lj_dim_is_const(dims[i], 1)) {
            index_of_atom(&index[i], builder->group->outer[count++]);
        }
    }
    int zero = lj_group_stmt(builder, (lj_stmt){.kind = LJ_STMT_CONST, .op = LJ_OP_const, .dtype = type->dtype});
    if (zero < 0) return builder->status;
    if (!target_position(to, type->rank, index, &at)) return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: a destination has more than %d terms", LJ_MAX_TERMS);
    return lj_group_store(builder, zero, to->buffer, &at) ? LJ_OK : builder->status;
}

static lj_status pad_root(work *w, const lj_node *node, const target *to)
{
    const lj_type *type = lj_type_get(w->lowered->graph, node->inputs[0]);
    int axis = (int)node->attributes.i[0];
    int64_t before = node->attributes.i[1], after = node->attributes.i[2];
    target part = *to;
    LJ_TRY(fill_root(w, type, axis, before, &part));
    if (!shift(&part, axis, lj_dim_const(before))) return refuse(w->lowered->graph, node, "its offsets have too many terms");
    LJ_TRY(lower_root(w, node->inputs[0], &part));
    if (!shift(&part, axis, type->dim[axis])) return refuse(w->lowered->graph, node, "its offsets have too many terms");
    return fill_root(w, type, axis, after, &part);
}

/* The operand's own shape decides the loops where the destination allows it: always for contiguous results. */
static bool reshape_target(work *w, const lj_node *node, const target *to, target *out)
{
    const lj_graph *graph = w->lowered->graph;
    *out = *to;
    return lj_reshape_strides(lj_type_get(graph, node->inputs[0]), lj_type_get(graph, node->output), to->stride, out->stride);
}

static lj_status lower_root(work *w, lj_value value, const target *to)
{
    const lj_graph *graph = w->lowered->graph;
    const lj_node *node = lj_producer(graph, value);
    target part;
    if (node->op == LJ_OP_concat) return concat_root(w, node, to);
    if (node->op == LJ_OP_pad) return pad_root(w, node, to);
    if (node->op == LJ_OP_reshape && reshape_target(w, node, to, &part)) return lower_root(w, node->inputs[0], &part);
    if (node->op == LJ_OP_transpose && cone_find(graph, node->inputs[0], needs_root_view)) {
        part = *to;
        for (int i = 0; i < lj_type_get(graph, value)->rank; i++) part.stride[node->attributes.i[i]] = to->stride[i];
        return lower_root(w, node->inputs[0], &part);
    }
    const lj_node *top = cone_find(graph, value, is_column_reduce);
    return top ? lower_column(w, value, top, to) : lower_rows(w, value, to);
}

static lj_status lower_results(work *w)
{
    const lj_graph *graph = w->lowered->graph;
    for (size_t r = 0; r < graph->result_count; r++) {
        const lj_type *type = lj_type_get(graph, graph->results[r].value);
        target to = {.buffer = w->lowered->input_count + (int)r};
        lj_dim stride = lj_dim_const(1);
        for (int i = type->rank - 1; i >= 0; i--) {
            to.stride[i] = stride;
            stride = lj_dim_mul(stride, type->dim[i]);
        }
        LJ_TRY(lower_root(w, graph->results[r].value, &to));
    }
    return LJ_OK;
}

/* -- in place -------------------------------------------------------------------------------------------------------------- */

/* A result over an input: every element must be read where it is stored, in the same pass or an earlier one, in one group. */
static lj_status check_in_place(const lj_lowered *lowered, int result)
{
    int input = lowered->buffers[result].same_as;
    for (int g = 0; g < lowered->group_count; g++) {
        const lj_group *group = lowered->groups[g];
        for (int i = 0; i < group->stmt_count; i++) {
            const lj_stmt *load = &group->stmts[i];
            if (load->kind != LJ_STMT_LOAD || load->buffer != input) continue;
            bool meets = lowered->group_count == 1 && group->reduced_count == 0;
            for (int s = 0; meets && s < group->store_count; s++)
                if (group->stores[s].buffer == result) meets = lj_affine_equal(group->stores[s].at, load->at);
            for (int s = 0; meets && s < group->store_count; s++) /* no later pass may read again what is overwritten */
                if (group->stores[s].buffer == result) meets = group->stmts[group->stores[s].statement].phase + 1 >= group->phase_count;
            if (!meets)
                return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: result %d cannot be written over input %d: its elements are read elsewhere or again",
                               result - lowered->input_count, input);
        }
    }
    return LJ_OK;
}

/* -- the whole ------------------------------------------------------------------------------------------------------------- */

static lj_status collect_buffers(lj_lowered *lowered, int *input_buffer)
{
    const lj_graph *graph = lowered->graph;
    int capacity = (int)graph->result_count;
    for (size_t i = 0; i < graph->node_count; i++) capacity += graph->nodes[i].op == LJ_OP_input;
    lowered->buffers = lj_arena_alloc(&lowered->arena, (size_t)(capacity + 1) * sizeof *lowered->buffers);
    if (!lowered->buffers) return LJ_ERR_NOMEM;
    for (size_t i = 0; i < graph->node_count; i++) {
        const lj_node *node = &graph->nodes[i];
        if (node->op != LJ_OP_input || node->dead) continue;
        const lj_type *type = lj_type_get(graph, node->output);
        input_buffer[node->output] = lowered->input_count;
        lowered->buffers[lowered->input_count++] = (lj_buffer_row){.dtype = type->dtype, .same_as = -1, .elements = lj_type_elements_dim(type)};
    }
    lowered->buffer_count = lowered->input_count;
    for (size_t r = 0; r < graph->result_count; r++) {
        const lj_result *result = &graph->results[r];
        const lj_type *type = lj_type_get(graph, result->value);
        int same = result->state ? input_buffer[result->state] : -1;
        lowered->buffers[lowered->buffer_count++] =
            (lj_buffer_row){.dtype = type->dtype, .written = true, .same_as = same, .elements = lj_type_elements_dim(type)};
    }
    return LJ_OK;
}

static lj_status check_dtypes(const lj_graph *graph)
{
    for (size_t v = 1; v < graph->value_count; v++)
        if (graph->values[v].type.dtype == LJ_F8E4M3 || graph->values[v].type.dtype == LJ_F8E5M2)
            return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: values of %s are not generated", lj_dtype_name(graph->values[v].type.dtype));
    return LJ_OK;
}

/* Gives each group that needs it a part of scratch. The parts' sizes must add up to one size with symbols. */
static lj_status place_scratch(lj_lowered *lowered)
{
    lj_dim total = {0};
    for (int g = 0; g < lowered->group_count; g++) {
        lj_group *group = lowered->groups[g];
        if (!lj_group_has_scratch(group)) continue;
        int64_t element = lj_dtype_bytes(group->column_dtype) == 8 ? 8 : 4;
        lj_dim bytes = lj_dim_mul(group->atoms[group->inner[0]].dim, lj_dim_const(LJ_COLUMN_PARTS * element));
        group->scratch_at = total;
        if (bytes.factor == 0) continue;
        if (total.factor && memcmp(total.power, bytes.power, sizeof bytes.power) != 0)
            return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: sums over rows of columns whose numbers have different symbols");
        bytes.factor += total.factor;
        total = bytes;
    }
    lowered->scratch_bytes = total;
    return LJ_OK;
}

static lj_status lower_loops(lj_lowered *lowered, const int *input_buffer)
{
    work *w = lj_arena_alloc(&lowered->arena, sizeof *w);
    if (!w) return LJ_ERR_NOMEM;
    lowered->groups = lj_arena_alloc(&lowered->arena, LJ_MAX_GROUPS * sizeof(lj_group *));
    if (!lowered->groups) return LJ_ERR_NOMEM;
    w->lowered = lowered, w->input_buffer = input_buffer;
    LJ_TRY(lower_results(w));
    for (int r = lowered->input_count; r < lowered->buffer_count; r++)
        if (lowered->buffers[r].same_as >= 0) LJ_TRY(check_in_place(lowered, r));
    for (int g = 0; g < lowered->group_count; g++) lj_group_merge_loops(lowered->groups[g]);
    return place_scratch(lowered);
}

static lj_status lower_graph(lj_lowered *lowered)
{
    const lj_graph *graph = lowered->graph;
    if (graph->result_count == 0) return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: it has no results");
    LJ_TRY(check_dtypes(graph));
    int *input_buffer = lj_arena_alloc(&lowered->arena, graph->value_count * sizeof *input_buffer);
    if (!input_buffer) return LJ_ERR_NOMEM;
    for (size_t v = 0; v < graph->value_count; v++) input_buffer[v] = -1;
    LJ_TRY(collect_buffers(lowered, input_buffer));
    bool taken;
    LJ_TRY(lj_lower_single(lowered, input_buffer, &taken));
    return taken ? LJ_OK : lower_loops(lowered, input_buffer);
}

lj_status lj_lower(const lj_graph *kernel, lj_lowered **out)
{
    lj_arena arena;
    lj_arena_init(&arena, "lowered kernel");
    lj_lowered *lowered = lj_arena_alloc(&arena, sizeof *lowered);
    if (!lowered) return LJ_ERR_NOMEM;
    lowered->arena = arena, lowered->graph = kernel, lowered->symbol_count = kernel->symbol_count;
    lj_status status = lower_graph(lowered);
    lowered->graph = NULL;
    if (status != LJ_OK) {
        lj_lowered_destroy(lowered);
        return status;
    }
    *out = lowered;
    return LJ_OK;
}

void lj_lowered_destroy(lj_lowered *lowered)
{
    if (!lowered) return;
    lj_arena arena = lowered->arena;
    lj_arena_release(&arena);
}

lj_status lj_lower_accepts(const lj_graph *kernel)
{
    lj_lowered *lowered;
    LJ_TRY(lj_lower(kernel, &lowered));
    lj_lowered_destroy(lowered);
    return LJ_OK;
}
