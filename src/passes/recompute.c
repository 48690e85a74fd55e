#include "passes/recompute.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* -- the choice as text -------------------------------------------------------------------------------------------------------- */

static const char *const level_names[LJ_RECOMPUTE_LEVELS] = {"none", "cheap", "attention", "full"};

static void all_layers(lj_recompute *r, int layers, lj_recompute_level level)
{
    for (int i = 0; i < layers; i++) r->level[i] = (uint8_t)level;
}

static lj_status number_read(const char *text, const char **end, int low, int high, int *out)
{
    char *stop;
    long value = strtol(text, &stop, 10);
    if (stop == text || value < low || value > high) return lj_fail(LJ_ERR_INVALID, "recompute: '%.20s' is no number of %d .. %d", text, low, high);
    *end = stop, *out = (int)value;
    return LJ_OK;
}

static lj_status list_read(const char *text, int layers, lj_recompute *r)
{
    while (*text) {
        int layer = 0;
        LJ_TRY(number_read(text, &text, 0, layers - 1, &layer));
        r->level[layer] = LJ_RECOMPUTE_LAYER;
        if (*text == ',') text++;
        else if (*text) return lj_fail(LJ_ERR_INVALID, "recompute: expected a comma at '%.20s'", text);
    }
    return LJ_OK;
}

static lj_status digits_read(const char *text, int layers, lj_recompute *r)
{
    if ((int)strlen(text) != layers) return lj_fail(LJ_ERR_INVALID, "recompute: %zu levels for %d layers", strlen(text), layers);
    for (int i = 0; i < layers; i++) {
        if (text[i] < '0' || text[i] >= '0' + LJ_RECOMPUTE_LEVELS) return lj_fail(LJ_ERR_INVALID, "recompute: level '%c' is none of 0 .. 3", text[i]);
        r->level[i] = (uint8_t)(text[i] - '0');
    }
    return LJ_OK;
}

lj_status lj_recompute_parse(const char *text, int layers, lj_recompute *out)
{
    lj_recompute r = {.group = 1};
    const char *rest = "";
    int number = 0;
    if (layers > LJ_RECOMPUTE_MAX_LAYERS) return lj_fail(LJ_ERR_LIMIT, "recompute: %d layers, at most %d", layers, LJ_RECOMPUTE_MAX_LAYERS);
    lj_status status = LJ_OK;
    for (int level = 0; level < LJ_RECOMPUTE_LEVELS; level++)
        if (strcmp(text, level_names[level]) == 0) {
            all_layers(&r, layers, (lj_recompute_level)level);
            *out = r;
            return LJ_OK;
        }
    if (strncmp(text, "layers:", 7) == 0) {
        status = number_read(text + 7, &rest, 0, layers, &number);
        if (status == LJ_OK) all_layers(&r, number, LJ_RECOMPUTE_LAYER);
    } else if (strncmp(text, "groups:", 7) == 0) {
        status = number_read(text + 7, &rest, 1, layers > 0 ? layers : 1, &number);
        if (status == LJ_OK) all_layers(&r, layers, LJ_RECOMPUTE_LAYER), r.group = number;
    } else if (strncmp(text, "list:", 5) == 0) {
        status = list_read(text + 5, layers, &r);
    } else if (strncmp(text, "levels:", 7) == 0) {
        status = digits_read(text + 7, layers, &r);
    } else {
        const char *near = lj_nearest_name(text, level_names, LJ_RECOMPUTE_LEVELS);
        return lj_fail(LJ_ERR_INVALID, "recompute: '%s' is none of none, cheap, attention, full, layers:N, groups:N, list:A,B,...%s%s%s", text,
                       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    if (status == LJ_OK && *rest) status = lj_fail(LJ_ERR_INVALID, "recompute: unexpected '%.20s'", rest);
    if (status == LJ_OK) *out = r;
    return status;
}

/* -- where a node stands --------------------------------------------------------------------------------------------------------- */

/* Start of component `word` in a scope like "layers.3.grad", or NULL. */
static const char *component(const char *scope, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = scope; (at = strstr(at, word)); at++) {
        bool starts = at == scope || at[-1] == '.', ends = at[length] == 0 || at[length] == '.';
        if (starts && ends) return at;
    }
    return NULL;
}

bool lj_node_is_backward(const lj_node *node)
{
    return node->op != LJ_OP_input && component(node->name, "grad");
}

/* Layer number of a node, -1 outside the layers. */
static int layer_of(const lj_node *node)
{
    const char *at = node->op == LJ_OP_input ? NULL : component(node->name, "layers");
    return at && at[6] == '.' && isdigit((unsigned char)at[7]) ? atoi(at + 7) : -1;
}

int lj_graph_layers(const lj_graph *graph)
{
    int most = -1;
    for (size_t n = 0; n < graph->node_count; n++) {
        int layer = layer_of(&graph->nodes[n]);
        if (layer > most) most = layer;
    }
    return most + 1;
}

/* -- what is not kept -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    lj_rewrite rewrite;
    const lj_recompute *choice;
    bool *dropped;   /* by value of the old graph: not kept for the backward pass */
    lj_value *copy;  /* by value: its second computation in the new graph, or 0 */
} recomputation;

static bool runs_once(const lj_node *node)
{
    lj_op_class class = lj_op_rows[node->op].class;
    return class == LJ_CLASS_CALL || class == LJ_CLASS_COLLECTIVE || node->op == LJ_OP_input || node->op == LJ_OP_head_loss_train ||
           node->op == LJ_OP_update_rows;
}

static bool level_drops(lj_recompute_level level, lj_op op)
{
    switch (level) {
    case LJ_RECOMPUTE_NONE: return false;
    case LJ_RECOMPUTE_CHEAP: return op == LJ_OP_rms_norm || op == LJ_OP_swiglu || op == LJ_OP_dropout;
    case LJ_RECOMPUTE_ATTENTION:
        return op == LJ_OP_rms_norm || op == LJ_OP_swiglu || op == LJ_OP_dropout || op == LJ_OP_attention;
    default: return true;
    }
}

/* The layer's result is the input of the next group: it is what the next group is rebuilt from, so it stays. */
static bool ends_group(const recomputation *r, int layer)
{
    return layer % r->choice->group == r->choice->group - 1;
}

/* Is `value` read by a node of a later layer (the residual stream), or by what follows the layers? */
static bool leaves_layer(const lj_graph *graph, const lj_node *node, int layer)
{
    for (const lj_node *reader = node + 1; reader < graph->nodes + graph->node_count; reader++) {
        if (lj_node_is_backward(reader) || layer_of(reader) == layer) continue;
        for (int i = 0; i < reader->input_count; i++)
            if (graph->values[reader->inputs[i]].node == (uint32_t)(node - graph->nodes) && reader->inputs[i]) return true;
    }
    return false;
}

static void mark_dropped(recomputation *r)
{
    const lj_graph *g = r->rewrite.from;
    for (size_t n = 0; n < g->node_count; n++) {
        const lj_node *node = &g->nodes[n];
        int layer = layer_of(node);
        if (layer < 0 || layer >= LJ_RECOMPUTE_MAX_LAYERS || lj_node_is_backward(node) || runs_once(node)) continue;
        lj_recompute_level level = (lj_recompute_level)r->choice->level[layer];
        bool drop = level_drops(level, node->op);
        if (lj_op_rows[node->op].class == LJ_CLASS_VIEW) drop |= r->dropped[node->inputs[0]]; /* a view goes with what it shows */
        if (drop && level == LJ_RECOMPUTE_LAYER && ends_group(r, layer)) drop = !leaves_layer(g, node, layer);
        for (int k = 0; k < node->output_count; k++) r->dropped[node->output + (lj_value)k] = drop;
        /* a norm's 1/rms and attention's log-sum-exp are a number a row: kept, so that their own gradients need no second pass */
        bool statistic = node->op == LJ_OP_rms_norm || node->op == LJ_OP_attention;
        if (drop && statistic && level < LJ_RECOMPUTE_LAYER) r->dropped[node->output + 1] = false;
    }
}

/* -- rewriting ------------------------------------------------------------------------------------------------------------------------ */

/* The value that a backward reader gets: a second computation where the first is not kept. */
static lj_status backward_value(recomputation *r, lj_value v, lj_value *out)
{
    const lj_graph *from = r->rewrite.from;
    if (!v || !r->dropped[v]) return *out = v ? r->rewrite.map[v] : 0, LJ_OK;
    if (r->copy[v]) return *out = r->copy[v], LJ_OK;
    const lj_node *node = lj_producer(from, v);
    lj_value few[16], *inputs = few;
    lj_graph *to = r->rewrite.to;
    if (node->input_count > 16 && !(inputs = lj_arena_alloc(&to->arena, sizeof *inputs * node->input_count))) return lj_fail(LJ_ERR_NOMEM, "recompute");
    for (int i = 0; i < node->input_count; i++) LJ_TRY(backward_value(r, node->inputs[i], &inputs[i]));
    lj_graph_at(to, node->file, node->line);
    lj_value first = lj_node_append(to, node->op, inputs, node->input_count, &node->attributes, lj_type_get(from, node->output), node->output_count);
    if (!first) return lj_graph_status(to);
    char *name = lj_arena_printf(&to->arena, "%s.recomputed", node->name);
    if (!name) return lj_fail(LJ_ERR_NOMEM, "recompute");
    lj_producer(to, first)->name = name;
    for (int k = 0; k < node->output_count; k++) r->copy[node->output + (lj_value)k] = lj_output_of(first, k);
    *out = r->copy[v];
    return LJ_OK;
}

/* A backward node with its operands exchanged. */
static lj_status backward_copy(recomputation *r, const lj_node *node)
{
    lj_rewrite *w = &r->rewrite;
    lj_value saved[64];
    if (node->input_count > 64) return lj_rewrite_copy(w, node);
    for (int i = 0; i < node->input_count; i++) {
        lj_value v = node->inputs[i], use = 0;
        saved[i] = v ? w->map[v] : 0;
        LJ_TRY(backward_value(r, v, &use));
        if (v && r->dropped[v]) w->map[v] = use;
    }
    lj_status status = lj_rewrite_copy(w, node);
    for (int i = node->input_count; i-- > 0;)
        if (node->inputs[i] && r->dropped[node->inputs[i]]) w->map[node->inputs[i]] = saved[i];
    return status;
}

static lj_status rewrite_all(recomputation *r, lj_graph **graph)
{
    const lj_graph *from = *graph;
    LJ_TRY(lj_rewrite_begin(&r->rewrite, from));
    mark_dropped(r);
    lj_status status = LJ_OK;
    for (size_t n = 0; n < from->node_count && status == LJ_OK; n++) {
        const lj_node *node = &from->nodes[n];
        status = lj_node_is_backward(node) ? backward_copy(r, node) : lj_rewrite_copy(&r->rewrite, node);
    }
    return lj_rewrite_end(&r->rewrite, graph, status);
}

lj_status lj_recompute_apply(lj_graph **graph, const lj_recompute *choice)
{
    lj_arena scratch;
    lj_arena_init(&scratch, "passes");
    recomputation r = {.choice = choice, .rewrite.from = *graph};
    r.dropped = lj_arena_alloc(&scratch, (*graph)->value_count);
    r.copy = lj_arena_alloc(&scratch, (*graph)->value_count * sizeof(lj_value));
    lj_status status = r.dropped && r.copy ? rewrite_all(&r, graph) : lj_fail(LJ_ERR_NOMEM, "recompute");
    lj_arena_release(&scratch);
    return status;
}
