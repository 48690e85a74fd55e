/* Writes a model as a Hugging Face folder: config.json, generation_config.json, model.safetensors or shards with an index. What is written
 * loads in transformers 4.51 and 5.x, and here. Tokenizer files are the caller's. */
#ifndef LJ_FORMATS_MODEL_WRITE_H
#define LJ_FORMATS_MODEL_WRITE_H

#include "base/parallel.h"
#include "formats/model_config.h"

/* Gives rows [row, row + rows) of a weight as `to` into `out` (rows x columns elements, dense). Called from several threads at once. */
typedef lj_status (*lj_weight_source_fn)(void *user, const lj_model_weight *weight, int64_t row, int64_t rows, lj_dtype to, void *out);

/* Zero-initialised is the default of every field but dtype. */
typedef struct {
    lj_dtype dtype;           /* of every weight: f32, bf16 or f16 */
    uint64_t max_shard_bytes; /* of tensor data in one file; 0: 5 GB (5e9). One larger tensor gets a file of its own. */
    int threads;              /* 0: all processors */
    bool overwrite;           /* false: a folder that already holds weights is refused */
    lj_progress_fn progress;  /* counts bytes of tensor data */
    void *user;
} lj_model_write_options;

/* Creates `folder` where needed and writes config->dtype := options->dtype. Each file appears complete or not at all; the one by which a
 * folder becomes a model (model.safetensors or the index) is last, and the first to go when overwriting. Files of an earlier model that
 * would be left over (other shards) are removed. LJ_ERR_IO, LJ_ERR_INVALID (folder in use), LJ_ERR_UNSUPPORTED (config.json has no place
 * for something), or what `source` fails with. */
lj_status lj_model_folder_write(const char *folder, const lj_model_config *config, const lj_model_write_options *options, lj_weight_source_fn source,
                                void *source_user);

#endif
