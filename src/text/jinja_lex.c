/* Tokens of a template; white space is trimmed here. */
#include "text/jinja_parts.h"

#include "base/utf8.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const size_t longest_source = 1 << 20;

typedef struct {
    const char *source;
    size_t bytes, at;
    lj_arena *arena;
    jinja_token *tokens;
    size_t count, capacity;
    bool line_start;  /* the text begins a line */
    bool strip_next;  /* a tag ended with "-" */
} lexer;

static lj_status add(lexer *l, jinja_token token)
{
    if (l->count == l->capacity) {
        size_t capacity = 2 * l->capacity + 256;
        jinja_token *grown = lj_arena_alloc(l->arena, capacity * sizeof *grown);
        if (!grown) return LJ_ERR_NOMEM;
        if (l->count) memcpy(grown, l->tokens, l->count * sizeof *grown);
        l->tokens = grown, l->capacity = capacity;
    }
    l->tokens[l->count++] = token;
    return LJ_OK;
}

static lj_status fault(const lexer *l, const char *what)
{
    return lj_fail(LJ_ERR_FORMAT, "template: %s at offset %zu", what, l->at);
}

static bool space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

/* The text before the tag at `tag`, trimmed as that tag and the one before it ask. */
static lj_status add_text(lexer *l, size_t tag)
{
    size_t start = l->at, end = tag;
    bool any_tag = tag < l->bytes, block = any_tag && (l->source[tag + 1] == '%' || l->source[tag + 1] == '#');
    if (l->strip_next)
        while (start < end && space(l->source[start])) start++;
    char sign = tag + 2 < l->bytes ? l->source[tag + 2] : 0;
    if (any_tag && sign == '-') {
        while (end > start && space(l->source[end - 1])) end--;
    } else if (block && sign != '+') {
        size_t line = end;
        while (line > start && (l->source[line - 1] == ' ' || l->source[line - 1] == '\t')) line--;
        if (line > start ? l->source[line - 1] == '\n' : start > l->at ? l->source[start - 1] == '\n' : l->line_start) end = line;
    }
    size_t at = l->at;
    l->at = tag;
    return end > start ? add(l, (jinja_token){JINJA_TEXT, l->source + start, end - start, at}) : LJ_OK;
}

static lj_status add_string(lexer *l)
{
    char quote = l->source[l->at];
    size_t offset = l->at++, used = 0;
    const char *end = l->source + l->at;
    while (*end && *end != quote) end += *end == '\\' && end[1] ? 2 : 1;
    if (!*end) return fault(l, "a string without end");
    char *text = lj_arena_alloc(l->arena, (size_t)(end - l->source) - l->at + 1);
    if (!text) return LJ_ERR_NOMEM;
    for (; l->source + l->at < end; l->at++) {
        char c = l->source[l->at];
        if (c == '\\') {
            c = l->source[++l->at];
            char hex[5] = "";
            if (c == 'u' && end - (l->source + l->at) > 4) {
                memcpy(hex, l->source + l->at + 1, 4);
                used += lj_utf8_encode((uint32_t)strtoul(hex, NULL, 16), text + used);
                l->at += 4;
                continue;
            }
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        text[used++] = c;
    }
    l->at++;
    return add(l, (jinja_token){JINJA_STRING, text, used, offset});
}

static lj_status add_code(lexer *l)
{
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "//", "**"};
    const char *start = l->source + l->at;
    size_t n = 0, offset = l->at;
    if (*start == '"' || *start == '\'') return add_string(l);
    if (isalpha((unsigned char)*start) || *start == '_')
        while (isalnum((unsigned char)start[n]) || start[n] == '_') n++;
    jinja_kind kind = n ? JINJA_NAME : JINJA_OP;
    if (!n && isdigit((unsigned char)*start)) {
        kind = JINJA_NUMBER;
        while (isdigit((unsigned char)start[n]) || (start[n] == '.' && isdigit((unsigned char)start[n + 1]))) n++;
    }
    for (size_t i = 0; !n && i < sizeof pairs / sizeof *pairs; i++)
        if (strncmp(start, pairs[i], 2) == 0) n = 2;
    if (!n && strchr("+-*/%~<>=()[]{}.,:|!", *start)) n = 1;
    if (!n) return fault(l, "an unknown character");
    l->at += n;
    return add(l, (jinja_token){kind, start, n, offset});
}

/* Moves behind the tag's end; one line end after a statement or a comment goes too. */
static void tag_end(lexer *l, bool statement, bool stripped)
{
    l->strip_next = stripped;
    l->line_start = false;
    if (statement && !stripped && l->at < l->bytes && l->source[l->at] == '\n') l->at++, l->line_start = true;
}

static lj_status add_tag(lexer *l)
{
    bool statement = l->source[l->at + 1] == '%';
    const char *close = statement ? "%}" : "}}";
    LJ_TRY(add(l, (jinja_token){statement ? JINJA_STMT : JINJA_OUT, "", 0, l->at}));
    l->at += 2;
    if (l->source[l->at] == '-' || l->source[l->at] == '+') l->at++;
    int braces = 0;
    for (;;) {
        while (space(l->source[l->at])) l->at++;
        const char *here = l->source + l->at;
        if (!*here) return fault(l, "a tag without end");
        bool stripped = *here == '-' && strncmp(here + 1, close, 2) == 0;
        if (stripped || (braces == 0 && strncmp(here, close, 2) == 0)) {
            LJ_TRY(add(l, (jinja_token){statement ? JINJA_STMT_END : JINJA_OUT_END, "", 0, l->at}));
            l->at += 2 + stripped;
            tag_end(l, statement, stripped);
            return LJ_OK;
        }
        braces += (*here == '{') - (*here == '}');
        LJ_TRY(add_code(l));
    }
}

static lj_status skip_comment(lexer *l)
{
    const char *end = strstr(l->source + l->at, "#}");
    if (!end) return fault(l, "a comment without end");
    bool stripped = end[-1] == '-';
    l->at = (size_t)(end - l->source) + 2;
    tag_end(l, true, stripped);
    return LJ_OK;
}

static size_t next_tag(const lexer *l)
{
    for (size_t at = l->at; at + 1 < l->bytes; at++)
        if (l->source[at] == '{' && strchr("{%#", l->source[at + 1])) return at;
    return l->bytes;
}

lj_status jinja_lex(const char *source, lj_arena *arena, jinja_token **out)
{
    lexer l = {.source = source, .bytes = strlen(source), .arena = arena, .line_start = true};
    if (l.bytes > longest_source) return lj_fail(LJ_ERR_LIMIT, "template: %zu bytes, at most %zu are read", l.bytes, longest_source);
    if (l.bytes && source[l.bytes - 1] == '\n') l.bytes--; /* keep_trailing_newline is off */
    while (l.at < l.bytes) {
        size_t tag = next_tag(&l);
        LJ_TRY(add_text(&l, tag));
        l.strip_next = l.line_start = false;
        if (tag == l.bytes) break;
        LJ_TRY(source[tag + 1] == '#' ? skip_comment(&l) : add_tag(&l));
    }
    LJ_TRY(add(&l, (jinja_token){JINJA_EOF, "", 0, l.bytes}));
    *out = l.tokens;
    return LJ_OK;
}
