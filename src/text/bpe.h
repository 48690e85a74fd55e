/* Byte pair encoding of one word: a table of ranked merges and a heap over a linked list of symbols, so that a word of n
 * symbols costs n log n whatever it holds.
 *
 * One engine serves every kind: byte-level (symbols are bytes), characters with byte fallback (Hugging Face), and scores
 * (SentencePiece, GGUF "llama": a pair's rank is the place of its joined piece's score, equal scores share a rank and the
 * leftmost goes first). A symbol is a token id; ids from `token_count` on are characters that have no token of their own but
 * take part in merges. */
#ifndef LJ_TEXT_BPE_H
#define LJ_TEXT_BPE_H

#include "text/ids.h"
#include "text/vocab.h"

#include <stdbool.h>

typedef struct {
    uint64_t pair; /* left << 32 | right; LJ_BPE_FREE: free slot */
    uint32_t rank;
    int32_t joined;
} lj_bpe_merge;

#define LJ_BPE_FREE UINT64_MAX

typedef struct {
    lj_bpe_merge *merges; /* open addressing */
    size_t merge_mask, merge_count;
    const lj_vocab *symbols; /* text of a character (or of a whole word) to symbol; byte-level: raw bytes */
    int32_t *direct; /* symbols of the first code points, made by lj_bpe_index; owned */
    int32_t token_count;
    int32_t byte_symbol[256]; /* byte_level: the symbol of each byte, -1: the byte is dropped */
    int32_t byte_token[256];  /* byte_fallback: token of <0xNN>, -1: none */
    int32_t unknown;          /* token of what cannot be written, -1: dropped */
    bool byte_level;
    bool byte_fallback;
    bool fuse_unknown;  /* a run of unknown characters gives one unknown token */
    bool whole_words;   /* a word that is a token as it stands is not merged ("ignore_merges") */
    bool keep_absent;   /* SentencePiece, GGUF: characters without a token stay symbols until the end */
    bool loose;         /* characters are told by their first byte alone, as llama.cpp does; the word may be broken UTF-8 */
    bool split_at_mark; /* no token has U+2581 behind another character: a word may be cut before each run of them */
    const bool *unused; /* [token_count] or NULL: tokens that are taken apart again after merging (SentencePiece "unused") */
    const struct lj_added *frozen; /* or NULL: pieces found in the text before merging, which never merge ("user defined") */
} lj_bpe;

/* Working memory of one thread. Zero-initialised = empty. */
typedef struct {
    struct lj_bpe_symbol *symbols;
    uint64_t *heap;
    size_t symbol_capacity, heap_capacity, heap_count;
    char *cache[2]; /* recent words, short and long */
    struct lj_bpe_split *splits; /* [token_count] when the model has unused tokens */
    uint32_t round;
} lj_bpe_scratch;

/* Room for `count` merges. */
lj_status lj_bpe_init(lj_bpe *bpe, size_t count);
void lj_bpe_release(lj_bpe *bpe);
/* Adds a merge. A pair that is there keeps its first rank, or takes the new one when `replace`. */
void lj_bpe_add(lj_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t joined, bool replace);
const lj_bpe_merge *lj_bpe_find(const lj_bpe *bpe, int32_t left, int32_t right);

/* Makes characters quick to look up; call when `symbols` is complete (not for byte_level). */
lj_status lj_bpe_index(lj_bpe *bpe);

/* Appends the tokens of `word` (valid UTF-8 unless byte_level). LJ_ERR_NOMEM; LJ_ERR_LIMIT from 2^31 symbols. One scratch a
 * thread; the model may be shared. */
lj_status lj_bpe_encode(const lj_bpe *bpe, lj_bpe_scratch *scratch, const char *word, size_t bytes, lj_ids *out);
void lj_bpe_scratch_release(lj_bpe_scratch *scratch);

#endif
