/* Regular expressions of tokenizer files, run by PCRE2 with its JIT.
 *
 * The files are written for Oniguruma (Ruby's syntax, as Hugging Face uses it): ^ and $ are ends of lines, \s is Unicode's
 * White_Space, \w its word characters, \h a hexadecimal digit, {n,m}+ a repetition of a repetition. The text is translated to what
 * PCRE2 means the same by; what has no translation is refused by name, never approximated.
 *
 * Hugging Face's library knows Unicode 16 (LJ_PATTERN_HUGGING_FACE), llama.cpp, whose words GGUF files are cut by, 15.1
 * (LJ_PATTERN_LLAMA_CPP); where PCRE2 is older, the characters in between are added to the classes of their categories, but for
 * \P{..} inside brackets. A PCRE2 that is newer than 15.1 keeps what it knows. */
#ifndef LJ_TEXT_PATTERN_H
#define LJ_TEXT_PATTERN_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* A compiled expression; shared by threads. */
typedef struct lj_pattern lj_pattern;

/* Working memory of one thread for any number of patterns. Zero-initialised = empty. */
typedef struct {
    void *match, *context, *stack;
} lj_pattern_scratch;

typedef enum { LJ_PATTERN_HUGGING_FACE = 16, LJ_PATTERN_LLAMA_CPP = 15 } lj_pattern_tables;

/* LJ_ERR_FORMAT: the expression and the place of its fault. LJ_ERR_UNSUPPORTED: a construct without translation. */
lj_status lj_pattern_create(const char *expression, size_t bytes, lj_pattern_tables tables, lj_pattern **out);
void lj_pattern_destroy(lj_pattern *pattern);

/* The first non-empty match in text[from, bytes) of valid UTF-8, with text[0, bytes) as its surroundings. *start = bytes when there is
 * none. LJ_ERR_LIMIT: the expression needs more steps or stack than a sane one does. */
lj_status lj_pattern_find(const lj_pattern *pattern, lj_pattern_scratch *scratch, const char *text, size_t bytes, size_t from, size_t *start,
                          size_t *end);
void lj_pattern_scratch_release(lj_pattern_scratch *scratch);

/* The translation alone, with the characters added by Unicode versions after < v <= upto (15 and 16 are known). */
lj_status lj_pattern_translate(const char *expression, size_t bytes, int after, int upto, lj_text *out);

#endif
