/* A model as files: which weight goes into which shard is decided first, then each shard is written by all threads at once. */
#define _GNU_SOURCE
#include "formats/model_write.h"

#include "base/file.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include "formats/model_folder.h"
#include "formats/safetensors.h"
#include "formats/strict_json.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 };
static const uint64_t default_shard_bytes = 5000000000u;
static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

typedef struct {
    const char *folder;
    const lj_model_config *config;
    const lj_model_write_options *options;
    lj_weight_source_fn source;
    void *source_user;
    size_t weight_count, shard_count;
    size_t *shard_first; /* weight with which shard i starts; shard_count + 1 entries */
    uint64_t total_bytes;
    lj_progress progress;
} write_state;

/* Rows of one weight: a unit of work. */
typedef struct {
    size_t weight;
    int64_t row, rows;
    uint64_t offset;
} piece;

typedef struct {
    write_state *state;
    lj_safetensors_writer *writer;
    const piece *pieces;
} shard_job;

static uint64_t row_bytes(const write_state *s, const lj_model_weight *weight)
{
    return (uint64_t)(weight->rank == 2 ? weight->shape[1] : 1) * lj_dtype_bytes(s->options->dtype);
}

static uint64_t weight_bytes(const write_state *s, size_t index)
{
    lj_model_weight weight;
    lj_model_weight_get(s->config, index, &weight);
    return (uint64_t)weight.shape[0] * row_bytes(s, &weight);
}

static void shards_plan(write_state *s)
{
    uint64_t limit = s->options->max_shard_bytes ? s->options->max_shard_bytes : default_shard_bytes, filled = 0;
    for (size_t i = 0; i < s->weight_count; i++) {
        uint64_t bytes = weight_bytes(s, i);
        if (i == 0 || filled + bytes > limit) s->shard_first[s->shard_count++] = i, filled = 0;
        filled += bytes, s->total_bytes += bytes;
    }
    s->shard_first[s->shard_count] = s->weight_count;
}

static void shard_name(const write_state *s, size_t shard, char *buffer, size_t capacity)
{
    if (s->shard_count == 1)
        snprintf(buffer, capacity, "%s", single_name);
    else
        snprintf(buffer, capacity, "model-%05zu-of-%05zu.safetensors", shard + 1, s->shard_count);
}

static lj_status path_join(const write_state *s, const char *name, char *buffer)
{
    if (snprintf(buffer, PATH_MAX, "%s/%s", s->folder, name) < PATH_MAX) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%.80s...: path is too long", s->folder);
}

static lj_status piece_write(void *user, size_t index)
{
    const shard_job *job = user;
    const piece *p = &job->pieces[index];
    write_state *s = job->state;
    lj_model_weight weight;
    void *buffer;
    lj_model_weight_get(s->config, p->weight, &weight);
    size_t bytes = (size_t)((uint64_t)p->rows * row_bytes(s, &weight));
    LJ_TRY(lj_alloc("model write", bytes, &buffer));
    lj_status status = s->source(s->source_user, &weight, p->row, p->rows, s->options->dtype, buffer);
    if (status == LJ_OK) status = lj_safetensors_writer_write_at(job->writer, p->offset, buffer, bytes);
    lj_free(buffer);
    if (status == LJ_OK) lj_progress_add(&s->progress, bytes);
    return status;
}

/* Cuts the weights of a shard; returns the number of pieces, and fills `pieces` unless it is NULL. */
static size_t pieces_cut(const write_state *s, size_t shard, piece *pieces)
{
    size_t count = 0;
    uint64_t offset = 0;
    for (size_t i = s->shard_first[shard]; i < s->shard_first[shard + 1]; i++) {
        lj_model_weight weight;
        lj_model_weight_get(s->config, i, &weight);
        uint64_t each = row_bytes(s, &weight);
        int64_t step = each >= PIECE_BYTES ? 1 : (int64_t)(PIECE_BYTES / each);
        for (int64_t row = 0; row < weight.shape[0]; row += step, count++) {
            int64_t rows = weight.shape[0] - row < step ? weight.shape[0] - row : step;
            if (pieces) pieces[count] = (piece){i, row, rows, offset};
            offset += (uint64_t)rows * each;
        }
    }
    return count;
}

static lj_status shard_declare(const write_state *s, size_t shard, lj_safetensors_writer *writer)
{
    LJ_TRY(lj_safetensors_writer_metadata(writer, "format", "pt")); /* transformers asks for it */
    for (size_t i = s->shard_first[shard]; i < s->shard_first[shard + 1]; i++) {
        lj_model_weight weight;
        lj_model_weight_get(s->config, i, &weight);
        LJ_TRY(lj_safetensors_writer_tensor(writer, weight.name, s->options->dtype, weight.rank, weight.shape));
    }
    return lj_safetensors_writer_begin(writer);
}

static lj_status shard_data_write(write_state *s, size_t shard, lj_safetensors_writer *writer)
{
    void *memory;
    size_t count = pieces_cut(s, shard, NULL);
    LJ_TRY(lj_alloc("model write plan", count * sizeof(piece), &memory));
    pieces_cut(s, shard, memory);
    shard_job job = {s, writer, memory};
    lj_status status = lj_parallel_for(s->options->threads, count, piece_write, &job);
    lj_free(memory);
    return status;
}

static lj_status shard_write(write_state *s, size_t shard)
{
    char name[64], path[PATH_MAX];
    lj_safetensors_writer *writer;
    shard_name(s, shard, name, sizeof name);
    LJ_TRY(path_join(s, name, path));
    LJ_TRY(lj_safetensors_writer_create(path, &writer));
    lj_status status = shard_declare(s, shard, writer);
    if (status == LJ_OK) status = shard_data_write(s, shard, writer);
    if (status == LJ_OK) return lj_safetensors_writer_commit(writer);
    lj_safetensors_writer_abort(writer);
    return status;
}

static lj_status index_write(const write_state *s)
{
    char path[PATH_MAX], name[64];
    LJ_TRY(path_join(s, index_name, path));
    json_t *root = json_object(), *metadata = json_object(), *map = json_object();
    json_object_set_new(metadata, "total_size", json_integer((json_int_t)s->total_bytes));
    for (size_t shard = 0; shard < s->shard_count; shard++) {
        shard_name(s, shard, name, sizeof name);
        for (size_t i = s->shard_first[shard]; i < s->shard_first[shard + 1]; i++) {
            lj_model_weight weight;
            lj_model_weight_get(s->config, i, &weight);
            json_object_set_new(map, weight.name, json_string(name));
        }
    }
    json_object_set_new(root, "metadata", metadata);
    json_object_set_new(root, "weight_map", map);
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    lj_status status = text ? lj_file_write(path, text, strlen(text)) : lj_fail(LJ_ERR_NOMEM, "%s: index", path);
    free(text);
    return status;
}

static bool is_shard_name(const char *name)
{
    unsigned number, count;
    int end = 0;
    return sscanf(name, "model-%5u-of-%5u.safetensors%n", &number, &count, &end) == 2 && end == (int)strlen(name);
}

/* True for weights of a model that this one does not write itself. */
static bool is_leftover(const write_state *s, const char *name)
{
    char own[64];
    if (strcmp(name, single_name) == 0) return s->shard_count > 1;
    if (strcmp(name, index_name) == 0) return s->shard_count == 1;
    if (!is_shard_name(name)) return false;
    for (size_t shard = 0; shard < s->shard_count; shard++) {
        shard_name(s, shard, own, sizeof own);
        if (strcmp(name, own) == 0) return false;
    }
    return true;
}

static lj_status leftovers_remove(const write_state *s)
{
    char path[PATH_MAX];
    DIR *folder = opendir(s->folder);
    if (!folder) return lj_fail_errno("open", s->folder);
    lj_status status = LJ_OK;
    for (const struct dirent *entry; status == LJ_OK && (entry = readdir(folder));) {
        if (!is_leftover(s, entry->d_name)) continue;
        status = path_join(s, entry->d_name, path);
        if (status == LJ_OK && unlink(path) != 0) status = lj_fail_errno("remove", path);
    }
    closedir(folder);
    return status;
}

/* A folder with weights is refused, or stops being a model until the new one is complete. */
static lj_status folder_clear(const write_state *s)
{
    static const char *const entries[] = {single_name, index_name};
    char path[PATH_MAX];
    for (size_t i = 0; i < 2; i++) {
        LJ_TRY(path_join(s, entries[i], path));
        if (!lj_path_exists(path)) continue;
        if (!s->options->overwrite) return lj_fail(LJ_ERR_INVALID, "%s: already there; choose another folder, or --overwrite", path);
        if (unlink(path) != 0 && errno != ENOENT) return lj_fail_errno("remove", path);
    }
    return LJ_OK;
}

static lj_status folder_write(write_state *s)
{
    lj_model_config config = *s->config;
    config.dtype = s->options->dtype;
    LJ_TRY(lj_folder_create(s->folder, 0755));
    LJ_TRY(folder_clear(s));
    LJ_TRY(lj_hf_config_write(s->folder, &config));
    for (size_t shard = 0; shard < s->shard_count; shard++) LJ_TRY(shard_write(s, shard));
    if (s->shard_count > 1) LJ_TRY(index_write(s));
    return leftovers_remove(s);
}

lj_status lj_model_folder_write(const char *folder, const lj_model_config *config, const lj_model_write_options *options, lj_weight_source_fn source,
                                void *source_user)
{
    void *memory;
    lj_dtype d = options->dtype;
    if (d != LJ_F32 && d != LJ_BF16 && d != LJ_F16) return lj_fail(LJ_ERR_INVALID, "weights are written as f32, bf16 or f16, not as %s", lj_dtype_name(d));
    LJ_TRY(lj_model_config_check(config));
    write_state s = {folder, config, options, source, source_user, .weight_count = lj_model_weight_count(config)};
    LJ_TRY(lj_alloc("model write plan", (s.weight_count + 1) * sizeof(size_t), &memory));
    s.shard_first = memory;
    shards_plan(&s);
    s.progress = (lj_progress){.fn = options->progress, .user = options->user, .total = s.total_bytes};
    lj_status status = folder_write(&s);
    lj_free(memory);
    return status;
}
