/* Strings with numbers: ids to strings, strings to ids. Filled once, then read by any thread. */
#ifndef LJ_TEXT_VOCAB_H
#define LJ_TEXT_VOCAB_H

#include "base/memory.h"
#include "base/utf8.h"

typedef struct {
    lj_arena arena;   /* owns the strings */
    lj_span *entries; /* [limit]; data NULL: no such id */
    size_t limit;     /* one more than the highest id allowed */
    size_t count;     /* entries set */
    uint32_t *slots;  /* id + 1, 0 = free */
    size_t mask;
} lj_vocab;

/* Room for ids 0 .. limit-1 (limit < 2^30). */
lj_status lj_vocab_init(lj_vocab *vocab, size_t limit);
void lj_vocab_release(lj_vocab *vocab);
/* Copies the string. A string or an id that is already there with another partner: LJ_ERR_FORMAT; with the same: nothing. */
lj_status lj_vocab_set(lj_vocab *vocab, int32_t id, const char *text, size_t bytes);
/* Names an id that strings are never looked up for: decoding knows it, encoding does not. */
lj_status lj_vocab_set_hidden(lj_vocab *vocab, int32_t id, const char *text, size_t bytes);
/* -1 when there is none. */
int32_t lj_vocab_find(const lj_vocab *vocab, const char *text, size_t bytes);

#endif
