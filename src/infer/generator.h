/* One sequence being continued: weights in the compute dtype, a KV cache, the compiled `decode` program.
 *
 * Life: lj_generator_create -> lj_generator_feed (the prompt, then token by token) -> destroy. One thread. */
#ifndef LJ_INFER_GENERATOR_H
#define LJ_INFER_GENERATOR_H

#include "ljperf/program.h"
#include "model/layout.h"

typedef struct {
    lj_dtype dtype;  /* LJ_F32 or LJ_BF16: of the weights given, the cache and the computation */
    int threads;     /* 0: all processors of the affinity mask */
    bool eager;
    int64_t context; /* tokens that the cache holds */
    int64_t chunk;   /* prompt tokens in one run; 0 = 256 */
} lj_generator_options;

typedef struct lj_generator lj_generator;

/* `layout` and `weights` (a flat buffer of options->dtype) must outlive it. */
lj_status lj_generator_create(const lj_param_layout *layout, const void *weights, const lj_generator_options *options, lj_generator **generator);
void lj_generator_destroy(lj_generator *generator); /* NULL is allowed */

/* Appends tokens; *logits [vocab] of the token that would follow, living until the next call. LJ_ERR_LIMIT when the context is full. */
lj_status lj_generator_feed(lj_generator *generator, const int32_t *tokens, int64_t count, const float **logits);
/* Forgets all tokens from `length` on (0: everything). */
void lj_generator_rewind(lj_generator *generator, int64_t length);
int64_t lj_generator_length(const lj_generator *generator);
/* Bytes of the KV cache for `context` tokens. */
size_t lj_generator_cache_bytes(const lj_model_config *config, lj_dtype dtype, int64_t context);

#endif
