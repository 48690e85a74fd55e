/* NFC, NFD, NFKC, NFKD on utf8proc's tables, less the characters that Hugging Face's library has not heard of. Text is taken in stretches that end before a character which can neither change nor
 * combine with what stands before it; most text is such characters, and they are copied. Marks are put in order by a counting sort, so
 * that a megabyte of them costs what a megabyte of letters does. */
#include "text/normalize.h"

#include "base/memory.h"

#include <string.h>
#include <utf8proc.h>

enum { FEW = 64, LONGEST_EXPANSION = 18 };

typedef struct {
    utf8proc_option_t options;
    int32_t *codes;
    size_t count, capacity;
    int32_t own[FEW];
} stretch;

static utf8proc_option_t options_of(lj_norm_kind form)
{
    switch (form) {
    case LJ_NORM_NFC: return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case LJ_NORM_NFD: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case LJ_NORM_NFKC: return UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE;
    default: return UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE;
    }
}

/* Characters that the library whose forms these are does not know yet; it leaves them alone. */
static const struct {
    uint32_t first, last;
} late[] = {
#define LATE(first, last) {first, last},
#include "text/unicode_late.def"
#undef LATE
};

static bool is_late(uint32_t code)
{
    size_t low = 0, high = sizeof late / sizeof *late;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code > late[middle].last)
            low = middle + 1;
        else if (code < late[middle].first)
            high = middle;
        else
            return true;
    }
    return false;
}

/* Never changed by the form, never joined to what stands before. Hangul is composed by arithmetic, outside the property tables. */
static bool inert(uint32_t code)
{
    if (code < 0xa0) return true;
    if ((code >= 0x1100 && code < 0x1200) || (code >= 0xac00 && code < 0xd7b0)) return false;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)code);
    bool second = p->comb_index != UINT16_MAX && p->comb_index >= 0x8000;
    return p->combining_class == 0 && p->decomp_seqindex == UINT16_MAX && !second;
}

static lj_status room(stretch *s, size_t more)
{
    if (s->capacity - s->count >= more) return LJ_OK;
    size_t capacity = 2 * s->capacity + more;
    void *grown;
    LJ_TRY(lj_alloc("text.normal_form", capacity * sizeof(int32_t), &grown));
    memcpy(grown, s->codes, s->count * sizeof(int32_t));
    if (s->codes != s->own) lj_free(s->codes);
    s->codes = grown, s->capacity = capacity;
    return LJ_OK;
}

static lj_status decompose(stretch *s, uint32_t code)
{
    int boundary = 0;
    LJ_TRY(room(s, LONGEST_EXPANSION));
    utf8proc_option_t options = (utf8proc_option_t)((s->options & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE);
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)code, s->codes + s->count, (utf8proc_ssize_t)(s->capacity - s->count),
                                                 options, &boundary);
    if (n < 0) return lj_fail(LJ_ERR_FORMAT, "normal form of U+%04X: %s", code, utf8proc_errmsg(n));
    if ((size_t)n > s->capacity - s->count) {
        LJ_TRY(room(s, (size_t)n));
        return decompose(s, code);
    }
    s->count += (size_t)n;
    return LJ_OK;
}

static unsigned class_of(int32_t code)
{
    return (unsigned)utf8proc_get_property(code)->combining_class & 0xff;
}

static void insertion_sort(int32_t *codes, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        int32_t code = codes[i];
        size_t at = i;
        for (; at > 0 && class_of(codes[at - 1]) > class_of(code); at--) codes[at] = codes[at - 1];
        codes[at] = code;
    }
}

static lj_status counting_sort(int32_t *codes, size_t count)
{
    size_t starts[257] = {0};
    void *copy;
    LJ_TRY(lj_alloc("text.normal_form", count * sizeof(int32_t), &copy));
    memcpy(copy, codes, count * sizeof(int32_t));
    for (size_t i = 0; i < count; i++) starts[class_of(codes[i]) + 1]++;
    for (size_t c = 1; c < 257; c++) starts[c] += starts[c - 1];
    for (size_t i = 0; i < count; i++) codes[starts[class_of(((int32_t *)copy)[i])]++] = ((int32_t *)copy)[i];
    lj_free(copy);
    return LJ_OK;
}

/* Canonical order: runs of marks by combining class, equal classes as they came. */
static lj_status order_marks(stretch *s)
{
    for (size_t i = 0, end; i < s->count; i = end) {
        end = i + 1;
        if (class_of(s->codes[i]) == 0) continue;
        while (end < s->count && class_of(s->codes[end]) != 0) end++;
        if (end - i <= FEW)
            insertion_sort(s->codes + i, end - i);
        else
            LJ_TRY(counting_sort(s->codes + i, end - i));
    }
    return LJ_OK;
}

static lj_status finish(stretch *s, lj_text *out)
{
    char bytes[4];
    LJ_TRY(order_marks(s));
    utf8proc_ssize_t count = (utf8proc_ssize_t)s->count;
    if (s->options & UTF8PROC_COMPOSE) count = utf8proc_normalize_utf32(s->codes, count, s->options);
    for (utf8proc_ssize_t i = 0; i < count; i++) lj_text_add_bytes(out, bytes, lj_utf8_encode((uint32_t)s->codes[i], bytes));
    s->count = 0;
    return LJ_OK;
}

/* End of the run of inert characters from `at`; *last is the start of its last one. */
static size_t inert_run(const char *text, size_t bytes, size_t at, size_t *last)
{
    uint32_t code;
    *last = at;
    for (size_t length; at < bytes; at += length) {
        length = lj_utf8_decode(text + at, bytes - at, &code);
        if (!length || !inert(code)) break;
        *last = at;
    }
    return at;
}

/* What begins at `at`, up to the next inert character; its own first character, even an inert one, belongs to it. */
static lj_status changing_run(stretch *s, const char *text, size_t bytes, size_t *at, lj_text *out)
{
    uint32_t code;
    for (size_t length, first = *at; *at < bytes; *at += length) {
        length = lj_utf8_decode(text + *at, bytes - *at, &code);
        if (!length) return lj_fail(LJ_ERR_FORMAT, "normal form: byte %zu is no UTF-8", *at);
        if (*at > first && inert(code)) break;
        if (!is_late(code)) {
            LJ_TRY(decompose(s, code));
            continue;
        }
        LJ_TRY(finish(s, out));
        lj_text_add_bytes(out, text + *at, length);
    }
    return finish(s, out);
}

lj_status lj_unicode_form(lj_norm_kind form, const char *text, size_t bytes, lj_text *out)
{
    stretch s = {.options = options_of(form), .capacity = FEW};
    lj_status status = LJ_OK;
    s.codes = s.own;
    for (size_t at = 0, last; at < bytes && status == LJ_OK;) {
        size_t end = inert_run(text, bytes, at, &last);
        if (end == bytes) last = bytes;
        lj_text_add_bytes(out, text + at, last - at);
        at = last; /* the last inert character may take part in what follows */
        if (at < bytes) status = changing_run(&s, text, bytes, &at, out);
    }
    if (s.codes != s.own) lj_free(s.codes);
    return status == LJ_OK ? lj_text_status(out) : status;
}
