/* Checkpoints: folders OUT/step-NNNNNN, complete or absent.
 *
 *   config.json, generation_config.json, model.safetensors (or shards)   the fp32 weights, as transformers loads them
 *   tokenizer.json, ...                                                   the tokenizer's files
 *   optimizer.safetensors                                                 m.NAME and v.NAME, f32
 *   trainer_state.json                                                    step, position in the data, counters, recipe
 *
 * Saving writes OUT/.saving-STEP-PID and renames it when every file is on disk; a process that dies at any moment leaves the older
 * checkpoints as they were, and its leftovers are removed by the next save. Randomness is counter-based, so seed and position are its
 * whole state. */
#ifndef LJ_TRAIN_CHECKPOINT_H
#define LJ_TRAIN_CHECKPOINT_H

#include "formats/gguf.h"
#include "train/recipe.h"
#include "train/trainer.h"

typedef struct {
    int64_t step;        /* optimizer steps done */
    int64_t position;    /* rows taken from the data */
    int64_t tokens;      /* trained so far, padding not counted */
    uint64_t data_hash;  /* lj_corpus_fingerprint; 0 = synthetic */
    double loss_mean;    /* running mean, for max_loss_jump; 0 = none yet */
} lj_train_state;

/* Where a checkpoint's tokenizer comes from: files of a folder are copied, a GGUF's is written as lj_gguf_tokenizer_save does. Neither: none. */
typedef struct {
    const char *folder; /* "" or NULL: no folder */
    const lj_gguf *gguf;
} lj_tokenizer_origin;

/* Saves everything; *path receives the folder's name (the caller frees it). */
lj_status lj_checkpoint_save(lj_trainer *trainer, const lj_train_state *state, const lj_recipe *recipe, const lj_tokenizer_origin *tokenizer,
                             char **path);
/* Newest complete checkpoint in `out`: *path (the caller frees it). LJ_ERR_NOT_FOUND when there is none. */
lj_status lj_checkpoint_newest(const char *out, char **path);
/* Reads the state and compares the recipe (lj_recipe_compare); then weights and moments. */
lj_status lj_checkpoint_load(const char *path, const lj_recipe *recipe, lj_trainer *trainer, lj_train_state *state);
/* Removes all but the `keep` newest. */
lj_status lj_checkpoint_prune(const char *out, int64_t keep);

#endif
