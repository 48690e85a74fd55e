#define _GNU_SOURCE
#include "text/pretokenize.h"

#include "text/byte_chars.h"

#include <string.h>

typedef struct {
    const lj_pretokenizer *pretokenizer;
    lj_pretokenize_scratch *scratch;
    lj_word_fn word;
    void *user;
} run;

static lj_status step_run(const run *r, size_t index, const char *text, size_t bytes, bool at_start);

lj_status lj_pretokenizer_add(lj_pretokenizer *pretokenizer, lj_pretokenize_step step)
{
    if (pretokenizer->count == LJ_MAX_STEPS) {
        lj_pattern_destroy(step.pattern);
        return lj_fail(LJ_ERR_LIMIT, "pre-tokenizer: more than %d steps", LJ_MAX_STEPS);
    }
    pretokenizer->steps[pretokenizer->count++] = step;
    return LJ_OK;
}

lj_status lj_pretokenizer_add_split(lj_pretokenizer *pretokenizer, const char *expression, size_t bytes, lj_pattern_tables tables,
                                   lj_split_behavior behavior, bool invert)
{
    lj_pattern *pattern;
    LJ_TRY(lj_pattern_create(expression, bytes, tables, &pattern));
    return lj_pretokenizer_add(pretokenizer,
                               (lj_pretokenize_step){.kind = LJ_STEP_SPLIT, .pattern = pattern, .behavior = behavior, .invert = invert});
}

void lj_pretokenizer_release(lj_pretokenizer *pretokenizer)
{
    for (size_t i = 0; i < pretokenizer->count; i++) lj_pattern_destroy(pretokenizer->steps[i].pattern);
    *pretokenizer = (lj_pretokenizer){0};
}

void lj_pretokenize_scratch_release(lj_pretokenize_scratch *scratch)
{
    lj_pattern_scratch_release(&scratch->pattern);
    for (size_t i = 0; i < LJ_MAX_STEPS; i++) lj_text_release(&scratch->text[i]);
}

/* Gathers stretches into pieces by the behaviour and hands each on when it is complete. */
typedef struct {
    const run *r;
    size_t index; /* of the next step */
    const char *text;
    bool at_start;
    lj_split_behavior behavior;
    size_t start, end; /* the piece being gathered; empty when equal */
    bool matched;      /* the last stretch of it was a match */
} gather;

static lj_status hand_on(gather *g)
{
    if (g->end == g->start) return LJ_OK;
    size_t start = g->start;
    g->start = g->end;
    return step_run(g->r, g->index, g->text + start, g->end - start, g->at_start && start == 0);
}

/* Does the stretch join the piece before it? */
static bool joins(const gather *g, bool match)
{
    switch (g->behavior) {
    case LJ_SPLIT_MERGED_WITH_PREVIOUS: return match && !g->matched;
    case LJ_SPLIT_MERGED_WITH_NEXT: return !match && g->matched;
    case LJ_SPLIT_CONTIGUOUS: return match == g->matched;
    default: return false;
    }
}

static lj_status stretch(gather *g, size_t start, size_t end, bool match)
{
    if (start == end) return LJ_OK;
    if (g->end == g->start || !joins(g, match)) {
        LJ_TRY(hand_on(g));
        g->start = start;
    }
    g->end = end, g->matched = match;
    if (g->behavior == LJ_SPLIT_REMOVED && match) g->start = g->end;
    return LJ_OK;
}

static lj_status split_run(const run *r, size_t index, const char *text, size_t bytes, bool at_start)
{
    const lj_pretokenize_step *step = &r->pretokenizer->steps[index];
    gather g = {.r = r, .index = index + 1, .text = text, .at_start = at_start, .behavior = step->behavior};
    for (size_t at = 0, start, end; at < bytes; at = end) {
        LJ_TRY(lj_pattern_find(step->pattern, &r->scratch->pattern, text, bytes, at, &start, &end));
        LJ_TRY(stretch(&g, at, start, step->invert));
        LJ_TRY(stretch(&g, start, end, !step->invert));
    }
    return hand_on(&g);
}

/* The step's own text, emptied. */
static lj_text *text_of(const run *r, size_t index)
{
    lj_text *text = &r->scratch->text[index];
    text->length = 0;
    return text;
}

static lj_status prefix_run(const run *r, size_t index, const char *text, size_t bytes, bool at_start)
{
    if (bytes && text[0] == ' ') return step_run(r, index + 1, text, bytes, at_start);
    lj_text *own = text_of(r, index);
    lj_text_add_bytes(own, " ", 1);
    lj_text_add_bytes(own, text, bytes);
    LJ_TRY(lj_text_status(own));
    return step_run(r, index + 1, own->data, own->length, at_start);
}

static bool starts_with(const char *text, size_t bytes, const char *start, size_t length)
{
    return bytes >= length && memcmp(text, start, length) == 0;
}

static void mark_spaces(lj_text *out, const lj_pretokenize_step *step, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const char *space = memchr(text + at, ' ', bytes - at);
        size_t length = space ? (size_t)(space - text) - at : bytes - at;
        lj_text_add_bytes(out, text + at, length);
        if (space) lj_text_add_bytes(out, step->mark, step->mark_bytes);
        at += length + (space != NULL);
    }
}

static lj_status mark_run(const run *r, size_t index, const char *text, size_t bytes, bool at_start)
{
    const lj_pretokenize_step *step = &r->pretokenizer->steps[index];
    lj_text *own = text_of(r, index);
    bool marked = starts_with(text, bytes, " ", 1) || starts_with(text, bytes, step->mark, step->mark_bytes);
    if (!marked && (step->scheme == LJ_MARK_ALWAYS || (step->scheme == LJ_MARK_FIRST && at_start)))
        lj_text_add_bytes(own, step->mark, step->mark_bytes);
    mark_spaces(own, step, text, bytes);
    LJ_TRY(lj_text_status(own));
    if (!step->cut) return step_run(r, index + 1, own->data, own->length, at_start);
    gather g = {.r = r, .index = index + 1, .text = own->data, .at_start = at_start, .behavior = LJ_SPLIT_MERGED_WITH_NEXT};
    for (size_t at = 0, end; at < own->length; at = end) {
        const char *mark = memmem(own->data + at, own->length - at, step->mark, step->mark_bytes);
        size_t start = mark ? (size_t)(mark - own->data) : own->length;
        end = mark ? start + step->mark_bytes : own->length;
        LJ_TRY(stretch(&g, at, start, false));
        LJ_TRY(stretch(&g, start, end, true));
    }
    return hand_on(&g);
}

static lj_status byte_chars_run(const run *r, size_t index, const char *text, size_t bytes, bool at_start)
{
    lj_text *own = text_of(r, index);
    char out[4];
    for (size_t i = 0; i < bytes; i++) lj_text_add_bytes(own, out, lj_byte_char_encode((unsigned char)text[i], out));
    LJ_TRY(lj_text_status(own));
    return step_run(r, index + 1, own->data, own->length, at_start);
}

static lj_status step_run(const run *r, size_t index, const char *text, size_t bytes, bool at_start)
{
    static lj_status (*const runs[])(const run *, size_t, const char *, size_t, bool) = {
        [LJ_STEP_SPLIT] = split_run, [LJ_STEP_PREFIX_SPACE] = prefix_run, [LJ_STEP_MARK] = mark_run, [LJ_STEP_BYTE_CHARS] = byte_chars_run};
    if (bytes == 0) return LJ_OK;
    if (index == r->pretokenizer->count) return r->word(r->user, text, bytes);
    return runs[r->pretokenizer->steps[index].kind](r, index, text, bytes, at_start);
}

lj_status lj_pretokenize(const lj_pretokenizer *pretokenizer, lj_pretokenize_scratch *scratch, const char *text, size_t bytes, bool at_start,
                         lj_word_fn word, void *user)
{
    run r = {pretokenizer, scratch, word, user};
    return step_run(&r, 0, text, bytes, at_start);
}
