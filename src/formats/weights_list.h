/* Inside weights*.c only: the handle. */
#ifndef LJ_FORMATS_WEIGHTS_LIST_H
#define LJ_FORMATS_WEIGHTS_LIST_H

#include "base/memory.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "formats/weights.h"

#define LJ_EMBEDDING_NAME "model.embed_tokens.weight"
#define LJ_HEAD_NAME "lm_head.weight"

struct lj_weights {
    lj_arena arena;
    const char *path, *folder;
    lj_safetensors **shards;
    size_t shard_count;
    lj_gguf *gguf;
    lj_weight *items; /* sorted by name */
    size_t count;
    lj_model_config config;
    bool has_config, tolerant;
    const char *config_error;
    lj_safetensors_entry *metadata;
    size_t metadata_count;
};

/* By exact name, without the rule of tied heads. */
lj_weight *lj_weights_find_stored(const lj_weights *weights, const char *name);

#endif
