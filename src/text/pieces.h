/* From what files hold to the merge table: "left right" strings, and pieces with scores. */
#ifndef LJ_TEXT_PIECES_H
#define LJ_TEXT_PIECES_H

#include "text/tokenizer_parts.h"

typedef struct {
    int32_t left, right, joined;
} lj_merge;

/* Parses merge number `index`: two strings with one space between. When a part itself has spaces, the one cut whose parts and whole are
 * all tokens. LJ_ERR_FORMAT: index, text and the true cause (no cut, several, or which part is no token). */
lj_status lj_merge_parse(const lj_vocab *vocab, size_t index, lj_span text, lj_merge *out);
/* The same from two strings. */
lj_status lj_merge_find(const lj_vocab *vocab, size_t index, lj_span left, lj_span right, lj_merge *out);

typedef struct {
    lj_span text;
    float score;
    bool merges; /* takes part in merges: normal, user defined, unused */
} lj_piece;

/* Fills tokenizer->symbols and tokenizer->bpe from pieces with scores (index = id): a pair of symbols whose joined text is a piece may
 * merge, the higher score first. Characters of pieces that are no pieces themselves become symbols behind the tokens. A score that is
 * no number: LJ_ERR_FORMAT. */
lj_status lj_pieces_to_bpe(lj_tokenizer *tokenizer, const lj_piece *pieces, size_t count);

/* Fills tokenizer->symbols with the raw bytes of every entry of its vocabulary that is made of stand-ins, and bpe.byte_symbol. */
lj_status lj_byte_symbols_fill(lj_tokenizer *tokenizer);

#endif
