#define _GNU_SOURCE
#include "base/config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

const lj_config_row lj_config_rows[LJ_CFG_COUNT] = {
#define CONFIG(name, type, initial, low, high, choices, help) {#name, LJ_CONFIG_##type, initial, low, high, choices, help},
#include "base/config.def"
#undef CONFIG
};

void lj_config_init(lj_config *config)
{
    *config = (lj_config){0};
}

void lj_config_release(lj_config *config)
{
    for (int i = 0; i < LJ_CFG_COUNT; i++) free(config->text[i]);
    *config = (lj_config){0};
}

/* Flag spelling of a row. */
static const char *flag_name(const lj_config_row *row, char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "--%s", row->name);
    for (char *c = buffer; *c; c++)
        if (*c == '_') *c = '-';
    return buffer;
}

static bool choice_allowed(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *at = choices; *at;) {
        size_t n = strcspn(at, "|");
        if (n == length && strncmp(at, value, n) == 0) return true;
        at += n + (at[n] == '|');
    }
    return false;
}

static bool bool_parse(const char *value, bool *out)
{
    static const char *const words[2][4] = {{"false", "off", "no", "0"}, {"true", "on", "yes", "1"}};
    for (int truth = 0; truth < 2; truth++)
        for (int i = 0; i < 4; i++)
            if (strcasecmp(value, words[truth][i]) == 0) return *out = truth, true;
    return false;
}

static lj_status number_check(const lj_config_row *row, const char *flag, const char *value)
{
    char *end;
    double number = strtod(value, &end);
    bool whole = row->type != LJ_CONFIG_INT || floor(number) == number;
    if (end == value || *end || !isfinite(number) || !whole)
        return lj_fail(LJ_ERR_INVALID, "%s: '%s' is not a%s number", flag, value, row->type == LJ_CONFIG_INT ? " whole" : "");
    if (number < row->low || number > row->high)
        return lj_fail(LJ_ERR_INVALID, "%s: %s is outside %g .. %g", flag, value, row->low, row->high);
    return LJ_OK;
}

static lj_status value_check(const lj_config_row *row, const char *value)
{
    char flag[96];
    uint64_t bytes;
    bool truth;
    flag_name(row, flag, sizeof flag);
    switch (row->type) {
    case LJ_CONFIG_INT:
    case LJ_CONFIG_FLOAT: return number_check(row, flag, value);
    case LJ_CONFIG_SIZE: return lj_fail_in(lj_size_parse(value, &bytes), "%s", flag);
    case LJ_CONFIG_BOOL:
        return bool_parse(value, &truth) ? LJ_OK : lj_fail(LJ_ERR_INVALID, "%s: '%s' is neither true nor false", flag, value);
    case LJ_CONFIG_CHOICE:
        return choice_allowed(row->choices, value) ? LJ_OK
                                                   : lj_fail(LJ_ERR_INVALID, "%s: '%s' is none of %s", flag, value, row->choices);
    case LJ_CONFIG_STRING: return LJ_OK;
    }
    return LJ_OK;
}

lj_status lj_config_set(lj_config *config, lj_config_key key, const char *value, lj_config_source source)
{
    LJ_TRY(value_check(&lj_config_rows[key], value));
    if (source < config->source[key]) return LJ_OK;
    char *copy = strdup(value);
    if (!copy) return lj_fail(LJ_ERR_NOMEM, "setting %s", lj_config_rows[key].name);
    free(config->text[key]);
    config->text[key] = copy, config->source[key] = source;
    return LJ_OK;
}

/* Dashes and underscores are one; case matters only for flags, so the caller lowers variables. */
static bool same_name(const char *row, const char *name)
{
    for (; *row && *name; row++, name++)
        if (*row != (*name == '-' ? '_' : *name)) return false;
    return !*row && !*name;
}

static const char *nearest_key(const char *name)
{
    const char *names[LJ_CFG_COUNT];
    char plain[96];
    snprintf(plain, sizeof plain, "%s", name);
    for (char *c = plain; *c; c++)
        if (*c == '-') *c = '_';
    for (int i = 0; i < LJ_CFG_COUNT; i++) names[i] = lj_config_rows[i].name;
    return lj_nearest_name(plain, names, LJ_CFG_COUNT);
}

lj_status lj_config_find(const char *name, lj_config_key *key)
{
    for (int i = 0; i < LJ_CFG_COUNT; i++) {
        if (!same_name(lj_config_rows[i].name, name)) continue;
        *key = (lj_config_key)i;
        return LJ_OK;
    }
    const char *near = nearest_key(name);
    if (!near) return lj_fail(LJ_ERR_NOT_FOUND, "no setting '%s'", name);
    return lj_fail(LJ_ERR_NOT_FOUND, "no setting '%s'; did you mean '%s'?", name, near);
}

static lj_status variable_read(lj_config *config, const char *variable)
{
    char name[96] = "";
    const char *equals = strchr(variable, '='), *start = variable + strlen("LJPERF_");
    size_t length = (size_t)(equals - start);
    if (length >= sizeof name) length = sizeof name - 1;
    for (size_t i = 0; i < length; i++) name[i] = (char)tolower((unsigned char)start[i]);
    lj_config_key key;
    if (lj_config_find(name, &key) != LJ_OK) {
        const char *near = nearest_key(name);
        char upper[96] = "";
        for (size_t i = 0; near && near[i]; i++) upper[i] = (char)toupper((unsigned char)near[i]), upper[i + 1] = 0;
        return lj_fail(LJ_ERR_NOT_FOUND, "unknown variable LJPERF_%.*s%s%s%s", (int)(equals - start), start,
                       near ? "; did you mean LJPERF_" : "; unset it (ljperf --help lists the settings)", upper, near ? "?" : "");
    }
    if (!equals[1]) return LJ_OK;
    return lj_fail_in(lj_config_set(config, key, equals + 1, LJ_FROM_ENVIRONMENT), "environment");
}

lj_status lj_config_read_environment(lj_config *config)
{
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "LJPERF_", 7) == 0 && strchr(*e, '=')) LJ_TRY(variable_read(config, *e));
    return LJ_OK;
}

static bool key_listed(const lj_config_key *keys, size_t count, lj_config_key key)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i] == key) return true;
    return false;
}

static lj_status flag_unknown(const char *name, const lj_config_key *keys, size_t count)
{
    const char *names[LJ_CFG_COUNT];
    char spelled[LJ_CFG_COUNT][64];
    for (size_t i = 0; i < count; i++) {
        flag_name(&lj_config_rows[keys[i]], spelled[i], sizeof spelled[i]);
        names[i] = spelled[i];
    }
    const char *near = lj_nearest_name(name, names, count);
    return lj_fail(LJ_ERR_INVALID, "unknown option '%s'%s%s%s", name, near ? "; did you mean " : "; --help lists the options", near ? near : "",
                   near ? "?" : "");
}

/* One "--name[=value]" at argv[*at]; moves *at past a separate value. */
static lj_status flag_read(lj_config *config, const lj_config_key *keys, size_t count, int argc, char **argv, int *at)
{
    char name[96];
    const char *text = argv[*at] + 2, *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    lj_config_key key;
    bool found = lj_config_find(name, &key) == LJ_OK && key_listed(keys, count, key), negated = false;
    if (!found && strncmp(name, "no-", 3) == 0 && lj_config_find(name + 3, &key) == LJ_OK)
        found = negated = key_listed(keys, count, key) && lj_config_rows[key].type == LJ_CONFIG_BOOL;
    if (!found) {
        char spelled[100];
        snprintf(spelled, sizeof spelled, "--%s", name);
        return flag_unknown(spelled, keys, count);
    }
    if (lj_config_rows[key].type == LJ_CONFIG_BOOL && !equals)
        return lj_config_set(config, key, negated ? "false" : "true", LJ_FROM_FLAG);
    if (equals) return lj_config_set(config, key, equals + 1, LJ_FROM_FLAG);
    bool alone = *at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0;
    if (alone && lj_config_rows[key].choices[0] == '[') /* the value may be left out */
        return lj_config_set(config, key, lj_config_rows[key].initial, LJ_FROM_FLAG);
    if (*at + 1 >= argc) return lj_fail(LJ_ERR_INVALID, "--%s needs a value (%s)", name, lj_config_rows[key].choices);
    return lj_config_set(config, key, argv[++*at], LJ_FROM_FLAG);
}

lj_status lj_config_read_flags(lj_config *config, const lj_config_key *keys, size_t key_count, int argc, char **argv,
                               const char **positional, size_t max, size_t *positional_count)
{
    bool flags = true;
    *positional_count = 0;
    for (int i = 0; i < argc; i++) {
        if (flags && strcmp(argv[i], "--") == 0) {
            flags = false;
        } else if (flags && strcmp(argv[i], "-h") == 0) {
            LJ_TRY(lj_config_set(config, LJ_CFG_help, "true", LJ_FROM_FLAG));
        } else if (flags && strncmp(argv[i], "--", 2) == 0) {
            LJ_TRY(flag_read(config, keys, key_count, argc, argv, &i));
        } else if (flags && argv[i][0] == '-' && argv[i][1] && !isdigit((unsigned char)argv[i][1])) {
            return flag_unknown(argv[i], keys, key_count);
        } else {
            if (*positional_count == max) return lj_fail(LJ_ERR_INVALID, "unexpected argument '%s'", argv[i]);
            positional[(*positional_count)++] = argv[i];
        }
    }
    return LJ_OK;
}

bool lj_config_is_set(const lj_config *config, lj_config_key key)
{
    return config->text[key] != NULL;
}

const char *lj_config_string(const lj_config *config, lj_config_key key)
{
    return config->text[key] ? config->text[key] : lj_config_rows[key].initial;
}

int64_t lj_config_int(const lj_config *config, lj_config_key key)
{
    return (int64_t)strtod(lj_config_string(config, key), NULL);
}

double lj_config_float(const lj_config *config, lj_config_key key)
{
    return strtod(lj_config_string(config, key), NULL);
}

uint64_t lj_config_size(const lj_config *config, lj_config_key key)
{
    uint64_t bytes = 0;
    const char *text = lj_config_string(config, key);
    if (*text) (void)lj_size_parse(text, &bytes); /* checked when it was set */
    return bytes;
}

bool lj_config_bool(const lj_config *config, lj_config_key key)
{
    bool truth = false;
    (void)bool_parse(lj_config_string(config, key), &truth);
    return truth;
}

void lj_config_help(lj_text *out, const lj_config_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const lj_config_row *row = &lj_config_rows[keys[i]];
        char flag[96], left[160];
        flag_name(row, flag, sizeof flag);
        snprintf(left, sizeof left, "%s %s", flag, row->type == LJ_CONFIG_BOOL ? "" : row->choices);
        lj_text_add(out, strlen(left) > 26 ? "  %s\n  %-26s %s" : "  %-26s %s%s", left, strlen(left) > 26 ? "" : row->help,
                    strlen(left) > 26 ? row->help : "");
        bool worth = *row->initial && row->type != LJ_CONFIG_BOOL;
        lj_text_add(out, worth ? " (default %s)\n" : "\n", row->initial);
    }
}
