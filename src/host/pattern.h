/* PCRE patterns of the data files. */
#ifndef LJ_HOST_PATTERN_H
#define LJ_HOST_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/* Does the pattern occur in text? `group` (may be NULL) takes the first group that took part, or the whole
 * match. A pattern that does not compile never matches (lj_host_pattern_valid tells; a test goes through all
 * rules). */
bool lj_host_pattern_find(const char *pattern, const char *text, char *group, size_t capacity);
/* The same, and the pattern must cover the whole text. */
bool lj_host_pattern_whole(const char *pattern, const char *text);
bool lj_host_pattern_valid(const char *pattern);

#endif
