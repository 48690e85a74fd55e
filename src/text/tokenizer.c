/* Life of a tokenizer and the way from text to ids. Readers of files are beside this; decoding is in tokenizer_decode.c. */
#include "text/byte_chars.h"
#include "text/tokenizer_parts.h"

#include <string.h>
#include <xxhash.h>

/* Private code points that stand for what is no character on its way through normaliser and expressions: bytes 0x80 .. 0xff, and the
 * surrogates that llama.cpp lets pass. A broken text that holds these code points itself sends them as four bytes each, so that they
 * come back whole. */
enum { KEPT_BYTE = 0x10ff00, KEPT_SURROGATE = 0xf0000 };

typedef struct {
    const lj_tokenizer *tokenizer;
    lj_encoder *encoder;
    lj_ids *ids;
    bool specials, kept_bytes;
} encoding;

lj_status lj_tokenizer_begin(const char *name, lj_tokenizer **out)
{
    void *fresh;
    LJ_TRY(lj_alloc_zero("text.tokenizer", sizeof(lj_tokenizer), &fresh));
    lj_tokenizer *tokenizer = fresh;
    tokenizer->bos = tokenizer->eos = tokenizer->pad = -1;
    lj_arena_init(&tokenizer->arena, "text.tokenizer");
    lj_added_init(&tokenizer->before);
    lj_added_init(&tokenizer->after);
    lj_added_init(&tokenizer->frozen);
    pthread_mutex_init(&tokenizer->lock, NULL);
    tokenizer->name = lj_arena_strdup(&tokenizer->arena, name);
    if (!tokenizer->name) {
        lj_tokenizer_destroy(tokenizer);
        return LJ_ERR_NOMEM;
    }
    *out = tokenizer;
    return LJ_OK;
}

static void encoder_destroy(lj_encoder *encoder)
{
    lj_pretokenize_scratch_release(&encoder->pretokenize);
    lj_normalize_scratch_release(&encoder->normalize);
    lj_bpe_scratch_release(&encoder->bpe);
    lj_text_release(&encoder->repaired);
    lj_text_release(&encoder->word);
    lj_free(encoder);
}

void lj_tokenizer_destroy(lj_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    while (tokenizer->spare) {
        lj_encoder *next = tokenizer->spare->next;
        encoder_destroy(tokenizer->spare);
        tokenizer->spare = next;
    }
    lj_added_release(&tokenizer->before);
    lj_added_release(&tokenizer->after);
    lj_added_release(&tokenizer->frozen);
    lj_normalizer_release(&tokenizer->normalizer);
    lj_pretokenizer_release(&tokenizer->pretokenizer);
    lj_bpe_release(&tokenizer->bpe);
    lj_vocab_release(&tokenizer->symbols);
    lj_vocab_release(&tokenizer->vocab);
    lj_ids_release(&tokenizer->prefix);
    lj_ids_release(&tokenizer->suffix);
    lj_free(tokenizer->tokens);
    lj_free(tokenizer->unused);
    lj_arena_release(&tokenizer->arena);
    pthread_mutex_destroy(&tokenizer->lock);
    lj_free(tokenizer);
}

/* The pool is the one thing that changes behind a const tokenizer. */
static lj_status encoder_borrow(const lj_tokenizer *tokenizer, lj_encoder **out)
{
    lj_tokenizer *shared = (lj_tokenizer *)tokenizer;
    pthread_mutex_lock(&shared->lock);
    *out = shared->spare;
    if (*out) shared->spare = (*out)->next;
    pthread_mutex_unlock(&shared->lock);
    if (*out) return LJ_OK;
    void *fresh;
    LJ_TRY(lj_alloc_zero("text.encoder", sizeof(lj_encoder), &fresh));
    *out = fresh;
    return LJ_OK;
}

static void encoder_return(const lj_tokenizer *tokenizer, lj_encoder *encoder)
{
    lj_tokenizer *shared = (lj_tokenizer *)tokenizer;
    pthread_mutex_lock(&shared->lock);
    encoder->next = shared->spare;
    shared->spare = encoder;
    pthread_mutex_unlock(&shared->lock);
}

static bool is_kept_byte(uint32_t code)
{
    return code >= KEPT_BYTE + 0x80 && code <= KEPT_BYTE + 0xff;
}

static bool is_kept_surrogate(uint32_t code)
{
    return code >= KEPT_SURROGATE + 0xd800 && code <= KEPT_SURROGATE + 0xdfff;
}

static void code_add(lj_text *out, uint32_t code)
{
    char bytes[4];
    lj_text_add_bytes(out, bytes, lj_utf8_encode(code, bytes));
}

/* A character as llama.cpp reads it: by its form alone, so that overlong ones and surrogates pass. 0: none. */
static size_t lenient_decode(const char *text, size_t bytes, uint32_t *code)
{
    unsigned char first = (unsigned char)text[0];
    size_t length = first >= 0xf8 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
    if (!length || length > bytes) return 0;
    *code = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | ((unsigned char)text[i] & 0x3f);
    }
    return *code < 0x110000 ? length : 0;
}

/* One step of repair over what is no character; returns the bytes it took. */
static size_t broken_add(const encoding *e, const char *text, size_t bytes, lj_text *out)
{
    uint32_t code;
    size_t length = e->tokenizer->invalid == LJ_INVALID_REPLACE ? lenient_decode(text, bytes, &code) : 0;
    if (length)
        code_add(out, code >= 0xd800 && code <= 0xdfff ? KEPT_SURROGATE + code : code);
    else
        code_add(out, e->tokenizer->invalid == LJ_INVALID_REPLACE ? 0xfffd : KEPT_BYTE + (unsigned char)*text);
    return length ? length : 1;
}

/* Makes text valid UTF-8 by the tokenizer's rule. */
static lj_status repair(encoding *e, lj_span *text)
{
    uint32_t code;
    e->kept_bytes = false;
    if (e->tokenizer->invalid == LJ_INVALID_RAW || lj_utf8_valid_prefix(text->data, text->bytes) == text->bytes) return LJ_OK;
    lj_text *out = &e->encoder->repaired;
    out->length = 0;
    for (size_t at = 0, length; at < text->bytes; at += length) {
        length = lj_utf8_decode(text->data + at, text->bytes - at, &code);
        if (!length)
            length = broken_add(e, text->data + at, text->bytes - at, out);
        else if (is_kept_byte(code) || is_kept_surrogate(code))
            for (size_t i = 0; i < length; i++) code_add(out, KEPT_BYTE + (unsigned char)text->data[at + i]);
        else
            lj_text_add_bytes(out, text->data + at, length);
    }
    e->kept_bytes = true;
    *text = (lj_span){out->data, out->length};
    return lj_text_status(out);
}

/* What was kept becomes itself again. */
static lj_span unkeep(lj_text *out, const char *word, size_t bytes)
{
    uint32_t code;
    out->length = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = lj_utf8_decode(word + at, bytes - at, &code);
        if (!length) length = 1, code = 0;
        char byte = (char)(code - KEPT_BYTE);
        if (is_kept_byte(code))
            lj_text_add_bytes(out, &byte, 1);
        else if (is_kept_surrogate(code))
            code_add(out, code - KEPT_SURROGATE);
        else
            lj_text_add_bytes(out, word + at, length);
    }
    return (lj_span){out->data, out->length};
}

/* Stand-ins become bytes again; a word that holds another character is left alone and finds no symbols. */
static lj_span unmap(lj_text *out, lj_span word)
{
    size_t bytes;
    out->length = 0;
    lj_text_add_bytes(out, word.data, word.bytes);
    if (out->failed || !lj_byte_chars_decode(out->data, out->length, out->data, &bytes)) return word;
    out->length = bytes;
    return (lj_span){out->data, bytes};
}

static lj_status word_encode(void *user, const char *data, size_t bytes)
{
    encoding *e = user;
    lj_span word = {data, bytes};
    if (e->tokenizer->unmap)
        word = unmap(&e->encoder->word, word);
    else if (e->kept_bytes)
        word = unkeep(&e->encoder->word, data, bytes);
    LJ_TRY(lj_text_status(&e->encoder->word));
    return lj_bpe_encode(&e->tokenizer->bpe, &e->encoder->bpe, word.data, word.bytes, e->ids);
}

typedef lj_status (*fragment_fn)(encoding *e, const char *text, size_t bytes, bool at_start);

/* Ids of the tokens of `set` in text, and `fragment` for what lies between them. */
static lj_status between_added(encoding *e, const lj_added *set, const char *text, size_t bytes, bool at_start, fragment_fn fragment)
{
    size_t at = 0;
    for (lj_added_match match; lj_added_find(set, text, bytes, at, e->specials, &match); at = match.end) {
        if (match.start > at) LJ_TRY(fragment(e, text + at, match.start - at, at_start && at == 0));
        LJ_TRY(lj_ids_add(e->ids, match.token->id));
    }
    return at < bytes ? fragment(e, text + at, bytes - at, at_start && at == 0) : LJ_OK;
}

static lj_status words_encode(encoding *e, const char *text, size_t bytes, bool at_start)
{
    return lj_pretokenize(&e->tokenizer->pretokenizer, &e->encoder->pretokenize, text, bytes, at_start, word_encode, e);
}

static lj_status fragment_encode(encoding *e, const char *data, size_t bytes, bool at_start)
{
    lj_span text = {data, bytes};
    LJ_TRY(repair(e, &text));
    LJ_TRY(lj_normalize(&e->tokenizer->normalizer, &e->encoder->normalize, text.data, text.bytes, &text));
    return between_added(e, &e->tokenizer->after, text.data, text.bytes, at_start, words_encode);
}

static lj_status encode_with(const lj_tokenizer *tokenizer, lj_encoder *encoder, const char *text, size_t bytes, lj_encode_options options,
                             lj_ids *ids)
{
    encoding e = {.tokenizer = tokenizer, .encoder = encoder, .ids = ids, .specials = options.parse_special};
    if (options.add_special) LJ_TRY(lj_ids_add_many(ids, tokenizer->prefix.data, tokenizer->prefix.count));
    LJ_TRY(between_added(&e, &tokenizer->before, text, bytes, true, fragment_encode));
    return options.add_special ? lj_ids_add_many(ids, tokenizer->suffix.data, tokenizer->suffix.count) : LJ_OK;
}

lj_status lj_tokenizer_encode(const lj_tokenizer *tokenizer, const char *text, size_t bytes, lj_encode_options options, lj_ids *ids)
{
    lj_encoder *encoder;
    size_t before = ids->count;
    LJ_TRY(encoder_borrow(tokenizer, &encoder));
    lj_status status = encode_with(tokenizer, encoder, text, bytes, options, ids);
    if (status != LJ_OK) ids->count = before;
    if (status == LJ_ERR_NOMEM) /* a text that ran out of memory stays failed */
        encoder_destroy(encoder);
    else
        encoder_return(tokenizer, encoder);
    return status;
}

size_t lj_tokenizer_size(const lj_tokenizer *tokenizer)
{
    size_t size = tokenizer->vocab.limit;
    while (size > 0 && !tokenizer->vocab.entries[size - 1].data) size--;
    return size;
}

int32_t lj_tokenizer_find(const lj_tokenizer *tokenizer, const char *text, size_t bytes)
{
    return lj_vocab_find(&tokenizer->vocab, text, bytes);
}

lj_span lj_tokenizer_token(const lj_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (size_t)id < tokenizer->vocab.limit ? tokenizer->vocab.entries[id] : (lj_span){0};
}

static bool has_flag(const lj_tokenizer *tokenizer, int32_t id, uint32_t flag)
{
    return id >= 0 && (size_t)id < tokenizer->vocab.limit && (tokenizer->tokens[id].flags & flag);
}

bool lj_tokenizer_is_special(const lj_tokenizer *tokenizer, int32_t id)
{
    return has_flag(tokenizer, id, LJ_TOKEN_SPECIAL);
}

bool lj_tokenizer_ends_turn(const lj_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (id == tokenizer->eos || has_flag(tokenizer, id, LJ_TOKEN_ENDS_TURN));
}

int32_t lj_tokenizer_bos(const lj_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t lj_tokenizer_eos(const lj_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

int32_t lj_tokenizer_pad(const lj_tokenizer *tokenizer)
{
    return tokenizer->pad;
}

const char *lj_tokenizer_chat_template(const lj_tokenizer *tokenizer)
{
    return tokenizer->chat_template;
}

const char *lj_tokenizer_describe(const lj_tokenizer *tokenizer)
{
    return tokenizer->description;
}

uint64_t lj_tokenizer_fingerprint(const lj_tokenizer *tokenizer)
{
    const lj_bpe *bpe = &tokenizer->bpe;
    uint64_t hash = XXH3_64bits(bpe->merges, (bpe->merge_mask + 1) * sizeof *bpe->merges);
    for (size_t id = 0; id < tokenizer->vocab.limit; id++) {
        lj_span entry = tokenizer->vocab.entries[id];
        hash = XXH3_64bits_withSeed(entry.data, entry.bytes, hash * 31 + id + tokenizer->tokens[id].flags);
    }
    uint64_t rules[] = {tokenizer->normalizer.count, tokenizer->pretokenizer.count, tokenizer->invalid, bpe->byte_fallback, bpe->whole_words,
                        tokenizer->before.count,     tokenizer->after.count};
    hash = XXH3_64bits_withSeed(rules, sizeof rules, hash);
    hash = XXH3_64bits_withSeed(tokenizer->prefix.data, tokenizer->prefix.count * sizeof(int32_t), hash);
    return XXH3_64bits_withSeed(tokenizer->suffix.data, tokenizer->suffix.count * sizeof(int32_t), hash);
}
