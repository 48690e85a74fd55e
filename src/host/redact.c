/* Secrets out of texts and JSON values. When in doubt a value goes: a bundle is for strangers. */
#define PCRE2_CODE_UNIT_WIDTH 8
#define _GNU_SOURCE
#include "host/redact.h"

#include "host/host.h"
#include "host/pattern.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

static const char gone[] = "[removed]";

bool lj_secret_name(const json_t *rules, const char *name)
{
    json_t *patterns = json_object_get(rules, "names"), *pattern;
    size_t i;
    json_array_foreach(patterns, i, pattern) if (lj_host_pattern_find(json_string_value(pattern), name, NULL,
                                                                      0)) return true;
    return false;
}

static bool already_gone(const char *text, size_t length)
{
    return length >= sizeof gone - 1 && memcmp(text, gone, sizeof gone - 1) == 0;
}

/* Replaces every match's first group (or all of it) in `text`. */
static size_t replace_all(const char *pattern, const char *text, lj_text *out)
{
    int error;
    PCRE2_SIZE where;
    size_t count = 0, at = 0, kept = 0, length = strlen(text);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, 0, &error, &where, NULL);
    pcre2_match_data *match = code ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
    while (match && at <= length) {
        int groups = pcre2_match(code, (PCRE2_SPTR)text, length, at, 0, match, NULL);
        if (groups < 1) break;
        PCRE2_SIZE *v = pcre2_get_ovector_pointer(match);
        int which = 0;
        for (int g = 1; g < groups && !which; g++)
            if (v[2 * g] != PCRE2_UNSET) which = g;
        size_t from = v[2 * which], to = v[2 * which + 1];
        if (to > from && from >= kept && !already_gone(text + from, length - from)) {
            lj_text_add_bytes(out, text + kept, from - kept);
            lj_text_add(out, "%s", gone);
            kept = to, count++;
        }
        at = v[1] > at ? v[1] : at + 1;
    }
    lj_text_add_bytes(out, text + kept, length - kept);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    return count;
}

/* "NAME=VALUE" and "name: value" lines whose name is a secret's. */
static size_t lines_redact(const json_t *rules, const char *text, lj_text *out)
{
    size_t count = 0;
    while (*text) {
        size_t length = strcspn(text, "\n"), split = strcspn(text, "=:\n");
        char name[128];
        const char *start = text + strspn(text, " \t-\"'");
        if (strncmp(start, "export ", 7) == 0) start += 7;
        lj_say(name, "%.*s", start < text + split ? (int)(text + split - start) : 0, start);
        name[strcspn(name, "\"' \t")] = 0;
        bool secret = split < length && *name && lj_secret_name(rules, name);
        size_t value = split + 1 < length ? split + 1 + strspn(text + split + 1, " \t\"'") : length;
        if (secret && value < length && !already_gone(text + value, length - value)) {
            lj_text_add_bytes(out, text, value);
            lj_text_add(out, "%s", gone);
            count++;
        } else {
            lj_text_add_bytes(out, text, length);
        }
        if (text[length]) lj_text_add(out, "\n");
        text += length + (text[length] == '\n');
    }
    return count;
}

size_t lj_redact(const json_t *rules, const char *text, lj_text *out)
{
    json_t *rows = json_object_get(rules, "values"), *row;
    size_t i, count;
    lj_text current;
    lj_text_init(&current);
    count = lines_redact(rules, text, &current);
    json_array_foreach(rows, i, row)
    {
        lj_text next;
        lj_text_init(&next);
        count += replace_all(lj_json_text(row, "pattern"), current.data ? current.data : "", &next);
        lj_text_release(&current);
        current = next;
    }
    if (current.length) lj_text_add_bytes(out, current.data, current.length);
    lj_text_release(&current);
    return count;
}

static json_t *text_redacted(const json_t *rules, const char *text)
{
    lj_text out;
    lj_text_init(&out);
    lj_redact(rules, text, &out);
    json_t *value = lj_json_string(out.data ? out.data : "");
    lj_text_release(&out);
    return value;
}

static json_t *value_redacted(const json_t *rules, const json_t *value, bool secret);

static json_t *object_redacted(const json_t *rules, const json_t *value, bool secret)
{
    json_t *copy = json_object(), *inner;
    const char *key;
    bool named = lj_secret_name(rules, lj_json_text(value, "name")) &&
                 json_object_get(value, "value"); /* {name: HF_TOKEN, value: ...} */
    bool kubernetes_secret = strcmp(lj_json_text(value, "kind"), "Secret") == 0;
    json_object_foreach((json_t *)value, key, inner)
    {
        bool hide = secret || lj_secret_name(rules, key) || (named && strcmp(key, "value") == 0) ||
                    (kubernetes_secret && (strcmp(key, "data") == 0 || strcmp(key, "stringData") == 0));
        json_object_set_new(copy, key, value_redacted(rules, inner, hide));
    }
    return copy;
}

static json_t *value_redacted(const json_t *rules, const json_t *value, bool secret)
{
    size_t i;
    json_t *inner, *copy;
    if (json_is_object(value)) return object_redacted(rules, value, secret);
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach(value, i, inner) json_array_append_new(copy, value_redacted(rules, inner, secret));
        return copy;
    }
    if (secret && (json_is_string(value) || json_is_number(value))) return json_string(gone);
    return json_is_string(value) ? text_redacted(rules, json_string_value(value))
                                 : json_incref((json_t *)value);
}

json_t *lj_redact_json(const json_t *rules, const json_t *value)
{
    return value_redacted(rules, value, false);
}
