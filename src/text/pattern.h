/* Regular expressions of tokenizer files, run by PCRE2 with its JIT.
 *
 * The files are written for Oniguruma (Ruby's syntax, as Hugging Face uses it): ^ and $ are ends of lines, \s is Unicode's
 * White_Space, \w its word characters, \h a hexadecimal digit, {n,m}+ a repetition of a repetition. The text is translated to what
 * PCRE2 means the same by; what has no translation is refused by name, never approximated.
 *
 * Hugging Face's library knows Unicode 16; an older PCRE2 does not. Under LJ_PATTERN_MODERN the characters in between are added to the
 * classes of their categories (all but \\P{..} inside brackets). GGUF files are run by llama.cpp's older tables: LJ_PATTERN_PLAIN. */
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

typedef enum { LJ_PATTERN_MODERN, LJ_PATTERN_PLAIN } lj_pattern_tables;

/* LJ_ERR_FORMAT: the expression and the place of its fault. LJ_ERR_UNSUPPORTED: a construct without translation. */
lj_status lj_pattern_create(const char *expression, size_t bytes, lj_pattern_tables tables, lj_pattern **out);
void lj_pattern_destroy(lj_pattern *pattern);

/* The first non-empty match in text[from, bytes) of valid UTF-8, with text[0, bytes) as its surroundings. *start = bytes when there is
 * none. LJ_ERR_LIMIT: the expression needs more steps or stack than a sane one does. */
lj_status lj_pattern_find(const lj_pattern *pattern, lj_pattern_scratch *scratch, const char *text, size_t bytes, size_t from, size_t *start,
                          size_t *end);
void lj_pattern_scratch_release(lj_pattern_scratch *scratch);

/* The translation alone; `additions`: with the characters that Unicode 16 added. */
lj_status lj_pattern_translate(const char *expression, size_t bytes, bool additions, lj_text *out);

#endif
