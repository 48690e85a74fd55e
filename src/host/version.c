#define _GNU_SOURCE
#include "host/version.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 12 };

static size_t parts_read(const char *text, long *parts, const char **end)
{
    size_t count = 0;
    if ((*text == 'v' || *text == 'V') && isdigit((unsigned char)text[1])) text++;
    while (isdigit((unsigned char)*text) && count < MAX_PARTS) {
        char *after;
        parts[count++] = strtol(text, &after, 10);
        text = after;
        if (*text != '.' || !isdigit((unsigned char)text[1])) break;
        text++;
    }
    if (end) *end = text;
    return count;
}

static int parts_compare(const long *a, size_t na, const long *b, size_t nb)
{
    for (size_t i = 0; i < na || i < nb; i++) {
        long x = i < na ? a[i] : 0, y = i < nb ? b[i] : 0;
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

int lj_version_compare(const char *a, const char *b)
{
    long x[MAX_PARTS], y[MAX_PARTS];
    size_t nx = parts_read(a, x, NULL), ny = parts_read(b, y, NULL);
    return parts_compare(x, nx, y, ny);
}

bool lj_version_within(const char *version, const char *prefix)
{
    long x[MAX_PARTS], y[MAX_PARTS];
    size_t nx = parts_read(version, x, NULL), ny = parts_read(prefix, y, NULL);
    if (nx < ny) return false;
    return parts_compare(x, ny, y, ny) == 0;
}

int lj_version_major(const char *version)
{
    return isdigit((unsigned char)*version) ? (int)strtol(version, NULL, 10) : 0;
}

const char *lj_version_suffix(const char *version)
{
    const char *plus = strchr(version, '+');
    return plus ? plus + 1 : "";
}

bool lj_version_find(const char *text, char *out, size_t capacity)
{
    for (const char *at = text; *at; at++) {
        if (!isdigit((unsigned char)*at) || (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '.')))
            continue;
        size_t length = strspn(at, "0123456789.");
        while (length && at[length - 1] == '.') length--;
        if (memchr(at, '.', length)) {
            snprintf(out, capacity, "%.*s", (int)length, at);
            return true;
        }
        at += length - 1;
    }
    return false;
}

/* The sign and number of what follows the release: dev < a < b < rc < (nothing) < post. */
typedef struct {
    long release[MAX_PARTS];
    size_t count;
    int stage;
    long number;
    bool dev;
    char local[64];
} pep440;

static pep440 pep440_read(const char *text)
{
    static const struct {
        const char *word;
        int stage;
    } stages[] = {{"alpha", -3}, {"a", -3},   {"beta", -2}, {"b", -2},  {"rc", -1},
                  {"c", -1},     {"pre", -1}, {"post", 1},  {"rev", 1}, {"r", 1}};
    pep440 v = {0};
    const char *rest;
    v.count = parts_read(text, v.release, &rest);
    while (*rest && *rest != '+') {
        rest += strspn(rest, ".-_");
        size_t i, count = sizeof stages / sizeof *stages;
        if (strncasecmp(rest, "dev", 3) == 0) {
            v.dev = true, v.number = v.stage ? v.number : strtol(rest + 3, NULL, 10), rest += 3;
        } else {
            for (i = 0; i < count && strncasecmp(rest, stages[i].word, strlen(stages[i].word)) != 0; i++) {
            }
            if (i == count) break;
            rest += strlen(stages[i].word);
            v.stage = stages[i].stage, v.number = strtol(rest + strspn(rest, ".-_"), NULL, 10);
        }
        rest += strspn(rest, ".-_0123456789");
    }
    const char *plus = strchr(text, '+');
    if (plus) snprintf(v.local, sizeof v.local, "%s", plus + 1);
    return v;
}

static int rank_of(const pep440 *v)
{
    if (v->stage == 0) return v->dev ? -8 : 0;
    return v->stage * 2 - v->dev;
}

int lj_python_version_compare(const char *a, const char *b)
{
    pep440 x = pep440_read(a), y = pep440_read(b);
    int order = parts_compare(x.release, x.count, y.release, y.count);
    if (order) return order;
    if (rank_of(&x) != rank_of(&y)) return rank_of(&x) < rank_of(&y) ? -1 : 1;
    if (x.number != y.number) return x.number < y.number ? -1 : 1;
    return strcmp(x.local, y.local);
}

/* A specifier without a local part is met by a version with one. */
static int compare_public(const char *version, const char *wanted)
{
    char plain[128];
    snprintf(plain, sizeof plain, "%s", version);
    if (!strchr(wanted, '+')) plain[strcspn(plain, "+")] = 0;
    return lj_python_version_compare(plain, wanted);
}

static bool one_allows(const char *operation, const char *wanted, const char *version)
{
    char base[128];
    snprintf(base, sizeof base, "%s", wanted);
    char *star = strstr(base, ".*");
    if (star) *star = 0;
    bool within = lj_version_within(version, base);
    int order = compare_public(version, base);
    if (strcmp(operation, "==") == 0) return star ? within : order == 0;
    if (strcmp(operation, "!=") == 0) return star ? !within : order != 0;
    if (strcmp(operation, ">=") == 0) return order >= 0;
    if (strcmp(operation, "<=") == 0) return order <= 0;
    if (strcmp(operation, ">") == 0) return order > 0;
    if (strcmp(operation, "<") == 0) return order < 0;
    if (strcmp(operation, "===") == 0) return strcmp(version, wanted) == 0;
    if (strcmp(operation, "~=") == 0) {
        char *dot = strrchr(base, '.');
        if (dot) *dot = 0;
        return order >= 0 && lj_version_within(version, base);
    }
    return true;
}

bool lj_python_version_allows(const char *specifiers, const char *version)
{
    char copy[512], *save = NULL;
    snprintf(copy, sizeof copy, "%s", specifiers);
    for (char *part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        char operation[4] = "", wanted[128] = "";
        part += strspn(part, " ()");
        size_t length = strspn(part, "=!<>~");
        if (!length || length > 3) continue;
        snprintf(operation, sizeof operation, "%.*s", (int)length, part);
        part += length + strspn(part + length, " ");
        snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(part, " ()"), part);
        if (!one_allows(operation, wanted, version)) return false;
    }
    return true;
}
