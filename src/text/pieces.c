#define _GNU_SOURCE
#include "text/pieces.h"

#include "text/byte_chars.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_PIECE = 1024 };

static int shown(lj_span text)
{
    return (int)(text.bytes < 80 ? text.bytes : 80);
}

/* Counts the cut at `space` in *fits when its parts and the whole are tokens. */
static lj_status cut_try(const lj_vocab *vocab, lj_span text, const char *space, size_t *fits, lj_merge *out)
{
    lj_text joined;
    size_t left = (size_t)(space - text.data), right = text.bytes - left - 1;
    lj_merge found = {lj_vocab_find(vocab, text.data, left), lj_vocab_find(vocab, space + 1, right), -1};
    if (found.left < 0 || found.right < 0) return LJ_OK;
    lj_text_init(&joined);
    lj_text_add_bytes(&joined, text.data, left);
    lj_text_add_bytes(&joined, space + 1, right);
    lj_status status = lj_text_status(&joined);
    if (status == LJ_OK) found.joined = lj_vocab_find(vocab, joined.data, joined.length);
    lj_text_release(&joined);
    if (found.joined >= 0) *out = found, ++*fits;
    return status;
}

lj_status lj_merge_find(const lj_vocab *vocab, size_t index, lj_span left, lj_span right, lj_merge *out)
{
    lj_merge found = {lj_vocab_find(vocab, left.data, left.bytes), lj_vocab_find(vocab, right.data, right.bytes), -1};
    const char *fault = found.left < 0 ? "its left part" : found.right < 0 ? "its right part" : NULL;
    if (!fault) {
        lj_text joined;
        lj_text_init(&joined);
        lj_text_add_bytes(&joined, left.data, left.bytes);
        lj_text_add_bytes(&joined, right.data, right.bytes);
        lj_status status = lj_text_status(&joined);
        if (status == LJ_OK) found.joined = lj_vocab_find(vocab, joined.data, joined.length);
        lj_text_release(&joined);
        LJ_TRY(status);
        if (found.joined < 0) fault = "what it makes";
    }
    if (fault)
        return lj_fail(LJ_ERR_FORMAT, "merge %zu ('%.*s' + '%.*s'): %s is not in the vocabulary", index, shown(left), left.data, shown(right),
                       right.data, fault);
    *out = found;
    return LJ_OK;
}

lj_status lj_merge_parse(const lj_vocab *vocab, size_t index, lj_span text, lj_merge *out)
{
    size_t fits = 0, spaces = 0;
    const char *end = text.data + text.bytes, *first = NULL;
    /* A cut leaves something on both sides, so a part may begin or end with a space of its own. */
    for (const char *at = text.bytes > 2 ? memchr(text.data + 1, ' ', text.bytes - 2) : NULL; at;
         at = at + 2 < end ? memchr(at + 1, ' ', (size_t)(end - at) - 2) : NULL) {
        if (!first) first = at;
        spaces++;
        LJ_TRY(cut_try(vocab, text, at, &fits, out));
    }
    if (fits == 1) return LJ_OK;
    if (!spaces) return lj_fail(LJ_ERR_FORMAT, "merge %zu '%.*s': no space between two parts", index, shown(text), text.data);
    if (fits > 1)
        return lj_fail(LJ_ERR_FORMAT, "merge %zu '%.*s': %zu places where its space could be the one between the parts; write merges as pairs",
                       index, shown(text), text.data, fits);
    if (spaces > 1)
        return lj_fail(LJ_ERR_FORMAT, "merge %zu '%.*s': no cut at any of its %zu spaces gives two tokens that make a third", index, shown(text),
                       text.data, spaces);
    size_t left = (size_t)(first - text.data);
    return lj_merge_find(vocab, index, (lj_span){text.data, left}, (lj_span){first + 1, text.bytes - left - 1}, out);
}

typedef struct {
    const lj_piece *pieces;
    size_t count;
    uint32_t *rank; /* [count] */
    int32_t *order;
} ranking;

static int higher_score_first(const void *a, const void *b, void *user)
{
    const ranking *r = user;
    float x = r->pieces[*(const int32_t *)a].score, y = r->pieces[*(const int32_t *)b].score;
    return (x < y) - (x > y);
}

/* rank[id]: the place of its score among the scores; equal scores share one. */
static lj_status rank_scores(ranking *r)
{
    void *rank, *order;
    LJ_TRY(lj_alloc("text.pieces", (r->count + 1) * sizeof(uint32_t), &rank));
    r->rank = rank;
    LJ_TRY(lj_alloc("text.pieces", (r->count + 1) * sizeof(int32_t), &order));
    r->order = order;
    for (size_t i = 0; i < r->count; i++) {
        if (isnan(r->pieces[i].score)) return lj_fail(LJ_ERR_FORMAT, "the score of token %zu is no number", i);
        r->order[i] = (int32_t)i;
    }
    qsort_r(r->order, r->count, sizeof *r->order, higher_score_first, r);
    uint32_t place = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (i > 0 && r->pieces[r->order[i]].score != r->pieces[r->order[i - 1]].score) place++;
        r->rank[r->order[i]] = place;
    }
    return LJ_OK;
}

/* Calls visit for each cut of the piece between characters. */
typedef lj_status (*cut_fn)(lj_tokenizer *tokenizer, const ranking *r, int32_t id, lj_span left, lj_span right);

static lj_status each_cut(lj_tokenizer *tokenizer, const ranking *r, int32_t id, cut_fn visit)
{
    lj_span text = r->pieces[id].text;
    uint32_t code;
    for (size_t at = 0; at < text.bytes;) {
        size_t length = lj_utf8_decode(text.data + at, text.bytes - at, &code);
        at += length ? length : 1;
        if (at < text.bytes) LJ_TRY(visit(tokenizer, r, id, (lj_span){text.data, at}, (lj_span){text.data + at, text.bytes - at}));
    }
    return LJ_OK;
}

static lj_status add_cut(lj_tokenizer *tokenizer, const ranking *r, int32_t id, lj_span left, lj_span right)
{
    int32_t a = lj_vocab_find(&tokenizer->symbols, left.data, left.bytes), b = lj_vocab_find(&tokenizer->symbols, right.data, right.bytes);
    if (a >= 0 && b >= 0) lj_bpe_add(&tokenizer->bpe, a, b, r->rank[id], id, false);
    return LJ_OK;
}

static size_t characters_of(lj_span text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.bytes; i++) count += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return count ? count : 1;
}

/* Symbols: the pieces under their ids, then each character of theirs that is no piece. */
static lj_status symbols_fill(lj_tokenizer *tokenizer, const ranking *r, size_t most_characters)
{
    uint32_t code;
    int32_t next = (int32_t)r->count;
    LJ_TRY(lj_vocab_init(&tokenizer->symbols, r->count + most_characters));
    for (size_t i = 0; i < r->count; i++)
        if (r->pieces[i].merges) LJ_TRY(lj_vocab_set(&tokenizer->symbols, (int32_t)i, r->pieces[i].text.data, r->pieces[i].text.bytes));
    for (size_t i = 0; i < r->count; i++) {
        lj_span text = r->pieces[i].text;
        if (!r->pieces[i].merges) continue;
        for (size_t at = 0, length; at < text.bytes; at += length) {
            length = lj_utf8_decode(text.data + at, text.bytes - at, &code);
            if (!length) length = 1;
            if (lj_vocab_find(&tokenizer->symbols, text.data + at, length) < 0)
                LJ_TRY(lj_vocab_set(&tokenizer->symbols, next++, text.data + at, length));
        }
    }
    return LJ_OK;
}

/* Distinct characters can be no more than all of them, nor than Unicode has. */
static lj_status build(lj_tokenizer *tokenizer, ranking *r)
{
    size_t characters = 0, cuts = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->pieces[i].text.bytes > LONGEST_PIECE)
            return lj_fail(LJ_ERR_LIMIT, "token %zu has %zu bytes, at most %d are allowed", i, r->pieces[i].text.bytes, LONGEST_PIECE);
        size_t own = characters_of(r->pieces[i].text);
        characters += own, cuts += r->pieces[i].merges ? own - 1 : 0;
    }
    LJ_TRY(rank_scores(r));
    LJ_TRY(lj_bpe_init(&tokenizer->bpe, cuts));
    LJ_TRY(symbols_fill(tokenizer, r, characters < 0x110000 ? characters : 0x110000));
    for (size_t i = 0; i < r->count; i++)
        if (r->pieces[i].merges) LJ_TRY(each_cut(tokenizer, r, (int32_t)i, add_cut));
    tokenizer->bpe.symbols = &tokenizer->symbols;
    tokenizer->bpe.token_count = (int32_t)r->count;
    tokenizer->bpe.keep_absent = true;
    lj_tokenizer_find_cuts(tokenizer);
    return lj_bpe_index(&tokenizer->bpe);
}

lj_status lj_pieces_to_bpe(lj_tokenizer *tokenizer, const lj_piece *pieces, size_t count)
{
    ranking r = {.pieces = pieces, .count = count};
    lj_status status = build(tokenizer, &r);
    lj_free(r.rank);
    lj_free(r.order);
    return status;
}

void lj_tokenizer_find_cuts(lj_tokenizer *tokenizer)
{
    static const char mark[] = "\xe2\x96\x81";
    bool allowed = lj_vocab_find(tokenizer->bpe.symbols, mark, 3) >= 0 && !tokenizer->bpe.whole_words;
    for (size_t i = 0; i < tokenizer->bpe.symbols->limit && allowed; i++) {
        lj_span text = tokenizer->bpe.symbols->entries[i];
        for (size_t at = 3; at + 3 <= text.bytes && allowed; at++)
            allowed = memcmp(text.data + at, mark, 3) != 0 || memcmp(text.data + at - 3, mark, 3) == 0;
        if (text.bytes > 3 && allowed) /* one or two bytes in front of a mark */
            for (size_t at = 1; at < 3 && at + 3 <= text.bytes && allowed; at++) allowed = memcmp(text.data + at, mark, 3) != 0;
    }
    tokenizer->bpe.split_at_mark = allowed;
}

lj_status lj_byte_symbols_fill(lj_tokenizer *tokenizer)
{
    lj_text raw;
    lj_status status = lj_vocab_init(&tokenizer->symbols, tokenizer->vocab.limit);
    lj_text_init(&raw);
    for (size_t id = 0; id < tokenizer->vocab.limit && status == LJ_OK; id++) {
        lj_span entry = tokenizer->vocab.entries[id];
        size_t bytes;
        if (!entry.data) continue;
        raw.length = 0;
        lj_text_add_bytes(&raw, entry.data, entry.bytes);
        status = lj_text_status(&raw);
        if (status != LJ_OK || !lj_byte_chars_decode(raw.data, raw.length, raw.data, &bytes)) continue;
        status = lj_vocab_set(&tokenizer->symbols, (int32_t)id, raw.data, bytes);
        if (bytes == 1) tokenizer->bpe.byte_symbol[(unsigned char)raw.data[0]] = (int32_t)id;
    }
    lj_text_release(&raw);
    return status;
}
