/* Picking the next token from logits. */
#ifndef LJ_INFER_SAMPLER_H
#define LJ_INFER_SAMPLER_H

#include "base/status.h"

#include <stdint.h>

typedef struct {
    double temperature;        /* 0: the likeliest token, the first of equals */
    int64_t top_k;             /* only the k likeliest; 0 = all */
    double top_p;              /* only the fewest that together reach p; 1 = all */
    double min_p;              /* only those at least min_p times as likely as the likeliest; 0 = all */
    double repetition_penalty; /* logits of tokens already there are divided (if > 0) or multiplied (if < 0) by it; 1 = none */
    uint64_t seed;
} lj_sampler_options;
#define LJ_SAMPLER_OPTIONS_INIT {.temperature = 1, .top_p = 1, .repetition_penalty = 1}

typedef struct lj_sampler lj_sampler;

/* LJ_ERR_INVALID names an option out of range. One thread at a time. */
lj_status lj_sampler_create(const lj_sampler_options *options, int64_t vocab, lj_sampler **sampler);
void lj_sampler_destroy(lj_sampler *sampler); /* NULL is allowed */

/* Order: penalty, temperature, top-k, top-p, min-p, draw (the order of transformers). `logits` [vocab] is left as it is; `history` are
 * the ids so far. The n-th draw of a sampler is a function of seed and n. LJ_ERR_INVALID when no logit is finite. */
lj_status lj_sampler_pick(lj_sampler *sampler, const float *logits, const int32_t *history, int64_t history_count, int32_t *id);

#endif
