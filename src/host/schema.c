#include "host/schema.h"

#include "host/host.h"
#include "host/pattern.h"

#include <string.h>

enum { MAX_DEPTH = 64, PLACE_BYTES = 512 };

typedef struct {
    const json_t *root;
    char place[PLACE_BYTES];
    int depth;
} checker;

static lj_status check(checker *c, const json_t *schema, const json_t *value);

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object",   [JSON_ARRAY] = "array", [JSON_STRING] = "string",
        [JSON_INTEGER] = "integer", [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean",   [JSON_NULL] = "null"};
    return value ? names[json_typeof(value)] : "nothing";
}

static lj_status wrong(const checker *c, const char *format, const char *a, const char *b)
{
    char text[512];
    lj_say(text, "%s%s%s", format, a, b);
    return lj_fail(LJ_ERR_FORMAT, "%s: %s", *c->place ? c->place : "(top)", text);
}

static lj_status check_type(checker *c, const json_t *rule, const json_t *value)
{
    const char *have = type_name(value);
    size_t i;
    json_t *one;
    if (json_is_string(rule)) {
        const char *want = json_string_value(rule);
        bool fits = strcmp(want, have) == 0 || (strcmp(want, "number") == 0 && json_is_integer(value));
        return fits
                   ? LJ_OK
                   : wrong(c, "is of type ", have,
                           json_is_string(rule) && strcmp(want, "string") == 0 ? ", text is needed (quote it)"
                                                                               : ", another type is needed");
    }
    json_array_foreach(rule, i, one) if (strcmp(json_string_value(one), have) == 0) return LJ_OK;
    return wrong(c, "is of type ", have, ", another type is needed");
}

static lj_status check_const(checker *c, const json_t *rule, const json_t *value)
{
    return json_equal(rule, value)
               ? LJ_OK
               : wrong(c, "must be ", json_is_string(rule) ? json_string_value(rule) : "the stated value",
                       "");
}

static lj_status check_enum(checker *c, const json_t *rule, const json_t *value)
{
    size_t i;
    json_t *one;
    char list[256];
    json_array_foreach(rule, i, one) if (json_equal(one, value)) return LJ_OK;
    return wrong(c, "is none of ", lj_json_join(rule, 12, list, sizeof list), "");
}

static lj_status check_required(checker *c, const json_t *rule, const json_t *value)
{
    size_t i;
    json_t *one;
    if (!json_is_object(value)) return LJ_OK;
    json_array_foreach(rule, i, one) if (!json_object_get(value, json_string_value(one))) return wrong(
        c, "lacks the key ", json_string_value(one), "");
    return LJ_OK;
}

static lj_status check_inside(checker *c, const char *name, const json_t *schema, const json_t *value)
{
    size_t used = strlen(c->place);
    snprintf(c->place + used, sizeof c->place - used, "%s%s", used ? "." : "", name);
    lj_status status = check(c, schema, value);
    if (status == LJ_OK) c->place[used] = 0;
    return status;
}

static lj_status check_properties(checker *c, const json_t *rule, const json_t *value)
{
    const char *name;
    json_t *schema;
    if (!json_is_object(value)) return LJ_OK;
    json_object_foreach((json_t *)rule, name, schema)
    {
        json_t *inner = json_object_get(value, name);
        if (inner) LJ_TRY(check_inside(c, name, schema, inner));
    }
    return LJ_OK;
}

/* Needs the sibling "properties" to know which keys are additional. */
static lj_status check_additional(checker *c, const json_t *schema, const json_t *value)
{
    const char *name;
    json_t *inner, *rule = json_object_get(schema, "additionalProperties"),
                   *known = json_object_get(schema, "properties");
    if (!json_is_object(value)) return LJ_OK;
    json_object_foreach((json_t *)value, name, inner)
    {
        if (json_object_get(known, name)) continue;
        if (json_is_false(rule)) return wrong(c, "has an unknown key ", name, "");
        if (json_is_object(rule)) LJ_TRY(check_inside(c, name, rule, inner));
    }
    return LJ_OK;
}

static lj_status check_items(checker *c, const json_t *rule, const json_t *value)
{
    size_t i;
    json_t *one;
    json_array_foreach(value, i, one)
    {
        char name[24];
        lj_say(name, "%zu", i);
        LJ_TRY(check_inside(c, name, rule, one));
    }
    return LJ_OK;
}

static lj_status check_least(checker *c, const json_t *rule, const json_t *value)
{
    size_t have = json_is_array(value)    ? json_array_size(value)
                  : json_is_string(value) ? json_string_length(value)
                                          : (size_t)-1;
    return have >= (size_t)json_integer_value(rule) ? LJ_OK : wrong(c, "is too short", "", "");
}

static lj_status check_minimum(checker *c, const json_t *rule, const json_t *value)
{
    return !json_is_number(value) || json_number_value(value) >= json_number_value(rule)
               ? LJ_OK
               : wrong(c, "is below the minimum", "", "");
}

static lj_status check_maximum(checker *c, const json_t *rule, const json_t *value)
{
    return !json_is_number(value) || json_number_value(value) <= json_number_value(rule)
               ? LJ_OK
               : wrong(c, "is above the maximum", "", "");
}

static lj_status check_pattern(checker *c, const json_t *rule, const json_t *value)
{
    if (!json_is_string(value)) return LJ_OK;
    return lj_host_pattern_find(json_string_value(rule), json_string_value(value), NULL, 0)
               ? LJ_OK
               : wrong(c, "does not match ", json_string_value(rule), "");
}

static lj_status check_any(checker *c, const json_t *rule, const json_t *value)
{
    size_t i, used = strlen(c->place);
    json_t *one;
    lj_status status = LJ_OK;
    json_array_foreach(rule, i, one)
    {
        status = check(c, one, value);
        c->place[used] = 0;
        if (status == LJ_OK) return LJ_OK;
    }
    return status;
}

static lj_status check_one(checker *c, const json_t *rule, const json_t *value)
{
    size_t i, used = strlen(c->place), good = 0;
    json_t *one;
    json_array_foreach(rule, i, one)
    {
        good += check(c, one, value) == LJ_OK;
        c->place[used] = 0;
    }
    return good == 1 ? LJ_OK : wrong(c, "fits not exactly one of the forms", "", "");
}

static lj_status check_reference(checker *c, const json_t *rule, const json_t *value)
{
    const char *text = json_string_value(rule);
    char path[256];
    if (!text || strncmp(text, "#/", 2) != 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "schema: $ref %s leads outside the file", text ? text : "?");
    lj_say(path, "%s", text + 2);
    for (char *at = path; *at; at++)
        if (*at == '/') *at = '.';
    json_t *target = lj_json_at(c->root, path);
    return target ? check(c, target, value) : lj_fail(LJ_ERR_FORMAT, "schema: %s is not there", text);
}

typedef lj_status (*keyword_fn)(checker *, const json_t *, const json_t *);

static const struct {
    const char *name;
    keyword_fn run; /* NULL: words for people, or handled with its neighbour */
} keywords[] = {{"$ref", check_reference},
                {"type", check_type},
                {"const", check_const},
                {"enum", check_enum},
                {"required", check_required},
                {"properties", check_properties},
                {"items", check_items},
                {"minItems", check_least},
                {"minLength", check_least},
                {"minProperties", NULL},
                {"minimum", check_minimum},
                {"maximum", check_maximum},
                {"pattern", check_pattern},
                {"anyOf", check_any},
                {"oneOf", check_one},
                {"additionalProperties", NULL},
                {"$schema", NULL},
                {"$id", NULL},
                {"title", NULL},
                {"description", NULL},
                {"definitions", NULL},
                {"default", NULL},
                {"examples", NULL},
                {"$comment", NULL}};

static lj_status check(checker *c, const json_t *schema, const json_t *value)
{
    const char *name;
    json_t *rule;
    if (++c->depth > MAX_DEPTH) return lj_fail(LJ_ERR_LIMIT, "schema: deeper than %d", MAX_DEPTH);
    json_object_foreach((json_t *)schema, name, rule)
    {
        size_t i, count = sizeof keywords / sizeof *keywords;
        for (i = 0; i < count && strcmp(keywords[i].name, name) != 0; i++) {
        }
        if (i == count)
            return lj_fail(LJ_ERR_UNSUPPORTED, "schema: keyword %s is not one that ljperf reads", name);
        if (keywords[i].run) LJ_TRY(keywords[i].run(c, rule, value));
    }
    if (json_object_get(schema, "additionalProperties")) LJ_TRY(check_additional(c, schema, value));
    c->depth--;
    return LJ_OK;
}

lj_status lj_schema_check(const json_t *schema, const json_t *value)
{
    checker c = {.root = schema};
    return check(&c, schema, value);
}
