#include "text/charsmap.h"

#include "base/memory.h"
#include "text/added.h"

#include <string.h>
#include <utf8proc.h>

enum { GRAPHEME_MOST = 6 };

lj_status lj_charsmap_init(lj_charsmap *map, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    *map = (lj_charsmap){0};
    if (bytes == 0) return LJ_OK;
    if (bytes < 4) return lj_fail(LJ_ERR_FORMAT, "normaliser table: %zu bytes, at least 4 are needed", bytes);
    size_t trie = at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
    if (trie % 4 || trie > bytes - 4) return lj_fail(LJ_ERR_FORMAT, "normaliser table: a trie of %zu bytes in %zu", trie, bytes - 4);
    if (trie < 4 || trie == bytes - 4 || at[bytes - 1] != 0)
        return lj_fail(LJ_ERR_FORMAT, "normaliser table: no replacements behind the trie of %zu bytes, or no zero at their end", trie);
    void *copy;
    LJ_TRY(lj_alloc("text.charsmap", bytes - 4, &copy));
    memcpy(copy, at + 4, bytes - 4);
    *map = (lj_charsmap){copy, trie / 4, (const char *)copy + trie, bytes - 4 - trie};
    return LJ_OK;
}

void lj_charsmap_release(lj_charsmap *map)
{
    lj_free(map->units);
    *map = (lj_charsmap){0};
}

/* Fields of a double-array unit. */
static size_t unit_offset(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
}

static uint32_t unit_label(uint32_t unit)
{
    return unit & ((1u << 31) | 0xff);
}

/* The value of the leaf below position, when it is inside the table. */
static bool leaf_value(const lj_charsmap *map, size_t position, uint32_t *value)
{
    if (position >= map->unit_count) return false;
    *value = map->units[position] & ((1u << 31) - 1);
    return *value < map->replacement_bytes;
}

size_t lj_charsmap_find(const lj_charsmap *map, const char *text, size_t bytes, bool shortest, lj_span *with)
{
    size_t position = 0, found = 0;
    uint32_t value;
    if (!map->unit_count) return 0;
    position ^= unit_offset(map->units[0]);
    for (size_t i = 0; i < bytes; i++) {
        position ^= (unsigned char)text[i];
        if (position >= map->unit_count) break;
        uint32_t unit = map->units[position];
        if (unit_label(unit) != (unsigned char)text[i]) break;
        position ^= unit_offset(unit);
        if (!((unit >> 8) & 1) || !leaf_value(map, position, &value)) continue;
        found = i + 1;
        *with = (lj_span){map->replacements + value, strlen(map->replacements + value)};
        if (shortest) break;
    }
    return found;
}

static void grapheme_add(const lj_charsmap *map, const char *text, size_t bytes, lj_text *out)
{
    lj_span with;
    uint32_t code;
    if (bytes < GRAPHEME_MOST && lj_charsmap_find(map, text, bytes, true, &with)) {
        lj_text_add_bytes(out, with.data, with.bytes);
        return;
    }
    for (size_t at = 0, length; at < bytes; at += length) {
        length = lj_utf8_decode(text + at, bytes - at, &code);
        if (!length) length = 1;
        bool found = lj_charsmap_find(map, text + at, length, true, &with) > 0;
        lj_text_add_bytes(out, found ? with.data : text + at, found ? with.bytes : length);
    }
}

void lj_charsmap_graphemes(const lj_charsmap *map, const char *text, size_t bytes, lj_text *out)
{
    utf8proc_int32_t state = 0;
    uint32_t code, before = 0;
    size_t start = 0;
    for (size_t at = 0, length; at < bytes; at += length, before = code) {
        length = lj_utf8_decode(text + at, bytes - at, &code);
        if (!length) length = 1, code = 0xfffd;
        if (at == 0 || !utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)code, &state)) continue;
        grapheme_add(map, text + start, at - start, out);
        start = at;
    }
    grapheme_add(map, text + start, bytes - start, out);
}

/* What the front of text becomes, and how much of it that takes. */
static size_t front(const lj_charsmap *map, const lj_spm_spaces *spaces, const char *text, size_t bytes, lj_span *with)
{
    int32_t id;
    uint32_t code;
    size_t length = spaces->keep ? lj_added_prefix(spaces->keep, text, bytes, &id) : 0;
    if (length) {
        *with = (lj_span){text, length};
        return length;
    }
    length = lj_charsmap_find(map, text, bytes, false, with);
    if (length) return length;
    length = lj_utf8_decode(text, bytes, &code);
    *with = length ? (lj_span){text, length} : (lj_span){"\xef\xbf\xbd", 3};
    return length ? length : 1;
}

static void add_escaped(const lj_spm_spaces *spaces, lj_span piece, lj_text *out)
{
    for (size_t at = 0; at < piece.bytes;) {
        const char *space = spaces->escape ? memchr(piece.data + at, ' ', piece.bytes - at) : NULL;
        size_t length = space ? (size_t)(space - piece.data) - at : piece.bytes - at;
        lj_text_add_bytes(out, piece.data + at, length);
        if (space) lj_text_add_bytes(out, "\xe2\x96\x81", 3);
        at += length + (space != NULL);
    }
}

static void trim_end(const lj_spm_spaces *spaces, size_t start, lj_text *out)
{
    const char *mark = spaces->escape ? "\xe2\x96\x81" : " ";
    size_t length = strlen(mark);
    while (out->length - start >= length && memcmp(out->data + out->length - length, mark, length) == 0) out->length -= length;
}

void lj_charsmap_sentencepiece(const lj_charsmap *map, const lj_spm_spaces *spaces, const char *text, size_t bytes, lj_text *out)
{
    lj_span with;
    size_t at = 0, used, start = out->length;
    bool after_space = spaces->remove_extra;
    while (spaces->remove_extra && at < bytes && (used = front(map, spaces, text + at, bytes - at, &with), with.bytes == 1 && *with.data == ' '))
        at += used;
    if (at == bytes) return;
    const char *mark = spaces->escape ? "\xe2\x96\x81" : " ";
    if (spaces->add_prefix && !spaces->suffix) lj_text_add(out, "%s", mark);
    for (; at < bytes; at += used) {
        used = front(map, spaces, text + at, bytes - at, &with);
        while (after_space && with.bytes && *with.data == ' ') with.data++, with.bytes--;
        add_escaped(spaces, with, out);
        if (with.bytes) after_space = with.data[with.bytes - 1] == ' ';
        after_space &= spaces->remove_extra;
    }
    if (spaces->remove_extra) trim_end(spaces, start, out);
    if (spaces->add_prefix && spaces->suffix) lj_text_add(out, "%s", mark);
}
