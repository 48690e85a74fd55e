/* One view of a model's weights, wherever they are stored.
 *
 * lj_weights_open takes what users have: a Hugging Face folder (config.json with model.safetensors, or shards and their index), one
 * .safetensors file, a .safetensors.index.json, or a GGUF (any part of a split one). Files are mapped, not copied; opening reads
 * headers only. Tensors are listed under Hugging Face names, with GGUF's reversed shapes, renamed tensors and interleaved q and k rows
 * turned back. Reading converts a range of rows into the caller's buffer.
 *
 *     lj_weights *w;
 *     lj_weights_open("model.gguf", &w);
 *     lj_model_config config = *lj_weights_config(w);
 *     for each parameter: lj_weights_read(w, lj_weights_find(w, name), 0, rows, LJ_BF16, buffer);
 *     lj_weights_close(w);
 *
 * An open handle is read-only apart from the `used` marks, which are atomic: any number of threads may read from it. */
#ifndef LJ_FORMATS_WEIGHTS_H
#define LJ_FORMATS_WEIGHTS_H

#include "base/parallel.h"
#include "base/text.h"
#include "formats/dequant.h"
#include "formats/model_config.h"

enum { LJ_WEIGHT_MAX_RANK = 8 };

typedef struct lj_weights lj_weights;

typedef struct {
    const char *name;        /* Hugging Face's, or the stored one when there is no counterpart */
    const char *stored_name; /* as in the file */
    const char *file;        /* its path */
    const char *type_name;   /* how it is stored: "BF16", "Q4_1" */
    lj_dtype dtype;          /* of a plain type; LJ_DTYPE_COUNT when quantised in blocks */
    const lj_block_type *blocks; /* of a quantised one; NULL when plain */
    int rank;
    int64_t shape[LJ_WEIGHT_MAX_RANK]; /* outermost first; a matrix is [outputs, inputs] */
    int64_t rows, columns;   /* rows = shape[0] (1 for rank 0), columns = elements of one row */
    const uint8_t *data;     /* stored bytes, in the mapping */
    uint64_t bytes;
    int64_t rotary_head_dim; /* > 0: rows are stored interleaved within heads of this size */
    uint32_t used;           /* 1 after the first read or lj_weights_use; read it after the readers are done */
} lj_weight;

/* LJ_ERR_IO, LJ_ERR_FORMAT, LJ_ERR_NOT_FOUND (no weights in the folder: what was looked for), LJ_ERR_UNSUPPORTED, LJ_ERR_LIMIT. */
lj_status lj_weights_open(const char *path, lj_weights **out);
/* The same for looking only: a config or an architecture that is not built here is no error; then lj_weights_config is NULL and
 * lj_weights_config_error says why ("" otherwise). Rows of an unknown architecture come as they are stored. */
lj_status lj_weights_open_any(const char *path, lj_weights **out);
const char *lj_weights_config_error(const lj_weights *weights);
void lj_weights_close(lj_weights *weights); /* NULL is allowed */

/* The model's numbers: from config.json beside the weights or from GGUF metadata; NULL for a bare .safetensors file without one. */
const lj_model_config *lj_weights_config(const lj_weights *weights);
/* Path as opened, and the folder with config.json and tokenizer ("" for GGUF and bare files). */
const char *lj_weights_path(const lj_weights *weights);
const char *lj_weights_folder(const lj_weights *weights);
/* The GGUF behind it, NULL for safetensors: tokenizers and chat templates read their metadata there. */
struct lj_gguf;
const struct lj_gguf *lj_weights_gguf(const lj_weights *weights);

size_t lj_weights_count(const lj_weights *weights);
lj_weight *lj_weights_get(const lj_weights *weights, size_t index); /* sorted by name */
/* Key-value text of the safetensors files (__metadata__), over all shards, a pair equal in several shards once; 0 for GGUF. */
size_t lj_weights_metadata_count(const lj_weights *weights);
void lj_weights_metadata_get(const lj_weights *weights, size_t index, const char **key, const char **value);
/* NULL: no such tensor. With a tied head both names, embedding and head, lead to the tensor that is there. */
lj_weight *lj_weights_find(const lj_weights *weights, const char *name);

/* Rows [row, row + rows) of `weight` as `to` into `out`: rows x columns elements, dense. Touches only the pages of those rows. From a
 * floating-point or quantised tensor to any floating-point type; from any other to its own type only. LJ_ERR_INVALID: range, or a
 * range that cuts a block of a quantised vector; LJ_ERR_UNSUPPORTED: the stored type is not read here. Any thread. */
lj_status lj_weights_read(const lj_weights *weights, lj_weight *weight, int64_t row, int64_t rows, lj_dtype to, void *out);
/* One read of lj_weights_load: the arguments of lj_weights_read. */
typedef struct {
    lj_weight *weight;
    int64_t row, rows;
    lj_dtype to;
    void *out;
} lj_weight_job;
/* Runs all jobs in pieces of about a mebibyte on `threads` threads (0: all processors), so that one large tensor does not hold up the rest.
 * Buffers must not overlap. `progress` counts output bytes; NULL: silent. The first failure ends it; buffers are then undefined. */
lj_status lj_weights_load(const lj_weights *weights, const lj_weight_job *jobs, size_t count, int threads, lj_progress_fn progress, void *user);
/* Marks a tensor as used without reading it. */
void lj_weights_use(lj_weight *weight);

/* One tensor that a model wants. */
typedef struct {
    const char *name;
    int rank;
    int64_t shape[2];
} lj_weight_want;

/* What lj_weights_check found. Texts are for people, one line each. */
typedef struct {
    size_t wanted, found, missing, misshapen, unused;
    lj_text text; /* "missing: NAME [shape]\nmisshapen: NAME have [..] need [..]\nunused: NAME [..]\n" */
} lj_weights_report;
void lj_weights_report_release(lj_weights_report *report);

/* Compares the file with what a model wants, before anything is allocated. Every missing or misshapen tensor is in `report` (and the
 * first of them in the error), every tensor that no `want` names is listed as unused. Misshapen: LJ_ERR_INVALID always. Missing:
 * LJ_ERR_NOT_FOUND, unless `allow_missing` (the caller initialises them; each is logged as a warning). A tied model whose file has
 * neither embedding nor head: LJ_ERR_NOT_FOUND naming both, also with allow_missing. A tied model whose file has both with different
 * contents: LJ_ERR_INVALID. `report` is written on success and on LJ_ERR_INVALID and LJ_ERR_NOT_FOUND. */
lj_status lj_weights_check(const lj_weights *weights, const lj_weight_want *wants, size_t count, bool allow_missing, lj_weights_report *report);
/* The same with the wants of the file's own config. */
lj_status lj_weights_check_model(const lj_weights *weights, const lj_model_config *config, bool allow_missing, lj_weights_report *report);

#endif
