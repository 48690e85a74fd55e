/* Loading from and saving to weight files by the layout's slots. */
#include "model/params.h"

#include "base/file.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"
#include "tensor/convert.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *element_at(lj_dtype dtype, const void *flat, int64_t index)
{
    return (char *)flat + (size_t)index * lj_dtype_bytes(dtype);
}

static lj_status check(const lj_param_layout *layout, lj_weights *weights, bool allow_missing)
{
    lj_weight_want *wants = calloc(layout->slot_count + 1, sizeof *wants);
    if (!wants) return lj_fail(LJ_ERR_NOMEM, "list of %zu weights", layout->slot_count);
    for (size_t i = 0; i < layout->slot_count; i++) {
        const lj_model_weight *w = &layout->slots[i].weight;
        wants[i] = (lj_weight_want){w->name, w->rank, {w->shape[0], w->shape[1]}};
    }
    lj_weights_report report = {0};
    lj_status status = lj_weights_check(weights, wants, layout->slot_count, allow_missing, &report);
    lj_weights_report_release(&report);
    free(wants);
    return status;
}

lj_status lj_params_load(const lj_param_layout *layout, lj_weights *weights, bool allow_missing, uint64_t seed, lj_dtype dtype, void *flat)
{
    LJ_TRY(check(layout, weights, allow_missing));
    lj_params_begin(layout, dtype, flat);
    for (size_t i = 0; i < layout->slot_count; i++) {
        const lj_weight_slot *slot = &layout->slots[i];
        lj_weight *weight = lj_weights_find(weights, slot->weight.name);
        if (!weight) {
            lj_params_random_slot(layout, slot, seed, dtype, flat);
            continue;
        }
        LJ_TRY(lj_weights_read(weights, weight, 0, weight->rows, dtype, element_at(dtype, flat, lj_slot_offset(layout, slot))));
    }
    return LJ_OK;
}

lj_status lj_params_bind(lj_program *program, const lj_param_layout *layout, const char *prefix, lj_dtype dtype, void *flat)
{
    for (size_t i = 0; i < layout->param_count; i++) {
        const lj_param *p = &layout->params[i];
        char name[96];
        snprintf(name, sizeof name, "%s%s", prefix, p->name);
        LJ_TRY(lj_program_bind(program, name, element_at(dtype, flat, p->offset)));
    }
    return LJ_OK;
}

static uint64_t slot_bytes(const lj_weight_slot *slot, lj_dtype dtype)
{
    return (uint64_t)slot->count * lj_dtype_bytes(dtype);
}

/* Shard of each slot, filled in order; returns how many shards. */
static int shards_assign(const lj_param_layout *layout, lj_dtype dtype, uint64_t limit, int *shard_of)
{
    int shard = 0;
    uint64_t used = 0;
    for (size_t i = 0; i < layout->slot_count; i++) {
        uint64_t bytes = slot_bytes(&layout->slots[i], dtype);
        if (used && used + bytes > limit) shard++, used = 0;
        used += bytes;
        shard_of[i] = shard;
    }
    return shard + 1;
}

static void shard_name(char *out, size_t capacity, int shard, int count)
{
    if (count == 1)
        snprintf(out, capacity, "model.safetensors");
    else
        snprintf(out, capacity, "model-%05d-of-%05d.safetensors", shard + 1, count);
}

/* One slot's elements, converted by pieces so that no second copy of the model is held. */
static lj_status slot_write(lj_safetensors_writer *writer, const float *from, int64_t count, lj_dtype dtype)
{
    enum { PIECE = 1 << 16 };
    if (dtype == LJ_F32) return lj_safetensors_writer_write(writer, from, (size_t)count * 4);
    static _Thread_local uint16_t piece[PIECE];
    for (int64_t at = 0; at < count; at += PIECE) {
        size_t n = (size_t)(count - at < PIECE ? count - at : PIECE);
        lj_convert(dtype, piece, LJ_F32, from + at, n);
        LJ_TRY(lj_safetensors_writer_write(writer, piece, n * 2));
    }
    return LJ_OK;
}

typedef struct {
    const lj_param_layout *layout;
    const float *flat;
    lj_dtype dtype;
    const int *shard_of;
} save_job;

static lj_status shard_fill(const save_job *job, lj_safetensors_writer *writer, int shard)
{
    const lj_param_layout *layout = job->layout;
    LJ_TRY(lj_safetensors_writer_metadata(writer, "format", "pt"));
    for (size_t i = 0; i < layout->slot_count; i++) {
        const lj_model_weight *w = &layout->slots[i].weight;
        if (job->shard_of[i] == shard) LJ_TRY(lj_safetensors_writer_tensor(writer, w->name, job->dtype, w->rank, w->shape));
    }
    for (size_t i = 0; i < layout->slot_count; i++) {
        const lj_weight_slot *slot = &layout->slots[i];
        if (job->shard_of[i] == shard) LJ_TRY(slot_write(writer, job->flat + lj_slot_offset(layout, slot), slot->count, job->dtype));
    }
    return LJ_OK;
}

static lj_status shard_write(const save_job *job, const char *folder, int shard, int count)
{
    char name[64], path[4096];
    shard_name(name, sizeof name, shard, count);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    lj_safetensors_writer *writer;
    LJ_TRY(lj_safetensors_writer_create(path, &writer));
    lj_status status = shard_fill(job, writer, shard);
    if (status == LJ_OK) return lj_safetensors_writer_commit(writer);
    lj_safetensors_writer_abort(writer);
    return status;
}

/* model.safetensors.index.json: which file holds each weight. */
static lj_status index_write(const save_job *job, const char *folder, int count)
{
    json_t *root = json_object(), *map = json_object();
    uint64_t total = 0;
    for (size_t i = 0; i < job->layout->slot_count; i++) {
        char name[64];
        shard_name(name, sizeof name, job->shard_of[i], count);
        json_object_set_new(map, job->layout->slots[i].weight.name, json_string(name));
        total += slot_bytes(&job->layout->slots[i], job->dtype);
    }
    json_object_set_new(root, "metadata", json_pack("{s:I}", "total_size", (json_int_t)total));
    json_object_set_new(root, "weight_map", map);
    char *text = json_dumps(root, JSON_INDENT(2)), path[4096];
    json_decref(root);
    if (!text) return lj_fail(LJ_ERR_NOMEM, "index of %zu weights", job->layout->slot_count);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    lj_status status = lj_file_write(path, text, strlen(text));
    free(text);
    return status;
}

lj_status lj_params_save(const lj_param_layout *layout, const float *flat, lj_dtype dtype, const char *folder, uint64_t shard_bytes)
{
    int *shard_of = calloc(layout->slot_count + 1, sizeof *shard_of);
    if (!shard_of) return lj_fail(LJ_ERR_NOMEM, "list of %zu weights", layout->slot_count);
    save_job job = {layout, flat, dtype, shard_of};
    lj_model_config config = layout->config;
    config.dtype = dtype;
    int count = shards_assign(layout, dtype, shard_bytes ? shard_bytes : (uint64_t)4 << 30, shard_of);
    lj_status status = lj_hf_config_write(folder, &config);
    for (int shard = 0; shard < count && status == LJ_OK; shard++) status = shard_write(&job, folder, shard, count);
    if (status == LJ_OK && count > 1) status = index_write(&job, folder, count);
    free(shard_of);
    return status;
}
