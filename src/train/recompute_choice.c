#include "train/recompute_choice.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "kernels/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/peak/bandwidth.h"
#include "kernels/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_RUNS = 3, RATE_ROWS = 2048 };

static int threads_of(const lj_trainer_options *options)
{
    return options->threads > 0 ? options->threads : lj_machine_get()->cores;
}

/* Best of a few runs of the MLP's product, which is most of a step's work. */
static lj_status gemm_rate(const lj_param_layout *layout, const lj_trainer_options *options, double *rate)
{
    lj_gemm_desc desc = LJ_GEMM_DESC_INIT;
    int64_t rows = options->rows * options->length;
    desc.a_type = desc.b_type = desc.c_type = options->dtype;
    desc.m = rows < RATE_ROWS ? rows : RATE_ROWS, desc.n = layout->config.intermediate_size, desc.k = layout->config.hidden_size, desc.trans_b = true;
    size_t size = lj_dtype_bytes(options->dtype), a = (size_t)(desc.m * desc.k) * size, b = (size_t)(desc.n * desc.k) * size, c = (size_t)(desc.m * desc.n) * size;
    lj_gemm *gemm;
    void *memory;
    LJ_TRY(lj_gemm_create(&desc, threads_of(options), &gemm));
    lj_status status = lj_alloc_zero("rates", a + b + c + lj_gemm_scratch_bytes(gemm) + 256, &memory);
    double best = 1e30;
    for (int i = 0; i < RATE_RUNS && status == LJ_OK; i++) {
        char *base = memory;
        double begin = lj_now_s();
        status = lj_gemm_run(gemm, base, base + a, base + a + b, base + ((a + b + c + 63) & ~(size_t)63));
        double seconds = lj_now_s() - begin;
        if (i > 0 && seconds < best) best = seconds; /* the first run warms up */
    }
    if (status == LJ_OK) {
        *rate = 2.0 * (double)desc.m * (double)desc.n * (double)desc.k / best;
        lj_free(memory);
    }
    lj_gemm_destroy(gemm);
    return status;
}

/* Attention forward of one sequence. */
static lj_status attention_rate(const lj_param_layout *layout, const lj_trainer_options *options, double *rate)
{
    const lj_model_config *m = &layout->config;
    lj_attention_desc desc = {.type = options->dtype, .batch = 1, .q_len = options->length, .kv_len = options->length, .heads = m->num_attention_heads,
                              .kv_heads = m->num_key_value_heads, .head_dim = m->head_dim, .q_start = -1, .scale = 0.1f, .causal = true};
    size_t size = lj_dtype_bytes(options->dtype), q = (size_t)(desc.q_len * desc.heads * desc.head_dim) * size;
    size_t k = (size_t)(desc.kv_len * desc.kv_heads * desc.head_dim) * size, lse = (size_t)(desc.q_len * desc.heads) * sizeof(float);
    q = (q + 63) & ~(size_t)63, k = (k + 63) & ~(size_t)63, lse = (lse + 63) & ~(size_t)63;
    void *memory;
    LJ_TRY(lj_attention_check(&desc));
    LJ_TRY(lj_alloc_zero("rates", 2 * q + 2 * k + lse + lj_attention_forward_scratch(&desc, threads_of(options)), &memory));
    char *base = memory;
    lj_attention_forward_args args = {.desc = desc, .scratch = base + 2 * q + 2 * k + lse, .lse = (float *)(base + 2 * q + 2 * k)};
    args.q = lj_attention_dense(base, desc.q_len, desc.heads, desc.head_dim), args.out = lj_attention_dense(base + q, desc.q_len, desc.heads, desc.head_dim);
    args.k = lj_attention_dense(base + 2 * q, desc.kv_len, desc.kv_heads, desc.head_dim);
    args.v = lj_attention_dense(base + 2 * q + k, desc.kv_len, desc.kv_heads, desc.head_dim);
    double best = 1e30;
    for (int i = 0; i < RATE_RUNS; i++) {
        double begin = lj_now_s();
        lj_team_run(threads_of(options), lj_attention_forward, &args);
        double seconds = lj_now_s() - begin;
        if (i > 0 && seconds < best) best = seconds;
    }
    lj_free(memory);
    *rate = 2.0 * (double)(desc.q_len * (desc.q_len + 1)) * (double)(desc.heads * desc.head_dim) / best;
    return LJ_OK;
}

lj_status lj_machine_rates_measure(const lj_param_layout *layout, const lj_trainer_options *options, lj_machine_rates *rates)
{
    LJ_TRY(gemm_rate(layout, options, &rates->gemm_flops));
    LJ_TRY(attention_rate(layout, options, &rates->library_flops));
    return lj_bandwidth_measure(threads_of(options), &rates->bandwidth);
}

static double step_seconds(const lj_program_work *work, const lj_machine_rates *rates)
{
    return work->gemm_flops / rates->gemm_flops + work->library_flops / rates->library_flops + work->kernel_bytes / rates->bandwidth;
}

lj_status lj_recompute_evaluate(const lj_param_layout *layout, const lj_trainer_options *options, const lj_machine_rates *rates, double kept_s,
                                lj_recompute_candidate *candidate)
{
    lj_trainer_options changed = *options;
    lj_trainer *trainer;
    lj_program_work work;
    lj_size sizes[] = {{"B", options->rows}, {"T", options->length}, {"P", options->length}};
    changed.recompute = candidate->text;
    LJ_TRY(lj_trainer_create(layout, &changed, &trainer));
    lj_status status = lj_trainer_plan(trainer, &candidate->bytes);
    if (status == LJ_OK) status = lj_program_count(lj_trainer_micro_program(trainer), sizes, layout->part.layers ? 3 : 2, &work);
    lj_trainer_destroy(trainer);
    if (status != LJ_OK) return status;
    candidate->step_s = step_seconds(&work, rates);
    candidate->slowdown = kept_s > 0 ? candidate->step_s / kept_s - 1 : 0;
    return LJ_OK;
}

/* The first `count` layers at `level`, the rest at `rest`. */
static void candidate_word(lj_recompute_candidate *c, int layers, int level, int count, int rest)
{
    *c = (lj_recompute_candidate){.level = level, .rest = rest, .layers = count};
    int at = snprintf(c->text, sizeof c->text, "levels:");
    for (int i = 0; i < layers; i++) c->text[at++] = (char)('0' + (i < count ? level : rest));
    c->text[at] = 0;
}

typedef struct {
    const lj_param_layout *layout;
    const lj_trainer_options *options;
    const lj_machine_rates *rates;
    int layers;
    double kept_s;
} chooser;

static lj_status try_count(const chooser *c, int level, int count, int rest, lj_recompute_candidate *out)
{
    candidate_word(out, c->layers, level, count, rest);
    return lj_recompute_evaluate(c->layout, c->options, c->rates, c->kept_s, out);
}

/* The fewest layers at `level` (the rest at `rest`) whose peak fits; *fits false when not even all of them do (then *out is all). */
static lj_status fewest_that_fit(const chooser *c, int level, int rest, uint64_t limit, lj_recompute_candidate *out, bool *fits)
{
    int low = 0, high = c->layers; /* high fits */
    LJ_TRY(try_count(c, level, high, rest, out));
    *fits = out->bytes.peak <= limit;
    while (*fits && low < high) {
        lj_recompute_candidate middle;
        int count = (low + high) / 2;
        LJ_TRY(try_count(c, level, count, rest, &middle));
        if (middle.bytes.peak <= limit)
            high = count, *out = middle;
        else
            low = count + 1;
    }
    return LJ_OK;
}

static const struct {
    int level, rest;
} families[] = {
    {LJ_RECOMPUTE_CHEAP, LJ_RECOMPUTE_NONE},  {LJ_RECOMPUTE_ATTENTION, LJ_RECOMPUTE_CHEAP}, {LJ_RECOMPUTE_LAYER, LJ_RECOMPUTE_NONE},
    {LJ_RECOMPUTE_LAYER, LJ_RECOMPUTE_CHEAP}, {LJ_RECOMPUTE_LAYER, LJ_RECOMPUTE_ATTENTION},
};

lj_status lj_recompute_choose(const lj_param_layout *layout, const lj_trainer_options *options, const lj_machine_rates *rates, uint64_t limit,
                              lj_recompute_candidate *best)
{
    chooser c = {layout, options, rates, (int)layout->part.layers, 0};
    lj_recompute_candidate kept, tried, smallest;
    LJ_TRY(try_count(&c, LJ_RECOMPUTE_NONE, 0, LJ_RECOMPUTE_NONE, &kept));
    c.kept_s = kept.step_s;
    *best = smallest = kept;
    if (kept.bytes.peak <= limit) return LJ_OK;
    bool found = false;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        bool fits;
        LJ_TRY(fewest_that_fit(&c, families[i].level, families[i].rest, limit, &tried, &fits));
        if (tried.bytes.peak < smallest.bytes.peak) smallest = tried;
        if (fits && (!found || tried.step_s < best->step_s)) *best = tried, found = true;
    }
    if (found) return LJ_OK;
    *best = smallest;
    char need[32], have[32];
    return lj_fail(LJ_ERR_NOMEM, "the step needs %s even with all layers recomputed, %s may be used; give that much memory, or a smaller --batch or --seq",
                   lj_size_format((double)smallest.bytes.peak, need, sizeof need), lj_size_format((double)limit, have, sizeof have));
}

const char *lj_recompute_describe(const lj_recompute_candidate *c, int layers, char *buffer, size_t capacity)
{
    static const char *const words[] = {"kept", "cheap", "attention", "whole"};
    if (c->layers == 0 && c->rest == LJ_RECOMPUTE_NONE)
        snprintf(buffer, capacity, "nothing");
    else if (c->layers >= layers)
        snprintf(buffer, capacity, "%s in all %d layers", words[c->level], layers);
    else if (c->layers == 0)
        snprintf(buffer, capacity, "%s in all %d layers", words[c->rest], layers);
    else
        snprintf(buffer, capacity, "%s in %d layers, %s in %d", words[c->level], c->layers, words[c->rest], layers - c->layers);
    return buffer;
}

lj_status lj_recompute_resolve(const lj_param_layout *layout, lj_trainer_options *options, uint64_t limit, lj_recompute_candidate *candidate)
{
    lj_machine_rates rates;
    char words[96], room[32], peak[32];
    if (!options->recompute || strcmp(options->recompute, "auto") != 0) return LJ_OK;
    if (!limit) limit = lj_memory_available() / 10 * 9;
    LJ_TRY(lj_machine_rates_measure(layout, options, &rates));
    LJ_TRY(lj_recompute_choose(layout, options, &rates, limit, candidate));
    lj_log(LJ_LOG_INFO, "recompute: limit %s, recomputed %s, predicted peak %s, predicted slow-down %.1f %%", lj_size_format((double)limit, room, sizeof room),
           lj_recompute_describe(candidate, (int)layout->part.layers, words, sizeof words), lj_size_format((double)candidate->bytes.peak, peak, sizeof peak),
           100 * candidate->slowdown);
    options->recompute = candidate->text;
    return LJ_OK;
}
