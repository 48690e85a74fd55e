/* Compiling and matching. The translation is in pattern_translate.c. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include "base/memory.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdbool.h>
#include <string.h>

enum { STACK_START = 64 << 10, STACK_MOST = 64 << 20, MATCH_STEPS = 50 << 20 };

struct lj_pattern {
    pcre2_code *code;
    bool jit;
    char expression[96]; /* its beginning, for messages */
};

static lj_status compile(lj_pattern *pattern, const lj_text *text)
{
    int code;
    PCRE2_SIZE offset;
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    pattern->code = pcre2_compile((PCRE2_SPTR)text->data, text->length, options, &code, &offset, NULL);
    if (!pattern->code) {
        PCRE2_UCHAR reason[160];
        pcre2_get_error_message(code, reason, sizeof reason);
        return lj_fail(LJ_ERR_FORMAT, "expression '%s': %s at offset %zu of its translation '%.200s'", pattern->expression, (char *)reason,
                       (size_t)offset, text->data);
    }
    pattern->jit = pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE) == 0; /* absent on some processors: the same matches, slower */
    return LJ_OK;
}

static int unicode_version(void)
{
    char version[64] = "";
    if (pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, NULL) <= (int)sizeof version) pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version);
    return atoi(version);
}

lj_status lj_pattern_create(const char *expression, size_t bytes, lj_pattern_tables tables, lj_pattern **out)
{
    void *fresh;
    lj_text text;
    LJ_TRY(lj_alloc_zero("text.pattern", sizeof(lj_pattern), &fresh));
    lj_pattern *pattern = fresh;
    snprintf(pattern->expression, sizeof pattern->expression, "%.*s", (int)(bytes < 90 ? bytes : 90), expression);
    lj_text_init(&text);
    lj_status status = lj_pattern_translate(expression, bytes, unicode_version(), (int)tables, &text);
    if (status == LJ_OK) status = lj_text_status(&text);
    if (status == LJ_OK) status = compile(pattern, &text);
    lj_text_release(&text);
    if (status == LJ_OK)
        *out = pattern;
    else
        lj_pattern_destroy(pattern);
    return status;
}

void lj_pattern_destroy(lj_pattern *pattern)
{
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    lj_free(pattern);
}

static lj_status scratch_prepare(lj_pattern_scratch *scratch)
{
    if (scratch->match) return LJ_OK;
    scratch->match = pcre2_match_data_create(1, NULL);
    scratch->context = pcre2_match_context_create(NULL);
    scratch->stack = pcre2_jit_stack_create(STACK_START, STACK_MOST, NULL);
    if (!scratch->match || !scratch->context || !scratch->stack) {
        lj_pattern_scratch_release(scratch);
        return lj_fail(LJ_ERR_NOMEM, "working memory of an expression");
    }
    pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
    pcre2_set_match_limit(scratch->context, MATCH_STEPS);
    return LJ_OK;
}

void lj_pattern_scratch_release(lj_pattern_scratch *scratch)
{
    pcre2_match_data_free(scratch->match);
    pcre2_match_context_free(scratch->context);
    pcre2_jit_stack_free(scratch->stack);
    *scratch = (lj_pattern_scratch){0};
}

static lj_status match_failed(const lj_pattern *pattern, int code, size_t from)
{
    PCRE2_UCHAR reason[160];
    pcre2_get_error_message(code, reason, sizeof reason);
    return lj_fail(LJ_ERR_LIMIT, "expression '%s' at byte %zu of its text: %s; split the document there", pattern->expression, from,
                   (char *)reason);
}

lj_status lj_pattern_find(const lj_pattern *pattern, lj_pattern_scratch *scratch, const char *text, size_t bytes, size_t from, size_t *start,
                          size_t *end)
{
    LJ_TRY(scratch_prepare(scratch));
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch->match);
    while (from < bytes) {
        int code = pattern->jit ? pcre2_jit_match(pattern->code, (PCRE2_SPTR)text, bytes, from, 0, scratch->match, scratch->context)
                                : pcre2_match(pattern->code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK, scratch->match, scratch->context);
        if (code == PCRE2_ERROR_NOMATCH) break;
        if (code < 0) return match_failed(pattern, code, from);
        *start = range[0], *end = range[1];
        if (*end > *start && *start >= from) return LJ_OK;
        from = *start > from ? *start : from; /* an empty match, or one that \K or a lookbehind moved: go on behind the next character */
        do from++;
        while (from < bytes && ((unsigned char)text[from] & 0xc0) == 0x80);
    }
    *start = *end = bytes;
    return LJ_OK;
}
