/* Expressions of tokenizer files: the input's first line is the expression, the rest the text. */
#include "support.h"

#include "base/utf8.h"
#include "text/pattern.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const char *text = (const char *)data, *end = bytes ? memchr(text, '\n', bytes) : NULL;
    lj_pattern *pattern;
    lj_pattern_scratch scratch = {0};
    if (!end || lj_utf8_valid_prefix(text, bytes) != bytes) return 0;
    size_t rest = bytes - (size_t)(end + 1 - text);
    if (lj_pattern_create(text, (size_t)(end - text), LJ_PATTERN_HUGGING_FACE, &pattern) != LJ_OK) return 0;
    for (size_t at = 0, start, stop; at < rest; at = stop) {
        if (lj_pattern_find(pattern, &scratch, end + 1, rest, at, &start, &stop) != LJ_OK) break;
        fuzz_expect(start >= at && stop >= start && stop <= rest && (stop > start || start == rest), "a match is inside and goes on");
    }
    lj_pattern_scratch_release(&scratch);
    lj_pattern_destroy(pattern);
    return 0;
}
