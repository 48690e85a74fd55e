/* tokenizer.json: vocabulary, merges, added tokens; the chains of steps are in tokenizer_json_steps.c and tokenizer_json_output.c. Ids as Hugging
 * Face's tokenizers library gives them. What the file says of truncation and padding concerns batches of one trainer and is not followed. */
#include "text/tokenizer_json.h"

#include "base/log.h"
#include "text/json_zero.h"
#include "text/pieces.h"

#include <string.h>

static const char what_model[] = "model";

lj_status lj_json_step_read(lj_tokenizer *tokenizer, const json_t *value, const char *what, const lj_json_step *steps, size_t count)
{
    const char *type = NULL, *names[32];
    if (!json_is_object(value)) return lj_fail(LJ_ERR_FORMAT, "%s: must be an object", what);
    LJ_TRY(lj_json_get_string(value, what, "type", &type));
    if (!type) return lj_fail(LJ_ERR_FORMAT, "%s: has no 'type'", what);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(steps[i].type, type) == 0) return steps[i].read(tokenizer, value);
        names[i] = steps[i].type;
    }
    const char *near = lj_nearest_name(type, names, count);
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: type '%s' is not known here%s%s%s", what, type, near ? " (nearest: " : "", near ? near : "",
                   near ? ")" : "");
}

lj_status lj_json_each(lj_tokenizer *tokenizer, const json_t *value, const char *what, const char *key,
                       lj_status (*fn)(lj_tokenizer *tokenizer, const json_t *value))
{
    const json_t *list = json_object_get(value, key), *item;
    size_t index;
    if (!json_is_array(list)) return lj_fail(LJ_ERR_FORMAT, "%s: '%s' must be an array", what, key);
    json_array_foreach(list, index, item) LJ_TRY(lj_fail_in(fn(tokenizer, item), "%s[%zu]", key, index));
    return LJ_OK;
}

lj_status lj_json_copy_string(lj_tokenizer *tokenizer, const json_t *value, const char *what, const char *key, lj_span *out)
{
    const json_t *text = json_object_get(value, key);
    if (!json_is_string(text)) return lj_fail(LJ_ERR_FORMAT, "%s: '%s' must be a string", what, key);
    lj_text work;
    lj_text_init(&work);
    lj_span own = lj_json_zero_back((lj_span){json_string_value(text), json_string_length(text)}, tokenizer->zero, &work);
    char *copy = work.failed ? NULL : lj_arena_alloc(&tokenizer->arena, own.bytes + 1);
    if (copy) memcpy(copy, own.data, own.bytes);
    lj_text_release(&work);
    *out = (lj_span){copy, own.bytes};
    return copy ? LJ_OK : LJ_ERR_NOMEM;
}

/* One more than the highest id of vocabulary and added tokens; holes are allowed, but not so many that a small file asks for much memory. */
static lj_status id_limit(const json_t *vocab, const json_t *added, size_t *limit)
{
    const char *key;
    json_t *value;
    size_t index, entries = json_object_size(vocab) + json_array_size(added);
    int64_t highest = -1, id;
    json_object_foreach((json_t *)vocab, key, value) {
        if (!json_is_integer(value)) return lj_fail(LJ_ERR_FORMAT, "vocab: the id of '%.80s' must be a whole number", key);
        id = json_integer_value(value);
        if (id < 0) return lj_fail(LJ_ERR_FORMAT, "vocab: the id of '%.80s' is %lld", key, (long long)id);
        if (id > highest) highest = id;
    }
    json_array_foreach(added, index, value) {
        id = -1;
        LJ_TRY(lj_json_get_int(value, "added_tokens", "id", &id));
        if (id < 0) return lj_fail(LJ_ERR_FORMAT, "added_tokens[%zu]: has no id of 0 or more", index);
        if (id > highest) highest = id;
    }
    if (highest < 0) return lj_fail(LJ_ERR_FORMAT, "the vocabulary is empty");
    if ((uint64_t)highest > 4 * (uint64_t)entries + 65536)
        return lj_fail(LJ_ERR_LIMIT, "vocab: the highest id is %lld, but there are %zu tokens", (long long)highest, entries);
    *limit = (size_t)highest + 1;
    return LJ_OK;
}

static lj_status vocab_read(lj_tokenizer *tokenizer, const json_t *model, const json_t *added)
{
    const json_t *vocab = json_object_get(model, "vocab");
    const char *key;
    json_t *value;
    size_t limit = 0, bytes;
    if (!json_is_object(vocab)) return lj_fail(LJ_ERR_FORMAT, "model: 'vocab' must be an object");
    LJ_TRY(id_limit(vocab, added, &limit));
    LJ_TRY(lj_vocab_init(&tokenizer->vocab, limit));
    lj_status status = LJ_OK;
    lj_text work;
    lj_text_init(&work);
    json_object_keylen_foreach((json_t *)vocab, key, bytes, value)
    {
        if (status != LJ_OK) break;
        lj_span text = lj_json_zero_back((lj_span){key, bytes}, tokenizer->zero, &work);
        status = lj_fail_in(lj_vocab_set(&tokenizer->vocab, (int32_t)json_integer_value(value), text.data, text.bytes), "vocab");
    }
    if (status == LJ_OK) status = lj_text_status(&work);
    lj_text_release(&work);
    return status;
}

/* Two works: both parts are needed at once. */
static lj_status merge_read(const lj_tokenizer *tokenizer, const json_t *item, size_t index, lj_text work[2], lj_merge *merge)
{
    const json_t *parts[2] = {json_array_get(item, 0), json_array_get(item, 1)};
    lj_span texts[2];
    bool whole = json_is_string(item);
    if (whole) parts[0] = parts[1] = item;
    if (!whole && (json_array_size(item) != 2 || !json_is_string(parts[0]) || !json_is_string(parts[1])))
        return lj_fail(LJ_ERR_FORMAT, "merge %zu: must be \"left right\" or [\"left\", \"right\"]", index);
    for (int i = 0; i < 2; i++) {
        texts[i] = lj_json_zero_back((lj_span){json_string_value(parts[i]), json_string_length(parts[i])}, tokenizer->zero, &work[i]);
        LJ_TRY(lj_text_status(&work[i]));
    }
    if (whole) return lj_merge_parse(&tokenizer->vocab, index, texts[0], merge);
    return lj_merge_find(&tokenizer->vocab, index, texts[0], texts[1], merge);
}

static lj_status merges_read(lj_tokenizer *tokenizer, const json_t *merges)
{
    const json_t *item;
    size_t index;
    lj_merge merge;
    lj_text work[2];
    lj_status status = LJ_OK;
    lj_text_init(&work[0]);
    lj_text_init(&work[1]);
    json_array_foreach(merges, index, item) {
        status = merge_read(tokenizer, item, index, work, &merge);
        if (status != LJ_OK) break;
        lj_bpe_add(&tokenizer->bpe, merge.left, merge.right, (uint32_t)index, merge.joined, true);
    }
    lj_text_release(&work[0]);
    lj_text_release(&work[1]);
    return status;
}

/* Symbols are the model's own entries; tokens added beside them are never made by merging. */
static lj_status symbols_read(lj_tokenizer *tokenizer)
{
    tokenizer->bpe.symbols = &tokenizer->symbols;
    if (tokenizer->bpe.byte_level) return lj_byte_symbols_fill(tokenizer);
    LJ_TRY(lj_vocab_init(&tokenizer->symbols, tokenizer->vocab.limit));
    for (size_t id = 0; id < tokenizer->vocab.limit; id++) {
        lj_span entry = tokenizer->vocab.entries[id];
        if (entry.data) LJ_TRY(lj_vocab_set(&tokenizer->symbols, (int32_t)id, entry.data, entry.bytes));
        int value = entry.data && tokenizer->bpe.byte_fallback ? lj_byte_token_value(entry.data, entry.bytes) : -1;
        if (value >= 0) tokenizer->bpe.byte_token[value] = (int32_t)id;
    }
    return LJ_OK;
}

/* Settings of other kinds of BPE that would change ids. */
static lj_status model_check(const json_t *model)
{
    const char *type = NULL, *prefix = "", *suffix = "";
    double dropout = 0;
    LJ_TRY(lj_json_get_string(model, what_model, "type", &type));
    LJ_TRY(lj_json_get_string(model, what_model, "continuing_subword_prefix", &prefix));
    LJ_TRY(lj_json_get_string(model, what_model, "end_of_word_suffix", &suffix));
    LJ_TRY(lj_json_get_double(model, what_model, "dropout", &dropout));
    if (type && strcmp(type, "BPE") != 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "model: type '%s' is not known here; BPE is", type);
    if (*prefix || *suffix)
        return lj_fail(LJ_ERR_UNSUPPORTED, "model: continuing_subword_prefix '%s' and end_of_word_suffix '%s' are not known here", prefix, suffix);
    if (dropout != 0) return lj_fail(LJ_ERR_UNSUPPORTED, "model: dropout %g would make ids random; set it to null", dropout);
    return LJ_OK;
}

static lj_status unknown_read(lj_tokenizer *tokenizer, const json_t *model)
{
    const char *unknown = NULL;
    LJ_TRY(lj_json_get_string(model, what_model, "unk_token", &unknown));
    tokenizer->bpe.unknown = -1;
    if (!unknown) return LJ_OK;
    tokenizer->bpe.unknown = lj_vocab_find(&tokenizer->vocab, unknown, strlen(unknown));
    if (tokenizer->bpe.unknown < 0) return lj_fail(LJ_ERR_FORMAT, "model: unk_token '%.80s' is not in the vocabulary", unknown);
    return LJ_OK;
}

static lj_status model_read(lj_tokenizer *tokenizer, const json_t *model, const json_t *added)
{
    if (!json_is_object(model)) return lj_fail(LJ_ERR_FORMAT, "'model' must be an object");
    LJ_TRY(model_check(model));
    const json_t *merges = json_object_get(model, "merges");
    if (!json_is_array(merges)) return lj_fail(LJ_ERR_FORMAT, "model: 'merges' must be an array");
    bool byte_level = tokenizer->bpe.byte_level;
    LJ_TRY(lj_bpe_init(&tokenizer->bpe, json_array_size(merges)));
    lj_bpe *bpe = &tokenizer->bpe;
    bpe->byte_level = byte_level;
    LJ_TRY(lj_json_get_bool(model, what_model, "byte_fallback", &bpe->byte_fallback));
    LJ_TRY(lj_json_get_bool(model, what_model, "fuse_unk", &bpe->fuse_unknown));
    LJ_TRY(lj_json_get_bool(model, what_model, "ignore_merges", &bpe->whole_words));
    LJ_TRY(vocab_read(tokenizer, model, added));
    LJ_TRY(unknown_read(tokenizer, model));
    LJ_TRY(symbols_read(tokenizer));
    LJ_TRY(merges_read(tokenizer, merges));
    bpe->token_count = (int32_t)tokenizer->vocab.limit;
    if (byte_level) return LJ_OK;
    lj_tokenizer_find_cuts(tokenizer);
    return lj_bpe_index(bpe);
}

/* A token looked for in normalised text is looked for in its own normal form. */
static lj_status added_normalize(lj_tokenizer *tokenizer, lj_added_token *token)
{
    lj_normalize_scratch scratch = {0};
    lj_span form = {0};
    lj_status status = lj_normalize(&tokenizer->normalizer, &scratch, token->text, token->bytes, &form);
    token->text = form.data, token->bytes = form.bytes;
    if (status == LJ_OK && form.bytes) status = lj_added_add(&tokenizer->after, token);
    lj_normalize_scratch_release(&scratch);
    return status;
}

static lj_status added_read(lj_tokenizer *tokenizer, const json_t *item)
{
    static const char what[] = "added token";
    lj_span text;
    int64_t id = -1;
    if (!json_is_object(item)) return lj_fail(LJ_ERR_FORMAT, "%s: must be an object", what);
    LJ_TRY(lj_json_copy_string(tokenizer, item, what, "content", &text));
    LJ_TRY(lj_json_get_int(item, what, "id", &id));
    lj_added_token token = {.text = text.data, .bytes = text.bytes, .id = (int32_t)id, .normalized = true};
    LJ_TRY(lj_json_get_bool(item, what, "special", &token.special));
    token.normalized = !token.special;
    LJ_TRY(lj_json_get_bool(item, what, "normalized", &token.normalized));
    LJ_TRY(lj_json_get_bool(item, what, "single_word", &token.single_word));
    LJ_TRY(lj_json_get_bool(item, what, "lstrip", &token.lstrip));
    LJ_TRY(lj_json_get_bool(item, what, "rstrip", &token.rstrip));
    LJ_TRY(lj_vocab_set(&tokenizer->vocab, token.id, text.data, text.bytes));
    tokenizer->tokens[id].flags |= LJ_TOKEN_ADDED | (token.special ? LJ_TOKEN_SPECIAL : 0);
    return token.normalized ? added_normalize(tokenizer, &token) : lj_added_add(&tokenizer->before, &token);
}

static lj_status read_all(lj_tokenizer *tokenizer, const json_t *root)
{
    if (!json_is_object(root)) return lj_fail(LJ_ERR_FORMAT, "must be an object");
    const json_t *added = json_object_get(root, "added_tokens");
    LJ_TRY(lj_json_normalizer(tokenizer, json_object_get(root, "normalizer")));
    LJ_TRY(lj_json_pretokenizer(tokenizer, json_object_get(root, "pre_tokenizer")));
    LJ_TRY(model_read(tokenizer, json_object_get(root, "model"), added));
    LJ_TRY(lj_tokenizer_tokens_init(tokenizer));
    if (json_is_array(added)) LJ_TRY(lj_json_each(tokenizer, root, "tokenizer", "added_tokens", added_read));
    LJ_TRY(lj_json_post_processor(tokenizer, json_object_get(root, "post_processor")));
    LJ_TRY(lj_json_decoder(tokenizer, json_object_get(root, "decoder")));
    tokenizer->invalid = LJ_INVALID_KEEP;
    tokenizer->bos = tokenizer->prefix.count ? tokenizer->prefix.data[0] : -1;
    if (lj_json_has(root, "truncation") || lj_json_has(root, "padding"))
        lj_log(LJ_LOG_INFO, "%s: its truncation and padding settings are not followed", tokenizer->name);
    return lj_tokenizer_finish(tokenizer, tokenizer->bpe.byte_level ? "byte-level BPE" : "BPE");
}

lj_status lj_tokenizer_create_json(const char *name, const char *text, size_t bytes, lj_tokenizer **out)
{
    json_t *root;
    lj_tokenizer *tokenizer;
    char zero[4];
    LJ_TRY(lj_json_parse_zero(name, text, bytes, &root, zero));
    lj_status status = lj_tokenizer_begin(name, &tokenizer);
    if (status == LJ_OK) {
        memcpy(tokenizer->zero, zero, sizeof zero);
        status = lj_fail_in(read_all(tokenizer, root), "%s", name);
        if (status == LJ_OK)
            *out = tokenizer;
        else
            lj_tokenizer_destroy(tokenizer);
    }
    json_decref(root);
    return status;
}
