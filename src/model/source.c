/* Presets live in PREFIX/share/ljperf/presets, or in the source tree before installation. */
#define _GNU_SOURCE
#include "model/source.h"

#include "formats/hf_config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PRESETS = 256 };

static const char *preset_root(void)
{
    const char *installed = LJ_DATA_DIR "/presets", *source = LJ_SOURCE_DATA_DIR "/presets";
    return access(installed, R_OK) == 0 ? installed : source;
}

typedef struct {
    char *names[MAX_PRESETS];
    size_t count;
} name_list;

static void names_release(name_list *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->names[i]);
}

/* Folders with a config.json two levels below the root: GROUP/NAME. */
static lj_status group_read(const char *root, const char *group, name_list *list)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, group);
    DIR *folder = opendir(path);
    if (!folder) return LJ_OK; /* a file among the groups */
    for (struct dirent *e; (e = readdir(folder)) && list->count < MAX_PRESETS;) {
        char *name;
        snprintf(path, sizeof path, "%s/%s/%s/config.json", root, group, e->d_name);
        if (e->d_name[0] == '.' || access(path, R_OK) != 0) continue;
        if (asprintf(&name, "%s/%s", group, e->d_name) < 0) return closedir(folder), lj_fail(LJ_ERR_NOMEM, "list of presets");
        list->names[list->count++] = name;
    }
    closedir(folder);
    return LJ_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static lj_status names_read(name_list *list)
{
    const char *root = preset_root();
    DIR *folder = opendir(root);
    if (!folder) return lj_fail(LJ_ERR_NOT_FOUND, "no presets in %s; is the installation complete?", root);
    lj_status status = LJ_OK;
    for (struct dirent *e; status == LJ_OK && (e = readdir(folder));)
        if (e->d_name[0] != '.') status = group_read(root, e->d_name, list);
    closedir(folder);
    qsort(list->names, list->count, sizeof *list->names, by_name);
    return status;
}

lj_status lj_presets_each(lj_preset_fn each, void *user)
{
    name_list list = {.count = 0};
    lj_status status = names_read(&list);
    for (size_t i = 0; i < list.count && status == LJ_OK; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", preset_root(), list.names[i]);
        status = each(user, list.names[i], path);
    }
    names_release(&list);
    return status;
}

static lj_status not_found(const char *name)
{
    name_list list = {.count = 0};
    LJ_TRY(names_read(&list));
    const char *near = lj_nearest_name(name, (const char *const *)list.names, list.count);
    lj_status status = near ? lj_fail(LJ_ERR_NOT_FOUND, "no model '%s': neither a preset nor a path; did you mean %s?", name, near)
                            : lj_fail(LJ_ERR_NOT_FOUND, "no model '%s': neither a preset nor a path (ljperf models lists the presets)", name);
    names_release(&list);
    return status;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static lj_status preset_open(lj_model_source *source, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", folder);
    LJ_TRY(lj_hf_config_read(path, &source->config));
    snprintf(path, sizeof path, "%s/ds_config.json", folder);
    source->folder = strdup(folder), source->deepspeed = strdup(exists(path) ? path : ""), source->is_preset = true;
    return source->folder && source->deepspeed ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "preset %s", folder);
}

/* A folder with a config.json but no weights is as good as a preset. */
static bool has_weights(const char *folder)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (exists(path)) return true;
    }
    DIR *handle = opendir(folder);
    bool found = false;
    for (struct dirent *e; handle && !found && (e = readdir(handle));) {
        const char *dot = strrchr(e->d_name, '.');
        found = dot && (strcmp(dot, ".safetensors") == 0 || strcmp(dot, ".gguf") == 0);
    }
    if (handle) closedir(handle);
    return found;
}

static lj_status path_open(lj_model_source *source, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return not_found(path);
    char config[4096];
    snprintf(config, sizeof config, "%s/config.json", path);
    if (S_ISDIR(info.st_mode) && exists(config) && !has_weights(path)) {
        LJ_TRY(preset_open(source, path));
        source->is_preset = false;
        return LJ_OK;
    }
    LJ_TRY(lj_weights_open(path, &source->weights));
    const lj_model_config *found = lj_weights_config(source->weights);
    if (!found) return lj_fail(LJ_ERR_NOT_FOUND, "%s: weights without a config.json beside them; name the folder that has both", path);
    source->config = *found;
    source->folder = strdup(lj_weights_folder(source->weights)), source->deepspeed = strdup("");
    return source->folder && source->deepspeed ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "model %s", path);
}

lj_status lj_model_source_open(const char *name, lj_model_source *source)
{
    *source = (lj_model_source){.name = strdup(name)};
    if (!source->name) return lj_fail(LJ_ERR_NOMEM, "model %s", name);
    char folder[4096], config[4200];
    snprintf(folder, sizeof folder, "%s/%s", preset_root(), name);
    snprintf(config, sizeof config, "%s/config.json", folder);
    bool preset = *name && *name != '/' && *name != '.' && !strstr(name, "..") && exists(config);
    lj_status status = preset ? preset_open(source, folder) : path_open(source, name);
    if (status != LJ_OK) lj_model_source_close(source);
    return status;
}

void lj_model_source_close(lj_model_source *source)
{
    lj_weights_close(source->weights);
    free(source->name);
    free(source->folder);
    free(source->deepspeed);
    *source = (lj_model_source){0};
}

lj_status lj_model_source_tokenizer(const lj_model_source *source, const char *named, lj_tokenizer **tokenizer)
{
    if (*named) return lj_tokenizer_create(named, tokenizer);
    if (source->is_preset)
        return lj_fail(LJ_ERR_NOT_FOUND, "preset %s carries no tokenizer; text needs --tokenizer DIR or FILE", source->name);
    bool gguf = source->weights && lj_weights_gguf(source->weights);
    lj_status status = lj_tokenizer_create(gguf ? lj_weights_path(source->weights) : source->folder, tokenizer);
    return lj_fail_in(status, "tokenizer (--tokenizer DIR or FILE names another)");
}
