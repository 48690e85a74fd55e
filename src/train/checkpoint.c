#define _GNU_SOURCE
#include "train/checkpoint.h"

#include "base/file.h"
#include "base/log.h"
#include "formats/safetensors.h"
#include "formats/strict_json.h"
#include "model/params.h"
#include "text/gguf_save.h"
#include "train/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char state_schema[] = "ljperf.trainer_state/1";

/* Files that make up a tokenizer in a Hugging Face folder. */
static const char *const tokenizer_files[] = {"tokenizer.json",    "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model",
                                              "added_tokens.json", "vocab.json",            "merges.txt",              "chat_template.jinja"};

static lj_status tokenizer_copy(const char *from, const char *to)
{
    for (size_t i = 0; *from && i < sizeof tokenizer_files / sizeof *tokenizer_files; i++) {
        char source[4096], target[4096];
        lj_mapped_file file;
        snprintf(source, sizeof source, "%s/%s", from, tokenizer_files[i]);
        snprintf(target, sizeof target, "%s/%s", to, tokenizer_files[i]);
        if (access(source, R_OK) != 0) continue;
        LJ_TRY(lj_mapped_file_init(&file, source));
        lj_status status = lj_file_write(target, file.data, file.bytes);
        lj_mapped_file_release(&file);
        LJ_TRY(status);
    }
    return LJ_OK;
}

/* A GGUF whose tokenizer cannot be written keeps the run alive: the model is what matters, and the remedy is said once. */
static lj_status tokenizer_save(const lj_tokenizer_origin *origin, const char *folder)
{
    if (!origin->gguf) return tokenizer_copy(origin->folder ? origin->folder : "", folder);
    lj_status status = lj_gguf_tokenizer_save(origin->gguf, folder);
    if (status != LJ_ERR_UNSUPPORTED) return status;
    return lj_fallback("tokenizer not saved", lj_error_message(), "use the saved model with --tokenizer and the file it was trained from");
}

static lj_status moments_declare(const lj_param_layout *layout, lj_safetensors_writer *writer, const char *which)
{
    for (size_t i = 0; i < layout->slot_count; i++) {
        const lj_model_weight *w = &layout->slots[i].weight;
        char name[LJ_MAX_WEIGHT_NAME + 8];
        snprintf(name, sizeof name, "%s.%s", which, w->name);
        LJ_TRY(lj_safetensors_writer_tensor(writer, name, LJ_F32, w->rank, w->shape));
    }
    return LJ_OK;
}

static lj_status moments_write(const lj_param_layout *layout, lj_safetensors_writer *writer, const float *flat)
{
    for (size_t i = 0; i < layout->slot_count; i++) {
        const lj_weight_slot *slot = &layout->slots[i];
        LJ_TRY(lj_safetensors_writer_write(writer, flat + lj_slot_offset(layout, slot), (size_t)slot->count * 4));
    }
    return LJ_OK;
}

static lj_status optimizer_fill(lj_trainer *trainer, lj_safetensors_writer *writer)
{
    const lj_param_layout *layout = lj_trainer_layout(trainer);
    LJ_TRY(moments_declare(layout, writer, "m"));
    LJ_TRY(moments_declare(layout, writer, "v"));
    LJ_TRY(moments_write(layout, writer, lj_trainer_m(trainer)));
    return moments_write(layout, writer, lj_trainer_v(trainer));
}

static lj_status optimizer_save(lj_trainer *trainer, const char *folder)
{
    char path[4096];
    lj_safetensors_writer *writer;
    snprintf(path, sizeof path, "%s/optimizer.safetensors", folder);
    LJ_TRY(lj_safetensors_writer_create(path, &writer));
    lj_status status = optimizer_fill(trainer, writer);
    if (status == LJ_OK) return lj_safetensors_writer_commit(writer);
    lj_safetensors_writer_abort(writer);
    return status;
}

static lj_status moments_read(const lj_param_layout *layout, const lj_safetensors *file, const char *which, float *flat)
{
    for (size_t i = 0; i < layout->slot_count; i++) {
        const lj_weight_slot *slot = &layout->slots[i];
        char name[LJ_MAX_WEIGHT_NAME + 8];
        snprintf(name, sizeof name, "%s.%s", which, slot->weight.name);
        const lj_safetensors_tensor *tensor = lj_safetensors_find(file, name);
        if (!tensor || tensor->dtype != LJ_F32 || tensor->bytes != (uint64_t)slot->count * 4)
            return lj_fail(LJ_ERR_FORMAT, "%s: %s is missing or not of %lld f32 numbers", lj_safetensors_path(file), name, (long long)slot->count);
        memcpy(flat + lj_slot_offset(layout, slot), tensor->data, tensor->bytes);
    }
    return LJ_OK;
}

static lj_status optimizer_load(const char *folder, lj_trainer *trainer)
{
    char path[4096];
    lj_safetensors *file;
    snprintf(path, sizeof path, "%s/optimizer.safetensors", folder);
    LJ_TRY(lj_safetensors_open(path, &file));
    const lj_param_layout *layout = lj_trainer_layout(trainer);
    lj_status status = moments_read(layout, file, "m", lj_trainer_m(trainer));
    if (status == LJ_OK) status = moments_read(layout, file, "v", lj_trainer_v(trainer));
    lj_safetensors_close(file);
    return status;
}

static lj_status state_save(const lj_train_state *state, const lj_recipe *recipe, const char *folder)
{
    char path[4096], hash[32];
    snprintf(path, sizeof path, "%s/trainer_state.json", folder);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)state->data_hash);
    json_t *root = json_pack("{s:s, s:s, s:I, s:I, s:I, s:s, s:f, s:o}", "schema", state_schema, "version", LJ_VERSION, "step",
                             (json_int_t)state->step, "position", (json_int_t)state->position, "tokens", (json_int_t)state->tokens, "data_hash",
                             hash, "loss_mean", state->loss_mean, "recipe", lj_recipe_to_json(recipe));
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    lj_status status = text ? lj_file_write(path, text, strlen(text)) : lj_fail(LJ_ERR_NOMEM, "state of step %lld", (long long)state->step);
    free(text);
    return status;
}

static lj_status state_read(const json_t *root, const char *path, const lj_recipe *recipe, lj_train_state *state)
{
    const char *schema = NULL, *hash = NULL;
    LJ_TRY(lj_json_get_string(root, path, "schema", &schema));
    if (!schema || strcmp(schema, state_schema) != 0)
        return lj_fail(LJ_ERR_FORMAT, "%s: schema is '%s', this version reads '%s'", path, schema ? schema : "?", state_schema);
    LJ_TRY(lj_json_get_int(root, path, "step", &state->step));
    LJ_TRY(lj_json_get_int(root, path, "position", &state->position));
    LJ_TRY(lj_json_get_int(root, path, "tokens", &state->tokens));
    LJ_TRY(lj_json_get_double(root, path, "loss_mean", &state->loss_mean));
    LJ_TRY(lj_json_get_string(root, path, "data_hash", &hash));
    state->data_hash = hash ? strtoull(hash, NULL, 16) : 0;
    if (state->step < 0 || state->position < 0) return lj_fail(LJ_ERR_FORMAT, "%s: negative step or position", path);
    return lj_fail_in(lj_recipe_compare(recipe, json_object_get(root, "recipe")), "%s", path);
}

static lj_status state_load(const char *folder, const lj_recipe *recipe, lj_train_state *state)
{
    char path[4096];
    json_t *root;
    snprintf(path, sizeof path, "%s/trainer_state.json", folder);
    LJ_TRY(lj_json_load(path, 1 << 20, &root));
    lj_status status = state_read(root, path, recipe, state);
    json_decref(root);
    return status;
}

static lj_status files_save(lj_trainer *trainer, const lj_train_state *state, const lj_recipe *recipe, const lj_tokenizer_origin *tokenizer,
                            const char *folder)
{
    LJ_TRY(lj_params_save(lj_trainer_layout(trainer), lj_trainer_master(trainer), LJ_F32, folder, 0));
    LJ_TRY(tokenizer_save(tokenizer, folder));
    LJ_TRY(optimizer_save(trainer, folder));
    return state_save(state, recipe, folder);
}

lj_status lj_checkpoint_save(lj_trainer *trainer, const lj_train_state *state, const lj_recipe *recipe, const lj_tokenizer_origin *tokenizer,
                             char **path)
{
    char temporary[4096], final[4096];
    LJ_TRY(lj_folder_create(recipe->out, 0755));
    LJ_TRY(lj_folder_sweep(recipe->out, ".saving-"));
    snprintf(temporary, sizeof temporary, "%s/.saving-%06lld-%d", recipe->out, (long long)state->step, (int)getpid());
    snprintf(final, sizeof final, "%s/step-%06lld", recipe->out, (long long)state->step);
    LJ_TRY(lj_folder_create(temporary, 0755));
    lj_status status = files_save(trainer, state, recipe, tokenizer, temporary);
    if (status == LJ_OK) status = lj_folder_publish(temporary, final);
    if (status != LJ_OK) return lj_folder_remove(temporary), lj_fail_in(status, "checkpoint of step %lld", (long long)state->step);
    *path = strdup(final);
    return *path ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "checkpoint's name");
}

lj_status lj_checkpoint_newest(const char *out, char **path)
{
    int64_t *steps;
    size_t count;
    LJ_TRY(lj_folder_steps(out, &steps, &count));
    char *name = NULL;
    bool made = count && asprintf(&name, "%s/step-%06lld", out, (long long)steps[count - 1]) > 0;
    free(steps);
    if (!count) return lj_fail(LJ_ERR_NOT_FOUND, "%s: no checkpoint to resume from; leave --resume out to start", out);
    if (!made) return lj_fail(LJ_ERR_NOMEM, "checkpoint's name");
    *path = name;
    return LJ_OK;
}

lj_status lj_checkpoint_load(const char *path, const lj_recipe *recipe, lj_trainer *trainer, lj_train_state *state)
{
    lj_train_state read = {0};
    lj_weights *weights;
    LJ_TRY(state_load(path, recipe, &read));
    char index[4096];
    snprintf(index, sizeof index, "%s/model.safetensors", path);
    if (access(index, R_OK) != 0) snprintf(index, sizeof index, "%s/model.safetensors.index.json", path);
    LJ_TRY(lj_weights_open(index, &weights));
    lj_status status = lj_params_load(lj_trainer_layout(trainer), weights, false, 0, LJ_F32, lj_trainer_master(trainer));
    lj_weights_close(weights);
    if (status == LJ_OK) status = optimizer_load(path, trainer);
    if (status != LJ_OK) return status;
    lj_trainer_refresh(trainer);
    *state = read;
    return LJ_OK;
}

lj_status lj_checkpoint_prune(const char *out, int64_t keep)
{
    int64_t *steps;
    size_t count;
    LJ_TRY(lj_folder_steps(out, &steps, &count));
    for (size_t i = 0; i + (size_t)keep < count; i++) {
        char path[4096], doomed[4096];
        snprintf(path, sizeof path, "%s/step-%06lld", out, (long long)steps[i]);
        snprintf(doomed, sizeof doomed, "%s/.saving-old-%06lld-%d", out, (long long)steps[i], (int)getpid());
        if (rename(path, doomed) == 0) lj_folder_remove(doomed);
    }
    free(steps);
    return LJ_OK;
}
