/* Life of a graph, the one way a node is made, and copying while rewriting. */
#include "ir/ir.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lj_status lj_graph_create(lj_graph **out)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("graph", sizeof(lj_graph), &memory));
    lj_graph *graph = memory;
    lj_arena_init(&graph->arena, "graph");
    graph->gradient_dtype = LJ_F32;
    graph->scope = graph->file = "";
    graph->value_count = 1; /* value 0 is "none" */
    *out = graph;
    return LJ_OK;
}

void lj_graph_destroy(lj_graph *graph)
{
    if (!graph) return;
    lj_free(graph->nodes);
    lj_free(graph->values);
    lj_free(graph->results);
    lj_free(graph->calls);
    lj_arena_release(&graph->arena);
    lj_free(graph);
}

lj_value lj_graph_fail(lj_graph *graph, lj_status status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lj_fail(status, "%s", text);
    if (graph->status == LJ_OK) {
        graph->status = status;
        graph->message = lj_arena_strdup(&graph->arena, text);
    }
    return 0;
}

lj_status lj_graph_status(const lj_graph *graph)
{
    if (graph->status != LJ_OK) lj_error_set(graph->message ? graph->message : "graph: memory is short");
    return graph->status;
}

lj_graph *lj_graph_at(lj_graph *graph, const char *file, int line)
{
    graph->file = file, graph->line = line;
    return graph;
}

/* What the text form can hold between quotes. */
static bool name_good(const char *name)
{
    return *name && !strpbrk(name, "\"\n") && strlen(name) <= LJ_MAX_NAME;
}

void lj_graph_scope_push(lj_graph *graph, const char *format, ...)
{
    char name[128];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(name, sizeof name, format, args);
    va_end(args);
    char *scope = lj_arena_printf(&graph->arena, "%s%s%s", graph->scope, *graph->scope ? "." : "", name);
    if (!scope)
        lj_graph_fail(graph, LJ_ERR_NOMEM, "scope %s", name);
    else if (length < 0 || (size_t)length >= sizeof name || !name_good(scope))
        lj_graph_fail(graph, LJ_ERR_INVALID, "scope '%s': names hold no quotes, no line ends, and at most %d characters", name, LJ_MAX_NAME);
    else if (graph->scope_depth == LJ_MAX_SCOPES)
        lj_graph_fail(graph, LJ_ERR_LIMIT, "scope %s: more than %d levels", name, LJ_MAX_SCOPES);
    else
        graph->outer_scopes[graph->scope_depth++] = graph->scope, graph->scope = scope;
}

void lj_graph_scope_pop(lj_graph *graph)
{
    if (graph->scope_depth > 0) graph->scope = graph->outer_scopes[--graph->scope_depth];
}

lj_status lj_graph_gradient_dtype(lj_graph *graph, lj_dtype dtype)
{
    if ((unsigned)dtype >= LJ_DTYPE_COUNT || !lj_dtype_rows[dtype].is_float || lj_dtype_bytes(dtype) < 2)
        return lj_fail(LJ_ERR_INVALID, "gradient dtype must be one of f16, bf16, f32, f64");
    graph->gradient_dtype = dtype;
    return LJ_OK;
}

static bool symbol_good(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return length > 0 && length <= LJ_MAX_NAME && !name[length] && (*name < '0' || *name > '9');
}

int lj_graph_has_symbol(const lj_graph *graph, const char *name)
{
    for (int i = 0; i < graph->symbol_count; i++)
        if (strcmp(graph->symbols[i], name) == 0) return 1;
    return 0;
}

lj_dim lj_dim_symbol(lj_graph *graph, const char *name)
{
    lj_dim dim = {.factor = 1};
    if (!symbol_good(name)) return lj_graph_fail(graph, LJ_ERR_INVALID, "symbol '%s': letters, digits and _ only, no digit first", name), dim;
    int index = 0;
    while (index < graph->symbol_count && strcmp(graph->symbols[index], name) != 0) index++;
    if (index == LJ_MAX_SYMBOLS) {
        lj_graph_fail(graph, LJ_ERR_LIMIT, "symbol %s: a graph has at most %d size symbols", name, LJ_MAX_SYMBOLS);
        return dim;
    }
    if (index == graph->symbol_count) {
        char *copy = lj_arena_strdup(&graph->arena, name);
        if (!copy) return lj_graph_fail(graph, LJ_ERR_NOMEM, "symbol %s", name), dim;
        graph->symbols[graph->symbol_count++] = copy;
    }
    dim.power[index] = 1;
    return dim;
}

/* Grows an array of `item` bytes to hold one more than `count`. */
static bool grow(lj_graph *graph, void **array, size_t *capacity, size_t count, size_t item)
{
    if (count < *capacity) return true;
    size_t wanted = *capacity ? *capacity * 2 : 64;
    while (wanted <= count) wanted *= 2;
    void *fresh;
    if (lj_alloc_zero("graph", wanted * item, &fresh) != LJ_OK) return lj_graph_fail(graph, LJ_ERR_NOMEM, "graph of %zu entries", wanted), false;
    if (*array) memcpy(fresh, *array, *capacity * item);
    lj_free(*array);
    *array = fresh, *capacity = wanted;
    return true;
}

static bool arity_check(lj_graph *graph, lj_op op, const lj_value *inputs, int count)
{
    const lj_op_row *row = &lj_op_rows[op];
    if (graph->status != LJ_OK) return false;
    if (count < row->inputs_min || (row->inputs_max != LJ_ANY_COUNT && count > row->inputs_max))
        return lj_graph_fail(graph, LJ_ERR_INVALID, "%s takes %d to %d operands, got %d (%s:%d)", row->name, row->inputs_min, row->inputs_max,
                             count, graph->file, graph->line), false;
    for (int i = 0; i < count; i++) {
        bool optional = i >= row->inputs_min && row->inputs_max != LJ_ANY_COUNT;
        if ((inputs[i] == 0 && !optional) || inputs[i] >= graph->value_count)
            return lj_graph_fail(graph, LJ_ERR_INVALID, "%s: operand %d is no value of this graph (%s:%d)", row->name, i, graph->file, graph->line),
                   false;
    }
    return true;
}

static bool types_allowed(lj_graph *graph, const lj_node *node, const lj_type *declared)
{
    const lj_op_row *row = &lj_op_rows[node->op];
    if (node->op == LJ_OP_call) return true;
    const lj_type *main_type = node->input_count ? lj_type_get(graph, node->inputs[node->op == LJ_OP_where ? 1 : 0]) : declared;
    if (!main_type) return lj_graph_fail(graph, LJ_ERR_INVALID, "%s needs a declared type", row->name), false;
    if (row->types >> main_type->dtype & 1) return true;
    return lj_graph_fail(graph, LJ_ERR_INVALID, "%s does not take %s (%s:%d)", row->name, lj_dtype_name(main_type->dtype), graph->file, graph->line),
           false;
}

static lj_value *copy_values(lj_graph *graph, const lj_value *values, int count)
{
    lj_value *copy = lj_arena_alloc(&graph->arena, sizeof *copy * (size_t)(count ? count : 1));
    if (copy && count) memcpy(copy, values, sizeof *copy * (size_t)count);
    return copy;
}

/* Adds node and values whose types are known to be right. */
static lj_value commit(lj_graph *graph, const lj_node *node, const lj_type *types, int count)
{
    if (!grow(graph, (void **)&graph->nodes, &graph->node_capacity, graph->node_count, sizeof(lj_node))) return 0;
    if (!grow(graph, (void **)&graph->values, &graph->value_capacity, graph->value_count + (size_t)count, sizeof(lj_value_row))) return 0;
    lj_node *added = &graph->nodes[graph->node_count];
    *added = *node;
    added->output = (lj_value)graph->value_count;
    added->output_count = (uint16_t)count;
    for (int k = 0; k < count; k++)
        graph->values[graph->value_count++] = (lj_value_row){types[k], (uint32_t)graph->node_count, (uint16_t)k};
    graph->node_count++;
    return added->output;
}

lj_value lj_node_append(lj_graph *graph, lj_op op, const lj_value *inputs, int count, const lj_attributes *attributes,
                        const lj_type *declared, int declared_count)
{
    if (!arity_check(graph, op, inputs, count)) return 0;
    lj_node node = {.op = op, .input_count = (uint16_t)count, .name = graph->scope, .file = graph->file, .line = graph->line};
    node.inputs = copy_values(graph, inputs, count);
    if (!node.inputs) return lj_graph_fail(graph, LJ_ERR_NOMEM, "%s node", lj_op_rows[op].name);
    if (attributes) node.attributes = *attributes;
    if (node.attributes.s && !(node.attributes.s = lj_arena_strdup(&graph->arena, node.attributes.s)))
        return lj_graph_fail(graph, LJ_ERR_NOMEM, "%s node", lj_op_rows[op].name);
    if (!types_allowed(graph, &node, declared)) return 0;
    if (op == LJ_OP_call) return commit(graph, &node, declared, declared_count);
    lj_infer infer = {.graph = graph, .node = &node, .declared = declared};
    lj_status status = lj_op_rows[op].infer(&infer);
    if (status != LJ_OK) {
        char reason[512];
        snprintf(reason, sizeof reason, "%s", lj_error_message());
        return lj_graph_fail(graph, status, "%s%s%s (%s:%d): %s", graph->scope, *graph->scope ? "/" : "", lj_op_rows[op].name, graph->file,
                             graph->line, reason);
    }
    return commit(graph, &node, infer.outputs, lj_op_rows[op].outputs);
}

static lj_status result_add(lj_graph *graph, lj_result result)
{
    if (!grow(graph, (void **)&graph->results, &graph->result_capacity, graph->result_count, sizeof(lj_result))) return graph->status;
    graph->results[graph->result_count++] = result;
    return LJ_OK;
}

lj_value lj_graph_find(const lj_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == LJ_OP_input && strcmp(graph->nodes[i].name, name) == 0) return graph->nodes[i].output;
    for (size_t i = 0; i < graph->result_count; i++)
        if (!graph->results[i].state && strcmp(graph->results[i].name, name) == 0) return graph->results[i].value;
    return 0;
}

lj_value lj_input(lj_graph *graph, const char *name, lj_type type, lj_role role)
{
    if (!name_good(name)) return lj_graph_fail(graph, LJ_ERR_INVALID, "input: bad name '%s'", name);
    if (lj_graph_find(graph, name)) return lj_graph_fail(graph, LJ_ERR_INVALID, "input '%s' exists already", name);
    lj_value value = lj_node_append(graph, LJ_OP_input, NULL, 0, &(lj_attributes){.i = {role}}, &type, 1);
    char *copy = value ? lj_arena_strdup(&graph->arena, name) : NULL;
    if (!copy) return value ? lj_graph_fail(graph, LJ_ERR_NOMEM, "input %s", name) : 0;
    lj_producer(graph, value)->name = copy;
    return value;
}

lj_status lj_graph_output(lj_graph *graph, const char *name, lj_value value)
{
    LJ_TRY(lj_graph_status(graph));
    if (!value || value >= graph->value_count) return lj_graph_fail(graph, LJ_ERR_INVALID, "output '%s' is no value of this graph", name), graph->status;
    if (!name_good(name) || lj_graph_find(graph, name))
        return lj_graph_fail(graph, LJ_ERR_INVALID, "output '%s': bad name, or it exists already", name), graph->status;
    char *copy = lj_arena_strdup(&graph->arena, name);
    if (!copy) return lj_graph_fail(graph, LJ_ERR_NOMEM, "output %s", name), graph->status;
    return result_add(graph, (lj_result){copy, value, 0});
}

lj_status lj_graph_assign(lj_graph *graph, lj_value state, lj_value value)
{
    LJ_TRY(lj_graph_status(graph));
    if (!lj_is(graph, state, LJ_OP_input) || lj_producer(graph, state)->attributes.i[0] != LJ_ROLE_STATE)
        return lj_graph_fail(graph, LJ_ERR_INVALID, "assign: the target must be an input with the state role"), graph->status;
    if (!value || value >= graph->value_count || !lj_type_equal(lj_type_get(graph, state), lj_type_get(graph, value)))
        return lj_graph_fail(graph, LJ_ERR_INVALID, "assign to '%s': types differ", lj_producer(graph, state)->name), graph->status;
    for (size_t i = 0; i < graph->result_count; i++)
        if (graph->results[i].state == state)
            return lj_graph_fail(graph, LJ_ERR_INVALID, "assign: '%s' is assigned twice", lj_producer(graph, state)->name), graph->status;
    return result_add(graph, (lj_result){"", value, state});
}

lj_type lj_value_type(const lj_graph *graph, lj_value value)
{
    return value && value < graph->value_count ? graph->values[value].type : (lj_type){0};
}

uint32_t *lj_use_counts(const lj_graph *graph, lj_arena *arena)
{
    uint32_t *uses = lj_arena_alloc(arena, sizeof *uses * graph->value_count);
    if (!uses) return NULL;
    for (size_t n = 0; n < graph->node_count; n++)
        for (int i = 0; !graph->nodes[n].dead && i < graph->nodes[n].input_count; i++) uses[graph->nodes[n].inputs[i]]++;
    for (size_t i = 0; i < graph->result_count; i++) uses[graph->results[i].value]++;
    return uses;
}

const char *lj_node_describe(const lj_graph *graph, const lj_node *node)
{
    static _Thread_local char text[256];
    (void)graph;
    const char *slash = strrchr(node->file, '/');
    snprintf(text, sizeof text, "%s%s%s %%%u (%s:%d)", node->name, *node->name ? "/" : "", lj_op_rows[node->op].name, node->output,
             slash ? slash + 1 : node->file, node->line);
    return text;
}

lj_status lj_graph_like(lj_graph *graph, const lj_graph *like)
{
    graph->gradient_dtype = like->gradient_dtype;
    for (int i = 0; i < like->symbol_count; i++) lj_dim_symbol(graph, like->symbols[i]);
    for (size_t i = 0; i < like->call_count; i++) {
        if (!grow(graph, (void **)&graph->calls, &graph->call_capacity, graph->call_count, sizeof(lj_call_row))) break;
        lj_call_row row = like->calls[i];
        row.name = lj_arena_strdup(&graph->arena, row.name);
        if (!row.name) return lj_fail(LJ_ERR_NOMEM, "graph copy");
        graph->calls[graph->call_count++] = row;
    }
    return lj_graph_status(graph);
}

/* Rows are kept by name: the same name must mean the same functions. */
static lj_status call_register(lj_graph *graph, const lj_call_row *row)
{
    for (size_t i = 0; i < graph->call_count; i++) {
        lj_call_row *known = &graph->calls[i];
        if (strcmp(known->name, row->name) != 0) continue;
        if (known->forward && (known->forward != row->forward || known->backward != row->backward || known->user != row->user))
            return lj_graph_fail(graph, LJ_ERR_INVALID, "call '%s' is used with two different functions", row->name), graph->status;
        known->forward = row->forward, known->backward = row->backward, known->user = row->user;
        return LJ_OK;
    }
    if (!grow(graph, (void **)&graph->calls, &graph->call_capacity, graph->call_count, sizeof(lj_call_row))) return graph->status;
    lj_call_row copy = *row;
    copy.name = lj_arena_strdup(&graph->arena, row->name);
    if (!copy.name) return lj_graph_fail(graph, LJ_ERR_NOMEM, "call %s", row->name), graph->status;
    graph->calls[graph->call_count++] = copy;
    return LJ_OK;
}

lj_status lj_call(lj_graph *graph, const lj_call_row *row, const lj_value *inputs, int input_count, const lj_type *types, int output_count,
                  lj_value *outputs)
{
    LJ_TRY(lj_graph_status(graph));
    if (!row->name || !name_good(row->name) || output_count < 1 || output_count > 64 || input_count < 0 || input_count > 64)
        return lj_graph_fail(graph, LJ_ERR_INVALID, "call: needs a name without quotes and 1 to 64 outputs"), graph->status;
    LJ_TRY(call_register(graph, row));
    lj_value first = lj_node_append(graph, LJ_OP_call, inputs, input_count, &(lj_attributes){.s = row->name}, types, output_count);
    if (!first) return graph->status;
    for (int k = 0; k < output_count; k++) outputs[k] = lj_output_of(first, k);
    return LJ_OK;
}

lj_status lj_graph_call_bind(lj_graph *graph, const lj_call_row *row)
{
    for (size_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == LJ_OP_call && strcmp(graph->nodes[n].attributes.s, row->name) == 0) return call_register(graph, row);
    return lj_fail(LJ_ERR_NOT_FOUND, "no call node is named '%s'", row->name);
}

/* -- rewriting ------------------------------------------------------------------------------------------------------------ */

lj_status lj_rewrite_begin(lj_rewrite *rewrite, const lj_graph *from)
{
    void *map;
    lj_graph *to;
    LJ_TRY(lj_alloc_zero("graph", sizeof(lj_value) * from->value_count, &map));
    lj_status status = lj_graph_create(&to);
    if (status == LJ_OK && (status = lj_graph_like(to, from)) != LJ_OK) lj_graph_destroy(to);
    if (status != LJ_OK) {
        lj_free(map);
        return status;
    }
    *rewrite = (lj_rewrite){from, to, map};
    return LJ_OK;
}

lj_status lj_rewrite_copy(lj_rewrite *rewrite, const lj_node *node)
{
    lj_value few[16], *inputs = few;
    lj_type types[LJ_MAX_OUTPUTS], *declared = types;
    lj_graph *to = rewrite->to;
    if (node->input_count > 16) inputs = lj_arena_alloc(&to->arena, sizeof *inputs * node->input_count);
    if (node->output_count > LJ_MAX_OUTPUTS) declared = lj_arena_alloc(&to->arena, sizeof *declared * node->output_count);
    if (!inputs || !declared) return lj_fail(LJ_ERR_NOMEM, "graph copy");
    for (int i = 0; i < node->input_count; i++) inputs[i] = rewrite->map[node->inputs[i]];
    for (int k = 0; k < node->output_count; k++) declared[k] = rewrite->from->values[node->output + (lj_value)k].type;
    lj_graph_at(to, node->file, node->line);
    lj_value first = lj_node_append(to, node->op, inputs, node->input_count, &node->attributes, declared, node->output_count);
    if (!first) return lj_graph_status(to);
    char *name = lj_arena_strdup(&to->arena, node->name);
    if (!name) return lj_fail(LJ_ERR_NOMEM, "graph copy");
    lj_producer(to, first)->name = name;
    for (int k = 0; k < node->output_count; k++) rewrite->map[node->output + (lj_value)k] = lj_output_of(first, k);
    return LJ_OK;
}

static lj_status results_carry(lj_rewrite *rewrite)
{
    const lj_graph *from = rewrite->from;
    for (size_t i = 0; i < from->result_count; i++) {
        lj_result result = from->results[i];
        result.value = rewrite->map[result.value];
        if (result.state) result.state = rewrite->map[result.state];
        result.name = lj_arena_strdup(&rewrite->to->arena, result.name);
        if (!result.name) return lj_fail(LJ_ERR_NOMEM, "graph copy");
        LJ_TRY(result_add(rewrite->to, result));
    }
    return lj_graph_status(rewrite->to);
}

lj_status lj_rewrite_end(lj_rewrite *rewrite, lj_graph **graph, lj_status status)
{
    if (status == LJ_OK) status = lj_graph_status(rewrite->to);
    if (status == LJ_OK) status = results_carry(rewrite);
    lj_free(rewrite->map);
    if (status != LJ_OK) {
        lj_graph_destroy(rewrite->to);
        return status;
    }
    lj_graph_destroy(*graph);
    *graph = rewrite->to;
    return LJ_OK;
}
