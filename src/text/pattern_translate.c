/* From Oniguruma's Ruby syntax to PCRE2's: one pass over the expression, one atom at a time. */
#define _GNU_SOURCE
#include "text/pattern.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct {
    const char *text;
    size_t bytes, at;
    lj_text *out;
    size_t atom;              /* where the last atom begins in out */
    size_t group[MAX_DEPTH];  /* where each open group begins in out */
    size_t depth;
    int after, upto; /* Unicode versions whose additions are written out */
    bool in_class;
} translation;

/* What Unicode 15 and 16 have and 14 has not. */
static const struct {
    uint32_t first, last;
    const char *category;
    int version;
} additions[] = {
#define ADDED(first, last, category, version) {first, last, #category, version},
#include "text/unicode_additions.def"
#undef ADDED
};

/* Oniguruma counts the Latin-1 digits above the line and the fractions as word characters. */
#define ONIGURUMA_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

/* Class escapes by their meaning in the file: the items of a class, whether it is negated, and the categories that came later. */
static const struct {
    char letter;
    bool negated;
    const char *items, *categories;
} classes[] = {
    {'s', false, "\\p{White_Space}", ""},
    {'S', true, "\\p{White_Space}", ""},
    {'d', false, "\\p{Nd}", "Nd"},
    {'D', true, "\\p{Nd}", "Nd"},
    {'w', false, ONIGURUMA_WORD, "L M Nd Nl Pc"},
    {'W', true, ONIGURUMA_WORD, "L M Nd Nl Pc"},
    {'h', false, "0-9a-fA-F", ""},
    {'H', true, "0-9a-fA-F", ""},
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
    /* Scripts mean the script alone, not its extensions. */
    {"han", "sc:Han"},         {"hiragana", "sc:Hiragana"}, {"katakana", "sc:Katakana"}, {"hangul", "sc:Hangul"},
    {"latin", "sc:Latin"},     {"greek", "sc:Greek"},      {"cyrillic", "sc:Cyrillic"},  {"arabic", "sc:Arabic"},
    {"hebrew", "sc:Hebrew"},   {"thai", "sc:Thai"},        {"devanagari", "sc:Devanagari"}, {"common", "sc:Common"},
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

/* Does the category "Lu" belong to one of "L M Nd"? */
static bool category_in(const char *category, const char *list)
{
    for (; *list; list += strcspn(list, " "), list += *list == ' ')
        if (list[0] == category[0] && (list[1] == ' ' || !list[1] || list[1] == category[1])) return true;
    return false;
}

/* Ranges of the categories in `list` that the tables lack. */
static bool addition_counts(const translation *t, size_t row, const char *list)
{
    return additions[row].version > t->after && additions[row].version <= t->upto && category_in(additions[row].category, list);
}

static void add_ranges(translation *t, const char *list)
{
    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++)
        if (addition_counts(t, i, list))
            lj_text_add(t->out, "\\x{%x}-\\x{%x}", additions[i].first, additions[i].last);
}

static bool any_ranges(const translation *t, const char *list)
{
    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++)
        if (addition_counts(t, i, list)) return true;
    return false;
}

/* PCRE2's spelling of a property. */
static void property_name(const char *name, size_t length, char out[48])
{
    snprintf(out, 48, "%.*s", (int)length, name);
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        size_t n = 0;
        while (n < length && properties[i].name[n] && tolower((unsigned char)name[n]) == properties[i].name[n]) n++;
        if (n == length && !properties[i].name[n]) snprintf(out, 48, "%s", properties[i].ours);
    }
}

/* \p{...} and \P{...}; at is on the letter. */
static lj_status property(translation *t)
{
    bool negated = t->text[t->at] == 'P', braced = t->at + 1 < t->bytes && t->text[t->at + 1] == '{';
    const char *name = t->text + t->at + 1 + braced, *end = t->text + t->bytes;
    const char *close = braced ? memchr(name, '}', (size_t)(end - name)) : name + 1;
    if (!close || close > end || name == close) return refuse(t, "an unfinished property");
    t->at = (size_t)(close - t->text) + braced;
    if (*name == '^') name++, negated = !negated;
    if (close - name >= 40) return refuse(t, "a property of 40 letters and more");
    char ours[48];
    property_name(name, (size_t)(close - name), ours);
    /* Ha is what the additions call the script Han; other long names are no general categories. */
    const char *category = strlen(ours) <= 2 ? ours : strcmp(ours, "sc:Han") == 0 ? "Ha" : "";
    if (negated && !t->in_class && any_ranges(t, category)) {
        lj_text_add(t->out, "[^\\p{%s}", ours);
        add_ranges(t, category);
        lj_text_add(t->out, "]");
        return LJ_OK;
    }
    bool bracket = !negated && !t->in_class && any_ranges(t, category);
    lj_text_add(t->out, "%s\\%c{%s}", bracket ? "[" : "", negated ? 'P' : 'p', ours);
    if (!negated) add_ranges(t, category);
    if (bracket) lj_text_add(t->out, "]");
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

static lj_status class_escape(translation *t, size_t row)
{
    bool negated = classes[row].negated;
    if (negated && t->in_class) {
        if (classes[row].letter != 'S') return refuse(t, "a negated class inside a class");
        lj_text_add(t->out, "\\P{White_Space}");
        return LJ_OK;
    }
    if (!t->in_class) lj_text_add(t->out, negated ? "[^" : "[");
    lj_text_add(t->out, "%s", classes[row].items);
    add_ranges(t, classes[row].categories);
    if (!t->in_class) lj_text_add(t->out, "]");
    return LJ_OK;
}

static lj_status escape(translation *t)
{
    t->at++;
    if (t->at == t->bytes) return refuse(t, "a lone backslash");
    char letter = t->text[t->at];
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (classes[i].letter != letter) continue;
        t->at++;
        return class_escape(t, i);
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
    if (!next_is(t, "+") || t->out->failed) return;
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

lj_status lj_pattern_translate(const char *expression, size_t bytes, int after, int upto, lj_text *out)
{
    translation t = {.text = expression, .bytes = bytes, .out = out, .after = after, .upto = upto};
    while (t.at < bytes) LJ_TRY(part(&t));
    if (t.in_class) return refuse(&t, "an unclosed class");
    return LJ_OK;
}
