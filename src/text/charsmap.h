/* SentencePiece's compiled normaliser table: a double-array trie from strings to replacements. */
#ifndef LJ_TEXT_CHARSMAP_H
#define LJ_TEXT_CHARSMAP_H

#include "base/text.h"
#include "base/utf8.h"

/* The whole table in one block: trie units, then replacements, each ended by a zero byte. Empty: maps nothing. */
typedef struct {
    uint32_t *units;
    size_t unit_count;
    const char *replacements; /* behind the units */
    size_t replacement_bytes;
} lj_charsmap;

/* Copies and checks a table as the files carry it (4 bytes length of the trie, the trie, the replacements). */
lj_status lj_charsmap_init(lj_charsmap *map, const void *data, size_t bytes);
void lj_charsmap_release(lj_charsmap *map);

/* The longest key (or the shortest, `shortest`) that text begins with: its length, 0 when none; its replacement in *with. */
size_t lj_charsmap_find(const lj_charsmap *map, const char *text, size_t bytes, bool shortest, lj_span *with);

/* Appends text with the table run over graphemes of less than 6 bytes, else over their characters: what Hugging Face's "Precompiled"
 * normaliser does. */
void lj_charsmap_graphemes(const lj_charsmap *map, const char *text, size_t bytes, lj_text *out);

/* SentencePiece's own way. */
typedef struct {
    bool add_prefix;    /* a mark in front ("dummy prefix") */
    bool remove_extra;  /* no spaces at the ends, runs become one */
    bool escape;        /* spaces become U+2581 */
    bool suffix;        /* the mark goes behind instead of in front */
    const struct lj_added *keep; /* user defined pieces, never changed; or NULL */
} lj_spm_spaces;

/* Appends the normal form of text as sentencepiece makes it. */
void lj_charsmap_sentencepiece(const lj_charsmap *map, const lj_spm_spaces *spaces, const char *text, size_t bytes, lj_text *out);

#endif
