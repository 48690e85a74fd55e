/* GPT-2's printable stand-ins for bytes: 33..126, 161..172 and 174..255 stand for themselves, the others follow from U+0100 on. */
#ifndef LJ_TEXT_BYTE_CHARS_H
#define LJ_TEXT_BYTE_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the stand-in of a byte as 1 or 2 bytes of UTF-8, returns how many. */
size_t lj_byte_char_encode(unsigned char byte, char out[4]);
/* Turns stand-ins back into bytes, at most `bytes` of them, in out (may be text itself). False when a character is no stand-in; out is
 * then undefined. */
bool lj_byte_chars_decode(const char *text, size_t bytes, char *out, size_t *out_bytes);

#endif
