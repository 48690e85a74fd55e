#include "text/added.h"

#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* Children are a list: below the root there are few. */
typedef struct lj_added_node {
    uint32_t child, sibling; /* node numbers, 0: none */
    uint32_t token;          /* token number + 1, 0: none ends here */
    unsigned char byte;
} node;

void lj_added_init(lj_added *set)
{
    *set = (lj_added){0};
    lj_arena_init(&set->arena, "text.added");
}

void lj_added_release(lj_added *set)
{
    lj_free(set->tokens);
    lj_free(set->nodes);
    lj_arena_release(&set->arena);
    *set = (lj_added){0};
}

static lj_status grow(void **array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity) return LJ_OK;
    void *fresh;
    LJ_TRY(lj_alloc("text.added", (2 * count + 64) * size, &fresh));
    if (*array) memcpy(fresh, *array, count * size);
    lj_free(*array);
    *array = fresh, *capacity = 2 * count + 64;
    return LJ_OK;
}

static lj_status node_new(lj_added *set, unsigned char byte, uint32_t sibling, uint32_t *out)
{
    if (set->node_count == 0) set->node_count = 1; /* number 0 means none */
    void *nodes = set->nodes;
    lj_status status = grow(&nodes, &set->node_capacity, set->node_count, sizeof(node));
    set->nodes = nodes;
    LJ_TRY(status);
    set->nodes[set->node_count] = (node){.sibling = sibling, .byte = byte};
    *out = (uint32_t)set->node_count++;
    return LJ_OK;
}

static uint32_t child_of(const lj_added *set, uint32_t at, unsigned char byte)
{
    uint32_t child = set->nodes[at].child;
    while (child && set->nodes[child].byte != byte) child = set->nodes[child].sibling;
    return child;
}

static lj_status path_make(lj_added *set, const char *text, size_t bytes, uint32_t *end)
{
    uint32_t *first = &set->root[(unsigned char)text[0]];
    if (!*first) LJ_TRY(node_new(set, (unsigned char)text[0], 0, first));
    uint32_t at = *first;
    for (size_t i = 1; i < bytes; i++) {
        uint32_t child = child_of(set, at, (unsigned char)text[i]);
        if (!child) {
            LJ_TRY(node_new(set, (unsigned char)text[i], set->nodes[at].child, &child));
            set->nodes[at].child = child;
        }
        at = child;
    }
    *end = at;
    return LJ_OK;
}

lj_status lj_added_add(lj_added *set, const lj_added_token *token)
{
    uint32_t end;
    if (token->bytes == 0) return lj_fail(LJ_ERR_FORMAT, "added token %d is an empty string", token->id);
    void *tokens = set->tokens;
    lj_status status = grow(&tokens, &set->capacity, set->count, sizeof *set->tokens);
    set->tokens = tokens;
    LJ_TRY(status);
    LJ_TRY(path_make(set, token->text, token->bytes, &end));
    if (set->nodes[end].token)
        return lj_fail(LJ_ERR_FORMAT, "added token '%.*s' is given twice: ids %d and %d", (int)token->bytes, token->text,
                       set->tokens[set->nodes[end].token - 1].id, token->id);
    char *copy = lj_arena_alloc(&set->arena, token->bytes + 1);
    if (!copy) return LJ_ERR_NOMEM;
    memcpy(copy, token->text, token->bytes);
    set->tokens[set->count] = *token;
    set->tokens[set->count].text = copy;
    set->nodes[end].token = (uint32_t)++set->count;
    return LJ_OK;
}

static const lj_added_token *longest(const lj_added *set, const char *text, size_t bytes)
{
    const lj_added_token *best = NULL;
    uint32_t at = bytes ? set->root[(unsigned char)text[0]] : 0;
    for (size_t i = 1; at; i++) {
        uint32_t token = set->nodes[at].token;
        if (token) best = &set->tokens[token - 1];
        if (i == bytes) break;
        at = child_of(set, at, (unsigned char)text[i]);
    }
    return best;
}

size_t lj_added_prefix(const lj_added *set, const char *text, size_t bytes, int32_t *id)
{
    const lj_added_token *token = longest(set, text, bytes);
    if (!token) return 0;
    *id = token->id;
    return token->bytes;
}

/* Alphabetic, mark, decimal digit, connector, joiner: what \w means to the files' authors. */
static bool word_character(uint32_t code)
{
    if (code == 0x200c || code == 0x200d || (code >= 0x24b6 && code <= 0x24e9)) return true;
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)code);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ND) || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC;
}

/* Start of the character that ends before `at`. */
static size_t character_before(const char *text, size_t at, uint32_t *code)
{
    size_t start = at - 1;
    while (start > 0 && at - start < 4 && ((unsigned char)text[start] & 0xc0) == 0x80) start--;
    if (lj_utf8_decode(text + start, at - start, code) != at - start) start = at - 1, *code = 0xfffd;
    return start;
}

static size_t character_at(const char *text, size_t bytes, size_t at, uint32_t *code)
{
    size_t length = lj_utf8_decode(text + at, bytes - at, code);
    if (!length) *code = 0xfffd;
    return length ? length : 1;
}

static bool stands_alone(const char *text, size_t bytes, size_t start, size_t end)
{
    uint32_t code;
    if (start > 0 && (character_before(text, start, &code), word_character(code))) return false;
    return end >= bytes || (character_at(text, bytes, end, &code), !word_character(code));
}

static void swallow(const char *text, size_t bytes, size_t from, lj_added_match *match)
{
    uint32_t code;
    size_t next;
    while (match->token->lstrip && match->start > from && (next = character_before(text, match->start, &code), lj_utf8_white_space(code)))
        match->start = next;
    while (match->token->rstrip && match->end < bytes && (next = character_at(text, bytes, match->end, &code), lj_utf8_white_space(code)))
        match->end += next;
}

bool lj_added_find(const lj_added *set, const char *text, size_t bytes, size_t from, bool specials, lj_added_match *match)
{
    if (!set->count) return false;
    for (size_t at = from; at < bytes; at++) {
        if (!set->root[(unsigned char)text[at]]) continue;
        const lj_added_token *token = longest(set, text + at, bytes - at);
        if (!token) continue;
        bool skip = (token->special && !specials) || (token->single_word && !stands_alone(text, bytes, at, at + token->bytes));
        if (skip) {
            at += token->bytes - 1;
            continue;
        }
        *match = (lj_added_match){at, at + token->bytes, token};
        swallow(text, bytes, from, match);
        return true;
    }
    return false;
}
