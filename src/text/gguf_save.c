/* GGUF metadata -> tokenizer.json or tokenizer.model, and tokenizer_config.json. */
#define _GNU_SOURCE
#include "text/gguf_save.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "text/gguf_pre.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4 };

/* Views into the mapping, checked against each other. */
typedef struct {
    const lj_gguf *gguf;
    const char *path;
    lj_gguf_string *tokens, *merges; /* allocated lists */
    uint64_t token_count, merge_count;
    const uint8_t *types, *scores; /* i32 and f32, unaligned; NULL: absent */
    int64_t bos, eos, unknown, pad;
    bool add_bos, add_eos, add_space_prefix;
} vocabulary;

static int32_t type_of(const vocabulary *v, uint64_t id)
{
    int32_t type = TYPE_NORMAL;
    if (v->types) memcpy(&type, v->types + 4 * id, 4);
    return type;
}

static lj_status ids_read(vocabulary *v)
{
    const struct {
        const char *key;
        int64_t *id;
    } roles[] = {{"tokenizer.ggml.bos_token_id", &v->bos},
                 {"tokenizer.ggml.eos_token_id", &v->eos},
                 {"tokenizer.ggml.unknown_token_id", &v->unknown},
                 {"tokenizer.ggml.padding_token_id", &v->pad}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        *roles[i].id = -1;
        LJ_TRY(lj_gguf_get_int(v->gguf, roles[i].key, roles[i].id));
        if (*roles[i].id < -1 || *roles[i].id >= (int64_t)v->token_count)
            return lj_fail(LJ_ERR_FORMAT, "%s: key '%s' is %lld, the vocabulary has %llu tokens", v->path, roles[i].key, (long long)*roles[i].id,
                           (unsigned long long)v->token_count);
    }
    return LJ_OK;
}

static lj_status length_check(const vocabulary *v, const char *key, uint64_t have)
{
    if (have == v->token_count) return LJ_OK;
    return lj_fail(LJ_ERR_FORMAT, "%s: key '%s' has %llu entries, tokenizer.ggml.tokens has %llu", v->path, key, (unsigned long long)have,
                   (unsigned long long)v->token_count);
}

static lj_status vocabulary_read(vocabulary *v, bool default_bos)
{
    uint64_t types = 0, scores = 0;
    LJ_TRY(lj_gguf_get_strings(v->gguf, "tokenizer.ggml.tokens", &v->tokens, &v->token_count));
    if (!v->tokens) return lj_fail(LJ_ERR_FORMAT, "%s: key 'tokenizer.ggml.tokens' is missing", v->path);
    LJ_TRY(lj_gguf_get_strings(v->gguf, "tokenizer.ggml.merges", &v->merges, &v->merge_count));
    LJ_TRY(lj_gguf_get_array(v->gguf, "tokenizer.ggml.token_type", LJ_GGUF_I32, &v->types, &types));
    LJ_TRY(lj_gguf_get_array(v->gguf, "tokenizer.ggml.scores", LJ_GGUF_F32, &v->scores, &scores));
    if (v->types) LJ_TRY(length_check(v, "tokenizer.ggml.token_type", types));
    if (v->scores) LJ_TRY(length_check(v, "tokenizer.ggml.scores", scores));
    LJ_TRY(ids_read(v));
    v->add_bos = default_bos, v->add_eos = false, v->add_space_prefix = true;
    LJ_TRY(lj_gguf_get_bool(v->gguf, "tokenizer.ggml.add_bos_token", &v->add_bos));
    LJ_TRY(lj_gguf_get_bool(v->gguf, "tokenizer.ggml.add_eos_token", &v->add_eos));
    LJ_TRY(lj_gguf_get_bool(v->gguf, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix));
    if ((v->add_bos && v->bos < 0) || (v->add_eos && v->eos < 0))
        return lj_fail(LJ_ERR_FORMAT, "%s: a BOS or EOS token is to be added, but the file names none", v->path);
    return LJ_OK;
}

static void vocabulary_release(vocabulary *v)
{
    lj_free(v->tokens);
    lj_free(v->merges);
}

/* The token's text; an empty one gets a name of its own, as two of them could not be told apart. */
static json_t *token_json(const vocabulary *v, int64_t id)
{
    if (id < 0) return json_null();
    if (v->tokens[id].bytes == 0) return json_sprintf("[EMPTY_%lld]", (long long)id);
    return json_stringn(v->tokens[id].data, v->tokens[id].bytes);
}

static lj_status vocab_json(const vocabulary *v, json_t *vocab, json_t *added)
{
    for (uint64_t id = 0; id < v->token_count; id++) {
        int32_t type = type_of(v, id);
        json_t *text = token_json(v, (int64_t)id);
        if (!text) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: token %llu is not UTF-8, JSON cannot hold it", v->path, (unsigned long long)id);
        if (json_object_getn(vocab, json_string_value(text), json_string_length(text))) {
            json_decref(text);
            return lj_fail(LJ_ERR_UNSUPPORTED, "%s: token %llu is in the vocabulary twice, tokenizer.json cannot hold that", v->path, (unsigned long long)id);
        }
        json_object_setn_new(vocab, json_string_value(text), json_string_length(text), json_integer((json_int_t)id));
        if (type == TYPE_CONTROL || type == TYPE_UNKNOWN || type == TYPE_USER)
            json_array_append_new(added, json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", text, "single_word", 0, "lstrip", 0, "rstrip",
                                                   0, "normalized", 0, "special", type != TYPE_USER));
        json_decref(text);
    }
    return LJ_OK;
}

static lj_status merges_json(const vocabulary *v, json_t *merges)
{
    for (uint64_t i = 0; i < v->merge_count; i++)
        if (json_array_append_new(merges, json_stringn(v->merges[i].data, v->merges[i].bytes)) != 0)
            return lj_fail(LJ_ERR_UNSUPPORTED, "%s: merge %llu is not UTF-8, JSON cannot hold it", v->path, (unsigned long long)i);
    return LJ_OK;
}

/* One Split for each expression, then the bytes as characters. */
static json_t *pre_tokenizer_json(const lj_gguf_pre *pre)
{
    json_t *steps = json_array();
    for (size_t i = 0; i < 5 && pre->expressions[i]; i++)
        json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pre->expressions[i], "behavior", "Isolated", "invert", 0));
    json_array_append_new(steps, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

static json_t *special_step(const char *name)
{
    return json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", name, "type_id", 0);
}

/* BOS and EOS round a text, where the file asks for them. */
static json_t *post_processor_json(const vocabulary *v)
{
    if (!v->add_bos && !v->add_eos) return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 0, "use_regex", 1);
    json_t *single = json_array(), *pair = json_array(), *specials = json_object();
    const int64_t ids[] = {v->add_bos ? v->bos : -1, v->add_eos ? v->eos : -1};
    for (int sequence = 0; sequence < 2; sequence++) {
        for (int place = 0; place < 2; place++) {
            json_t *text = token_json(v, ids[place]);
            if (json_is_string(text)) {
                if (sequence == 0) json_array_append_new(single, special_step(json_string_value(text)));
                json_array_append_new(pair, special_step(json_string_value(text)));
                json_object_set_new(specials, json_string_value(text), json_pack("{s:O, s:[I], s:[O]}", "id", text, "ids", (json_int_t)ids[place], "tokens", text));
            }
            json_decref(text);
            if (place == 1) continue;
            json_t *body = json_pack("{s:{s:s, s:i}}", "Sequence", "id", sequence ? "B" : "A", "type_id", 0);
            if (sequence == 0) json_array_append(single, body);
            json_array_append_new(pair, body);
        }
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing", "single", single, "pair", pair, "special_tokens", specials);
}

static lj_status json_save(const char *folder, const char *name, const json_t *root, size_t flags)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return lj_fail(LJ_ERR_INVALID, "%.80s...: path is too long", folder);
    char *text = json_dumps(root, flags);
    if (!text) return lj_fail(LJ_ERR_NOMEM, "%s: could not build the text", path);
    lj_status status = lj_file_write(path, text, strlen(text));
    free(text);
    return status;
}

static lj_status tokenizer_json_save(const vocabulary *v, const lj_gguf_pre *pre, const char *folder)
{
    json_t *vocab = json_object(), *merges = json_array(), *added = json_array();
    lj_status status = vocab_json(v, vocab, added);
    if (status == LJ_OK) status = merges_json(v, merges);
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix",
                              "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", pre->whole_words, "vocab", vocab, "merges", merges);
    json_t *decoder = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1);
    json_t *root = json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer",
                             "pre_tokenizer", pre_tokenizer_json(pre), "post_processor", post_processor_json(v), "decoder", decoder, "model", model);
    if (status == LJ_OK && !root) status = lj_fail(LJ_ERR_NOMEM, "%s: tokenizer.json", v->path);
    if (status == LJ_OK) status = json_save(folder, "tokenizer.json", root, JSON_INDENT(1));
    json_decref(root);
    return status;
}

/* Protobuf: a field's key and a number, and a field of bytes. */
static void put_varint(lj_text *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        char low = (char)(value | 0x80);
        lj_text_add_bytes(out, &low, 1);
    }
    char last = (char)value;
    lj_text_add_bytes(out, &last, 1);
}

static void put_number(lj_text *out, unsigned field, uint64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, value);
}

static void put_bytes(lj_text *out, unsigned field, const void *bytes, size_t count)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, count);
    lj_text_add_bytes(out, bytes, count);
}

/* sentencepiece's message SentencePiece: 1 piece, 2 score (float), 3 type. GGUF's type numbers are its own. */
static void put_piece(lj_text *out, const vocabulary *v, uint64_t id)
{
    lj_text piece;
    char empty[32];
    int32_t type = type_of(v, id);
    lj_gguf_string text = v->tokens[id];
    if (text.bytes == 0) text = (lj_gguf_string){empty, (size_t)snprintf(empty, sizeof empty, "[EMPTY_%llu]", (unsigned long long)id)};
    lj_text_init(&piece);
    put_bytes(&piece, 1, text.data, text.bytes);
    put_varint(&piece, 2 << 3 | 5);
    lj_text_add_bytes(&piece, v->scores + 4 * id, 4);
    put_number(&piece, 3, (uint64_t)type);
    put_bytes(out, 1, piece.data, piece.length);
    if (piece.failed) out->failed = true;
    lj_text_release(&piece);
}

/* TrainerSpec: 3 model_type (2 = BPE), 4 vocab_size, 35 byte_fallback, 40..43 unk, bos, eos, pad. NormalizerSpec: 1 name, 3 add_dummy_prefix,
 * 4 remove_extra_whitespaces, 5 escape_whitespaces. */
static lj_status tokenizer_model_save(const vocabulary *v, const char *folder)
{
    char path[PATH_MAX];
    lj_text out, trainer, normalizer;
    const int64_t roles[] = {v->unknown, v->bos, v->eos, v->pad};
    if (snprintf(path, sizeof path, "%s/tokenizer.model", folder) >= (int)sizeof path) return lj_fail(LJ_ERR_INVALID, "%.80s...: path is too long", folder);
    if (!v->scores) return lj_fail(LJ_ERR_FORMAT, "%s: key 'tokenizer.ggml.scores' is missing", v->path);
    lj_text_init(&out), lj_text_init(&trainer), lj_text_init(&normalizer);
    for (uint64_t id = 0; id < v->token_count; id++) put_piece(&out, v, id);
    put_number(&trainer, 3, 2);
    put_number(&trainer, 4, v->token_count);
    put_number(&trainer, 35, 1);
    for (unsigned i = 0; i < 4; i++) put_number(&trainer, 40 + i, (uint64_t)roles[i]); /* -1 is sign-extended, as protobuf does */
    put_bytes(&normalizer, 1, "identity", 8);
    put_number(&normalizer, 3, v->add_space_prefix);
    put_number(&normalizer, 4, 0);
    put_number(&normalizer, 5, 1);
    put_bytes(&out, 2, trainer.data, trainer.length);
    put_bytes(&out, 3, normalizer.data, normalizer.length);
    lj_status status = trainer.failed || normalizer.failed ? lj_fail(LJ_ERR_NOMEM, "%s: text", path) : lj_text_status(&out);
    if (status == LJ_OK) status = lj_file_write(path, out.data, out.length);
    lj_text_release(&out), lj_text_release(&trainer), lj_text_release(&normalizer);
    return status;
}

static lj_status config_save(const vocabulary *v, bool scores, const char *folder)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    const int64_t ids[] = {v->bos, v->eos, v->unknown, v->pad};
    lj_gguf_string template = {NULL, 0};
    LJ_TRY(lj_gguf_get_string(v->gguf, "tokenizer.chat_template", &template));
    json_t *root = json_object();
    json_object_set_new(root, "tokenizer_class", json_string(scores ? "LlamaTokenizer" : "PreTrainedTokenizerFast"));
    json_object_set_new(root, "clean_up_tokenization_spaces", json_false());
    for (size_t i = 0; i < 4; i++)
        if (ids[i] >= 0) json_object_set_new(root, names[i], token_json(v, ids[i]));
    if (scores) {
        json_object_set_new(root, "add_bos_token", json_boolean(v->add_bos));
        json_object_set_new(root, "add_eos_token", json_boolean(v->add_eos));
        json_object_set_new(root, "legacy", json_false());
    }
    if (template.data) json_object_set_new(root, "chat_template", json_stringn(template.data, template.bytes));
    lj_status status = json_save(folder, "tokenizer_config.json", root, JSON_INDENT(2));
    json_decref(root);
    return status;
}

static lj_status save(vocabulary *v, const char *kind, const char *pre_name, const char *folder)
{
    const lj_gguf_pre *pre = NULL;
    bool scores = strcmp(kind, "llama") == 0;
    if (!scores && strcmp(kind, "gpt2") != 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: tokenizer '%.40s' cannot be written for Hugging Face; 'gpt2' and 'llama' can", v->path, kind);
    if (!scores) LJ_TRY(lj_fail_in(lj_gguf_pre_find(*pre_name ? pre_name : "default", &pre), "%s", v->path));
    LJ_TRY(vocabulary_read(v, scores || pre->add_bos));
    LJ_TRY(scores ? tokenizer_model_save(v, folder) : tokenizer_json_save(v, pre, folder));
    return config_save(v, scores, folder);
}

static lj_status word_read(const lj_gguf *gguf, const char *key, char *word, size_t capacity)
{
    lj_gguf_string text = {"", 0};
    LJ_TRY(lj_gguf_get_string(gguf, key, &text));
    snprintf(word, capacity, "%.*s", (int)(text.bytes < capacity ? text.bytes : capacity - 1), text.data);
    return LJ_OK;
}

lj_status lj_gguf_tokenizer_save(const lj_gguf *gguf, const char *folder)
{
    char kind[64], pre[64];
    vocabulary v = {.gguf = gguf, .path = lj_gguf_part_path(gguf, 0)};
    LJ_TRY(word_read(gguf, "tokenizer.ggml.model", kind, sizeof kind));
    LJ_TRY(word_read(gguf, "tokenizer.ggml.pre", pre, sizeof pre));
    lj_status status = save(&v, kind, pre, folder);
    vocabulary_release(&v);
    return status;
}
