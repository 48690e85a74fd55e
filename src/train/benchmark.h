/* Measuring the training step of a model: whole where it fits, else by parts at true width.
 *
 * A step is `accum` x micro (forward, backward) and one update (global norm, clip, AdamW). By parts: the embedding, one layer, the
 * head with its loss, each alone in memory with its own update; a whole step is embedding + layers x layer + head. Where a model cut
 * to few layers fits, one of its micro runs checks that sum.
 *
 * mfu = (6 x matmul parameters + 6 x layers x heads x head_dim x T) x tokens / time / gemm_peak; hfu counts recomputed work too. */
#ifndef LJ_TRAIN_BENCHMARK_H
#define LJ_TRAIN_BENCHMARK_H

#include "kernels/peak/gemm_peak.h"
#include "kernels/peak/peak.h"
#include "train/profile.h"
#include "train/rows.h"
#include "train/trainer.h"

typedef struct {
    lj_model_config config;
    lj_dtype dtype;
    int64_t batch, seq, accum, steps, warmup; /* steps: timed ones, after `warmup` */
    int64_t layers;      /* measure only the first so many; 0 = all */
    int threads;         /* > 0 */
    bool eager;
    bool parts;          /* by parts although the whole would fit */
    const char *recompute; /* as lj_program_options; NULL = none */
    double learning_rate, clip;
    uint64_t seed, limit_bytes; /* memory that may be used; 0 = what is free now */
    const lj_rows *rows; /* NULL: synthetic tokens */
    lj_profile *profile; /* filled by one more step after the timed ones; NULL: none */
    void (*progress)(void *user, const char *what); /* NULL: silent; a line a phase */
    void *user;
} lj_benchmark_options;

enum { LJ_BENCHMARK_MAX_STEPS = 512 };

/* What one program set (the whole model or a part) took. Seconds of a step's micro-batches and of its update, each step apart. */
typedef struct {
    const char *name;    /* "whole", "embedding", "layer", "head" */
    size_t steps;
    double micro_s[LJ_BENCHMARK_MAX_STEPS], update_s[LJ_BENCHMARK_MAX_STEPS];
    double first_s, compile_s;
    size_t predicted_bytes, measured_bytes;
    double loss_first, loss_last;
} lj_benchmark_run;

typedef struct {
    bool by_parts;
    int64_t layers_total, layers_measured;
    lj_benchmark_run runs[3];
    size_t run_count;
    double step_median_s, step_p90_s;      /* of the full model; by parts: sums of the parts' */
    double interval_s[2];                  /* fastest and slowest measured step (by parts: sums of them) */
    double first_step_s, compile_s;
    double tokens_per_step, flops_per_token, achieved_flops, mfu, hfu;
    lj_gemm_peak_result gemm_peak;
    lj_isa_peak isa_peak;
    size_t predicted_peak_bytes, measured_peak_bytes, peak_rss_bytes, whole_bytes; /* whole_bytes: what the whole would need */
    lj_counters counters;
    double check_layers, check_measured_s, check_summed_s; /* truncated model's micro; layers 0: not run */
    char check_note[160];                  /* why not */
} lj_benchmark_result;

/* LJ_ERR_NOMEM names the least that would do when not even the largest part fits. */
lj_status lj_benchmark_run_all(const lj_benchmark_options *options, lj_benchmark_result *result);

double lj_median(const double *values, size_t count);
double lj_percentile(const double *values, size_t count, double share);

#endif
