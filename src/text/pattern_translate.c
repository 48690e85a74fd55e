/* From Oniguruma's Ruby syntax to PCRE2's: one pass over the expression, one atom at a time. */
#define _GNU_SOURCE
#include "text/pattern.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct {
    const char *text;
    size_t bytes, at;
    lj_text *out;
    size_t atom;              /* where the last atom begins in out */
    size_t group[MAX_DEPTH];  /* where each open group begins in out */
    size_t depth;
    bool in_class, class_negated;
} translation;

/* Class escapes by their meaning in the file: outside a class, and the same inside one (NULL: cannot be written there). */
static const struct {
    char letter;
    const char *outside, *inside;
} classes[] = {
    {'s', "\\p{White_Space}", "\\p{White_Space}"},
    {'S', "\\P{White_Space}", "\\P{White_Space}"},
    {'d', "\\p{Nd}", "\\p{Nd}"},
    {'D', "\\P{Nd}", "\\P{Nd}"},
    {'w', "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"},
    {'W', "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]", NULL},
    {'h', "[0-9a-fA-F]", "0-9a-fA-F"},
    {'H', "[^0-9a-fA-F]", NULL},
};

/* Property names that PCRE2 10.42 does not know by these spellings. */
static const struct {
    const char *name, *ours;
} properties[] = {
    {"letter", "L"},           {"lowercase_letter", "Ll"}, {"uppercase_letter", "Lu"},   {"titlecase_letter", "Lt"},
    {"modifier_letter", "Lm"}, {"other_letter", "Lo"},     {"mark", "M"},                {"nonspacing_mark", "Mn"},
    {"number", "N"},           {"decimal_number", "Nd"},   {"letter_number", "Nl"},      {"other_number", "No"},
    {"punctuation", "P"},      {"symbol", "S"},            {"separator", "Z"},           {"space_separator", "Zs"},
    {"other", "C"},            {"control", "Cc"},          {"alpha", "Alphabetic"},      {"space", "White_Space"},
    {"digit", "Nd"},           {"upper", "Uppercase"},     {"lower", "Lowercase"},       {"punct", "P"},
};

static lj_status refuse(const translation *t, const char *what)
{
    return lj_fail(LJ_ERR_UNSUPPORTED, "expression '%.*s': %s at offset %zu has no exact translation here",
                   (int)(t->bytes < 90 ? t->bytes : 90), t->text, what, t->at);
}

static bool next_is(const translation *t, const char *word)
{
    size_t length = strlen(word);
    return t->bytes - t->at >= length && memcmp(t->text + t->at, word, length) == 0;
}

static void copy(translation *t, size_t count)
{
    if (count > t->bytes - t->at) count = t->bytes - t->at;
    lj_text_add_bytes(t->out, t->text + t->at, count);
    t->at += count;
}

/* \p{...} and \P{...}; at is on the letter. */
static lj_status property(translation *t)
{
    const char *close = memchr(t->text + t->at, '}', t->bytes - t->at);
    if (t->at + 1 >= t->bytes || t->text[t->at + 1] != '{' || !close) {
        lj_text_add(t->out, "\\");
        copy(t, 2); /* \pL */
        return LJ_OK;
    }
    const char *name = t->text + t->at + 2;
    size_t length = (size_t)(close - name), skip = length && *name == '^';
    lj_text_add(t->out, "\\%c{%s", t->text[t->at], skip ? "^" : "");
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        const char *known = properties[i].name;
        size_t n = 0;
        while (n < length - skip && known[n] && tolower((unsigned char)name[skip + n]) == known[n]) n++;
        if (n != length - skip || known[n]) continue;
        lj_text_add(t->out, "%s}", properties[i].ours);
        t->at += length + 3;
        return LJ_OK;
    }
    lj_text_add_bytes(t->out, name + skip, length - skip + 1);
    t->at += length + 3;
    return LJ_OK;
}

/* \uHHHH; at is on the u. */
static lj_status code_point(translation *t)
{
    for (size_t i = 1; i <= 4; i++)
        if (t->at + i >= t->bytes || !isxdigit((unsigned char)t->text[t->at + i])) return refuse(t, "\\u without four digits");
    lj_text_add(t->out, "\\x{%.4s}", t->text + t->at + 1);
    t->at += 5;
    return LJ_OK;
}

static lj_status escape(translation *t)
{
    t->at++;
    if (t->at == t->bytes) return refuse(t, "a lone backslash");
    char letter = t->text[t->at];
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].letter != letter) continue;
        const char *ours = t->in_class ? classes[i].inside : classes[i].outside;
        if (!ours) return refuse(t, "a negated class inside a class");
        t->at++;
        lj_text_add(t->out, "%s", ours);
        return LJ_OK;
    }
    if (letter == 'p' || letter == 'P') return property(t);
    if (letter == 'u') return code_point(t);
    if (strchr("KCGXRNOkg", letter) && !t->in_class) return refuse(t, "an escape of Oniguruma's own");
    lj_text_add(t->out, "\\");
    copy(t, 1);
    return LJ_OK;
}

static lj_status class_part(translation *t)
{
    if (t->text[t->at] == '\\') return escape(t);
    if (next_is(t, "[:")) {
        const char *close = memmem(t->text + t->at, t->bytes - t->at, ":]", 2);
        if (!close) return refuse(t, "an unclosed [:");
        copy(t, (size_t)(close - (t->text + t->at)) + 2);
        return LJ_OK;
    }
    if (t->text[t->at] == '[') return refuse(t, "a class inside a class");
    if (next_is(t, "&&")) return refuse(t, "an intersection of classes");
    if (t->text[t->at] == ']') t->in_class = false;
    copy(t, 1);
    return LJ_OK;
}

static void class_begin(translation *t)
{
    t->in_class = true;
    copy(t, 1);
    if (next_is(t, "^")) copy(t, 1);
    if (next_is(t, "]")) { /* a literal one in both syntaxes; escaped to be plain */
        lj_text_add(t->out, "\\]");
        t->at++;
    }
}

/* Inline flags: (?i) and (?i:...) mean the same; m is Ruby's "dot matches newline". */
static lj_status group_begin(translation *t)
{
    if (t->depth == MAX_DEPTH) return refuse(t, "a group deeper than 64 levels");
    t->group[t->depth++] = t->out->length;
    copy(t, 1);
    if (!next_is(t, "?")) return LJ_OK;
    copy(t, 1);
    if (t->at < t->bytes && strchr("=!:>", t->text[t->at])) return copy(t, 1), LJ_OK;
    if (next_is(t, "<=") || next_is(t, "<!")) return copy(t, 2), LJ_OK;
    if (next_is(t, "<")) return LJ_OK; /* a named group */
    for (; t->at < t->bytes && !strchr(":)", t->text[t->at]); t->at++) {
        char flag = t->text[t->at];
        if (!strchr("imx-", flag)) return refuse(t, "an unknown group flag");
        lj_text_add(t->out, "%c", flag == 'm' ? 's' : flag);
    }
    if (next_is(t, ":")) copy(t, 1);
    return LJ_OK;
}

/* {n,m}+ repeats the repetition in Ruby's syntax; PCRE2 would read it as possessive. */
static void interval(translation *t, size_t length)
{
    copy(t, length);
    if (!next_is(t, "+")) return;
    t->at++;
    lj_text repeated;
    lj_text_init(&repeated);
    lj_text_add(&repeated, "(?:%.*s)+", (int)(t->out->length - t->atom), t->out->data + t->atom);
    t->out->length = t->atom;
    lj_text_add_bytes(t->out, repeated.data, repeated.length);
    t->out->failed |= repeated.failed;
    lj_text_release(&repeated);
}

/* Length of an interval quantifier {n}, {n,}, {,m}, {n,m} at the brace; 0: a plain brace. */
static size_t interval_length(const translation *t)
{
    size_t at = t->at + 1, digits = 0;
    for (; at < t->bytes && (isdigit((unsigned char)t->text[at]) || t->text[at] == ','); at++) digits += t->text[at] != ',';
    return digits && at < t->bytes && t->text[at] == '}' ? at + 1 - t->at : 0;
}

static lj_status part(translation *t)
{
    char c = t->text[t->at];
    size_t length;
    if (t->in_class) return class_part(t);
    if (strchr("?*+", c) && c) return copy(t, 1), LJ_OK;
    if (c == '{' && (length = interval_length(t)) > 0) {
        if (t->text[t->at + 1] == ',') return refuse(t, "{,m}");
        return interval(t, length), LJ_OK;
    }
    if (c == ')') {
        if (t->depth) t->atom = t->group[--t->depth];
        return copy(t, 1), LJ_OK;
    }
    t->atom = t->out->length;
    if (c == '\\') return escape(t);
    if (c == '[') return class_begin(t), LJ_OK;
    if (c == '(') return group_begin(t);
    do copy(t, 1);
    while (t->at < t->bytes && ((unsigned char)t->text[t->at] & 0xc0) == 0x80);
    return LJ_OK;
}

lj_status lj_pattern_translate(const char *expression, size_t bytes, lj_text *out)
{
    translation t = {.text = expression, .bytes = bytes, .out = out};
    while (t.at < bytes) LJ_TRY(part(&t));
    if (t.in_class) return refuse(&t, "an unclosed class");
    return LJ_OK;
}
