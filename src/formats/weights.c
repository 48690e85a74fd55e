/* Opening weights of any kind into one sorted list. Reading is weights_read.c, checking weights_check.c. */
#define _GNU_SOURCE
#include "formats/weights_list.h"

#include "formats/gguf_config.h"
#include "formats/hf_config.h"
#include "formats/model_folder.h"
#include "formats/strict_json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_INDEX_BYTES = 256 << 20, MAX_SHARDS = 10000 };

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lj_weight *)a)->name, ((const lj_weight *)b)->name);
}

static lj_status list_sort(lj_weights *w)
{
    qsort(w->items, w->count, sizeof *w->items, by_name);
    for (size_t i = 1; i < w->count; i++)
        if (strcmp(w->items[i - 1].name, w->items[i].name) == 0)
            return lj_fail(LJ_ERR_FORMAT, "tensor '%.200s' is in %s and again in %s as '%.200s'", w->items[i].name, w->items[i - 1].file, w->items[i].file,
                           w->items[i].stored_name);
    return LJ_OK;
}

static lj_status list_reserve(lj_weights *w, size_t more)
{
    lj_weight *grown = lj_arena_alloc(&w->arena, (w->count + more + 1) * sizeof *grown);
    if (!grown) return LJ_ERR_NOMEM;
    if (w->count) memcpy(grown, w->items, w->count * sizeof *grown);
    w->items = grown;
    return LJ_OK;
}

static void rows_and_columns(lj_weight *item)
{
    item->rows = item->rank ? item->shape[0] : 1;
    item->columns = 1;
    for (int i = 1; i < item->rank; i++) item->columns *= item->shape[i];
}

static void shard_add(lj_weights *w, const lj_safetensors *shard)
{
    for (size_t i = 0; i < lj_safetensors_count(shard); i++) {
        const lj_safetensors_tensor *t = lj_safetensors_get(shard, i);
        lj_weight *item = &w->items[w->count++];
        *item = (lj_weight){.name = t->name,
                            .stored_name = t->name,
                            .file = lj_safetensors_path(shard),
                            .type_name = lj_dtype_rows[t->dtype].safetensors,
                            .dtype = t->dtype,
                            .rank = t->rank,
                            .data = t->data,
                            .bytes = t->bytes};
        memcpy(item->shape, t->shape, sizeof item->shape);
        rows_and_columns(item);
    }
}

static lj_status shard_open(lj_weights *w, const char *path)
{
    LJ_TRY(lj_safetensors_open(path, &w->shards[w->shard_count]));
    const lj_safetensors *shard = w->shards[w->shard_count++];
    LJ_TRY(list_reserve(w, lj_safetensors_count(shard)));
    shard_add(w, shard);
    return LJ_OK;
}

static lj_status shards_reserve(lj_weights *w, size_t count)
{
    w->shards = lj_arena_alloc(&w->arena, (count + 1) * sizeof(*w->shards));
    return w->shards ? LJ_OK : LJ_ERR_NOMEM;
}

/* A model saved without its head calls its tensors "layers.0..."; the causal model's names have "model." before that. */
static lj_status base_names_prefix(lj_weights *w)
{
    bool bare = false;
    for (size_t i = 0; i < w->count; i++) {
        if (strncmp(w->items[i].name, "model.", 6) == 0) return LJ_OK;
        bare = bare || strncmp(w->items[i].name, "layers.", 7) == 0 || strcmp(w->items[i].name, "embed_tokens.weight") == 0;
    }
    for (size_t i = 0; bare && i < w->count; i++) {
        if (strncmp(w->items[i].name, "lm_head.", 8) == 0) continue;
        w->items[i].name = lj_arena_printf(&w->arena, "model.%s", w->items[i].name);
        if (!w->items[i].name) return LJ_ERR_NOMEM;
    }
    return LJ_OK;
}

/* The shard of `name`, opened when it is the first of that file. */
static lj_status index_shard(lj_weights *w, const char *folder, const char *file, json_t *seen)
{
    char path[PATH_MAX];
    if (json_object_get(seen, file)) return LJ_OK;
    if (w->shard_count == MAX_SHARDS) return lj_fail(LJ_ERR_LIMIT, "%s: the index names more than %d files", folder, MAX_SHARDS);
    LJ_TRY(lj_fail_in(lj_model_folder_file(folder, file, path, sizeof path), "index of the weights"));
    LJ_TRY(shard_open(w, path));
    json_object_set_new(seen, file, json_integer((json_int_t)w->shard_count - 1));
    return LJ_OK;
}

static lj_status index_map_open(lj_weights *w, const char *folder, const char *path, json_t *map, json_t *seen)
{
    const char *name;
    json_t *file;
    if (!json_is_object(map)) return lj_fail(LJ_ERR_FORMAT, "%s: 'weight_map' is missing or no object", path);
    LJ_TRY(shards_reserve(w, MAX_SHARDS));
    json_object_foreach(map, name, file) {
        if (!json_is_string(file)) return lj_fail(LJ_ERR_FORMAT, "%s: weight_map['%.200s'] is no string", path, name);
        LJ_TRY(index_shard(w, folder, json_string_value(file), seen));
        size_t shard = (size_t)json_integer_value(json_object_get(seen, json_string_value(file)));
        if (!lj_safetensors_find(w->shards[shard], name))
            return lj_fail(LJ_ERR_FORMAT, "%s: '%.200s' should be in %s, which does not have it", path, name, json_string_value(file));
    }
    return LJ_OK;
}

static lj_status index_open(lj_weights *w, const char *folder, const char *path)
{
    json_t *root, *seen = json_object();
    lj_status status = seen ? lj_json_load(path, MAX_INDEX_BYTES, &root) : lj_fail(LJ_ERR_NOMEM, "%s: index", path);
    if (status == LJ_OK) {
        status = index_map_open(w, folder, path, json_object_get(root, "weight_map"), seen);
        json_decref(root);
    }
    json_decref(seen);
    return status;
}

static lj_status single_open(lj_weights *w, const char *path)
{
    LJ_TRY(shards_reserve(w, 1));
    return shard_open(w, path);
}

static lj_status gguf_item(lj_weights *w, const lj_gguf_tensor *t)
{
    char buffer[LJ_MAX_WEIGHT_NAME];
    lj_weight *item = &w->items[w->count++];
    *item = (lj_weight){.name = t->name,
                        .stored_name = t->name,
                        .file = lj_gguf_part_path(w->gguf, t->part),
                        .type_name = t->type->name,
                        .dtype = t->type->plain,
                        .blocks = t->type->plain == LJ_DTYPE_COUNT ? t->type : NULL,
                        .rank = t->rank,
                        .data = t->data,
                        .bytes = t->bytes};
    memcpy(item->shape, t->shape, sizeof t->shape);
    rows_and_columns(item);
    if (!lj_gguf_name_to_hf(t->name, buffer)) return LJ_OK;
    item->name = lj_arena_strdup(&w->arena, buffer);
    return item->name ? LJ_OK : LJ_ERR_NOMEM;
}

/* Llama-architecture files interleave the rows of q and k; whole heads only, or the file is not what it says. */
static lj_status rotary_mark(lj_weights *w)
{
    lj_gguf_string architecture = {"", 0};
    LJ_TRY(lj_gguf_get_string(w->gguf, "general.architecture", &architecture));
    if (architecture.bytes != 5 || memcmp(architecture.data, "llama", 5) != 0) return LJ_OK;
    for (size_t i = 0; i < w->count; i++) {
        lj_weight *item = &w->items[i];
        if (!strstr(item->name, ".self_attn.q_proj.") && !strstr(item->name, ".self_attn.k_proj.")) continue;
        if (item->rows % w->config.head_dim && w->tolerant) continue; /* lj_weights_check will name it */
        if (item->rows % w->config.head_dim)
            return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%s' has %lld rows, no multiple of the head size %lld", item->file, item->stored_name,
                           (long long)item->rows, (long long)w->config.head_dim);
        item->rotary_head_dim = w->config.head_dim;
    }
    return LJ_OK;
}

/* A config that cannot be used: an error, or a remark when only looking. */
static lj_status config_failed(lj_weights *w, lj_status status)
{
    w->has_config = status == LJ_OK;
    if (status == LJ_OK || !w->tolerant || status == LJ_ERR_NOMEM) return status;
    w->config_error = lj_arena_strdup(&w->arena, lj_error_message());
    return w->config_error ? LJ_OK : LJ_ERR_NOMEM;
}

static lj_status gguf_open(lj_weights *w, const char *path)
{
    LJ_TRY(lj_gguf_open(path, &w->gguf));
    LJ_TRY(config_failed(w, lj_gguf_config_read(w->gguf, &w->config)));
    LJ_TRY(list_reserve(w, lj_gguf_tensor_count(w->gguf)));
    for (size_t i = 0; i < lj_gguf_tensor_count(w->gguf); i++) LJ_TRY(gguf_item(w, lj_gguf_tensor_get(w->gguf, i)));
    return w->has_config ? rotary_mark(w) : LJ_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* config.json beside the weights; required in a folder, welcome beside a file. */
static lj_status config_open(lj_weights *w, bool required)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/config.json", w->folder);
    if (!lj_path_exists(path)) {
        if (!required) return LJ_OK;
        return config_failed(w, lj_fail(LJ_ERR_NOT_FOUND, "%s: no config.json; a Hugging Face model folder has one", w->folder));
    }
    LJ_TRY(lj_model_folder_file(w->folder, "config.json", path, sizeof path));
    return config_failed(w, lj_hf_config_read(path, &w->config));
}

static lj_status no_weights(const char *folder)
{
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth", "adapter_model.safetensors"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        if (lj_path_exists(path))
            return lj_fail(LJ_ERR_UNSUPPORTED, "%s: has %s, which is not read here; save the model as safetensors first", folder, others[i]);
    }
    return lj_fail(LJ_ERR_NOT_FOUND, "%s: neither model.safetensors nor model.safetensors.index.json is there", folder);
}

static lj_status folder_open(lj_weights *w)
{
    static const struct {
        const char *name;
        bool index;
    } entries[] = {{"model.safetensors", false}, {"model.safetensors.index.json", true}};
    char path[PATH_MAX];
    LJ_TRY(config_open(w, true));
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", w->folder, entries[i].name);
        if (!lj_path_exists(path)) continue;
        LJ_TRY(lj_model_folder_file(w->folder, entries[i].name, path, sizeof path));
        return entries[i].index ? index_open(w, w->folder, path) : single_open(w, path);
    }
    return no_weights(w->folder);
}

static lj_status file_open(lj_weights *w)
{
    char folder[PATH_MAX];
    if (ends_with(w->path, ".gguf")) return gguf_open(w, w->path);
    LJ_TRY(lj_path_parent(w->path, folder, sizeof folder));
    w->folder = lj_arena_strdup(&w->arena, folder);
    if (!w->folder) return LJ_ERR_NOMEM;
    LJ_TRY(config_open(w, false));
    if (ends_with(w->path, ".index.json")) return index_open(w, w->folder, w->path);
    if (ends_with(w->path, ".safetensors")) return single_open(w, w->path);
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: is no model; give a Hugging Face folder, a .safetensors, .safetensors.index.json or .gguf file", w->path);
}

static bool metadata_known(const lj_weights *w, const lj_safetensors_entry *entry)
{
    for (size_t i = 0; i < w->metadata_count; i++)
        if (strcmp(w->metadata[i].key, entry->key) == 0 && strcmp(w->metadata[i].value, entry->value) == 0) return true;
    return false;
}

/* Shards mostly repeat each other's metadata: pairs already there are dropped, up to a number where looking would cost. */
static lj_status metadata_collect(lj_weights *w)
{
    enum { MAX_COMPARED = 1024 };
    size_t total = 0;
    for (size_t s = 0; s < w->shard_count; s++) total += lj_safetensors_metadata_count(w->shards[s]);
    w->metadata = lj_arena_alloc(&w->arena, (total + 1) * sizeof *w->metadata);
    if (!w->metadata) return LJ_ERR_NOMEM;
    for (size_t s = 0; s < w->shard_count; s++)
        for (size_t i = 0; i < lj_safetensors_metadata_count(w->shards[s]); i++) {
            const lj_safetensors_entry *entry = lj_safetensors_metadata_get(w->shards[s], i);
            if (s > 0 && w->metadata_count < MAX_COMPARED && metadata_known(w, entry)) continue;
            w->metadata[w->metadata_count++] = *entry;
        }
    return LJ_OK;
}

static lj_status open_into(lj_weights *w, const char *path)
{
    w->path = w->folder = w->config_error = "";
    if (!*path || strlen(path) >= PATH_MAX - 256) return lj_fail(LJ_ERR_INVALID, "bad model path '%.80s'", path);
    w->path = lj_arena_strdup(&w->arena, path);
    if (!w->path) return LJ_ERR_NOMEM;
    if (!lj_path_exists(path)) return lj_fail(LJ_ERR_NOT_FOUND, "%s: no such file or folder", path);
    if (lj_path_is_folder(path)) {
        w->folder = w->path;
        LJ_TRY(folder_open(w));
    } else {
        LJ_TRY(file_open(w));
    }
    if (!w->gguf) LJ_TRY(base_names_prefix(w));
    LJ_TRY(metadata_collect(w));
    return list_sort(w);
}

static lj_status open_either(const char *path, bool tolerant, lj_weights **out)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("weights", sizeof(lj_weights), &memory));
    lj_weights *w = memory;
    w->tolerant = tolerant;
    lj_arena_init(&w->arena, "weights");
    lj_status status = open_into(w, path);
    if (status == LJ_OK)
        *out = w;
    else
        lj_weights_close(w);
    return status;
}

lj_status lj_weights_open(const char *path, lj_weights **out)
{
    return open_either(path, false, out);
}

lj_status lj_weights_open_any(const char *path, lj_weights **out)
{
    return open_either(path, true, out);
}

const char *lj_weights_config_error(const lj_weights *weights)
{
    return weights->config_error;
}

size_t lj_weights_metadata_count(const lj_weights *weights)
{
    return weights->metadata_count;
}

void lj_weights_metadata_get(const lj_weights *weights, size_t index, const char **key, const char **value)
{
    *key = weights->metadata[index].key, *value = weights->metadata[index].value;
}

void lj_weights_close(lj_weights *weights)
{
    if (!weights) return;
    for (size_t i = 0; i < weights->shard_count; i++) lj_safetensors_close(weights->shards[i]);
    lj_gguf_close(weights->gguf);
    lj_arena_release(&weights->arena);
    lj_free(weights);
}

const lj_model_config *lj_weights_config(const lj_weights *weights)
{
    return weights->has_config ? &weights->config : NULL;
}

const char *lj_weights_path(const lj_weights *weights)
{
    return weights->path;
}

const char *lj_weights_folder(const lj_weights *weights)
{
    return weights->folder;
}

const struct lj_gguf *lj_weights_gguf(const lj_weights *weights)
{
    return weights->gguf;
}

size_t lj_weights_count(const lj_weights *weights)
{
    return weights->count;
}

lj_weight *lj_weights_get(const lj_weights *weights, size_t index)
{
    return &weights->items[index];
}

lj_weight *lj_weights_find_stored(const lj_weights *weights, const char *name)
{
    lj_weight wanted = {.name = name};
    return weights->count ? bsearch(&wanted, weights->items, weights->count, sizeof wanted, by_name) : NULL;
}

lj_weight *lj_weights_find(const lj_weights *weights, const char *name)
{
    static const char *const pair[] = {LJ_EMBEDDING_NAME, LJ_HEAD_NAME};
    bool tied = weights->has_config && weights->config.tie_word_embeddings;
    if (!tied || (strcmp(name, pair[0]) != 0 && strcmp(name, pair[1]) != 0)) return lj_weights_find_stored(weights, name);
    lj_weight *embedding = lj_weights_find_stored(weights, pair[0]);
    return embedding ? embedding : lj_weights_find_stored(weights, pair[1]);
}
