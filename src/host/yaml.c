#define _GNU_SOURCE
#include "host/yaml.h"

#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_DEPTH = 64, MAX_NODES = 1000000 };

typedef struct {
    yaml_document_t *document;
    const char *name;
    size_t nodes;
    lj_status status;
} reader;

static json_t *node_read(reader *r, int index, int depth);

static bool word_in(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(text, *words) == 0) return true;
    return false;
}

/* Plain scalars by the core schema. "25.07" would be a number: those who mean text quote it, and the
 * manifest's schema says so. */
static json_t *plain_scalar(const char *text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL}, *const falses[] = {"false", "False",
                                                                                          "FALSE", NULL};
    if (word_in(text, nulls)) return json_null();
    if (word_in(text, trues)) return json_true();
    if (word_in(text, falses)) return json_false();
    char *end;
    bool numeric = isdigit((unsigned char)*text) || (strchr("+-.", *text) && isdigit((unsigned char)text[1]));
    if (numeric && text[strspn(text, "+-0123456789")] == 0) {
        long long whole = strtoll(text, &end, 10);
        if (!*end) return json_integer(whole);
    }
    if (numeric && text[strspn(text, "+-.0123456789eE")] == 0) {
        double real = strtod(text, &end);
        if (!*end && isfinite(real)) return json_real(real);
    }
    json_t *string = json_string(text);
    return string ? string : json_string("");
}

static json_t *mapping_read(reader *r, const yaml_node_t *node, int depth)
{
    json_t *object = json_object();
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top;
         pair++) {
        yaml_node_t *key = yaml_document_get_node(r->document, pair->key);
        if (!key || key->type != YAML_SCALAR_NODE) {
            r->status = lj_fail(LJ_ERR_FORMAT, "%s: line %zu: a key that is no text", r->name,
                                node->start_mark.line + 1);
            break;
        }
        const char *name = (const char *)key->data.scalar.value;
        if (json_object_get(object, name))
            r->status = lj_fail(LJ_ERR_FORMAT, "%s: line %zu: key '%s' twice", r->name,
                                key->start_mark.line + 1, name);
        json_object_set_new(object, name, node_read(r, pair->value, depth + 1));
        if (r->status != LJ_OK) break;
    }
    return object;
}

static json_t *sequence_read(reader *r, const yaml_node_t *node, int depth)
{
    json_t *array = json_array();
    for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top;
         item++) {
        json_array_append_new(array, node_read(r, *item, depth + 1));
        if (r->status != LJ_OK) break;
    }
    return array;
}

static json_t *node_read(reader *r, int index, int depth)
{
    yaml_node_t *node = yaml_document_get_node(r->document, index);
    if (!node) return json_null();
    if (depth > MAX_DEPTH || ++r->nodes > MAX_NODES) {
        r->status = lj_fail(LJ_ERR_LIMIT, "%s: line %zu: deeper than %d or more than %d values", r->name,
                            node->start_mark.line + 1, MAX_DEPTH, MAX_NODES);
        return json_null();
    }
    switch (node->type) {
    case YAML_MAPPING_NODE: return mapping_read(r, node, depth);
    case YAML_SEQUENCE_NODE: return sequence_read(r, node, depth);
    case YAML_SCALAR_NODE: {
        const char *text = (const char *)node->data.scalar.value;
        if (node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) return plain_scalar(text);
        json_t *string = json_string(text);
        return string ? string : json_string("");
    }
    default: return json_null();
    }
}

static lj_status documents_read(yaml_parser_t *parser, const char *name, json_t *documents)
{
    for (;;) {
        yaml_document_t document;
        if (!yaml_parser_load(parser, &document))
            return lj_fail(LJ_ERR_FORMAT, "%s: line %zu, column %zu: %s", name, parser->problem_mark.line + 1,
                           parser->problem_mark.column + 1, parser->problem ? parser->problem : "not YAML");
        if (!yaml_document_get_root_node(&document)) {
            yaml_document_delete(&document);
            return LJ_OK;
        }
        reader r = {&document, name, 0, LJ_OK};
        json_array_append_new(documents, node_read(&r, 1, 0));
        yaml_document_delete(&document);
        if (r.status != LJ_OK) return r.status;
    }
}

lj_status lj_yaml_parse_all(const char *text, size_t bytes, const char *name, json_t **documents)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) return lj_fail(LJ_ERR_NOMEM, "%s: YAML reader", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    json_t *list = json_array();
    lj_status status = documents_read(&parser, name, list);
    yaml_parser_delete(&parser);
    if (status == LJ_OK)
        *documents = list;
    else
        json_decref(list);
    return status;
}

lj_status lj_yaml_load_all(const char *path, json_t **documents)
{
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_status status = lj_yaml_parse_all((const char *)file.data, file.bytes, path, documents);
    lj_mapped_file_release(&file);
    return status;
}

lj_status lj_yaml_load(const char *path, json_t **document)
{
    json_t *all;
    LJ_TRY(lj_yaml_load_all(path, &all));
    json_t *first = json_array_get(all, 0);
    lj_status status = first ? LJ_OK : lj_fail(LJ_ERR_FORMAT, "%s: no document in it", path);
    if (first) *document = json_incref(first);
    json_decref(all);
    return status;
}

/* A plain scalar only where no reader could take it for something else. */
static bool plain_enough(const char *text)
{
    static const char *const odd[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", NULL};
    if (!isalpha((unsigned char)*text) && *text != '/') return false;
    char lower[8] = "";
    for (size_t i = 0; i < sizeof lower - 1 && text[i]; i++) lower[i] = (char)tolower((unsigned char)text[i]);
    if (strlen(text) < sizeof lower && word_in(lower, odd)) return false;
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("/._-", *c)) return false;
    return true;
}

static void scalar_write(lj_text *out, const json_t *value)
{
    if (json_is_string(value) && plain_enough(json_string_value(value))) {
        lj_text_add(out, "%s", json_string_value(value));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT); /* a JSON scalar is a YAML scalar */
    lj_text_add(out, "%s", text ? text : "null");
    free(text);
}

static bool is_block(const json_t *value)
{
    return (json_is_object(value) && json_object_size(value)) ||
           (json_is_array(value) && json_array_size(value));
}

static void value_write(lj_text *out, const json_t *value, int indent, bool inline_first)
{
    const char *key;
    json_t *item;
    size_t i;
    if (!is_block(value)) {
        scalar_write(out, value);
        lj_text_add(out, "\n");
        return;
    }
    if (json_is_array(value)) {
        json_array_foreach(value, i, item)
        {
            lj_text_add(out, "%*s- ", inline_first && i == 0 ? 0 : indent, "");
            value_write(out, item, indent + 2, true);
        }
        return;
    }
    bool first = true;
    json_object_foreach((json_t *)value, key, item)
    {
        json_t *name = json_string(key);
        lj_text_add(out, "%*s", inline_first && first ? 0 : indent, "");
        scalar_write(out, name);
        json_decref(name);
        lj_text_add(out, is_block(item) ? ":\n" : ": ");
        value_write(out, item, indent + 2, false);
        first = false;
    }
}

char *lj_yaml_write(const json_t *value)
{
    lj_text out;
    lj_text_init(&out);
    value_write(&out, value, 0, false);
    char *copy = out.data && lj_text_status(&out) == LJ_OK ? strdup(out.data) : NULL;
    lj_text_release(&out);
    return copy;
}
