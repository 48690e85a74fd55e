#include "text/byte_chars.h"

#include "base/utf8.h"

static bool stands_for_itself(uint32_t byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

/* The n-th byte without a printable character of its own: 0..32, 127..160, 173. */
static uint32_t hidden_byte(uint32_t n)
{
    return n <= 32 ? n : n <= 66 ? n - 33 + 127 : 173;
}

size_t lj_byte_char_encode(unsigned char byte, char out[4])
{
    if (stands_for_itself(byte)) return lj_utf8_encode(byte, out);
    uint32_t n = byte <= 32 ? byte : byte <= 160 ? byte - 127u + 33u : 67;
    return lj_utf8_encode(256 + n, out);
}

bool lj_byte_chars_decode(const char *text, size_t bytes, char *out, size_t *out_bytes)
{
    size_t count = 0;
    uint32_t code;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = lj_utf8_decode(text + at, bytes - at, &code);
        if (!length || code > 256 + 67 || (code < 256 && !stands_for_itself(code))) return false;
        out[count++] = (char)(code < 256 ? code : hidden_byte(code - 256));
    }
    *out_bytes = count;
    return true;
}
