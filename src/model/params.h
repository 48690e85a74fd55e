/* Filling and saving flat buffers: from a model's files, at random, into a Hugging Face folder. */
#ifndef LJ_MODEL_PARAMS_H
#define LJ_MODEL_PARAMS_H

#include "formats/weights.h"
#include "ljperf/program.h"
#include "model/layout.h"

/* Random weights as transformers initialises them: matrices and embeddings normal(0, initializer_range), biases 0, norms 1; padding 0.
 * Element i of weight w is a function of (seed, w, i) alone: independent of threads, of the part of the model, of fusion.
 * `flat` holds layout->total_elements of `dtype` (f32 or bf16). */
void lj_params_random(const lj_param_layout *layout, uint64_t seed, lj_dtype dtype, void *flat);
/* Zeroes the buffer (the padding must be zero); one weight of lj_params_random. */
void lj_params_begin(const lj_param_layout *layout, lj_dtype dtype, void *flat);
void lj_params_random_slot(const lj_param_layout *layout, const lj_weight_slot *slot, uint64_t seed, lj_dtype dtype, void *flat);
/* The same means and deviations from a uniform distribution, ten times faster: for measuring speed only. */
void lj_params_fill(const lj_param_layout *layout, uint64_t seed, lj_dtype dtype, void *flat);

/* Checks `weights` against the layout (lj_weights_check), then reads every weight as `dtype`. With allow_missing absent weights are
 * initialised as lj_params_random does, each with a warning; otherwise LJ_ERR_NOT_FOUND lists them. */
lj_status lj_params_load(const lj_param_layout *layout, lj_weights *weights, bool allow_missing, uint64_t seed, lj_dtype dtype, void *flat);

/* Writes FOLDER/config.json, generation_config.json and model.safetensors (several files and an index beyond `shard_bytes`; 0 = 4 GiB)
 * with the weights of the f32 flat buffer as `dtype`. The folder must exist. Each file appears complete or not at all. */
lj_status lj_params_save(const lj_param_layout *layout, const float *flat, lj_dtype dtype, const char *folder, uint64_t shard_bytes);

/* Binds each parameter to its place in a flat buffer of `dtype`; `prefix` is "" or "grad.". */
lj_status lj_params_bind(lj_program *program, const lj_param_layout *layout, const char *prefix, lj_dtype dtype, void *flat);

#endif
