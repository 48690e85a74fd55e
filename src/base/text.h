/* A growing string, and numbers with units. */
#ifndef LJ_BASE_TEXT_H
#define LJ_BASE_TEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Always terminated. When memory runs out `failed` is set, further appends do nothing, and lj_text_status says so:
 * builders append freely and check once at the end. */
typedef struct {
    char *data;
    size_t length, capacity;
    bool failed;
} lj_text;

void lj_text_init(lj_text *text);
void lj_text_release(lj_text *text);
void lj_text_add(lj_text *text, const char *format, ...) LJ_PRINTF(2, 3);
void lj_text_add_bytes(lj_text *text, const void *bytes, size_t count);
lj_status lj_text_status(const lj_text *text);

/* "2.6GiB" / "800M" (powers of ten) / "4096" -> bytes. LJ_ERR_INVALID names the text. */
lj_status lj_size_parse(const char *text, uint64_t *bytes);
/* Writes "2.60 GiB" style text; returns `buffer`. */
const char *lj_size_format(double bytes, char *buffer, size_t capacity);
/* "12.3 G", powers of ten. */
const char *lj_si_format(double value, char *buffer, size_t capacity);

#endif
