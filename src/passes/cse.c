/* Common subexpressions: nodes of the same op, operands, attributes and types become one. Calls, collectives and inputs are
 * never merged. */
#include "passes/passes.h"

#include <string.h>

typedef struct {
    size_t capacity; /* power of two */
    lj_value *slots; /* first results in the new graph; 0 = free */
} value_table;

static bool mergeable(const lj_node *node)
{
    lj_op_class class = lj_op_rows[node->op].class;
    return node->op != LJ_OP_input && class != LJ_CLASS_CALL && class != LJ_CLASS_COLLECTIVE;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t node_hash(const lj_graph *graph, const lj_node *node)
{
    uint64_t hash = mix(1, node->op), bits;
    for (int i = 0; i < node->input_count; i++) hash = mix(hash, node->inputs[i]);
    for (int i = 0; i < LJ_ATTR_INTS; i++) hash = mix(hash, (uint64_t)node->attributes.i[i]);
    for (int i = 0; i < LJ_ATTR_FLOATS; i++) memcpy(&bits, &node->attributes.f[i], 8), hash = mix(hash, bits);
    return mix(hash, (uint64_t)lj_type_get(graph, node->output)->dtype);
}

static bool node_equal(const lj_graph *graph, const lj_node *a, const lj_node *b)
{
    if (a->op != b->op || a->input_count != b->input_count || a->output_count != b->output_count) return false;
    if (a->input_count && memcmp(a->inputs, b->inputs, sizeof *a->inputs * a->input_count) != 0) return false;
    if (memcmp(a->attributes.i, b->attributes.i, sizeof a->attributes.i) != 0 || memcmp(a->attributes.f, b->attributes.f, sizeof a->attributes.f) != 0)
        return false;
    for (int k = 0; k < a->output_count; k++)
        if (!lj_type_equal(lj_type_get(graph, a->output + (lj_value)k), lj_type_get(graph, b->output + (lj_value)k))) return false;
    return true;
}

/* The node that equals the newest one of `to`, or the newest itself, which is then remembered. */
static lj_value find_or_add(value_table *table, const lj_graph *to, lj_value first)
{
    const lj_node *node = lj_producer(to, first);
    size_t at = node_hash(to, node) & (table->capacity - 1);
    while (table->slots[at]) {
        if (node_equal(to, lj_producer(to, table->slots[at]), node)) return table->slots[at];
        at = (at + 1) & (table->capacity - 1);
    }
    return table->slots[at] = first;
}

static lj_status copy_merged(lj_rewrite *rewrite, const lj_node *node, value_table *table)
{
    LJ_TRY(lj_rewrite_copy(rewrite, node));
    if (!mergeable(node)) return LJ_OK;
    lj_value first = find_or_add(table, rewrite->to, rewrite->map[node->output]);
    for (int k = 0; k < node->output_count; k++) rewrite->map[node->output + (lj_value)k] = lj_output_of(first, k);
    return LJ_OK; /* the spare copy has no user and goes with the next dce */
}

lj_status lj_pass_cse(lj_graph **graph, const lj_pass_context *context)
{
    (void)context;
    const lj_graph *from = *graph;
    value_table table = {.capacity = 64};
    void *memory;
    lj_rewrite rewrite;
    while (table.capacity < from->node_count * 2) table.capacity *= 2;
    LJ_TRY(lj_alloc_zero("passes", table.capacity * sizeof(lj_value), &memory));
    table.slots = memory;
    lj_status status = lj_rewrite_begin(&rewrite, from);
    if (status == LJ_OK) {
        for (size_t n = 0; n < from->node_count && status == LJ_OK; n++) status = copy_merged(&rewrite, &from->nodes[n], &table);
        status = lj_rewrite_end(&rewrite, graph, status);
    }
    lj_free(memory);
    return status;
}
