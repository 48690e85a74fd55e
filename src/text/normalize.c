#define _GNU_SOURCE
#include "text/normalize.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

typedef struct {
    const lj_norm_step *step;
    lj_normalize_scratch *scratch;
    const char *text;
    size_t bytes;
    lj_text *out;
} job;

static void step_release(lj_norm_step *step)
{
    lj_pattern_destroy(step->pattern);
    lj_charsmap_release(&step->charsmap);
}

lj_status lj_normalizer_add(lj_normalizer *normalizer, lj_norm_step step)
{
    if (normalizer->count == LJ_MAX_NORM_STEPS) {
        step_release(&step);
        return lj_fail(LJ_ERR_LIMIT, "normaliser: more than %d steps", LJ_MAX_NORM_STEPS);
    }
    normalizer->steps[normalizer->count++] = step;
    return LJ_OK;
}

void lj_normalizer_release(lj_normalizer *normalizer)
{
    for (size_t i = 0; i < normalizer->count; i++) step_release(&normalizer->steps[i]);
    *normalizer = (lj_normalizer){0};
}

void lj_normalize_scratch_release(lj_normalize_scratch *scratch)
{
    lj_text_release(&scratch->text[0]);
    lj_text_release(&scratch->text[1]);
    lj_pattern_scratch_release(&scratch->pattern);
}

static lj_status form_run(const job *j)
{
    return lj_unicode_form(j->step->kind, j->text, j->bytes, j->out);
}

static lj_status prepend_run(const job *j)
{
    lj_text_add_bytes(j->out, j->step->with, j->step->with_bytes);
    lj_text_add_bytes(j->out, j->text, j->bytes);
    return LJ_OK;
}

static lj_status next_replaced(const job *j, size_t from, size_t *start, size_t *end)
{
    if (j->step->pattern) return lj_pattern_find(j->step->pattern, &j->scratch->pattern, j->text, j->bytes, from, start, end);
    const char *found = memmem(j->text + from, j->bytes - from, j->step->what, j->step->what_bytes);
    *start = found ? (size_t)(found - j->text) : j->bytes;
    *end = found ? *start + j->step->what_bytes : j->bytes;
    return LJ_OK;
}

static lj_status replace_run(const job *j)
{
    for (size_t at = 0, start, end; at < j->bytes; at = end) {
        LJ_TRY(next_replaced(j, at, &start, &end));
        lj_text_add_bytes(j->out, j->text + at, start - at);
        if (start < end) lj_text_add_bytes(j->out, j->step->with, j->step->with_bytes);
    }
    return LJ_OK;
}

static lj_status strip_run(const job *j)
{
    size_t start = 0, end = j->bytes, length;
    uint32_t code;
    while (j->step->left && start < end && (length = lj_utf8_decode(j->text + start, end - start, &code)) && lj_utf8_white_space(code))
        start += length;
    while (j->step->right && end > start) {
        size_t at = end - 1;
        while (at > start && ((unsigned char)j->text[at] & 0xc0) == 0x80) at--;
        if (lj_utf8_decode(j->text + at, end - at, &code) != end - at || !lj_utf8_white_space(code)) break;
        end = at;
    }
    lj_text_add_bytes(j->out, j->text + start, end - start);
    return LJ_OK;
}

static lj_status characters_run(const job *j)
{
    uint32_t code;
    char bytes[4];
    for (size_t at = 0, length; at < j->bytes; at += length) {
        length = lj_utf8_decode(j->text + at, j->bytes - at, &code);
        if (!length) length = 1, code = 0xfffd;
        if (j->step->kind == LJ_NORM_STRIP_ACCENTS) {
            if (utf8proc_category((utf8proc_int32_t)code) != UTF8PROC_CATEGORY_MN) lj_text_add_bytes(j->out, j->text + at, length);
        } else if (code == 0x130) { /* the one letter whose lower case is two characters */
            lj_text_add_bytes(j->out, "i\xcc\x87", 3);
        } else {
            lj_text_add_bytes(j->out, bytes, lj_utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)code), bytes));
        }
    }
    return LJ_OK;
}

static lj_status charsmap_run(const job *j)
{
    lj_charsmap_graphemes(&j->step->charsmap, j->text, j->bytes, j->out);
    return LJ_OK;
}

static lj_status sentencepiece_run(const job *j)
{
    lj_charsmap_sentencepiece(&j->step->charsmap, &j->step->spaces, j->text, j->bytes, j->out);
    return LJ_OK;
}

static lj_status (*const runs[])(const job *) = {
    [LJ_NORM_NFC] = form_run,
    [LJ_NORM_NFD] = form_run,
    [LJ_NORM_NFKC] = form_run,
    [LJ_NORM_NFKD] = form_run,
    [LJ_NORM_PREPEND] = prepend_run,
    [LJ_NORM_REPLACE] = replace_run,
    [LJ_NORM_STRIP] = strip_run,
    [LJ_NORM_LOWERCASE] = characters_run,
    [LJ_NORM_STRIP_ACCENTS] = characters_run,
    [LJ_NORM_CHARSMAP] = charsmap_run,
    [LJ_NORM_SENTENCEPIECE] = sentencepiece_run,
};

static bool all_ascii(const char *text, size_t bytes)
{
    size_t at = 0;
    for (uint64_t eight; at + 8 <= bytes; at += 8) {
        memcpy(&eight, text + at, 8);
        if (eight & 0x8080808080808080u) return false;
    }
    for (; at < bytes; at++)
        if ((unsigned char)text[at] >= 0x80) return false;
    return true;
}

lj_status lj_normalize(const lj_normalizer *normalizer, lj_normalize_scratch *scratch, const char *text, size_t bytes, lj_span *out)
{
    *out = (lj_span){text, bytes};
    for (size_t i = 0, turn = 0; i < normalizer->count && out->bytes; i++) {
        const lj_norm_step *step = &normalizer->steps[i];
        bool form = step->kind <= LJ_NORM_NFKD || step->kind == LJ_NORM_STRIP_ACCENTS;
        if (form && all_ascii(out->data, out->bytes)) continue;
        lj_text *own = &scratch->text[turn];
        turn = 1 - turn, own->length = 0;
        job j = {step, scratch, out->data, out->bytes, own};
        LJ_TRY(runs[step->kind](&j));
        LJ_TRY(lj_text_status(own));
        *out = (lj_span){own->length ? own->data : "", own->length};
    }
    return LJ_OK;
}
