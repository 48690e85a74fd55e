/* Who belongs together. Core nodes join a group of their operands when the loop nest is the same and no path leaves the group
 * and comes back; concats take what feeds only them; column sums recompute what they read. */
#include "passes/fuse.h"

#include "passes/fuse_group.h"

#include <string.h>

enum { GROUP_NODES = 64, MAX_CANDIDATES = 8 };

/* The last axis that is more than one element wide, as code generation sees it: [A, B, 1] is summed over B as a row. */
static bool is_last_axis(const lj_graph *graph, const lj_node *node)
{
    const lj_type *in = lj_type_get(graph, node->inputs[0]);
    for (int i = (int)node->attributes.i[0] + 1; i < in->rank; i++)
        if (!lj_dim_is_const(in->dim[i], 1)) return false;
    return true;
}

lj_value lj_column_source(const lj_graph *graph, const lj_node *node, const uint32_t *uses)
{
    const lj_type *type = lj_type_get(graph, node->output);
    unsigned covered = 0;
    lj_value source = 0;
    for (;;) {
        if (node->op != LJ_OP_sum || is_last_axis(graph, node)) break;
        if (source && uses[node->output] != 1) break; /* a partial sum that somebody else reads ends the chain */
        covered |= 1u << node->attributes.i[0];
        source = node->inputs[0];
        node = lj_producer(graph, source);
    }
    for (int axis = 0; source && axis < type->rank - 1; axis++)
        if (!(covered >> axis & 1) && !lj_dim_is_const(lj_type_get(graph, source)->dim[axis], 1)) return 0;
    return source;
}

/* A sum that only the next sum of a column chain reads is no kernel of its own. */
static bool inside_chain(const lj_grouping *g, const lj_node *node)
{
    if (g->uses[node->output] != 1) return false;
    for (const lj_node *next = node + 1; next < g->graph->nodes + g->graph->node_count; next++) {
        if (next->input_count != 1 || next->inputs[0] != node->output) continue;
        return next->op == LJ_OP_sum && !is_last_axis(g->graph, next) && lj_column_source(g->graph, next, g->uses);
    }
    return false;
}

static bool is_widening(const lj_graph *graph, const lj_node *node)
{
    return lj_dtype_bytes(lj_type_get(graph, node->output)->dtype) > lj_dtype_bytes(lj_type_get(graph, node->inputs[0])->dtype);
}

static lj_part reduce_part(const lj_grouping *g, const lj_node *node)
{
    if (node->op == LJ_OP_argmax) return LJ_PART_SINGLE;
    if (is_last_axis(g->graph, node)) return LJ_PART_CORE;
    if (node->op != LJ_OP_sum || !lj_column_source(g->graph, node, g->uses)) return LJ_PART_SINGLE;
    return inside_chain(g, node) ? LJ_PART_INLINE : LJ_PART_COLUMN;
}

static lj_part part_of(const lj_grouping *g, const lj_node *node)
{
    switch (lj_op_rows[node->op].class) {
    case LJ_CLASS_LEAF: return node->op == LJ_OP_input ? LJ_PART_ALIAS : LJ_PART_INLINE;
    case LJ_CLASS_UNARY: return node->op == LJ_OP_cast && is_widening(g->graph, node) ? LJ_PART_INLINE : LJ_PART_CORE;
    case LJ_CLASS_BINARY:
    case LJ_CLASS_TERNARY: return LJ_PART_CORE;
    case LJ_CLASS_VIEW: return node->op == LJ_OP_reshape ? LJ_PART_ALIAS : LJ_PART_INLINE;
    case LJ_CLASS_MOVE:
        if (node->op == LJ_OP_gather) return LJ_PART_INLINE;
        return node->op == LJ_OP_concat || node->op == LJ_OP_pad ? LJ_PART_ROOT : LJ_PART_LIBRARY; /* written in place */
    case LJ_CLASS_REDUCE: return reduce_part(g, node);
    default: return LJ_PART_LIBRARY;
    }
}

/* Puts node n into a group (and out of none: only merging moves nodes, by the list). */
static void member_add(lj_grouping *g, uint32_t n, uint32_t group)
{
    g->group[n] = group;
    g->next_member[n] = g->first_member[group];
    g->first_member[group] = n;
}

static uint32_t group_new(lj_grouping *g, uint32_t n)
{
    g->first_member[g->group_count] = LJ_NO_GROUP;
    member_add(g, n, g->group_count);
    return g->group_count++;
}

/* -- concat and pad roots -------------------------------------------------------------------------------------------------- */

static bool may_feed_root(const lj_grouping *g, uint32_t n)
{
    const lj_node *node = &g->graph->nodes[n];
    if (g->alone[n] || g->group[n] != LJ_NO_GROUP) return false;
    return g->part[n] == LJ_PART_ROOT || (g->part[n] == LJ_PART_CORE && lj_op_rows[node->op].class != LJ_CLASS_REDUCE);
}

/* Counts down the uses of what `node` reads, through inlined nodes; a producer all of whose uses are inside joins. */
static void root_absorb(lj_grouping *g, const lj_node *node, uint32_t *left, uint32_t group)
{
    for (int i = 0; i < node->input_count; i++) {
        lj_value v = node->inputs[i];
        if (!v || --left[v] != 0) continue;
        uint32_t n = g->graph->values[v].node;
        const lj_node *producer = &g->graph->nodes[n];
        if (g->part[n] == LJ_PART_INLINE)
            root_absorb(g, producer, left, group);
        else if (may_feed_root(g, n)) {
            member_add(g, n, group);
            root_absorb(g, producer, left, group);
        }
    }
}

static lj_status roots_group(lj_grouping *g)
{
    size_t bytes = g->graph->value_count * sizeof(uint32_t);
    uint32_t *left = lj_arena_alloc(g->scratch, bytes);
    if (!left) return lj_fail(LJ_ERR_NOMEM, "fuse");
    for (size_t n = g->graph->node_count; n-- > 0;) {
        if (g->part[n] != LJ_PART_ROOT || g->group[n] != LJ_NO_GROUP) continue;
        group_new(g, (uint32_t)n);
        if (!g->options->fuse || g->alone[n]) continue;
        memcpy(left, g->uses, bytes);
        root_absorb(g, &g->graph->nodes[n], left, g->group[n]);
    }
    return LJ_OK;
}

/* -- groups of core nodes --------------------------------------------------------------------------------------------------- */

typedef struct {
    lj_type space; /* the loop nest: dims of its widest member */
    uint32_t first, last, count;
    bool open; /* takes members */
} core_group;

static const lj_type *node_space(const lj_graph *graph, const lj_node *node)
{
    return lj_type_get(graph, lj_op_rows[node->op].class == LJ_CLASS_REDUCE ? node->inputs[0] : node->output);
}

/* Same nest, or one is a row value ([.., 1]) of the other. *joint is the wider one. */
static bool spaces_fit(const lj_type *a, const lj_type *b, lj_type *joint)
{
    if (a->rank != b->rank || a->rank == 0) return *joint = *a, a->rank == b->rank;
    int last = a->rank - 1;
    for (int i = 0; i < last; i++)
        if (!lj_dim_equal(a->dim[i], b->dim[i])) return false;
    *joint = lj_dim_is_const(a->dim[last], 1) ? *b : *a;
    return lj_dim_equal(a->dim[last], b->dim[last]) || lj_dim_is_const(a->dim[last], 1) || lj_dim_is_const(b->dim[last], 1);
}

/* True for a broadcast that only stretches the last dim: a row value met by its row. */
static bool is_row_broadcast(const lj_graph *graph, const lj_node *node)
{
    const lj_type *from = lj_type_get(graph, node->inputs[0]), *to = lj_type_get(graph, node->output);
    for (int i = 0; i < from->rank - 1; i++)
        if (!lj_dim_equal(from->dim[i], to->dim[i])) return false;
    return node->op == LJ_OP_broadcast;
}

/* Core producers above a value, through inlined nodes. moved: a view stands between, so the value must go through memory. */
static void core_producers(const lj_grouping *g, lj_value v, bool moved, uint32_t *found, bool *was_moved, int *count)
{
    if (!v) return;
    uint32_t n = g->graph->values[v].node;
    const lj_node *node = &g->graph->nodes[n];
    if (g->part[n] == LJ_PART_CORE && *count < 16) {
        found[*count] = n;
        was_moved[(*count)++] = moved;
    }
    if (g->part[n] != LJ_PART_INLINE) return;
    bool view = node->op != LJ_OP_cast && !is_row_broadcast(g->graph, node);
    for (int i = 0; i < node->input_count; i++) core_producers(g, node->inputs[i], moved || view, found, was_moved, count);
}

static bool reaches(lj_grouping *g, uint32_t n, uint32_t group);

static bool inputs_reach(lj_grouping *g, uint32_t n, uint32_t group)
{
    const lj_node *node = &g->graph->nodes[n];
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && reaches(g, g->graph->values[node->inputs[i]].node, group)) return true;
    return false;
}

/* Does node n need, through any path, a member of the group? A group runs as one: whoever needs one member waits for all of them, so
 * the path goes on from every member of the groups it meets. */
static bool reaches(lj_grouping *g, uint32_t n, uint32_t group)
{
    if (g->stamp[n] == g->stamp_now) return false;
    if (g->group[n] == group) return true;
    if (g->group[n] == LJ_NO_GROUP) {
        g->stamp[n] = g->stamp_now;
        return inputs_reach(g, n, group);
    }
    uint32_t head = g->first_member[g->group[n]];
    for (uint32_t m = head; m != LJ_NO_GROUP; m = g->next_member[m]) g->stamp[m] = g->stamp_now;
    for (uint32_t m = head; m != LJ_NO_GROUP; m = g->next_member[m])
        if (inputs_reach(g, m, group)) return true;
    return false;
}

/* True when an operand of `node` outside the group needs the group: joining would close a circle. */
static bool closes_circle(lj_grouping *g, const lj_node *node, uint32_t group)
{
    g->stamp_now++;
    for (int i = 0; i < node->input_count; i++) {
        if (!node->inputs[i]) continue;
        uint32_t n = g->graph->values[node->inputs[i]].node;
        if (g->group[n] == group) continue;
        if (g->part[n] == LJ_PART_INLINE ? closes_circle(g, &g->graph->nodes[n], group) : reaches(g, n, group)) return true;
    }
    return false;
}

static bool may_join(lj_grouping *g, const lj_node *node, core_group *groups, uint32_t group, lj_type *joint)
{
    const core_group *to = &groups[group];
    return to->open && to->count < GROUP_NODES && spaces_fit(&to->space, node_space(g->graph, node), joint) && !closes_circle(g, node, group);
}

/* Moves all members of b into a; undone when that closes a circle. */
static bool merge_groups(lj_grouping *g, core_group *groups, uint32_t a, uint32_t b)
{
    lj_type joint;
    core_group *to = &groups[a], *from = &groups[b];
    if (a == b || !from->open || to->count + from->count > GROUP_NODES || !spaces_fit(&to->space, &from->space, &joint)) return false;
    uint32_t first = to->first < from->first ? to->first : from->first, last = to->last > from->last ? to->last : from->last;
    uint32_t head = g->first_member[a], tail = g->first_member[b];
    for (uint32_t m = g->first_member[b]; m != LJ_NO_GROUP; m = g->next_member[m]) g->group[m] = a, tail = m;
    g->next_member[tail] = head;
    g->first_member[a] = g->first_member[b];
    bool circle = false;
    for (uint32_t m = g->first_member[a]; m != LJ_NO_GROUP && !circle; m = g->next_member[m]) circle = closes_circle(g, &g->graph->nodes[m], a);
    if (circle) {
        g->next_member[tail] = LJ_NO_GROUP;
        for (uint32_t m = g->first_member[b]; m != LJ_NO_GROUP; m = g->next_member[m]) g->group[m] = b;
        g->first_member[a] = head;
        return false;
    }
    g->first_member[b] = LJ_NO_GROUP;
    *to = (core_group){joint, first, last, to->count + from->count, true};
    from->open = false, from->count = 0;
    return true;
}

/* A library step between a group and a node that wants to join it: joining would hold the group back (or keep what it makes for
 * others alive), so it pays only where all that the node reads of the group is read by nobody else. */
static bool worth_waiting(const lj_grouping *g, const core_group *groups, uint32_t n, uint32_t group, const uint32_t *found, int count)
{
    if (g->libraries[n] == g->libraries[groups[group].last]) return true;
    for (int i = 0; i < count; i++)
        if (g->group[found[i]] == group && g->uses[g->graph->nodes[found[i]].output] != 1) return false;
    return true;
}

/* Groups that `node` could join: those of its core operands that are read in place. */
static int candidates(const lj_grouping *g, const core_group *groups, uint32_t n, uint32_t *out)
{
    const lj_node *node = &g->graph->nodes[n];
    uint32_t found[16];
    bool moved[16];
    int count = 0, kept = 0;
    for (int i = 0; i < node->input_count; i++) core_producers(g, node->inputs[i], false, found, moved, &count);
    for (int i = 0; i < count && kept < MAX_CANDIDATES; i++) {
        uint32_t group = g->group[found[i]];
        bool barred = moved[i] || !worth_waiting(g, groups, n, group, found, count);
        for (int j = 0; j < count; j++) barred |= g->group[found[j]] == group && moved[j];
        for (int j = 0; j < kept; j++) barred |= out[j] == group;
        if (!barred) out[kept++] = group;
    }
    return kept;
}

static void core_place(lj_grouping *g, core_group *groups, uint32_t n)
{
    const lj_node *node = &g->graph->nodes[n];
    uint32_t choice[MAX_CANDIDATES], joined = LJ_NO_GROUP;
    int count = g->options->fuse && !g->alone[n] ? candidates(g, groups, n, choice) : 0;
    for (int i = 0; i < count; i++) {
        lj_type joint;
        if (joined == LJ_NO_GROUP && may_join(g, node, groups, choice[i], &joint)) {
            joined = choice[i];
            member_add(g, n, joined);
            groups[joined].space = joint, groups[joined].last = n, groups[joined].count++;
        } else if (joined != LJ_NO_GROUP) {
            merge_groups(g, groups, joined, choice[i]);
        }
    }
    if (joined != LJ_NO_GROUP) return;
    groups[group_new(g, n)] = (core_group){*node_space(g->graph, node), n, n, 1, g->options->fuse && !g->alone[n]};
}

lj_status lj_grouping_run(lj_grouping *g)
{
    size_t nodes = g->graph->node_count;
    core_group *groups = lj_arena_alloc(g->scratch, (nodes + 1) * sizeof *groups);
    if (!groups) return lj_fail(LJ_ERR_NOMEM, "fuse");
    uint32_t libraries = 0;
    for (size_t n = 0; n < nodes; n++) {
        g->part[n] = part_of(g, &g->graph->nodes[n]), g->group[n] = LJ_NO_GROUP;
        libraries += g->part[n] == LJ_PART_LIBRARY;
        g->libraries[n] = libraries;
    }
    LJ_TRY(roots_group(g));
    for (uint32_t n = 0; n < nodes; n++) {
        if (g->group[n] != LJ_NO_GROUP) continue;
        if (g->part[n] == LJ_PART_CORE)
            core_place(g, groups, n);
        else if (g->part[n] == LJ_PART_COLUMN || g->part[n] == LJ_PART_SINGLE || g->part[n] == LJ_PART_LIBRARY)
            group_new(g, n);
    }
    return LJ_OK;
}

/* -- the whole ---------------------------------------------------------------------------------------------------------------- */

lj_value lj_storage_value(const lj_graph *graph, lj_value value)
{
    while (lj_is(graph, value, LJ_OP_reshape)) value = lj_producer(graph, value)->inputs[0];
    return value;
}

lj_value lj_attention_operand(const lj_graph *graph, lj_value value, int64_t *head)
{
    *head = 0;
    const lj_node *node = value ? lj_producer(graph, value) : NULL;
    if (!node || node->op != LJ_OP_slice || node->attributes.i[0] != 2) return value;
    *head = node->attributes.i[1];
    return node->inputs[0];
}

static lj_status grouping_init(lj_grouping *g)
{
    size_t nodes = g->graph->node_count + 1, values = g->graph->value_count + 1;
    g->part = lj_arena_alloc(g->scratch, nodes * sizeof *g->part);
    g->group = lj_arena_alloc(g->scratch, nodes * sizeof *g->group);
    g->alone = lj_arena_alloc(g->scratch, nodes * sizeof *g->alone);
    g->stamp = lj_arena_alloc(g->scratch, nodes * sizeof *g->stamp);
    g->libraries = lj_arena_alloc(g->scratch, nodes * sizeof *g->libraries);
    g->first_member = lj_arena_alloc(g->scratch, nodes * sizeof *g->first_member);
    g->next_member = lj_arena_alloc(g->scratch, nodes * sizeof *g->next_member);
    g->needed = lj_arena_alloc(g->scratch, values * sizeof *g->needed);
    g->uses = lj_use_counts(g->graph, g->scratch);
    bool all = g->part && g->group && g->alone && g->stamp && g->libraries && g->first_member && g->next_member && g->needed && g->uses;
    return all ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "fuse: %zu nodes", nodes);
}

/* Grouping, then kernels; a group that code generation refuses is taken apart and all is done again. */
static lj_status fuse_rounds(lj_grouping *g, lj_units *units)
{
    LJ_TRY(grouping_init(g));
    for (;;) {
        uint32_t refused;
        g->group_count = 0;
        memset(g->needed, 0, g->graph->value_count * sizeof *g->needed);
        LJ_TRY(lj_grouping_run(g));
        lj_grouping_needs(g);
        LJ_TRY(lj_grouping_extract(g, units, &refused));
        if (refused == LJ_NO_GROUP) return LJ_OK;
        size_t parted = 0;
        for (size_t n = 0; n < g->graph->node_count; n++)
            if (g->group[n] == refused && !g->alone[n]) g->alone[n] = true, parted++;
        if (parted == 0) return lj_fail_in(LJ_ERR_UNSUPPORTED, "no code can be generated");
    }
}

lj_status lj_fuse(const lj_graph *graph, const lj_fuse_options *options, lj_units *units)
{
    lj_arena scratch;
    lj_arena_init(&scratch, "fuse");
    *units = (lj_units){0};
    lj_arena_init(&units->arena, "units");
    lj_grouping g = {.graph = graph, .options = options, .scratch = &scratch};
    lj_status status = fuse_rounds(&g, units);
    lj_arena_release(&scratch);
    if (status != LJ_OK) lj_units_release(units);
    return status;
}

void lj_units_release(lj_units *units)
{
    for (size_t i = 0; i < units->count; i++) lj_graph_destroy(units->units[i].kernel);
    lj_arena_release(&units->arena);
    *units = (lj_units){0};
}

lj_status lj_units_print(const lj_graph *graph, const lj_units *units, lj_text *out)
{
    for (size_t i = 0; i < units->count; i++) {
        const lj_unit *unit = &units->units[i];
        lj_text_add(out, "unit %zu %s at %s:", i, unit->kernel ? "kernel" : "library", lj_node_describe(graph, &graph->nodes[unit->node]));
        for (uint32_t k = 0; k < unit->input_count; k++) lj_text_add(out, " %%%u", unit->inputs[k]);
        lj_text_add(out, " ->");
        for (uint32_t k = 0; k < unit->output_count; k++) lj_text_add(out, " %%%u", unit->outputs[k]);
        lj_text_add(out, "\n");
        char *text = NULL;
        if (unit->kernel) LJ_TRY(lj_graph_print(unit->kernel, &text));
        if (text) lj_text_add(out, "%s", text);
        lj_text_free(text);
    }
    return lj_text_status(out);
}
