/* UTF-8: one character at a time, and the nearest valid text to bytes that are none. */
#ifndef LJ_BASE_UTF8_H
#define LJ_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stretch of bytes, not terminated; the owner is whoever made it. */
typedef struct {
    const char *data;
    size_t bytes;
} lj_span;

/* Length (1..4) of the character at text and its code point; 0 when the bytes there are none: a stray or missing continuation,
 * an overlong form, a surrogate, beyond U+10FFFF. `bytes` >= 1. */
size_t lj_utf8_decode(const char *text, size_t bytes, uint32_t *code);
/* Writes code (<= U+10FFFF) as 1..4 bytes, returns how many. */
size_t lj_utf8_encode(uint32_t code, char out[4]);
/* Offset of the first byte that starts no character; `bytes` when all is valid. */
size_t lj_utf8_valid_prefix(const char *text, size_t bytes);
/* True when text is a proper beginning of some character that more bytes could complete (1..3 bytes). */
bool lj_utf8_incomplete(const char *text, size_t bytes);

/* Unicode's White_Space. */
bool lj_utf8_white_space(uint32_t code);

#endif
