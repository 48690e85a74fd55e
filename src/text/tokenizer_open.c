/* Which file a model's tokenizer is in, and what stands beside it. */
#include "base/file.h"
#include "formats/gguf.h"
#include "formats/model_folder.h"
#include "formats/strict_json.h"
#include "text/tokenizer_parts.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };
static const size_t config_limit = (size_t)16 << 20, file_limit = (size_t)1 << 30;

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

/* Terminated copy in the arena-like scratch of the caller; NULL: not there. */
static lj_status string_of(const lj_gguf *gguf, const char *key, lj_arena *arena, const char **out)
{
    lj_gguf_string text = {0};
    LJ_TRY(lj_gguf_get_string(gguf, key, &text));
    if (!text.data) return LJ_OK;
    if (memchr(text.data, 0, text.bytes)) return lj_fail(LJ_ERR_FORMAT, "%s holds a zero byte", key);
    char *copy = lj_arena_alloc(arena, text.bytes + 1);
    if (!copy) return LJ_ERR_NOMEM;
    memcpy(copy, text.data, text.bytes);
    *out = copy;
    return LJ_OK;
}

static lj_status flag_of(const lj_gguf *gguf, const char *key, int *out)
{
    bool value = false;
    if (!lj_gguf_find(gguf, key)) return LJ_OK;
    LJ_TRY(lj_gguf_get_bool(gguf, key, &value));
    *out = value;
    return LJ_OK;
}

static lj_status role_of(const lj_gguf *gguf, const char *key, int32_t *out)
{
    int64_t id = -1;
    LJ_TRY(lj_gguf_get_int(gguf, key, &id));
    if (id < -1 || id > INT32_MAX) return lj_fail(LJ_ERR_FORMAT, "%s: %lld is no token id", key, (long long)id);
    *out = (int32_t)id;
    return LJ_OK;
}

/* An array of 4-byte values with as many as there are tokens, copied because the file does not align it. */
static lj_status column_of(const lj_gguf *gguf, const char *key, lj_gguf_type type, size_t count, lj_arena *arena, const void **out)
{
    const uint8_t *data = NULL;
    uint64_t found = 0;
    if (!lj_gguf_find(gguf, key)) return LJ_OK;
    LJ_TRY(lj_gguf_get_array(gguf, key, type, &data, &found));
    if (found != count) return lj_fail(LJ_ERR_FORMAT, "%s: has %llu entries for %zu tokens", key, (unsigned long long)found, count);
    void *copy = lj_arena_alloc(arena, 4 * count);
    if (!copy) return LJ_ERR_NOMEM;
    if (count) memcpy(copy, data, 4 * count);
    *out = copy;
    return LJ_OK;
}

static lj_status strings_of(const lj_gguf *gguf, const char *key, lj_arena *arena, const lj_span **out, size_t *count)
{
    lj_gguf_string *strings = NULL;
    uint64_t found = 0;
    if (!lj_gguf_find(gguf, key)) return LJ_OK;
    LJ_TRY(lj_gguf_get_strings(gguf, key, &strings, &found));
    lj_span *copy = lj_arena_alloc(arena, found * sizeof *copy);
    for (uint64_t i = 0; copy && i < found; i++) copy[i] = (lj_span){strings[i].data, strings[i].bytes};
    lj_free(strings);
    *out = copy, *count = (size_t)found;
    return copy ? LJ_OK : LJ_ERR_NOMEM;
}

static lj_status gguf_vocab_read(const lj_gguf *gguf, lj_arena *arena, lj_gguf_vocab *vocab)
{
    LJ_TRY(string_of(gguf, "tokenizer.ggml.model", arena, &vocab->model));
    if (!vocab->model) return lj_fail(LJ_ERR_NOT_FOUND, "the file carries no tokenizer (no tokenizer.ggml.model); use the model's tokenizer.json");
    LJ_TRY(string_of(gguf, "tokenizer.ggml.pre", arena, &vocab->pre));
    LJ_TRY(string_of(gguf, "tokenizer.chat_template", arena, &vocab->chat_template));
    LJ_TRY(strings_of(gguf, "tokenizer.ggml.tokens", arena, &vocab->tokens, &vocab->token_count));
    LJ_TRY(strings_of(gguf, "tokenizer.ggml.merges", arena, &vocab->merges, &vocab->merge_count));
    const void *scores = NULL, *types = NULL;
    LJ_TRY(column_of(gguf, "tokenizer.ggml.scores", LJ_GGUF_F32, vocab->token_count, arena, &scores));
    LJ_TRY(column_of(gguf, "tokenizer.ggml.token_type", LJ_GGUF_I32, vocab->token_count, arena, &types));
    vocab->scores = scores, vocab->types = types;
    LJ_TRY(role_of(gguf, "tokenizer.ggml.bos_token_id", &vocab->bos));
    LJ_TRY(role_of(gguf, "tokenizer.ggml.eos_token_id", &vocab->eos));
    LJ_TRY(role_of(gguf, "tokenizer.ggml.unknown_token_id", &vocab->unknown));
    LJ_TRY(role_of(gguf, "tokenizer.ggml.padding_token_id", &vocab->pad));
    LJ_TRY(flag_of(gguf, "tokenizer.ggml.add_bos_token", &vocab->add_bos));
    LJ_TRY(flag_of(gguf, "tokenizer.ggml.add_eos_token", &vocab->add_eos));
    return flag_of(gguf, "tokenizer.ggml.add_space_prefix", &vocab->add_space_prefix);
}

static lj_status open_gguf(const char *path, lj_tokenizer **out)
{
    lj_gguf *gguf;
    lj_arena arena;
    lj_gguf_vocab vocab = {.name = path, .bos = -1, .eos = -1, .unknown = -1, .pad = -1, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1};
    LJ_TRY(lj_gguf_open(path, &gguf));
    lj_arena_init(&arena, "text.gguf");
    lj_status status = lj_fail_in(gguf_vocab_read(gguf, &arena, &vocab), "%s", path);
    if (status == LJ_OK) status = lj_tokenizer_create_gguf_vocab(&vocab, out);
    lj_arena_release(&arena);
    lj_gguf_close(gguf);
    return status;
}

typedef lj_status (*create_fn)(const char *name, const void *data, size_t bytes, lj_tokenizer **out);

static lj_status create_json(const char *name, const void *data, size_t bytes, lj_tokenizer **out)
{
    return lj_tokenizer_create_json(name, data, bytes, out);
}

static lj_status open_file(const char *path, create_fn create, lj_tokenizer **out)
{
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_status status = file.bytes > file_limit ? lj_fail(LJ_ERR_LIMIT, "%s: %zu bytes, at most %zu are read", path, file.bytes, file_limit)
                                               : create(path, file.data, file.bytes, out);
    lj_mapped_file_release(&file);
    return status;
}

/* A role's string, "<s>" or {"content": "<s>"}, to its id. A name that the vocabulary lacks leaves the role as it is. */
static void role_find(const lj_tokenizer *tokenizer, const json_t *config, const char *key, int32_t *role)
{
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) value = json_object_get(value, "content");
    if (!json_is_string(value)) return;
    int32_t id = lj_vocab_find(&tokenizer->vocab, json_string_value(value), json_string_length(value));
    if (id >= 0) *role = id;
}

/* The template named "default", or the only one. */
static const json_t *template_of(const json_t *config)
{
    const json_t *value = json_object_get(config, "chat_template"), *item;
    size_t index;
    if (!json_is_array(value)) return value;
    json_array_foreach(value, index, item) {
        const json_t *name = json_object_get(item, "name");
        if (json_is_string(name) && strcmp(json_string_value(name), "default") == 0) return json_object_get(item, "template");
    }
    return NULL;
}

static lj_status template_set(lj_tokenizer *tokenizer, const char *text)
{
    tokenizer->chat_template = lj_arena_strdup(&tokenizer->arena, text);
    return tokenizer->chat_template ? LJ_OK : LJ_ERR_NOMEM;
}

/* A SentencePiece model says nothing of BOS and EOS round a text; the config beside it does. */
static lj_status surround(lj_tokenizer *tokenizer, const json_t *config, const char *path, const char *key, int32_t role, lj_ids *side)
{
    bool add = side->count > 0;
    LJ_TRY(lj_json_get_bool(config, path, key, &add));
    side->count = 0;
    (void)tokenizer;
    return add && role >= 0 ? lj_ids_add(side, role) : LJ_OK;
}

static lj_status load_config(const char *path, json_t **out)
{
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_status status = file.bytes > config_limit ? lj_fail(LJ_ERR_LIMIT, "%s: %zu bytes, at most %zu are read", path, file.bytes, config_limit)
                                                 : lj_json_parse_wide(path, (const char *)file.data, file.bytes, out);
    lj_mapped_file_release(&file);
    return status;
}

static lj_status read_config(lj_tokenizer *tokenizer, const char *path, bool sentencepiece)
{
    json_t *config;
    LJ_TRY(load_config(path, &config));
    role_find(tokenizer, config, "bos_token", &tokenizer->bos);
    role_find(tokenizer, config, "eos_token", &tokenizer->eos);
    role_find(tokenizer, config, "pad_token", &tokenizer->pad);
    const json_t *template = template_of(config);
    lj_status status = json_is_string(template) ? template_set(tokenizer, json_string_value(template)) : LJ_OK;
    if (status == LJ_OK && sentencepiece) status = surround(tokenizer, config, path, "add_bos_token", tokenizer->bos, &tokenizer->prefix);
    if (status == LJ_OK && sentencepiece) status = surround(tokenizer, config, path, "add_eos_token", tokenizer->eos, &tokenizer->suffix);
    json_decref(config);
    return status;
}

static lj_status read_template_file(lj_tokenizer *tokenizer, const char *path)
{
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    char *copy = file.bytes <= config_limit ? lj_arena_alloc(&tokenizer->arena, file.bytes + 1) : NULL;
    if (copy && file.bytes) memcpy(copy, file.data, file.bytes);
    lj_mapped_file_release(&file);
    tokenizer->chat_template = copy;
    return copy ? LJ_OK : lj_fail(LJ_ERR_LIMIT, "%s: does not fit into memory", path);
}

static bool beside(const char *folder, const char *name, char path[PATH_BYTES])
{
    return snprintf(path, PATH_BYTES, "%s/%s", folder, name) < PATH_BYTES && lj_path_exists(path) &&
           lj_model_folder_file(folder, name, path, PATH_BYTES) == LJ_OK;
}

static lj_status open_folder(const char *folder, lj_tokenizer **out)
{
    char path[PATH_BYTES];
    lj_tokenizer *tokenizer;
    bool json = beside(folder, "tokenizer.json", path);
    if (!json && !beside(folder, "tokenizer.model", path))
        return lj_fail(LJ_ERR_NOT_FOUND, "%s: has neither tokenizer.json nor tokenizer.model; copy the model's own into the folder", folder);
    LJ_TRY(open_file(path, json ? create_json : lj_tokenizer_create_spm, &tokenizer));
    lj_status status = beside(folder, "tokenizer_config.json", path) ? read_config(tokenizer, path, !json) : LJ_OK;
    if (status == LJ_OK && beside(folder, "chat_template.jinja", path)) status = read_template_file(tokenizer, path);
    if (status == LJ_OK)
        *out = tokenizer;
    else
        lj_tokenizer_destroy(tokenizer);
    return status;
}

lj_status lj_tokenizer_create(const char *model, lj_tokenizer **out)
{
    if (lj_path_is_folder(model)) return open_folder(model, out);
    if (!lj_path_exists(model)) return lj_fail(LJ_ERR_NOT_FOUND, "%s: no such file or folder", model);
    if (ends_with(model, ".gguf")) return open_gguf(model, out);
    if (ends_with(model, ".json")) return open_file(model, create_json, out);
    if (ends_with(model, ".model")) return open_file(model, lj_tokenizer_create_spm, out);
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: a tokenizer is read from a model folder, a .gguf, a tokenizer.json or a tokenizer.model", model);
}
