/* Fixed strings found in text: special and added tokens, user defined pieces. A byte trie; the longest string at the leftmost place
 * wins, as an Aho-Corasick automaton in leftmost-longest mode would have it. */
#ifndef LJ_TEXT_ADDED_H
#define LJ_TEXT_ADDED_H

#include "base/memory.h"

typedef struct {
    const char *text; /* owned by the set */
    size_t bytes;
    int32_t id;
    bool special;     /* control tokens: dropped by skip_special, plain text without parse_special */
    bool single_word; /* only between characters that are no word characters */
    bool lstrip, rstrip; /* swallow white space on that side */
    bool normalized;  /* looked for after the normaliser, else before */
} lj_added_token;

typedef struct lj_added {
    lj_arena arena;
    lj_added_token *tokens;
    size_t count, capacity;
    struct lj_added_node *nodes;
    size_t node_count, node_capacity;
    uint32_t root[256]; /* child of the root by byte, 0: none */
} lj_added;

void lj_added_init(lj_added *set);
void lj_added_release(lj_added *set);
/* Copies the token. An empty string or one that is there: LJ_ERR_FORMAT. */
lj_status lj_added_add(lj_added *set, const lj_added_token *token);

/* Length of the longest string that text begins with, its id in *id; 0: none. */
size_t lj_added_prefix(const lj_added *set, const char *text, size_t bytes, int32_t *id);

typedef struct {
    size_t start, end; /* with the white space it swallows */
    const lj_added_token *token;
} lj_added_match;

/* The first match in text[from, bytes). `specials`: also special tokens. False: none. */
bool lj_added_find(const lj_added *set, const char *text, size_t bytes, size_t from, bool specials, lj_added_match *match);

#endif
