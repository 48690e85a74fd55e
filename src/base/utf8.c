#include "base/utf8.h"

#include <string.h>

static bool continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t lj_utf8_decode(const char *text, size_t bytes, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80) return *code = first, 1;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || length > bytes) return 0;
    uint32_t value = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (!continuation(text[i])) return 0;
        value = value << 6 | ((unsigned char)text[i] & 0x3f);
    }
    if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
    return *code = value, length;
}

size_t lj_utf8_encode(uint32_t code, char out[4])
{
    if (code < 0x80) return out[0] = (char)code, 1;
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[length] | code);
    return length;
}

size_t lj_utf8_valid_prefix(const char *text, size_t bytes)
{
    size_t at = 0;
    uint32_t code;
    while (at < bytes) {
        uint64_t eight;
        if (at + 8 <= bytes && (memcpy(&eight, text + at, 8), (eight & 0x8080808080808080u) == 0)) {
            at += 8;
            continue;
        }
        size_t length = lj_utf8_decode(text + at, bytes - at, &code);
        if (!length) return at;
        at += length;
    }
    return bytes;
}

bool lj_utf8_incomplete(const char *text, size_t bytes)
{
    static const char ends[2] = {(char)0x80, (char)0xbf};
    char trial[4];
    uint32_t code;
    if (bytes == 0 || bytes > 3 || lj_utf8_decode(text, bytes, &code)) return false;
    /* The second byte decides overlong forms and surrogates, so both ends of its range are tried. */
    for (size_t length = bytes + 1; length <= 4; length++)
        for (int e = 0; e < 2; e++) {
            memcpy(trial, text, bytes);
            memset(trial + bytes, ends[e], length - bytes);
            if (lj_utf8_decode(trial, length, &code) == length) return true;
        }
    return false;
}

bool lj_utf8_white_space(uint32_t code)
{
    if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 ||
           code == 0x202f || code == 0x205f || code == 0x3000;
}
