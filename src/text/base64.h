/* Base64, as JSON files carry bytes. */
#ifndef LJ_TEXT_BASE64_H
#define LJ_TEXT_BASE64_H

#include "base/utf8.h"

/* Decodes into out (room for 3 bytes per 4 characters begun). False: a character outside the alphabet, or a wrong length. */
bool lj_base64_decode(lj_span text, char *out, size_t *out_bytes);

#endif
