/* From ids to text: what each token is worth is worked out once, when the tokenizer is finished. */
#define _GNU_SOURCE
#include "text/byte_chars.h"
#include "text/tokenizer_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Control tokens that end a turn in the formats of chat.c, whatever EOS is. */
static const char *const turn_ends[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "</s>", "<|eot|>"};

int lj_byte_token_value(const char *text, size_t bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const char *high = memchr(digits, toupper((unsigned char)text[3]), 16), *low = memchr(digits, toupper((unsigned char)text[4]), 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

lj_status lj_tokenizer_tokens_init(lj_tokenizer *tokenizer)
{
    void *tokens;
    LJ_TRY(lj_alloc_zero("text.tokens", (tokenizer->vocab.limit + 1) * sizeof(lj_token), &tokens));
    tokenizer->tokens = tokens;
    return LJ_OK;
}

static lj_status replace_in(lj_text *text, const char *what, const char *with)
{
    lj_text out;
    size_t length = strlen(what);
    if (!text->length || !length || !memmem(text->data, text->length, what, length)) return LJ_OK;
    lj_text_init(&out);
    for (size_t at = 0; at < text->length;) {
        const char *found = memmem(text->data + at, text->length - at, what, length);
        size_t plain = (found ? (size_t)(found - text->data) : text->length) - at;
        lj_text_add_bytes(&out, text->data + at, plain);
        if (found) lj_text_add_bytes(&out, with, strlen(with));
        at += plain + (found ? length : 0);
    }
    lj_text_release(text);
    *text = out;
    return lj_text_status(text);
}

/* The decoded bytes of one token, in the tokenizer's arena. */
static lj_status token_decode(lj_tokenizer *tokenizer, int32_t id, lj_text *work)
{
    const lj_decode_rule *rule = &tokenizer->decode;
    lj_span entry = tokenizer->vocab.entries[id];
    lj_token *token = &tokenizer->tokens[id];
    int value = rule->byte_tokens && !(token->flags & LJ_TOKEN_ADDED) ? lj_byte_token_value(entry.data, entry.bytes) : -1;
    work->length = 0;
    lj_text_add_bytes(work, entry.data, entry.bytes);
    LJ_TRY(lj_text_status(work));
    if (value >= 0) {
        work->data[0] = (char)value, work->length = 1;
        token->flags |= LJ_TOKEN_BYTE;
    } else {
        for (size_t i = 0; i < rule->replacements; i++) LJ_TRY(replace_in(work, rule->what[i], rule->with[i]));
        size_t bytes;
        char *raw = rule->byte_chars ? lj_arena_alloc(&tokenizer->arena, work->length + 1) : NULL;
        if (rule->byte_chars && !raw) return LJ_ERR_NOMEM;
        if (raw && lj_byte_chars_decode(work->data, work->length, raw, &bytes)) {
            token->text = raw, token->bytes = (uint32_t)bytes;
            return LJ_OK;
        }
    }
    char *copy = lj_arena_alloc(&tokenizer->arena, work->length + 1);
    if (!copy) return LJ_ERR_NOMEM;
    memcpy(copy, work->data, work->length);
    token->text = copy, token->bytes = (uint32_t)work->length;
    return LJ_OK;
}

static void mark_turn_ends(lj_tokenizer *tokenizer)
{
    for (size_t i = 0; i < sizeof turn_ends / sizeof *turn_ends; i++) {
        int32_t id = lj_vocab_find(&tokenizer->vocab, turn_ends[i], strlen(turn_ends[i]));
        if (id >= 0 && (tokenizer->tokens[id].flags & LJ_TOKEN_SPECIAL)) tokenizer->tokens[id].flags |= LJ_TOKEN_ENDS_TURN;
    }
}

lj_status lj_tokenizer_finish(lj_tokenizer *tokenizer, const char *kind)
{
    lj_text work;
    lj_status status = LJ_OK;
    lj_text_init(&work);
    for (size_t id = 0; id < tokenizer->vocab.limit && status == LJ_OK; id++)
        if (tokenizer->vocab.entries[id].data) status = token_decode(tokenizer, (int32_t)id, &work);
    lj_text_release(&work);
    LJ_TRY(status);
    mark_turn_ends(tokenizer);
    tokenizer->description = lj_arena_printf(&tokenizer->arena, "%s, %zu tokens", kind, tokenizer->vocab.count);
    return tokenizer->description ? LJ_OK : LJ_ERR_NOMEM;
}

static lj_status token_of(const lj_tokenizer *tokenizer, int32_t id, const lj_token **out)
{
    if (id < 0 || (size_t)id >= tokenizer->vocab.limit || !tokenizer->vocab.entries[id].data)
        return lj_fail(LJ_ERR_INVALID, "token id %d is not in the vocabulary of %s (ids 0 .. %zu)", id, tokenizer->name,
                       lj_tokenizer_size(tokenizer) ? lj_tokenizer_size(tokenizer) - 1 : 0);
    *out = &tokenizer->tokens[id];
    return LJ_OK;
}

/* The token's bytes as they stand at this place: less the leading spaces that the start still owes. */
static lj_span place(const lj_tokenizer *tokenizer, const lj_token *token, bool *started, size_t *strip, lj_text *out)
{
    lj_span text = {token->text, token->bytes};
    if (*started && tokenizer->decode.join_by_space) lj_text_add_bytes(out, " ", 1);
    *started = true;
    while (*strip && text.bytes && *text.data == ' ') text.data++, text.bytes--, --*strip;
    if (text.bytes) *strip = 0;
    return text;
}

lj_status lj_tokenizer_decode(const lj_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, lj_text *out)
{
    bool started = false;
    size_t strip = tokenizer->decode.strip;
    for (size_t i = 0; i < count; i++) {
        const lj_token *token = NULL;
        LJ_TRY(token_of(tokenizer, ids[i], &token));
        if (skip_special && (token->flags & LJ_TOKEN_SPECIAL)) continue;
        lj_span text = place(tokenizer, token, &started, &strip, out);
        lj_text_add_bytes(out, text.data, text.bytes);
    }
    return lj_text_status(out);
}

void lj_decode_stream_init(lj_decode_stream *stream, const lj_tokenizer *tokenizer, bool skip_special)
{
    *stream = (lj_decode_stream){.tokenizer = tokenizer, .skip_special = skip_special, .strip = tokenizer->decode.strip};
}

/* Appends the characters of text that are whole, U+FFFD for what can become none; returns the start of what may still become one. */
static size_t whole_characters(const char *text, size_t bytes, lj_text *out)
{
    uint32_t code;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = lj_utf8_decode(text + at, bytes - at, &code);
        if (length) {
            lj_text_add_bytes(out, text + at, length);
            continue;
        }
        if (lj_utf8_incomplete(text + at, bytes - at)) return at;
        length = 1; /* the longest beginning of a character counts as one broken character */
        while (length < 3 && at + length + 1 <= bytes && lj_utf8_incomplete(text + at, length + 1)) length++;
        lj_text_add_bytes(out, "\xef\xbf\xbd", 3);
    }
    return bytes;
}

/* Held bytes and new ones together; short pieces only meet here, so the join is small. */
static void stream_bytes(lj_decode_stream *stream, lj_span text, lj_text *out)
{
    char joined[8];
    while (stream->held_bytes && text.bytes) {
        memcpy(joined, stream->held, stream->held_bytes);
        joined[stream->held_bytes] = *text.data;
        size_t bytes = stream->held_bytes + 1, rest = whole_characters(joined, bytes, out);
        stream->held_bytes = bytes - rest;
        memcpy(stream->held, joined + rest, stream->held_bytes);
        text.data++, text.bytes--;
    }
    size_t rest = whole_characters(text.data, text.bytes, out);
    if (rest == text.bytes) return;
    stream->held_bytes = text.bytes - rest;
    memcpy(stream->held, text.data + rest, stream->held_bytes);
}

lj_status lj_decode_stream_add(lj_decode_stream *stream, int32_t id, lj_text *out)
{
    const lj_token *token = NULL;
    LJ_TRY(token_of(stream->tokenizer, id, &token));
    if (stream->skip_special && (token->flags & LJ_TOKEN_SPECIAL)) return LJ_OK;
    stream_bytes(stream, place(stream->tokenizer, token, &stream->started, &stream->strip, out), out);
    return lj_text_status(out);
}

lj_status lj_decode_stream_end(lj_decode_stream *stream, lj_text *out)
{
    if (stream->held_bytes) lj_text_add_bytes(out, "\xef\xbf\xbd", 3);
    stream->held_bytes = 0;
    return lj_text_status(out);
}
