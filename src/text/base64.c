#include "text/base64.h"

#include <string.h>

static int digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? memchr(digits, c, 64) : NULL;
    return at ? (int)(at - digits) : -1;
}

bool lj_base64_decode(lj_span text, char *out, size_t *out_bytes)
{
    size_t length = text.bytes, count = 0;
    while (length > 0 && text.bytes - length < 2 && text.data[length - 1] == '=') length--;
    if (text.bytes % 4 || length % 4 == 1) return false;
    uint32_t bits = 0;
    for (size_t i = 0; i < length; i++) {
        int value = digit(text.data[i]);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4) out[count++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    *out_bytes = count;
    return true;
}
