/* OUT/metrics.jsonl: one line a step, one an evaluation, written as they happen.
 *
 *   {"step","loss","lr","grad_norm","tokens","seconds","tokens_per_s"}          tokens: trained so far
 *   {"step","eval_loss","perplexity","eval_tokens"}                                                                              */
#ifndef LJ_TRAIN_METRICS_H
#define LJ_TRAIN_METRICS_H

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct {
    int64_t step, tokens;
    double loss, lr, grad_norm, seconds, tokens_per_s;
} lj_step_metrics;

typedef struct {
    int64_t step, tokens, rows;
    double loss; /* mean over target tokens; perplexity = e^loss */
} lj_eval_metrics;

typedef struct {
    FILE *file;
    char *path;
} lj_metrics;

/* Opens for appending after dropping lines beyond `step`: what a resumed run will write again. */
lj_status lj_metrics_open(lj_metrics *metrics, const char *out, int64_t step);
lj_status lj_metrics_step(lj_metrics *metrics, const lj_step_metrics *row);
lj_status lj_metrics_eval(lj_metrics *metrics, const lj_eval_metrics *row);
void lj_metrics_close(lj_metrics *metrics);

#endif
