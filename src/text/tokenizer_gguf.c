/* A tokenizer from the vocabulary in GGUF metadata; ids as llama.cpp gives them. */
#define _GNU_SOURCE
#include "base/log.h"
#include "text/gguf_pre.h"
#include "text/pieces.h"
#include "text/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

static int32_t type_of(const lj_gguf_vocab *vocab, size_t id)
{
    return vocab->types ? vocab->types[id] : TYPE_NORMAL;
}

static lj_status vocab_fill(lj_tokenizer *tokenizer, const lj_gguf_vocab *vocab)
{
    char empty[32];
    LJ_TRY(lj_vocab_init(&tokenizer->vocab, vocab->token_count));
    for (size_t id = 0; id < vocab->token_count; id++) {
        lj_span token = vocab->tokens[id];
        if (!token.bytes) token = (lj_span){empty, (size_t)snprintf(empty, sizeof empty, "[EMPTY_%zu]", id)};
        LJ_TRY(lj_vocab_set(&tokenizer->vocab, (int32_t)id, token.data, token.bytes));
    }
    return lj_tokenizer_tokens_init(tokenizer);
}

/* Control tokens are special; user defined and unknown ones are found in any text. */
static lj_status added_fill(lj_tokenizer *tokenizer, const lj_gguf_vocab *vocab)
{
    for (size_t id = 0; id < vocab->token_count; id++) {
        int32_t type = type_of(vocab, id);
        if (type != TYPE_CONTROL && type != TYPE_USER && type != TYPE_UNKNOWN) continue;
        bool special = type != TYPE_USER;
        lj_span text = tokenizer->vocab.entries[id];
        lj_added_token token = {.text = text.data, .bytes = text.bytes, .id = (int32_t)id, .special = special};
        LJ_TRY(lj_added_add(&tokenizer->before, &token));
        tokenizer->tokens[id].flags |= LJ_TOKEN_ADDED | (special ? LJ_TOKEN_SPECIAL : 0);
    }
    return LJ_OK;
}

static lj_status merges_fill(lj_tokenizer *tokenizer, const lj_gguf_vocab *vocab)
{
    for (size_t i = 0; i < vocab->merge_count; i++) {
        lj_merge merge;
        LJ_TRY(lj_merge_parse(&tokenizer->vocab, i, vocab->merges[i], &merge));
        lj_bpe_add(&tokenizer->bpe, merge.left, merge.right, (uint32_t)i, merge.joined, false);
    }
    return LJ_OK;
}

static lj_status roles_set(lj_tokenizer *tokenizer, const lj_gguf_vocab *vocab, bool add_bos)
{
    const struct {
        const char *name;
        int32_t id, *to;
    } roles[] = {{"bos", vocab->bos, &tokenizer->bos}, {"eos", vocab->eos, &tokenizer->eos}, {"padding", vocab->pad, &tokenizer->pad}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (roles[i].id < -1 || (roles[i].id >= 0 && (size_t)roles[i].id >= vocab->token_count))
            return lj_fail(LJ_ERR_FORMAT, "%s token id %d is outside the vocabulary of %zu", roles[i].name, roles[i].id, vocab->token_count);
        *roles[i].to = roles[i].id;
    }
    bool bos = vocab->add_bos >= 0 ? vocab->add_bos : add_bos, eos = vocab->add_eos > 0;
    if (bos && vocab->bos < 0) return lj_fail(LJ_ERR_FORMAT, "add_bos_token is set, but there is no bos_token_id");
    if (eos && vocab->eos < 0) return lj_fail(LJ_ERR_FORMAT, "add_eos_token is set, but there is no eos_token_id");
    if (bos) LJ_TRY(lj_ids_add(&tokenizer->prefix, vocab->bos));
    if (eos) LJ_TRY(lj_ids_add(&tokenizer->suffix, vocab->eos));
    tokenizer->chat_template = vocab->chat_template ? lj_arena_strdup(&tokenizer->arena, vocab->chat_template) : NULL;
    return vocab->chat_template && !tokenizer->chat_template ? LJ_ERR_NOMEM : LJ_OK;
}

static lj_status byte_level_fill(lj_tokenizer *tokenizer, const lj_gguf_vocab *vocab)
{
    const lj_gguf_pre *pre;
    if (!vocab->pre || !*vocab->pre)
        LJ_TRY(lj_fallback("gguf.pre", "the file does not name its pre-tokenizer; llama.cpp's default cuts the words",
                           "convert the model again, or use its tokenizer.json"));
    LJ_TRY(lj_gguf_pre_find(vocab->pre && *vocab->pre ? vocab->pre : "default", &pre));
    LJ_TRY(lj_bpe_init(&tokenizer->bpe, vocab->merge_count));
    LJ_TRY(vocab_fill(tokenizer, vocab));
    LJ_TRY(added_fill(tokenizer, vocab));
    LJ_TRY(lj_byte_symbols_fill(tokenizer));
    LJ_TRY(merges_fill(tokenizer, vocab));
    tokenizer->bpe.byte_level = tokenizer->bpe.keep_absent = true;
    tokenizer->bpe.whole_words = pre->whole_words;
    tokenizer->bpe.symbols = &tokenizer->symbols;
    tokenizer->bpe.token_count = (int32_t)vocab->token_count;
    for (size_t i = 0; i < 5 && pre->expressions[i]; i++)
        LJ_TRY(lj_pretokenizer_add_split(&tokenizer->pretokenizer, pre->expressions[i], strlen(pre->expressions[i]), LJ_PATTERN_LLAMA_CPP,
                                        LJ_SPLIT_ISOLATED, false));
    tokenizer->invalid = LJ_INVALID_REPLACE;
    tokenizer->decode.byte_chars = true;
    LJ_TRY(roles_set(tokenizer, vocab, pre->add_bos));
    return lj_tokenizer_finish(tokenizer, "byte-level BPE");
}

static lj_status scores_fill(lj_tokenizer *tokenizer, const lj_gguf_vocab *vocab)
{
    if (!vocab->scores) return lj_fail(LJ_ERR_FORMAT, "a 'llama' tokenizer without scores");
    LJ_TRY(vocab_fill(tokenizer, vocab));
    LJ_TRY(added_fill(tokenizer, vocab));
    lj_piece *pieces;
    void *fresh;
    LJ_TRY(lj_alloc_zero("text.pieces", (vocab->token_count + 1) * sizeof *pieces, &fresh));
    pieces = fresh;
    for (size_t id = 0; id < vocab->token_count; id++) pieces[id] = (lj_piece){tokenizer->vocab.entries[id], vocab->scores[id], true};
    lj_status status = lj_pieces_to_bpe(tokenizer, pieces, vocab->token_count);
    lj_free(pieces);
    LJ_TRY(status);
    tokenizer->bpe.byte_fallback = tokenizer->bpe.loose = true;
    for (size_t id = 0; id < vocab->token_count; id++) {
        int value = lj_byte_token_value(tokenizer->vocab.entries[id].data, tokenizer->vocab.entries[id].bytes);
        if (value >= 0) tokenizer->bpe.byte_token[value] = (int32_t)id;
    }
    bool prefix = vocab->add_space_prefix != 0;
    if (prefix)
        LJ_TRY(lj_normalizer_add(&tokenizer->normalizer, (lj_norm_step){.kind = LJ_NORM_PREPEND, .with = " ", .with_bytes = 1}));
    LJ_TRY(lj_normalizer_add(&tokenizer->normalizer, (lj_norm_step){.kind = LJ_NORM_REPLACE,
                                                                     .what = " ",
                                                                     .what_bytes = 1,
                                                                     .with = "\xe2\x96\x81",
                                                                     .with_bytes = 3}));
    tokenizer->invalid = LJ_INVALID_RAW;
    tokenizer->decode = (lj_decode_rule){.byte_tokens = true, .what = {"\xe2\x96\x81"}, .with = {" "}, .replacements = 1, .strip = prefix};
    LJ_TRY(roles_set(tokenizer, vocab, true));
    return lj_tokenizer_finish(tokenizer, "scored BPE with byte fallback");
}

static lj_status fill(lj_tokenizer *tokenizer, const lj_gguf_vocab *vocab)
{
    if (vocab->token_count == 0) return lj_fail(LJ_ERR_FORMAT, "the vocabulary is empty");
    if (strcmp(vocab->model, "gpt2") == 0) return byte_level_fill(tokenizer, vocab);
    if (strcmp(vocab->model, "llama") == 0) return scores_fill(tokenizer, vocab);
    return lj_fail(LJ_ERR_UNSUPPORTED, "tokenizer.ggml.model = '%s'; 'gpt2' and 'llama' are read here, for others use the model's tokenizer.json",
                   vocab->model);
}

lj_status lj_tokenizer_create_gguf_vocab(const lj_gguf_vocab *vocab, lj_tokenizer **out)
{
    lj_tokenizer *tokenizer;
    LJ_TRY(lj_tokenizer_begin(vocab->name, &tokenizer));
    lj_status status = lj_fail_in(fill(tokenizer, vocab), "%s", vocab->name);
    if (status == LJ_OK)
        *out = tokenizer;
    else
        lj_tokenizer_destroy(tokenizer);
    return status;
}
