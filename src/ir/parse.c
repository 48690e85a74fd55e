/* Reads the text form of a graph (print.c). The text may come from anywhere: every number, name and type is checked, and each
 * node goes through the same door as the builders. */
#include "ir/attributes.h"
#include "ir/ir.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPERANDS = 192, MAX_TYPES = 64, MAX_NAME = LJ_MAX_NAME + 1 };

typedef struct {
    const char *text, *at, *end; /* end of the current line */
    int line;
    lj_graph *graph;
    lj_value *map; /* number in the text -> value */
    size_t map_size;
} parser;

static lj_status parse_fail(const parser *p, const char *expected)
{
    return lj_fail(LJ_ERR_FORMAT, "graph text, line %d: expected %s at '%.20s'", p->line, expected, p->at < p->end ? p->at : "end of line");
}

static void skip_spaces(parser *p)
{
    while (p->at < p->end && *p->at == ' ') p->at++;
}

static bool take(parser *p, const char *word)
{
    skip_spaces(p);
    size_t length = strlen(word);
    if ((size_t)(p->end - p->at) < length || strncmp(p->at, word, length) != 0) return false;
    p->at += length;
    return true;
}

static lj_status expect(parser *p, const char *word)
{
    return take(p, word) ? LJ_OK : parse_fail(p, word);
}

static lj_status line_end(parser *p)
{
    skip_spaces(p);
    return p->at == p->end ? LJ_OK : parse_fail(p, "the end of the line");
}

static lj_status parse_int(parser *p, int64_t *value)
{
    skip_spaces(p);
    char digits[32];
    size_t n = 0;
    const char *at = p->at;
    while (at < p->end && n < sizeof digits - 1 && (isdigit((unsigned char)*at) || (n == 0 && *at == '-'))) digits[n++] = *at++;
    digits[n] = 0;
    char *end;
    errno = 0;
    *value = strtoll(digits, &end, 10);
    if (*end || end == digits || errno == ERANGE) return parse_fail(p, "a whole number of 64 bits");
    p->at = at;
    return LJ_OK;
}

static lj_status parse_double(parser *p, double *value)
{
    skip_spaces(p);
    char digits[48];
    size_t n = 0;
    while (p->at + n < p->end && n < sizeof digits - 1 && strchr("0123456789+-.eEinfax", p->at[n])) digits[n] = p->at[n], n++;
    digits[n] = 0;
    char *end;
    *value = strtod(digits, &end);
    if (n == 0 || *end) return parse_fail(p, "a number");
    p->at += n;
    return LJ_OK;
}

static lj_status parse_word(parser *p, char *out)
{
    skip_spaces(p);
    size_t n = 0;
    while (p->at + n < p->end && n < MAX_NAME - 1 && (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')) out[n] = p->at[n], n++;
    out[n] = 0;
    p->at += n;
    return n ? LJ_OK : parse_fail(p, "a name");
}

static lj_status parse_quoted(parser *p, char *out)
{
    LJ_TRY(expect(p, "\""));
    size_t n = 0;
    while (p->at + n < p->end && p->at[n] != '"' && n < MAX_NAME - 1) out[n] = p->at[n], n++;
    if (p->at + n >= p->end || p->at[n] != '"') return parse_fail(p, "a closing quote within 255 characters");
    out[n] = 0;
    p->at += n + 1;
    return LJ_OK;
}

static lj_status parse_value(parser *p, lj_value *value)
{
    int64_t number;
    LJ_TRY(expect(p, "%"));
    LJ_TRY(parse_int(p, &number));
    if (number <= 0 || (size_t)number >= p->map_size || !p->map[number]) return parse_fail(p, "a value defined above");
    *value = p->map[number];
    return LJ_OK;
}

static lj_status parse_dim(parser *p, lj_dim *dim)
{
    *dim = lj_dim_const(1);
    do {
        skip_spaces(p);
        lj_dim factor;
        if (p->at < p->end && isdigit((unsigned char)*p->at)) {
            int64_t number;
            LJ_TRY(parse_int(p, &number));
            factor = lj_dim_const(number);
        } else {
            char name[MAX_NAME];
            LJ_TRY(parse_word(p, name));
            int known = 0;
            while (known < p->graph->symbol_count && strcmp(p->graph->symbols[known], name) != 0) known++;
            if (known == p->graph->symbol_count) return parse_fail(p, "a symbol of the symbols line");
            factor = lj_dim_symbol(p->graph, name);
        }
        for (int i = 0; i < LJ_MAX_SYMBOLS; i++)
            if (dim->power[i] + factor.power[i] > 8) return parse_fail(p, "a smaller power of a symbol");
        *dim = lj_dim_mul(*dim, factor);
    } while (take(p, "*"));
    return dim->factor < 0 ? parse_fail(p, "a size below 2^63") : LJ_OK;
}

static lj_status parse_type(parser *p, lj_type *type)
{
    char name[MAX_NAME];
    *type = (lj_type){0};
    LJ_TRY(parse_word(p, name));
    LJ_TRY(lj_fail_in(lj_dtype_find(name, &type->dtype), "graph text, line %d", p->line));
    LJ_TRY(expect(p, "["));
    while (!take(p, "]")) {
        if (type->rank == LJ_MAX_RANK) return parse_fail(p, "at most 6 dims");
        if (type->rank) LJ_TRY(expect(p, ","));
        LJ_TRY(parse_dim(p, &type->dim[type->rank++]));
    }
    return LJ_OK;
}

static lj_status parse_attribute(parser *p, const lj_attribute_slot *slot, lj_attributes *attributes, char *string)
{
    char name[MAX_NAME];
    LJ_TRY(parse_word(p, name));
    if (strlen(name) != (size_t)slot->name_length || strncmp(name, slot->name, (size_t)slot->name_length) != 0) return parse_fail(p, "the op's attributes in order");
    LJ_TRY(expect(p, "="));
    if (slot->kind == 'i') return parse_int(p, &attributes->i[slot->index]);
    if (slot->kind == 'f') return parse_double(p, &attributes->f[slot->index]);
    if (slot->kind == 's') {
        attributes->s = string;
        return parse_quoted(p, string);
    }
    for (int d = 0; d < LJ_MAX_RANK; d++) {
        skip_spaces(p);
        if (p->at >= p->end || !isdigit((unsigned char)*p->at)) break;
        LJ_TRY(parse_int(p, &attributes->i[d]));
    }
    return LJ_OK;
}

static lj_status parse_attributes(parser *p, lj_op op, lj_attributes *attributes, char *string)
{
    lj_attribute_slot slots[LJ_MAX_ATTRIBUTES];
    int count = lj_attribute_slots(op, slots);
    if (!count) return LJ_OK;
    LJ_TRY(expect(p, "{"));
    for (int i = 0; i < count; i++) {
        if (i) LJ_TRY(expect(p, ","));
        LJ_TRY(parse_attribute(p, &slots[i], attributes, string));
    }
    return expect(p, "}");
}

typedef struct {
    lj_op op;
    lj_value operands[MAX_OPERANDS];
    int operand_count;
    lj_attributes attributes;
    char string[MAX_NAME], name[MAX_NAME], file[MAX_NAME];
    lj_type types[MAX_TYPES];
    int type_count;
    int64_t line;
} node_text;

static lj_status parse_operands(parser *p, node_text *node)
{
    LJ_TRY(expect(p, "("));
    while (!take(p, ")")) {
        if (node->operand_count == MAX_OPERANDS) return parse_fail(p, "at most 192 operands");
        if (node->operand_count) LJ_TRY(expect(p, ","));
        lj_value *operand = &node->operands[node->operand_count++];
        if (!take(p, "_")) LJ_TRY(parse_value(p, operand));
    }
    return LJ_OK;
}

static lj_status parse_types(parser *p, node_text *node)
{
    LJ_TRY(expect(p, ":"));
    do {
        if (node->type_count == MAX_TYPES) return parse_fail(p, "at most 64 results");
        LJ_TRY(parse_type(p, &node->types[node->type_count++]));
    } while (take(p, ","));
    return LJ_OK;
}

static lj_status parse_tail(parser *p, node_text *node)
{
    skip_spaces(p);
    if (p->at < p->end && *p->at == '"') LJ_TRY(parse_quoted(p, node->name));
    if (take(p, "@")) {
        LJ_TRY(parse_quoted(p, node->file));
        LJ_TRY(expect(p, ":"));
        LJ_TRY(parse_int(p, &node->line));
    }
    return line_end(p);
}

/* Makes the node and checks that inference agrees with the written types. */
static lj_status node_add(parser *p, node_text *node, int64_t number)
{
    lj_graph *g = p->graph;
    lj_value first;
    char *file = lj_arena_strdup(&g->arena, node->file), *name = lj_arena_strdup(&g->arena, node->name);
    if (!file || !name) return lj_fail(LJ_ERR_NOMEM, "graph text");
    lj_graph_at(g, file, (int)node->line);
    if (node->op == LJ_OP_input)
        first = lj_input(g, name, node->types[0], (lj_role)node->attributes.i[0]);
    else if (node->op == LJ_OP_call)
        first = lj_call(g, &(lj_call_row){.name = node->string}, node->operands, node->operand_count, node->types, node->type_count,
                        (lj_value[MAX_TYPES]){0}) == LJ_OK ? (lj_value)(g->value_count - (size_t)node->type_count) : 0;
    else
        first = lj_node_append(g, node->op, node->operands, node->operand_count, &node->attributes, node->types, node->type_count);
    if (!first) return lj_fail_in(lj_graph_status(g), "graph text, line %d", p->line);
    lj_node *made = lj_producer(g, first);
    made->name = name;
    if (made->output_count != node->type_count) return parse_fail(p, "as many types as the op has results");
    for (int k = 0; k < made->output_count; k++) {
        if (!lj_type_equal(&node->types[k], lj_type_get(g, first + (lj_value)k))) return parse_fail(p, "the type that the op gives");
        if (number <= 0 || (size_t)number + (size_t)k >= p->map_size || p->map[number + k]) return parse_fail(p, "a fresh value number");
        p->map[number + k] = first + (lj_value)k;
    }
    return LJ_OK;
}

static lj_status parse_node(parser *p)
{
    static _Thread_local node_text node; /* large: kept off the stack */
    char op[MAX_NAME];
    int64_t number;
    memset(&node, 0, sizeof node);
    LJ_TRY(expect(p, "%"));
    LJ_TRY(parse_int(p, &number));
    LJ_TRY(expect(p, "="));
    LJ_TRY(parse_word(p, op));
    LJ_TRY(lj_fail_in(lj_op_find(op, &node.op), "graph text, line %d", p->line));
    LJ_TRY(parse_operands(p, &node));
    LJ_TRY(parse_attributes(p, node.op, &node.attributes, node.string));
    LJ_TRY(parse_types(p, &node));
    LJ_TRY(parse_tail(p, &node));
    if (node.op == LJ_OP_input && (node.attributes.i[0] < LJ_ROLE_DATA || node.attributes.i[0] > LJ_ROLE_STATE)) return parse_fail(p, "a role of 0, 1 or 2");
    return node_add(p, &node, number);
}

static lj_status parse_line(parser *p)
{
    lj_value a, b;
    char name[MAX_NAME];
    if (take(p, "output")) {
        LJ_TRY(parse_quoted(p, name));
        LJ_TRY(parse_value(p, &a));
        LJ_TRY(line_end(p));
        return lj_graph_output(p->graph, name, a);
    }
    if (take(p, "assign")) {
        LJ_TRY(parse_value(p, &a));
        LJ_TRY(parse_value(p, &b));
        LJ_TRY(line_end(p));
        return lj_graph_assign(p->graph, a, b);
    }
    if (take(p, "symbols")) {
        for (skip_spaces(p); p->at < p->end; skip_spaces(p)) {
            LJ_TRY(parse_word(p, name));
            lj_dim_symbol(p->graph, name);
            LJ_TRY(lj_graph_status(p->graph));
        }
        return LJ_OK;
    }
    if (take(p, "gradients")) {
        lj_dtype dtype;
        LJ_TRY(parse_word(p, name));
        LJ_TRY(lj_dtype_find(name, &dtype));
        LJ_TRY(line_end(p));
        return lj_graph_gradient_dtype(p->graph, dtype);
    }
    return parse_node(p);
}

static lj_status parse_all(parser *p)
{
    lj_status status = LJ_OK;
    for (const char *start = p->text; status == LJ_OK && *start; start = *p->end ? p->end + 1 : p->end) {
        p->line++;
        p->at = start;
        p->end = strchr(start, '\n') ? strchr(start, '\n') : start + strlen(start);
        skip_spaces(p);
        if (p->line == 1)
            status = take(p, "ljgraph 1") ? LJ_OK : parse_fail(p, "'ljgraph 1'");
        else if (p->at < p->end)
            status = parse_line(p);
    }
    if (status == LJ_OK && p->line == 0) status = lj_fail(LJ_ERR_FORMAT, "graph text is empty");
    return status == LJ_OK ? lj_graph_status(p->graph) : status;
}

lj_status lj_graph_parse(const char *text, lj_graph **graph)
{
    parser p = {.text = text};
    size_t lines = 2;
    void *map;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    p.map_size = lines * 4 + MAX_TYPES;
    if (strlen(text) > p.map_size) p.map_size = strlen(text); /* numbers may have gaps; each takes a character at least */
    LJ_TRY(lj_alloc_zero("graph text", p.map_size * sizeof(lj_value), &map));
    p.map = map;
    lj_status status = lj_graph_create(&p.graph);
    if (status == LJ_OK && (status = parse_all(&p)) != LJ_OK) lj_graph_destroy(p.graph);
    lj_free(map);
    if (status == LJ_OK) *graph = p.graph;
    return status;
}
