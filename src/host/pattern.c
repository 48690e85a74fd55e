#define PCRE2_CODE_UNIT_WIDTH 8
#include "host/pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

static pcre2_code *compile(const char *pattern, uint32_t options)
{
    int error;
    PCRE2_SIZE at;
    return pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &error, &at, NULL);
}

static bool find(const char *pattern, uint32_t options, const char *text, char *group, size_t capacity)
{
    pcre2_code *code = compile(pattern, options);
    if (!code) return false;
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(limits, 200000);
    int count = match ? pcre2_match(code, (PCRE2_SPTR)text, strlen(text), 0, 0, match, limits) : -1;
    if (count > 0 && group) {
        PCRE2_SIZE *at = pcre2_get_ovector_pointer(match);
        int which = 0;
        for (int i = 1; i < count && !which; i++)
            if (at[2 * i] != PCRE2_UNSET) which = i;
        snprintf(group, capacity, "%.*s", (int)(at[2 * which + 1] - at[2 * which]), text + at[2 * which]);
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    return count > 0;
}

bool lj_host_pattern_find(const char *pattern, const char *text, char *group, size_t capacity)
{
    return find(pattern, 0, text, group, capacity);
}

bool lj_host_pattern_whole(const char *pattern, const char *text)
{
    return find(pattern, PCRE2_ANCHORED | PCRE2_ENDANCHORED, text, NULL, 0);
}

bool lj_host_pattern_valid(const char *pattern)
{
    pcre2_code *code = compile(pattern, 0);
    if (code) pcre2_code_free(code);
    return code != NULL;
}
