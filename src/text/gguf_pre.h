/* How GGUF's "tokenizer.ggml.pre" names cut words. */
#ifndef LJ_TEXT_GGUF_PRE_H
#define LJ_TEXT_GGUF_PRE_H

#include "base/status.h"

#include <stdbool.h>

typedef struct {
    const char *names;          /* "smollm|starcoder": the values that mean this row */
    const char *expressions[5]; /* run one inside the other, matches isolated */
    bool whole_words;           /* a word that is a token is not merged */
    bool add_bos;               /* when the file does not say */
} lj_gguf_pre;

/* LJ_ERR_UNSUPPORTED: no such row; the message has the nearest name and the remedy. */
lj_status lj_gguf_pre_find(const char *name, const lj_gguf_pre **out);

#endif
