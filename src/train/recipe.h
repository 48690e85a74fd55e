/* Everything that decides what a training run computes, as one struct and one table of its fields: settings fill it, checkpoints
 * hold it, resuming compares it. */
#ifndef LJ_TRAIN_RECIPE_H
#define LJ_TRAIN_RECIPE_H

#include "base/config.h"

#include <jansson.h>

typedef struct {
    /* Strings belong to the config that filled the recipe. "" = unset. */
    const char *model, *data, *eval_data, *tokenizer, *chat_format, *out, *dtype, *schedule, *recompute;
    int64_t steps, batch, seq, accum, threads, seed;
    int64_t warmup, eval_every, save_every, keep, epochs;
    double lr, min_lr, decay_fraction, weight_decay, beta1, beta2, adam_eps, clip, eval_fraction, max_loss_jump;
    bool shuffle, decay, compile, allow_missing, random_weights;
} lj_recipe;

/* Settings of the recipe (threads and seed among them, which every command has). */
extern const lj_config_key lj_recipe_keys[];
extern const size_t lj_recipe_key_count;

void lj_recipe_from_config(const lj_config *config, lj_recipe *recipe);
/* A new object with every field under its setting's name. NULL when memory is short. */
json_t *lj_recipe_to_json(const lj_recipe *recipe);
/* Compares with what a checkpoint holds. Fields that may change on resume (steps, out, save_every, eval_every, keep, threads, recompute: it changes no bit) give a
 * notice each; any other difference is LJ_ERR_INVALID naming field, then and now. */
lj_status lj_recipe_compare(const lj_recipe *recipe, const json_t *saved);

#endif
