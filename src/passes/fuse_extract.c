/* From groups to units: which values stand in memory, the kernel graph of each group, and an order that runs. */
#include "passes/fuse_group.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMN_CLONES = 24 };

/* -- which values stand in memory --------------------------------------------------------------------------------------------- */

static bool is_free_leaf(const lj_node *node)
{
    return node->op == LJ_OP_const || node->op == LJ_OP_iota;
}

/* The reader stands in `group`: what it reads through inlined nodes must be in memory unless the same group makes it. */
static void need_through(lj_grouping *g, lj_value v, uint32_t group)
{
    uint32_t n = g->graph->values[v].node;
    const lj_node *node = &g->graph->nodes[n];
    if (g->part[n] != LJ_PART_INLINE) {
        if (g->group[n] != group || group == LJ_NO_GROUP) g->needed[v] = true;
        return;
    }
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i]) need_through(g, node->inputs[i], group);
}

/* A value that is read as a buffer: itself, or the inlined value made into a kernel of its own. */
static void need_buffer(lj_grouping *g, lj_value v)
{
    uint32_t n = g->graph->values[v].node;
    if (g->needed[v]) return;
    g->needed[v] = true;
    if (g->part[n] != LJ_PART_INLINE) return;
    const lj_node *node = &g->graph->nodes[n];
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i]) need_through(g, node->inputs[i], LJ_NO_GROUP);
}

static bool is_attention(lj_op op)
{
    return op == LJ_OP_attention || op == LJ_OP_attention_grad;
}

static void library_needs(lj_grouping *g, const lj_node *node)
{
    for (int i = 0; i < node->input_count; i++) {
        lj_value v = node->inputs[i];
        int64_t head;
        if (!v) continue;
        if (is_attention(node->op) && i < 3) v = lj_attention_operand(g->graph, v, &head);
        need_buffer(g, lj_storage_value(g->graph, v));
    }
}

/* Elementwise nodes above a column sum that it would recompute; stops at what is in memory. */
static int clone_count(const lj_grouping *g, lj_value v)
{
    uint32_t n = g->graph->values[v].node;
    const lj_node *node = &g->graph->nodes[n];
    if (g->needed[v] || g->part[n] == LJ_PART_ALIAS) return 0;
    bool reduce = lj_op_rows[node->op].class == LJ_CLASS_REDUCE && g->part[n] == LJ_PART_CORE;
    if (reduce || (g->part[n] != LJ_PART_CORE && g->part[n] != LJ_PART_INLINE)) return 0;
    int count = 1;
    for (int i = 0; i < node->input_count && count <= COLUMN_CLONES; i++)
        if (node->inputs[i]) count += clone_count(g, node->inputs[i]);
    return count;
}

static void column_needs(lj_grouping *g, lj_value v)
{
    uint32_t n = g->graph->values[v].node;
    const lj_node *node = &g->graph->nodes[n];
    if (g->needed[v]) return;
    bool elementwise = g->part[n] == LJ_PART_INLINE || (g->part[n] == LJ_PART_CORE && lj_op_rows[node->op].class != LJ_CLASS_REDUCE);
    if (!elementwise) {
        need_buffer(g, lj_storage_value(g->graph, v));
        return;
    }
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i]) column_needs(g, node->inputs[i]);
}

static void node_needs(lj_grouping *g, uint32_t n)
{
    const lj_node *node = &g->graph->nodes[n];
    switch (g->part[n]) {
    case LJ_PART_LIBRARY: library_needs(g, node); break;
    case LJ_PART_SINGLE:
        for (int i = 0; i < node->input_count; i++) need_buffer(g, lj_storage_value(g->graph, node->inputs[i]));
        break;
    case LJ_PART_CORE:
    case LJ_PART_ROOT:
        for (int i = 0; i < node->input_count; i++) need_through(g, node->inputs[i], g->group[n]);
        break;
    default: break;
    }
}

void lj_grouping_needs(lj_grouping *g)
{
    const lj_graph *graph = g->graph;
    for (size_t i = 0; i < graph->result_count; i++) need_buffer(g, lj_storage_value(graph, graph->results[i].value));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].op == LJ_OP_reshape) need_buffer(g, lj_storage_value(graph, graph->nodes[n].output));
        node_needs(g, n);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (g->part[n] != LJ_PART_COLUMN) continue;
        lj_value source = lj_column_source(graph, &graph->nodes[n], g->uses);
        if (!g->options->fuse || g->alone[n] || clone_count(g, source) > COLUMN_CLONES)
            need_through(g, source, LJ_NO_GROUP);
        else
            column_needs(g, source);
    }
}

/* -- the kernel graph of a group ---------------------------------------------------------------------------------------------- */

typedef struct {
    lj_grouping *g;
    lj_graph *kernel;
    lj_value *map;     /* program value -> kernel value */
    uint32_t group;
    lj_unit *unit;
    lj_value *inputs;  /* program values, capacity value_count */
    uint32_t input_count;
} extraction;

/* In memory and not made here: an input of the kernel. */
static bool is_boundary(const extraction *x, lj_value v)
{
    const lj_grouping *g = x->g;
    uint32_t n = g->graph->values[v].node;
    if (g->part[n] == LJ_PART_ALIAS) return true;
    if (is_free_leaf(&g->graph->nodes[n])) return false;
    return g->needed[v] && g->group[n] != x->group;
}

static lj_status extract_input(extraction *x, lj_value v)
{
    char name[24];
    snprintf(name, sizeof name, "i%u", x->input_count);
    x->map[v] = lj_input(x->kernel, name, *lj_type_get(x->g->graph, v), LJ_ROLE_DATA);
    x->inputs[x->input_count++] = v;
    return lj_graph_status(x->kernel);
}

static lj_status extract_value(extraction *x, lj_value v)
{
    const lj_graph *graph = x->g->graph;
    const lj_node *node = lj_producer(graph, v);
    if (!v || x->map[v]) return LJ_OK;
    if (is_boundary(x, v)) return extract_input(x, v);
    lj_value few[16], *in = few;
    if (node->input_count > 16 && !(in = lj_arena_alloc(&x->kernel->arena, sizeof *in * node->input_count))) return lj_fail(LJ_ERR_NOMEM, "fuse");
    for (int i = 0; i < node->input_count; i++) {
        LJ_TRY(extract_value(x, node->inputs[i]));
        in[i] = x->map[node->inputs[i]];
    }
    x->kernel->scope = "";
    lj_graph_at(x->kernel, "", 0);
    lj_value made = lj_node_append(x->kernel, node->op, in, node->input_count, &node->attributes, lj_type_get(graph, v), 1);
    x->map[v] = made;
    return made ? LJ_OK : lj_graph_status(x->kernel);
}

static lj_status extract_outputs(extraction *x, const lj_value *outputs, uint32_t count)
{
    char name[24];
    for (uint32_t i = 0; i < count; i++) {
        LJ_TRY(extract_value(x, outputs[i]));
        snprintf(name, sizeof name, "o%u", i);
        LJ_TRY(lj_graph_output(x->kernel, name, x->map[outputs[i]]));
    }
    return LJ_OK;
}

static lj_status unit_fill(extraction *x, lj_arena *arena, const lj_value *outputs, uint32_t count)
{
    lj_unit *unit = x->unit;
    unit->inputs = lj_arena_alloc(arena, sizeof(lj_value) * (x->input_count + 1));
    unit->outputs = lj_arena_alloc(arena, sizeof(lj_value) * (count + 1));
    if (!unit->inputs || !unit->outputs) return lj_fail(LJ_ERR_NOMEM, "fuse");
    memcpy(unit->inputs, x->inputs, sizeof(lj_value) * x->input_count);
    memcpy(unit->outputs, outputs, sizeof(lj_value) * count);
    unit->input_count = x->input_count, unit->output_count = count;
    unit->kernel = x->kernel;
    return LJ_OK;
}

/* A kernel that writes `outputs`, all of `group` (or one inlined value with LJ_NO_GROUP). */
static lj_status extract_kernel(lj_grouping *g, lj_units *units, uint32_t group, const lj_value *outputs, uint32_t count, lj_unit *unit)
{
    lj_arena scratch;
    lj_arena_init(&scratch, "fuse");
    extraction x = {.g = g, .group = group, .unit = unit};
    x.map = lj_arena_alloc(&scratch, g->graph->value_count * sizeof(lj_value));
    x.inputs = lj_arena_alloc(&scratch, g->graph->value_count * sizeof(lj_value));
    lj_status status = x.map && x.inputs ? lj_graph_create(&x.kernel) : lj_fail(LJ_ERR_NOMEM, "fuse");
    if (status == LJ_OK) status = lj_graph_like(x.kernel, g->graph);
    /* an inlined value that became a kernel of its own is made here, whatever needed says */
    if (status == LJ_OK && group == LJ_NO_GROUP) g->needed[outputs[0]] = false;
    if (status == LJ_OK) status = extract_outputs(&x, outputs, count);
    if (group == LJ_NO_GROUP) g->needed[outputs[0]] = true;
    if (status == LJ_OK) status = unit_fill(&x, &units->arena, outputs, count);
    if (status != LJ_OK) lj_graph_destroy(x.kernel);
    lj_arena_release(&scratch);
    return status;
}

/* -- units and their order ---------------------------------------------------------------------------------------------------- */

static lj_status library_unit(const lj_graph *graph, lj_arena *arena, uint32_t n, lj_unit *unit)
{
    const lj_node *node = &graph->nodes[n];
    *unit = (lj_unit){.node = n, .input_count = node->input_count, .output_count = node->output_count};
    unit->inputs = lj_arena_alloc(arena, sizeof(lj_value) * (node->input_count + 1u));
    unit->outputs = lj_arena_alloc(arena, sizeof(lj_value) * (node->output_count + 1u));
    if (!unit->inputs || !unit->outputs) return lj_fail(LJ_ERR_NOMEM, "fuse");
    if (node->input_count) memcpy(unit->inputs, node->inputs, sizeof(lj_value) * node->input_count);
    for (int k = 0; k < node->output_count; k++) unit->outputs[k] = node->output + (lj_value)k;
    return LJ_OK;
}

/* Needed values of a group, in value order; returns their number. */
static uint32_t group_outputs(const lj_grouping *g, const uint32_t *members, uint32_t member_count, lj_value *outputs)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < member_count; i++) {
        const lj_node *node = &g->graph->nodes[members[i]];
        for (int k = 0; k < node->output_count; k++)
            if (g->needed[node->output + (lj_value)k]) outputs[count++] = node->output + (lj_value)k;
    }
    return count;
}

typedef struct {
    lj_grouping *g;
    lj_units *units;
    uint32_t *members;      /* nodes ordered by group */
    uint32_t *member_start; /* by group, one past the last at the end */
    lj_value *outputs;      /* scratch */
} unit_builder;

static lj_status builder_init(unit_builder *b)
{
    lj_grouping *g = b->g;
    size_t nodes = g->graph->node_count;
    b->member_start = lj_arena_alloc(g->scratch, (g->group_count + 2) * sizeof(uint32_t));
    b->members = lj_arena_alloc(g->scratch, (nodes + 1) * sizeof(uint32_t));
    b->outputs = lj_arena_alloc(g->scratch, g->graph->value_count * sizeof(lj_value));
    b->units->units = lj_arena_alloc(&b->units->arena, (g->group_count + nodes + 1) * sizeof(lj_unit));
    if (!b->member_start || !b->members || !b->outputs || !b->units->units) return lj_fail(LJ_ERR_NOMEM, "fuse");
    for (size_t n = 0; n < nodes; n++)
        if (g->group[n] != LJ_NO_GROUP) b->member_start[g->group[n] + 1]++;
    for (uint32_t i = 0; i < g->group_count; i++) b->member_start[i + 1] += b->member_start[i];
    uint32_t *at = lj_arena_alloc(g->scratch, (g->group_count + 1) * sizeof(uint32_t));
    if (!at) return lj_fail(LJ_ERR_NOMEM, "fuse");
    for (uint32_t n = 0; n < nodes; n++)
        if (g->group[n] != LJ_NO_GROUP) b->members[b->member_start[g->group[n]] + at[g->group[n]]++] = n;
    return LJ_OK;
}

static lj_status group_unit(unit_builder *b, uint32_t group, uint32_t *refused)
{
    lj_grouping *g = b->g;
    const uint32_t *members = b->members + b->member_start[group];
    uint32_t count = b->member_start[group + 1] - b->member_start[group];
    lj_unit *unit = &b->units->units[b->units->count];
    if (count == 0) return LJ_OK;
    if (g->part[members[0]] == LJ_PART_LIBRARY) {
        LJ_TRY(library_unit(g->graph, &b->units->arena, members[0], unit));
        b->units->count++;
        return LJ_OK;
    }
    uint32_t outputs = group_outputs(g, members, count, b->outputs);
    if (outputs == 0) return LJ_OK; /* all of it was recomputed elsewhere */
    *unit = (lj_unit){.node = members[count - 1]};
    LJ_TRY(extract_kernel(g, b->units, group, b->outputs, outputs, unit));
    b->units->count++;
    lj_status accepted = g->options->accepts ? g->options->accepts(unit->kernel) : LJ_OK;
    if (accepted == LJ_ERR_UNSUPPORTED) *refused = group;
    return accepted == LJ_ERR_UNSUPPORTED ? LJ_OK : accepted;
}

/* Inlined values that somebody reads as a buffer become kernels of one value. */
static lj_status inline_units(unit_builder *b)
{
    lj_grouping *g = b->g;
    for (uint32_t n = 0; n < g->graph->node_count; n++) {
        lj_value v = g->graph->nodes[n].output;
        if (g->part[n] != LJ_PART_INLINE || !g->needed[v]) continue;
        lj_unit *unit = &b->units->units[b->units->count];
        *unit = (lj_unit){.node = n};
        LJ_TRY(extract_kernel(g, b->units, LJ_NO_GROUP, &v, 1, unit));
        b->units->count++;
        lj_status accepted = g->options->accepts ? g->options->accepts(unit->kernel) : LJ_OK;
        if (accepted != LJ_OK) return lj_fail_in(accepted, "%s", lj_node_describe(g->graph, &g->graph->nodes[n]));
    }
    return LJ_OK;
}

/* Kahn's order; among the units that are ready the one whose last node stands first in the graph. */
typedef struct {
    const lj_grouping *g;
    lj_units *units;
    uint32_t *maker; /* by value: unit + 1, 0 = input */
    uint32_t *waits; /* by unit: makers not yet run */
    uint32_t *heap, heap_count;
} ordering;

static bool before(const ordering *o, uint32_t a, uint32_t b)
{
    return o->units->units[a].node < o->units->units[b].node;
}

static void heap_push(ordering *o, uint32_t unit)
{
    uint32_t at = o->heap_count++;
    for (; at > 0 && before(o, unit, o->heap[(at - 1) / 2]); at = (at - 1) / 2) o->heap[at] = o->heap[(at - 1) / 2];
    o->heap[at] = unit;
}

static uint32_t heap_pop(ordering *o)
{
    uint32_t top = o->heap[0], last = o->heap[--o->heap_count], at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= o->heap_count) break;
        if (child + 1 < o->heap_count && before(o, o->heap[child + 1], o->heap[child])) child++;
        if (!before(o, o->heap[child], last)) break;
        o->heap[at] = o->heap[child];
        at = child;
    }
    o->heap[at] = last;
    return top;
}

/* The unit whose buffer an operand of a unit reads, + 1; 0 for the caller's inputs. */
static uint32_t operand_maker(const ordering *o, const lj_unit *unit, uint32_t index)
{
    const lj_graph *graph = o->g->graph;
    lj_value v = unit->inputs[index];
    int64_t head;
    if (!v) return 0;
    if (!unit->kernel && is_attention(graph->nodes[unit->node].op) && index < 3) v = lj_attention_operand(graph, v, &head);
    return o->maker[lj_storage_value(graph, v)];
}

static lj_status order_units(ordering *o)
{
    lj_units *units = o->units;
    lj_arena *scratch = o->g->scratch;
    size_t n = units->count;
    lj_unit *sorted = lj_arena_alloc(&units->arena, (n + 1) * sizeof *sorted);
    uint32_t *start = lj_arena_alloc(scratch, (n + 2) * sizeof *start), *at = lj_arena_alloc(scratch, (n + 1) * sizeof *at);
    o->maker = lj_arena_alloc(scratch, o->g->graph->value_count * sizeof(uint32_t));
    o->waits = lj_arena_alloc(scratch, (n + 1) * sizeof(uint32_t));
    o->heap = lj_arena_alloc(scratch, (n + 1) * sizeof(uint32_t));
    if (!sorted || !start || !at || !o->maker || !o->waits || !o->heap) return lj_fail(LJ_ERR_NOMEM, "fuse");
    for (uint32_t u = 0; u < n; u++)
        for (uint32_t k = 0; k < units->units[u].output_count; k++) o->maker[units->units[u].outputs[k]] = u + 1;
    for (uint32_t u = 0; u < n; u++)
        for (uint32_t k = 0; k < units->units[u].input_count; k++) {
            uint32_t maker = operand_maker(o, &units->units[u], k);
            if (maker) start[maker]++, o->waits[u]++;
        }
    for (size_t u = 0; u < n; u++) start[u + 1] += start[u];
    uint32_t *readers = lj_arena_alloc(scratch, (start[n] + 1u) * sizeof *readers);
    if (!readers) return lj_fail(LJ_ERR_NOMEM, "fuse");
    for (uint32_t u = 0; u < n; u++) {
        for (uint32_t k = 0; k < units->units[u].input_count; k++) {
            uint32_t maker = operand_maker(o, &units->units[u], k);
            if (maker) readers[start[maker - 1] + at[maker - 1]++] = u;
        }
        if (o->waits[u] == 0) heap_push(o, u);
    }
    size_t done = 0;
    while (o->heap_count) {
        uint32_t u = heap_pop(o);
        sorted[done++] = units->units[u];
        for (uint32_t r = start[u]; r < start[u + 1]; r++)
            if (--o->waits[readers[r]] == 0) heap_push(o, readers[r]);
    }
    if (done != n) return lj_fail(LJ_ERR_INVALID, "fuse: the groups depend on each other in a circle");
    units->units = sorted;
    return LJ_OK;
}

lj_status lj_grouping_extract(lj_grouping *g, lj_units *units, uint32_t *refused)
{
    unit_builder b = {.g = g, .units = units};
    units->count = 0;
    *refused = LJ_NO_GROUP;
    LJ_TRY(builder_init(&b));
    for (uint32_t group = 0; group < g->group_count && *refused == LJ_NO_GROUP; group++) LJ_TRY(group_unit(&b, group, refused));
    if (*refused != LJ_NO_GROUP) {
        for (size_t i = 0; i < units->count; i++) lj_graph_destroy(units->units[i].kernel);
        units->count = 0;
        return LJ_OK;
    }
    LJ_TRY(inline_units(&b));
    ordering o = {.g = g, .units = units};
    return order_units(&o);
}
