#include "text/export_gguf.h"

#include "base/file.h"
#include "base/memory.h"
#include "text/gguf_pre.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_CONTROL = 3, TYPE_USER = 4 };

/* What is read of the file. */
typedef struct {
    const lj_gguf *gguf;
    lj_gguf_string *tokens, *merges;
    uint64_t token_count, merge_count;
    const uint8_t *types; /* i32, unaligned; NULL: all normal */
    int64_t bos, eos, pad;
    bool add_bos;
    const lj_gguf_pre *pre;
    lj_gguf_string chat_template;
} vocabulary;

static lj_status kind_check(const lj_gguf *gguf, char *pre, size_t capacity)
{
    lj_gguf_string model = {0}, name = {0};
    LJ_TRY(lj_gguf_get_string(gguf, "tokenizer.ggml.model", &model));
    LJ_TRY(lj_gguf_get_string(gguf, "tokenizer.ggml.pre", &name));
    if (model.bytes != 4 || memcmp(model.data, "gpt2", 4) != 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "a tokenizer of kind '%.*s' is not written as tokenizer.json, only byte-level BPE ('gpt2') is",
                       (int)model.bytes, model.data ? model.data : "");
    snprintf(pre, capacity, "%.*s", (int)name.bytes, name.data ? name.data : "");
    if (!*pre) snprintf(pre, capacity, "default");
    return LJ_OK;
}

static lj_status vocabulary_read(const lj_gguf *gguf, vocabulary *v)
{
    char pre[128];
    uint64_t types = 0;
    *v = (vocabulary){.gguf = gguf, .bos = -1, .eos = -1, .pad = -1};
    LJ_TRY(kind_check(gguf, pre, sizeof pre));
    LJ_TRY(lj_gguf_pre_find(pre, &v->pre));
    v->add_bos = v->pre->add_bos;
    LJ_TRY(lj_gguf_get_strings(gguf, "tokenizer.ggml.tokens", &v->tokens, &v->token_count));
    LJ_TRY(lj_gguf_get_strings(gguf, "tokenizer.ggml.merges", &v->merges, &v->merge_count));
    LJ_TRY(lj_gguf_get_array(gguf, "tokenizer.ggml.token_type", LJ_GGUF_I32, &v->types, &types));
    if (types != v->token_count) v->types = NULL;
    LJ_TRY(lj_gguf_get_int(gguf, "tokenizer.ggml.bos_token_id", &v->bos));
    LJ_TRY(lj_gguf_get_int(gguf, "tokenizer.ggml.eos_token_id", &v->eos));
    LJ_TRY(lj_gguf_get_int(gguf, "tokenizer.ggml.padding_token_id", &v->pad));
    if (lj_gguf_find(gguf, "tokenizer.ggml.add_bos_token")) LJ_TRY(lj_gguf_get_bool(gguf, "tokenizer.ggml.add_bos_token", &v->add_bos));
    return lj_gguf_get_string(gguf, "tokenizer.chat_template", &v->chat_template);
}

static int32_t type_of(const vocabulary *v, uint64_t id)
{
    int32_t type = 1;
    if (v->types) memcpy(&type, v->types + 4 * id, 4);
    return type;
}

static json_t *text_json(lj_gguf_string text)
{
    return json_stringn_nocheck(text.data ? text.data : "", text.bytes);
}

static json_t *token_json(const vocabulary *v, int64_t id)
{
    return id >= 0 && (uint64_t)id < v->token_count ? text_json(v->tokens[id]) : json_null();
}

static json_t *added_json(const vocabulary *v)
{
    json_t *list = json_array();
    for (uint64_t id = 0; id < v->token_count; id++) {
        int32_t type = type_of(v, id);
        if (type != TYPE_CONTROL && type != TYPE_USER) continue;
        json_array_append_new(list, json_pack("{s:I, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", text_json(v->tokens[id]),
                                              "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", type == TYPE_CONTROL));
    }
    return list;
}

static json_t *byte_level_json(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 0);
}

/* Expressions one inside the other, then bytes as their stand-ins. */
static json_t *pretokenizer_json(const lj_gguf_pre *pre)
{
    json_t *steps = json_array();
    for (int i = 0; i < 5 && pre->expressions[i]; i++)
        json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pre->expressions[i], "behavior",
                                               "Isolated", "invert", 0));
    json_array_append_new(steps, byte_level_json());
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

static json_t *postprocessor_json(const vocabulary *v)
{
    if (!v->add_bos || v->bos < 0 || (uint64_t)v->bos >= v->token_count) return byte_level_json();
    json_t *bos = token_json(v, v->bos), *special = json_object();
    json_object_setn_new_nocheck(special, v->tokens[v->bos].data, v->tokens[v->bos].bytes,
                                 json_pack("{s:O, s:[I], s:[O]}", "id", bos, "ids", (json_int_t)v->bos, "tokens", bos));
    json_t *piece = json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", bos, "type_id", 0);
    json_t *out = json_pack("{s:s, s:[O, {s:{s:s, s:i}}], s:[O, {s:{s:s, s:i}}, {s:{s:s, s:i}}], s:o}", "type", "TemplateProcessing", "single", piece,
                            "Sequence", "id", "A", "type_id", 0, "pair", piece, "Sequence", "id", "A", "type_id", 0, "Sequence", "id", "B",
                            "type_id", 1, "special_tokens", special);
    json_decref(piece);
    json_decref(bos);
    return out;
}

static json_t *model_json(const vocabulary *v)
{
    json_t *words = json_object(), *merges = json_array();
    for (uint64_t id = 0; id < v->token_count; id++)
        json_object_setn_new_nocheck(words, v->tokens[id].data, v->tokens[id].bytes, json_integer((json_int_t)id));
    for (uint64_t i = 0; i < v->merge_count; i++) {
        const char *space = memchr(v->merges[i].data + 1, ' ', v->merges[i].bytes ? v->merges[i].bytes - 1 : 0);
        size_t left = space ? (size_t)(space - v->merges[i].data) : 0;
        if (!space) continue;
        json_array_append_new(merges, json_pack("[o, o]", json_stringn_nocheck(v->merges[i].data, left),
                                                json_stringn_nocheck(space + 1, v->merges[i].bytes - left - 1)));
    }
    return json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", v->pre->whole_words, "vocab", words, "merges", merges);
}

static lj_status json_save(const char *folder, const char *name, json_t *root)
{
    char path[4096];
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!text) return lj_fail(LJ_ERR_NOMEM, "%s", name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    lj_status status = lj_file_write(path, text, strlen(text));
    free(text);
    return status;
}

static lj_status files_write(const vocabulary *v, const char *folder)
{
    json_t *root = json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding", "added_tokens", added_json(v),
                             "normalizer", "pre_tokenizer", pretokenizer_json(v->pre), "post_processor", postprocessor_json(v), "decoder",
                             byte_level_json(), "model", model_json(v));
    LJ_TRY(json_save(folder, "tokenizer.json", root));
    json_t *config = json_pack("{s:s, s:b, s:o, s:o, s:o}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0, "bos_token",
                               token_json(v, v->bos), "eos_token", token_json(v, v->eos), "pad_token", token_json(v, v->pad));
    if (config && v->chat_template.data) json_object_set_new(config, "chat_template", text_json(v->chat_template));
    return json_save(folder, "tokenizer_config.json", config);
}

lj_status lj_tokenizer_export_gguf(const lj_gguf *gguf, const char *folder)
{
    vocabulary v;
    lj_status status = vocabulary_read(gguf, &v);
    if (status == LJ_OK) status = files_write(&v, folder);
    lj_free(v.tokens);
    lj_free(v.merges);
    return status;
}
