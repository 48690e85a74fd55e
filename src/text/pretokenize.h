/* Cutting text into words before the merges: the pre-tokenizer steps of a file, run one inside the other. */
#ifndef LJ_TEXT_PRETOKENIZE_H
#define LJ_TEXT_PRETOKENIZE_H

#include "base/text.h"
#include "text/pattern.h"

#include <stdbool.h>

/* What becomes of the stretches that match, as Hugging Face names it. */
typedef enum { LJ_SPLIT_REMOVED, LJ_SPLIT_ISOLATED, LJ_SPLIT_MERGED_WITH_PREVIOUS, LJ_SPLIT_MERGED_WITH_NEXT, LJ_SPLIT_CONTIGUOUS } lj_split_behavior;

typedef enum { LJ_MARK_ALWAYS, LJ_MARK_FIRST, LJ_MARK_NEVER } lj_mark_scheme;

typedef enum {
    LJ_STEP_SPLIT,        /* cut at `pattern` */
    LJ_STEP_PREFIX_SPACE, /* a space in front of each piece that begins with none */
    LJ_STEP_MARK,         /* Metaspace: spaces become `mark`; one in front by `scheme`; cut before each when `cut` */
    LJ_STEP_BYTE_CHARS    /* bytes become GPT-2's printable characters, for steps that come after */
} lj_step_kind;

typedef struct {
    lj_step_kind kind;
    lj_pattern *pattern;
    lj_split_behavior behavior;
    bool invert; /* what does not match takes the part of what does */
    char mark[8];
    size_t mark_bytes;
    lj_mark_scheme scheme;
    bool cut;
} lj_pretokenize_step;

enum { LJ_MAX_STEPS = 16 };

typedef struct {
    lj_pretokenize_step steps[LJ_MAX_STEPS];
    size_t count;
} lj_pretokenizer;

typedef struct {
    lj_pattern_scratch pattern;
    lj_text text[LJ_MAX_STEPS]; /* what a step made of its piece */
} lj_pretokenize_scratch;

/* Takes the step, its pattern included (released here on failure, too). LJ_ERR_LIMIT beyond LJ_MAX_STEPS. */
lj_status lj_pretokenizer_add(lj_pretokenizer *pretokenizer, lj_pretokenize_step step);
/* The usual step: cut at a regular expression. */
lj_status lj_pretokenizer_add_split(lj_pretokenizer *pretokenizer, const char *expression, size_t bytes, lj_pattern_tables tables,
                                   lj_split_behavior behavior, bool invert);
void lj_pretokenizer_release(lj_pretokenizer *pretokenizer);

typedef lj_status (*lj_word_fn)(void *user, const char *word, size_t bytes);

/* Calls `word` for each word of text (valid UTF-8) in order. `at_start`: the text begins its document. */
lj_status lj_pretokenize(const lj_pretokenizer *pretokenizer, lj_pretokenize_scratch *scratch, const char *text, size_t bytes, bool at_start,
                         lj_word_fn word, void *user);
void lj_pretokenize_scratch_release(lj_pretokenize_scratch *scratch);

#endif
