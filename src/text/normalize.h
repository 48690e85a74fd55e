/* What a tokenizer file does to text before cutting it: a chain of steps over whole stretches of valid UTF-8. */
#ifndef LJ_TEXT_NORMALIZE_H
#define LJ_TEXT_NORMALIZE_H

#include "base/text.h"
#include "text/charsmap.h"
#include "text/pattern.h"

typedef enum {
    LJ_NORM_NFC,
    LJ_NORM_NFD,
    LJ_NORM_NFKC,
    LJ_NORM_NFKD,
    LJ_NORM_PREPEND,       /* `with` in front of what is not empty */
    LJ_NORM_REPLACE,       /* `what` (or `pattern`) becomes `with` */
    LJ_NORM_STRIP,         /* white space at the sides: `left`, `right` */
    LJ_NORM_LOWERCASE,
    LJ_NORM_STRIP_ACCENTS, /* nonspacing marks go */
    LJ_NORM_CHARSMAP,      /* SentencePiece's compiled table, over graphemes as Hugging Face runs it */
    LJ_NORM_SENTENCEPIECE  /* SentencePiece's own: table, user defined pieces, spaces */
} lj_norm_kind;

typedef struct {
    lj_norm_kind kind;
    const char *what, *with; /* owned by the tokenizer */
    size_t what_bytes, with_bytes;
    lj_pattern *pattern;
    bool left, right;
    lj_charsmap charsmap;
    lj_spm_spaces spaces;
} lj_norm_step;

enum { LJ_MAX_NORM_STEPS = 16 };

typedef struct {
    lj_norm_step steps[LJ_MAX_NORM_STEPS];
    size_t count;
} lj_normalizer;

/* Working memory of one thread. */
typedef struct {
    lj_text text[2];
    lj_pattern_scratch pattern;
} lj_normalize_scratch;

lj_status lj_normalizer_add(lj_normalizer *normalizer, lj_norm_step step); /* takes pattern and charsmap, also on failure */
void lj_normalizer_release(lj_normalizer *normalizer);

/* The normal form of text (valid UTF-8) in *out: text itself when nothing changes it, else scratch's, until the next call. */
lj_status lj_normalize(const lj_normalizer *normalizer, lj_normalize_scratch *scratch, const char *text, size_t bytes, lj_span *out);
void lj_normalize_scratch_release(lj_normalize_scratch *scratch);

/* Unicode normal forms alone: appends the form of text (valid UTF-8) to out. */
lj_status lj_unicode_form(lj_norm_kind form, const char *text, size_t bytes, lj_text *out);

#endif
