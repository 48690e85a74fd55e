/* What `--model` names: a preset (a folder of numbers, no weights), a Hugging Face folder, or a GGUF file. */
#ifndef LJ_MODEL_SOURCE_H
#define LJ_MODEL_SOURCE_H

#include "formats/weights.h"
#include "text/tokenizer.h"

typedef struct {
    char *name;              /* as asked for */
    lj_model_config config;
    lj_weights *weights;     /* NULL: numbers only; weights can only be random */
    char *folder;            /* of config.json; "" for a single file */
    char *deepspeed;         /* ds_config.json of a preset; "" = none */
    bool is_preset;
} lj_model_source;

/* Looks for a preset of that name first when it holds no leading '.' or '/', then for a path. LJ_ERR_NOT_FOUND names the nearest preset. */
lj_status lj_model_source_open(const char *name, lj_model_source *source);
void lj_model_source_close(lj_model_source *source);

/* Opens the tokenizer that belongs to the source, or the one at `named` when that is not "". LJ_ERR_NOT_FOUND for a preset, which has none. */
lj_status lj_model_source_tokenizer(const lj_model_source *source, const char *named, lj_tokenizer **tokenizer);

/* Names of all presets ("deepspeed/llama3-8b"), sorted; calls `each` for one after the other. */
typedef lj_status (*lj_preset_fn)(void *user, const char *name, const char *folder);
lj_status lj_presets_each(lj_preset_fn each, void *user);

#endif
