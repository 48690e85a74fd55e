/* JSON whose object keys hold \u0000: jansson reads zero bytes in strings, but not in keys, and a vocabulary may have them. The escape is
 * rewritten to a noncharacter that the text does not use; readers of keys turn it back. */
#ifndef LJ_TEXT_JSON_ZERO_H
#define LJ_TEXT_JSON_ZERO_H

#include "base/text.h"
#include "base/utf8.h"

#include <jansson.h>

/* As lj_json_parse_text; stand_in gets the noncharacter's 3 bytes and a zero, or "" when there was nothing to rewrite. */
lj_status lj_json_parse_zero(const char *where, const char *text, size_t bytes, json_t **out, char stand_in[4]);
/* The string with each stand-in a zero byte again: text itself, or work's copy. A work that fails gives the text; check it at the end. */
lj_span lj_json_zero_back(lj_span text, const char *stand_in, lj_text *work);

#endif
