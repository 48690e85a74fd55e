#define _GNU_SOURCE
#include "text/json_zero.h"

#include "formats/strict_json.h"

#include <stdio.h>
#include <string.h>

/* Offset of the next \u0000 escape from `at` that is one (its backslash not itself escaped); `bytes`: none. */
static size_t next_zero(const char *text, size_t bytes, size_t at)
{
    while (at < bytes) {
        const char *slash = memchr(text + at, '\\', bytes - at);
        if (!slash) break;
        at = (size_t)(slash - text);
        if (bytes - at >= 6 && memcmp(slash, "\\u0000", 6) == 0) return at;
        at += 2;
    }
    return bytes;
}

static bool uses(const char *text, size_t bytes, uint32_t code)
{
    char plain[4], lower[8], upper[8];
    size_t length = lj_utf8_encode(code, plain);
    snprintf(lower, sizeof lower, "\\u%04x", code);
    snprintf(upper, sizeof upper, "\\u%04X", code);
    return memmem(text, bytes, plain, length) || memmem(text, bytes, lower, 6) || memmem(text, bytes, upper, 6);
}

static lj_status rewrite(const char *where, const char *text, size_t bytes, lj_text *out, char stand_in[4])
{
    uint32_t code = 0xfdd0;
    while (code < 0xfdf0 && uses(text, bytes, code)) code++;
    if (code == 0xfdf0) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: uses \\u0000 and every noncharacter of U+FDD0 .. U+FDEF", where);
    stand_in[lj_utf8_encode(code, stand_in)] = 0;
    for (size_t at = 0, zero; at < bytes; at = zero + 6) {
        zero = next_zero(text, bytes, at);
        lj_text_add_bytes(out, text + at, zero - at);
        if (zero == bytes) break;
        lj_text_add(out, "\\u%04x", code);
    }
    return lj_text_status(out);
}

lj_status lj_json_parse_zero(const char *where, const char *text, size_t bytes, json_t **out, char stand_in[4])
{
    stand_in[0] = 0;
    if (next_zero(text, bytes, 0) == bytes) return lj_json_parse(where, text, bytes, out);
    lj_text own;
    lj_text_init(&own);
    lj_status status = rewrite(where, text, bytes, &own, stand_in);
    if (status == LJ_OK) status = lj_json_parse(where, own.data, own.length, out);
    lj_text_release(&own);
    return status;
}

lj_span lj_json_zero_back(lj_span text, const char *stand_in, lj_text *work)
{
    if (!*stand_in || !memmem(text.data, text.bytes, stand_in, 3)) return text;
    work->length = 0;
    for (size_t at = 0; at < text.bytes;) {
        const char *found = memmem(text.data + at, text.bytes - at, stand_in, 3);
        size_t plain = (found ? (size_t)(found - text.data) : text.bytes) - at;
        lj_text_add_bytes(work, text.data + at, plain);
        if (found) lj_text_add_bytes(work, "", 1);
        at += plain + (found ? 3 : 0);
    }
    return work->failed ? text : (lj_span){work->data, work->length};
}
