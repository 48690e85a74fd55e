/* Strict JSON reading over jansson. The depth is checked before the parser recurses into it. */
#include "formats/strict_json.h"

#include "base/file.h"

#include <string.h>

/* Offset of the bracket that goes one level too deep, or `bytes` when none does. */
static size_t too_deep_at(const char *text, size_t bytes)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') i++;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > LJ_JSON_MAX_DEPTH) return i;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return bytes;
}

static lj_status parse(const char *where, const char *text, size_t bytes, size_t flags, json_t **out)
{
    size_t deep = too_deep_at(text, bytes);
    if (deep < bytes)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset %zu: JSON nested deeper than %d levels", where, deep, LJ_JSON_MAX_DEPTH);
    json_error_t error;
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | flags, &error);
    if (!value) return lj_fail(LJ_ERR_FORMAT, "%s: offset %d (line %d): %s", where, error.position, error.line, error.text);
    *out = value;
    return LJ_OK;
}

lj_status lj_json_parse(const char *where, const char *text, size_t bytes, json_t **out)
{
    return parse(where, text, bytes, 0, out);
}

lj_status lj_json_parse_text(const char *where, const char *text, size_t bytes, json_t **out)
{
    return parse(where, text, bytes, JSON_ALLOW_NUL, out);
}

lj_status lj_json_load(const char *path, size_t max_bytes, json_t **out)
{
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_status status = file.bytes > max_bytes
                           ? lj_fail(LJ_ERR_LIMIT, "%s: is %zu bytes, at most %zu are allowed for such a file", path, file.bytes, max_bytes)
                           : lj_json_parse(path, (const char *)file.data, file.bytes, out);
    lj_mapped_file_release(&file);
    return status;
}

lj_status lj_json_parse_wide(const char *where, const char *text, size_t bytes, json_t **out)
{
    return parse(where, text, bytes, JSON_DECODE_INT_AS_REAL, out);
}

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {"an object", "an array", "a string", "a whole number", "a number", "true", "false", "null"};
    return names[json_typeof(value)];
}

static lj_status wrong_type(const json_t *value, const char *where, const char *key, const char *need)
{
    return lj_fail(LJ_ERR_FORMAT, "%s: '%s' is %s, it must be %s", where, key, type_name(value), need);
}

bool lj_json_has(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

lj_status lj_json_get_int(const json_t *object, const char *where, const char *key, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return LJ_OK;
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return LJ_OK;
    }
    double number = json_is_real(value) ? json_real_value(value) : 0.5;
    if (number < -9e15 || number > 9e15 || (double)(int64_t)number != number) return wrong_type(value, where, key, "a whole number");
    *out = (int64_t)number;
    return LJ_OK;
}

lj_status lj_json_get_double(const json_t *object, const char *where, const char *key, double *out)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return LJ_OK;
    if (!json_is_number(value)) return wrong_type(value, where, key, "a number");
    *out = json_number_value(value);
    return LJ_OK;
}

lj_status lj_json_get_bool(const json_t *object, const char *where, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return LJ_OK;
    if (!json_is_boolean(value)) return wrong_type(value, where, key, "true or false");
    *out = json_is_true(value);
    return LJ_OK;
}

lj_status lj_json_get_string(const json_t *object, const char *where, const char *key, const char **out)
{
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return LJ_OK;
    if (!json_is_string(value)) return wrong_type(value, where, key, "a string");
    *out = json_string_value(value);
    return LJ_OK;
}
