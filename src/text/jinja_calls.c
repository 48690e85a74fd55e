/* Filters, tests, methods of strings and objects, functions: tables of names. */
#define _GNU_SOURCE
#include "text/jinja_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef json_t *(*call_fn)(jinja_state *s, json_t *value, const jinja_args *args);

typedef struct {
    const char *name;
    call_fn fn;
} call_row;

static const char *text_of(const json_t *value)
{
    return json_is_string(value) ? json_string_value(value) : "";
}

static const json_t *argument(const jinja_args *args, size_t index)
{
    return index < args->count ? args->values[index] : NULL;
}

/* Without the characters of the first argument (white space when there is none) at the sides. */
static json_t *strip_sides(const json_t *value, const jinja_args *args, bool left, bool right)
{
    const char *set = json_is_string(argument(args, 0)) ? text_of(argument(args, 0)) : " \t\n\r\v\f\x1c\x1d\x1e\x1f", *start = text_of(value),
               *end = start + (json_is_string(value) ? json_string_length(value) : 0);
    while (left && start < end && *start && strchr(set, *start)) start++;
    while (right && end > start && end[-1] && strchr(set, end[-1])) end--;
    return jinja_string(start, (size_t)(end - start));
}

static json_t *do_strip(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s;
    return strip_sides(value, args, true, true);
}

static json_t *do_lstrip(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s;
    return strip_sides(value, args, true, false);
}

static json_t *do_rstrip(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s;
    return strip_sides(value, args, false, true);
}

static json_t *cased(const json_t *value, int (*change)(int))
{
    json_t *copy = jinja_string(text_of(value), strlen(text_of(value)));
    char *text = (char *)json_string_value(copy);
    for (; text && *text; text++)
        if ((unsigned char)*text < 128) *text = (char)change(*text);
    return copy;
}

static json_t *do_upper(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s, (void)args;
    return cased(value, toupper);
}

static json_t *do_lower(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s, (void)args;
    return cased(value, tolower);
}

static json_t *do_startswith(jinja_state *s, json_t *value, const jinja_args *args)
{
    const char *part = text_of(argument(args, 0));
    (void)s;
    return json_boolean(strncmp(text_of(value), part, strlen(part)) == 0);
}

static json_t *do_endswith(jinja_state *s, json_t *value, const jinja_args *args)
{
    const char *part = text_of(argument(args, 0)), *text = text_of(value);
    (void)s;
    return json_boolean(strlen(text) >= strlen(part) && strcmp(text + strlen(text) - strlen(part), part) == 0);
}

static json_t *do_split(jinja_state *s, json_t *value, const jinja_args *args)
{
    const char *by = text_of(argument(args, 0)), *at = text_of(value);
    json_t *list = json_array();
    if (!*by) jinja_fail(s, LJ_ERR_UNSUPPORTED, "split without a separator");
    for (const char *found; *by && (found = strstr(at, by)); at = found + strlen(by)) json_array_append_new(list, jinja_string(at, (size_t)(found - at)));
    json_array_append_new(list, jinja_string(at, strlen(at)));
    return list;
}

static json_t *do_replace(jinja_state *s, json_t *value, const jinja_args *args)
{
    const char *what = text_of(argument(args, 0)), *with = text_of(argument(args, 1)), *at = text_of(value);
    lj_text text;
    (void)s;
    lj_text_init(&text);
    for (const char *found; *what && (found = strstr(at, what)); at = found + strlen(what)) {
        lj_text_add_bytes(&text, at, (size_t)(found - at));
        lj_text_add_bytes(&text, with, strlen(with));
    }
    lj_text_add_bytes(&text, at, strlen(at));
    json_t *made = jinja_string(text.data ? text.data : "", text.length);
    lj_text_release(&text);
    return made;
}

static json_t *do_get(jinja_state *s, json_t *value, const jinja_args *args)
{
    json_t *found = json_object_get(value, text_of(argument(args, 0)));
    (void)s;
    if (!found && args->count > 1) found = args->values[1];
    return found ? json_incref(found) : json_null();
}

static json_t *do_items(jinja_state *s, json_t *value, const jinja_args *args)
{
    const char *key;
    json_t *item, *list = json_array();
    (void)s, (void)args;
    json_object_foreach(value, key, item) json_array_append_new(list, json_pack("[s, O]", key, item));
    return list;
}

static json_t *do_keys(jinja_state *s, json_t *value, const jinja_args *args)
{
    const char *key;
    json_t *item, *list = json_array();
    (void)s, (void)args;
    json_object_foreach(value, key, item) json_array_append_new(list, json_string(key));
    return list;
}

static json_t *do_length(jinja_state *s, json_t *value, const jinja_args *args)
{
    size_t count = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    (void)s, (void)args;
    if (json_is_string(value)) { /* characters */
        count = 0;
        for (const char *c = text_of(value); *c; c++) count += ((unsigned char)*c & 0xc0) != 0x80;
    }
    return json_integer((json_int_t)count);
}

static json_t *do_tojson(jinja_state *s, json_t *value, const jinja_args *args)
{
    json_int_t indent = json_integer_value(json_object_get(args->named, "indent"));
    (void)s;
    char *text = json_dumps(value, JSON_ENCODE_ANY | (indent > 0 && indent < 32 ? JSON_INDENT((size_t)indent) : 0));
    json_t *made = jinja_string(text ? text : "", text ? strlen(text) : 0);
    free(text);
    return made;
}

static json_t *do_first(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s, (void)args;
    return json_incref(json_array_get(value, 0));
}

static json_t *do_last(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s, (void)args;
    return json_array_size(value) ? json_incref(json_array_get(value, json_array_size(value) - 1)) : NULL;
}

static json_t *do_same(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s, (void)args;
    return json_incref(value);
}

static json_t *do_string(jinja_state *s, json_t *value, const jinja_args *args)
{
    lj_text text;
    (void)s, (void)args;
    lj_text_init(&text);
    jinja_write(value, &text);
    json_t *made = jinja_string(text.data ? text.data : "", text.length);
    lj_text_release(&text);
    return made;
}

static json_t *do_default(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s;
    bool falsy = args->count > 1 && jinja_true(args->values[1]) && !jinja_true(value);
    if (value && !falsy) return json_incref(value);
    return argument(args, 0) ? json_incref(args->values[0]) : jinja_string("", 0);
}

static json_t *do_join(jinja_state *s, json_t *value, const jinja_args *args)
{
    size_t index;
    json_t *item;
    lj_text text;
    (void)s;
    lj_text_init(&text);
    json_array_foreach(value, index, item) {
        if (index) lj_text_add(&text, "%s", text_of(argument(args, 0)));
        jinja_write(item, &text);
    }
    json_t *made = jinja_string(text.data ? text.data : "", text.length);
    lj_text_release(&text);
    return made;
}

/* selectattr("role", "equalto", "user") and its opposite. */
static json_t *select_by(jinja_state *s, json_t *value, const jinja_args *args, bool wanted)
{
    size_t index;
    json_t *item, *list = json_array();
    json_array_foreach(value, index, item) {
        const json_t *field = json_object_get(item, text_of(argument(args, 0)));
        jinja_args rest = {.values = {args->count > 2 ? args->values[2] : NULL}, .count = args->count > 2};
        bool truth = args->count > 1 ? jinja_test(s, text_of(args->values[1]), field, &rest) : jinja_true(field);
        if (truth == wanted) json_array_append(list, item);
    }
    return list;
}

static json_t *do_selectattr(jinja_state *s, json_t *value, const jinja_args *args)
{
    return select_by(s, value, args, true);
}

static json_t *do_rejectattr(jinja_state *s, json_t *value, const jinja_args *args)
{
    return select_by(s, value, args, false);
}

static json_t *do_range(jinja_state *s, json_t *value, const jinja_args *args)
{
    json_int_t from = args->count > 1 ? json_integer_value(args->values[0]) : 0, to = json_integer_value(argument(args, args->count > 1)),
               step = args->count > 2 ? json_integer_value(args->values[2]) : 1;
    json_t *list = json_array();
    (void)value;
    if (step == 0 || to - from > 100000 || from - to > 100000) {
        jinja_fail(s, LJ_ERR_LIMIT, "a range of more than 100000");
        return list;
    }
    for (json_int_t i = from; step > 0 ? i < to : i > to; i += step) json_array_append_new(list, json_integer(i));
    return list;
}

static json_t *do_namespace(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)s, (void)value;
    return json_copy(args->named);
}

static json_t *do_raise(jinja_state *s, json_t *value, const jinja_args *args)
{
    (void)value;
    jinja_fail(s, LJ_ERR_INVALID, text_of(argument(args, 0)));
    return NULL;
}

static json_t *do_strftime(jinja_state *s, json_t *value, const jinja_args *args)
{
    char text[128];
    time_t now = time(NULL);
    struct tm today;
    (void)s, (void)value;
    localtime_r(&now, &today);
    return jinja_string(text, strftime(text, sizeof text, text_of(argument(args, 0)), &today));
}

static const call_row filters[] = {{"trim", do_strip},       {"length", do_length},   {"count", do_length}, {"upper", do_upper},
                                   {"lower", do_lower},      {"tojson", do_tojson},   {"first", do_first},  {"last", do_last},
                                   {"list", do_same},        {"safe", do_same},       {"string", do_string}, {"default", do_default},
                                   {"d", do_default},        {"join", do_join},       {"items", do_items},  {"selectattr", do_selectattr},
                                   {"rejectattr", do_rejectattr}, {"replace", do_replace}};
static const call_row methods[] = {{"strip", do_strip},           {"lstrip", do_lstrip},     {"rstrip", do_rstrip}, {"upper", do_upper},
                                   {"lower", do_lower},           {"startswith", do_startswith}, {"endswith", do_endswith}, {"split", do_split},
                                   {"replace", do_replace},       {"get", do_get},           {"items", do_items},   {"keys", do_keys}};
static const call_row functions[] = {{"range", do_range}, {"namespace", do_namespace}, {"dict", do_namespace}, {"raise_exception", do_raise},
                                     {"strftime_now", do_strftime}};

static json_t *call(jinja_state *s, const call_row *rows, size_t count, const char *what, const char *name, json_t *value, const jinja_args *args)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].fn(s, value, args);
    jinja_fail(s, LJ_ERR_UNSUPPORTED, what);
    return NULL;
}

json_t *jinja_filter(jinja_state *s, const char *name, json_t *value, const jinja_args *args)
{
    return call(s, filters, sizeof filters / sizeof *filters, "an unknown filter", name, value, args);
}

json_t *jinja_method(jinja_state *s, const char *name, json_t *value, const jinja_args *args)
{
    return call(s, methods, sizeof methods / sizeof *methods, "an unknown method", name, value, args);
}

json_t *jinja_function(jinja_state *s, const char *name, const jinja_args *args)
{
    return call(s, functions, sizeof functions / sizeof *functions, "an unknown function", name, NULL, args);
}

bool jinja_test(jinja_state *s, const char *name, const json_t *value, const jinja_args *args)
{
    const json_t *other = argument(args, 0);
    if (strcmp(name, "defined") == 0) return value != NULL;
    if (strcmp(name, "undefined") == 0) return value == NULL;
    if (strcmp(name, "none") == 0) return json_is_null(value);
    if (strcmp(name, "string") == 0) return json_is_string(value);
    if (strcmp(name, "mapping") == 0) return json_is_object(value);
    if (strcmp(name, "number") == 0) return json_is_number(value);
    if (strcmp(name, "integer") == 0) return json_is_integer(value);
    if (strcmp(name, "boolean") == 0) return json_is_boolean(value);
    if (strcmp(name, "true") == 0) return json_is_true(value);
    if (strcmp(name, "false") == 0) return json_is_false(value);
    if (strcmp(name, "iterable") == 0 || strcmp(name, "sequence") == 0) return json_is_string(value) || json_is_array(value) || json_is_object(value);
    if (strcmp(name, "equalto") == 0 || strcmp(name, "eq") == 0 || strcmp(name, "==") == 0)
        return value && other && json_equal((json_t *)value, (json_t *)other);
    if (strcmp(name, "in") == 0) {
        size_t index;
        json_t *item;
        json_array_foreach((json_t *)other, index, item) if (value && json_equal(item, (json_t *)value)) return true;
        return false;
    }
    jinja_fail(s, LJ_ERR_UNSUPPORTED, "an unknown test");
    return false;
}
