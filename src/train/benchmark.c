#include "train/benchmark.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "train/schedule.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct {
    const lj_benchmark_options *options;
    lj_benchmark_result *result;
    lj_gemm_peak *peak;
    double begin_s; /* the model was described */
} bench;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double lj_percentile(const double *values, size_t count, double share)
{
    double sorted[LJ_BENCHMARK_MAX_STEPS];
    if (count == 0) return 0;
    if (count > LJ_BENCHMARK_MAX_STEPS) count = LJ_BENCHMARK_MAX_STEPS;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, ascending);
    double at = share * (double)(count - 1);
    size_t low = (size_t)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (at - (double)low);
}

double lj_median(const double *values, size_t count)
{
    return lj_percentile(values, count, 0.5);
}

static void say(const bench *b, const char *format, ...) LJ_PRINTF(2, 3);
static void say(const bench *b, const char *format, ...)
{
    char line[256];
    va_list args;
    if (!b->options->progress) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    b->options->progress(b->options->user, line);
}

/* splitmix64 over (seed, position): synthetic tokens. */
static int32_t token_at(uint64_t seed, int64_t position, int64_t vocab)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)position + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (int32_t)((x ^ (x >> 31)) % (uint64_t)vocab);
}

/* The micro-batch number `index` of the run. Synthetic rows differ from each other; each token's target is the next one. */
static void batch_fill(const lj_benchmark_options *o, int64_t index, lj_batch *batch)
{
    int64_t cells = o->batch * o->seq;
    if (o->rows) {
        lj_rows_fill(o->rows, index * o->batch, o->batch, batch);
    } else {
        for (int64_t i = 0; i < cells; i++) {
            batch->tokens[i] = token_at(o->seed, index * cells + i, o->config.vocab_size);
            batch->targets[i] = token_at(o->seed, index * cells + i + 1, o->config.vocab_size);
        }
    }
    lj_batch_weigh(batch, o->accum * lj_batch_target_count(batch));
}

static lj_trainer_options trainer_options(const lj_benchmark_options *o, bool micro_only, bool accumulate)
{
    return (lj_trainer_options){.dtype = o->dtype,
                                .threads = o->threads,
                                .eager = o->eager,
                                .recompute = o->recompute,
                                .documents = o->rows && o->rows->packed,
                                .micro_only = micro_only,
                                .accumulate = accumulate,
                                .rows = o->batch,
                                .length = o->seq,
                                .adamw = {0.9, 0.95, 1e-8, 0.1}};
}

/* One optimizer step; its times go to micro_s and update_s. */
static lj_status step_time(const bench *b, lj_trainer *trainer, lj_batch *batch, int64_t step, bool added, double *micro_s, double *update_s,
                           double *loss)
{
    const lj_benchmark_options *o = b->options;
    double norm, total = 0, seconds = 0;
    for (int64_t i = 0; i < o->accum; i++) {
        double part;
        batch_fill(o, step * o->accum + i, batch);
        double begin = lj_now_s();
        LJ_TRY(lj_trainer_micro(trainer, batch, i == 0 && !added, &part));
        seconds += lj_now_s() - begin;
        total += part;
    }
    double begin = lj_now_s();
    if (lj_trainer_update_program(trainer)) LJ_TRY(lj_trainer_update(trainer, step + 1, o->learning_rate, o->clip, &norm));
    *update_s = lj_now_s() - begin;
    *micro_s = seconds, *loss = total;
    return LJ_OK;
}

/* Warm-up and timed steps of a trainer that is ready; GEMM samples between them. `added`: gradients are only added to. */
static lj_status steps_time(bench *b, lj_trainer *trainer, lj_batch *batch, bool added, lj_benchmark_run *run)
{
    const lj_benchmark_options *o = b->options;
    for (int64_t step = 0; step < o->warmup + o->steps; step++) {
        double micro, update, loss;
        LJ_TRY(step_time(b, trainer, batch, step, added, &micro, &update, &loss));
        if (step == 0) run->first_s = micro + update, run->loss_first = loss;
        run->loss_last = loss;
        say(b, "%s: step %lld of %lld%s, %.2f s", run->name, (long long)step + 1, (long long)(o->warmup + o->steps),
            step < o->warmup ? " (warm-up)" : "", micro + update);
        if (step >= o->warmup) {
            run->micro_s[run->steps] = micro, run->update_s[run->steps] = update;
            run->steps++;
        }
        if (step + 1 == o->warmup + o->steps / 2 && b->peak) LJ_TRY(lj_gemm_peak_sample(b->peak));
    }
    return LJ_OK;
}

static void trace_set(lj_trainer *trainer, lj_trace_fn fn, void *user)
{
    if (lj_trainer_micro_program(trainer)) lj_program_trace(lj_trainer_micro_program(trainer), fn, user);
    if (lj_trainer_update_program(trainer)) lj_program_trace(lj_trainer_update_program(trainer), fn, user);
}

/* One more step, each of its steps timed: apart from the measured ones, because timing costs too. */
static lj_status profile_step(const bench *b, lj_trainer *trainer, lj_batch *batch, bool added)
{
    const lj_benchmark_options *o = b->options;
    double micro, update, loss;
    if (!o->profile) return LJ_OK;
    trace_set(trainer, lj_profile_add, o->profile);
    lj_status status = step_time(b, trainer, batch, o->warmup + o->steps, added, &micro, &update, &loss);
    trace_set(trainer, NULL, NULL);
    return status;
}

static lj_status trainer_measure(bench *b, lj_trainer *trainer, bool added, lj_benchmark_run *run)
{
    const lj_benchmark_options *o = b->options;
    lj_trainer_bytes bytes;
    lj_batch batch = {0};
    size_t before = lj_memory_live();
    LJ_TRY(lj_trainer_plan(trainer, &bytes));
    run->predicted_bytes = bytes.peak;
    lj_memory_peak_reset();
    LJ_TRY(lj_trainer_commit(trainer));
    lj_trainer_fill(trainer, o->seed, true);
    lj_status status = lj_batch_init(&batch, o->batch, o->seq);
    if (status == LJ_OK) status = steps_time(b, trainer, &batch, added, run);
    if (status == LJ_OK) status = profile_step(b, trainer, &batch, added);
    run->measured_bytes = lj_memory_peak() - before;
    lj_batch_release(&batch);
    return status;
}

/* compile_s: from here to the end of the first step, without the weights' initialisation and without one median step. */
static lj_status part_measure(bench *b, const char *name, lj_model_part part, bool added, lj_benchmark_run *run)
{
    lj_param_layout layout;
    lj_trainer *trainer = NULL;
    *run = (lj_benchmark_run){.name = name};
    LJ_TRY(lj_layout_init(&layout, &b->options->config, part));
    say(b, "%s: compiling", name);
    double begin = lj_now_s();
    lj_trainer_options options = trainer_options(b->options, false, added || b->options->accum > 1);
    lj_status status = lj_trainer_create(&layout, &options, &trainer);
    double compiled = lj_now_s() - begin;
    if (status == LJ_OK) status = trainer_measure(b, trainer, added, run);
    double steady = lj_median(run->micro_s, run->steps) + lj_median(run->update_s, run->steps);
    run->compile_s = compiled + (run->first_s > steady ? run->first_s - steady : 0);
    lj_trainer_destroy(trainer);
    lj_layout_release(&layout);
    return status;
}

static int64_t capped(int64_t size, int64_t most)
{
    return size < most ? size : most;
}

/* The model's own products, each side at most 4096 so that a run stays short. */
static lj_status peak_open(bench *b)
{
    const lj_model_config *c = &b->options->config;
    int64_t rows = capped(b->options->batch * b->options->seq, 2048), hidden = capped(c->hidden_size, 4096);
    int64_t qkv = capped((c->num_attention_heads + 2 * c->num_key_value_heads) * c->head_dim, 4096), ffn = capped(c->intermediate_size, 4096);
    int64_t both = capped(2 * c->intermediate_size, 4096), heads = capped(c->num_attention_heads * c->head_dim, 4096);
    const lj_peak_shape shapes[] = {
        {rows, qkv, hidden, false, true},  {rows, hidden, heads, false, true},  {rows, both, hidden, false, true}, {rows, hidden, ffn, false, true},
        {rows, hidden, both, false, false}, {both, hidden, rows, true, false}, {hidden, ffn, rows, true, false},  {rows, ffn, hidden, false, false},
    };
    say(b, "measuring the machine's peak");
    LJ_TRY(lj_gemm_peak_create(shapes, sizeof shapes / sizeof *shapes, b->options->dtype, b->options->threads, &b->peak));
    b->result->isa_peak = lj_isa_peak_measure(b->options->dtype, b->options->threads);
    LJ_TRY(lj_gemm_peak_sample(b->peak));
    return lj_gemm_peak_sample(b->peak);
}

/* Bytes that a part would take, without allocating it. */
static lj_status part_bytes(const bench *b, lj_model_part part, bool micro_only, size_t *bytes)
{
    lj_param_layout layout;
    lj_trainer *trainer = NULL;
    lj_trainer_bytes planned;
    LJ_TRY(lj_layout_init(&layout, &b->options->config, part));
    lj_trainer_options options = trainer_options(b->options, micro_only, b->options->accum > 1);
    lj_status status = lj_trainer_create(&layout, &options, &trainer);
    if (status == LJ_OK) status = lj_trainer_plan(trainer, &planned);
    if (status == LJ_OK) *bytes = planned.peak;
    lj_trainer_destroy(trainer);
    lj_layout_release(&layout);
    return status;
}

/* What the whole would need at the least, from numbers alone: four f32 buffers, and the compute copy. Enough to skip planning it. */
static double whole_floor(const lj_benchmark_options *o)
{
    return (double)lj_model_parameter_count(&o->config) * (o->dtype == LJ_F32 ? 16 : 18);
}

static uint64_t limit(const bench *b)
{
    uint64_t room = b->options->limit_bytes ? b->options->limit_bytes : lj_memory_available();
    return room ? (uint64_t)(0.95 * (double)room) : UINT64_MAX;
}

static int64_t layers_wanted(const lj_benchmark_options *o)
{
    return o->layers > 0 && o->layers < o->config.num_hidden_layers ? o->layers : o->config.num_hidden_layers;
}

static lj_status fits_whole(bench *b, bool *fits)
{
    *fits = false;
    b->result->whole_bytes = (size_t)whole_floor(b->options);
    if (b->options->layers == 0 && whole_floor(b->options) > (double)limit(b)) return LJ_OK;
    LJ_TRY(part_bytes(b, (lj_model_part){layers_wanted(b->options), true, true}, false, &b->result->whole_bytes));
    *fits = b->result->whole_bytes <= limit(b);
    return LJ_OK;
}

static double flops_per_token(const bench *b)
{
    lj_param_layout layout;
    lj_model_part part = {b->result->by_parts ? b->options->config.num_hidden_layers : layers_wanted(b->options), true, true};
    if (lj_layout_init(&layout, &b->options->config, part) != LJ_OK) return 0;
    double flops = lj_layout_flops_per_token(&layout, b->options->seq);
    lj_layout_release(&layout);
    return flops;
}

static lj_status whole_run(bench *b)
{
    lj_benchmark_result *r = b->result;
    r->layers_measured = layers_wanted(b->options);
    r->layers_total = r->layers_measured;
    LJ_TRY(part_measure(b, "whole", (lj_model_part){r->layers_measured, true, true}, false, &r->runs[0]));
    r->run_count = 1;
    return LJ_OK;
}

/* Largest part first, so that what cannot fit is known at once. */
static lj_status parts_fit(const bench *b)
{
    size_t head, layer;
    char need[32], room[32];
    LJ_TRY(part_bytes(b, (lj_model_part){0, false, true}, false, &head));
    LJ_TRY(part_bytes(b, (lj_model_part){1, false, false}, false, &layer));
    size_t most = head > layer ? head : layer;
    if (most <= limit(b)) return LJ_OK;
    return lj_fail(LJ_ERR_NOMEM, "the largest part (%s) needs %s, %s may be used; that much memory, or a smaller --batch or --seq, would do",
                   head > layer ? "head and loss" : "one layer", lj_size_format((double)most, need, sizeof need),
                   lj_size_format((double)limit(b), room, sizeof room));
}

/* Seconds of a micro pass of `layers` layers, from the parts. */
static double micro_sum(const lj_benchmark_result *r, double layers)
{
    return lj_median(r->runs[0].micro_s, r->runs[0].steps) + layers * lj_median(r->runs[1].micro_s, r->runs[1].steps) +
           lj_median(r->runs[2].micro_s, r->runs[2].steps);
}

enum { CHECK_SECONDS = 45 };
static const double check_bytes = 12.0 * 1024 * 1024 * 1024;

static lj_status check_measure(bench *b, lj_model_part part)
{
    lj_param_layout layout;
    lj_trainer *trainer = NULL;
    lj_benchmark_run run = {.name = "truncated model"};
    lj_benchmark_options few = *b->options;
    few.steps = 1, few.warmup = 1;
    bench inner = {&few, b->result, NULL, 0};
    LJ_TRY(lj_layout_init(&layout, &b->options->config, part));
    lj_trainer_options options = trainer_options(b->options, true, b->options->accum > 1);
    lj_status status = lj_trainer_create(&layout, &options, &trainer);
    if (status == LJ_OK) status = trainer_measure(&inner, trainer, false, &run);
    if (status == LJ_OK) {
        b->result->check_layers = (double)part.layers, b->result->check_measured_s = run.micro_s[0];
        b->result->check_summed_s = micro_sum(b->result, (double)part.layers);
    }
    lj_trainer_destroy(trainer);
    lj_layout_release(&layout);
    return status;
}

/* One micro run of the model cut to a layer or two, where it fits in 12 GiB and in the time. */
static lj_status sum_check(bench *b)
{
    lj_benchmark_result *r = b->result;
    size_t bytes;
    lj_model_part part = {b->options->config.num_hidden_layers < 2 ? b->options->config.num_hidden_layers : 2, true, true};
    if (micro_sum(r, (double)part.layers) * 2 > CHECK_SECONDS) part.layers = 1;
    if (micro_sum(r, (double)part.layers) * 2 > CHECK_SECONDS) {
        snprintf(r->check_note, sizeof r->check_note, "not run: it would take %.0f s, %d are allowed", micro_sum(r, 1) * 2, CHECK_SECONDS);
        return LJ_OK;
    }
    LJ_TRY(part_bytes(b, part, true, &bytes));
    if ((double)bytes > check_bytes || bytes > limit(b)) {
        snprintf(r->check_note, sizeof r->check_note, "not run: it would need %.1f GiB, 12 are allowed", (double)bytes / (1024.0 * 1024 * 1024));
        return LJ_OK;
    }
    return check_measure(b, part);
}

/* A tied table's gradient gathers on top of the head's, so its part adds too. */
static lj_status parts_run(bench *b)
{
    lj_benchmark_result *r = b->result;
    r->by_parts = true, r->layers_total = b->options->config.num_hidden_layers, r->layers_measured = 1;
    LJ_TRY(part_measure(b, "embedding", (lj_model_part){0, true, false}, b->options->config.tie_word_embeddings, &r->runs[0]));
    LJ_TRY(part_measure(b, "layer", (lj_model_part){1, false, false}, false, &r->runs[1]));
    LJ_TRY(part_measure(b, "head", (lj_model_part){0, false, true}, false, &r->runs[2]));
    r->run_count = 3;
    return sum_check(b);
}

/* How often a run stands in a full step, and whether its update does (a tied table is updated with the head). */
static double run_weight(const bench *b, size_t run, bool update)
{
    if (!b->result->by_parts) return 1;
    if (run == 1) return (double)b->result->layers_total;
    return update && run == 0 && b->options->config.tie_word_embeddings ? 0 : 1;
}

static double steps_sum(const bench *b, double share)
{
    double total = 0;
    for (size_t i = 0; i < b->result->run_count; i++) {
        const lj_benchmark_run *run = &b->result->runs[i];
        double both[LJ_BENCHMARK_MAX_STEPS];
        for (size_t k = 0; k < run->steps; k++) both[k] = run_weight(b, i, false) * run->micro_s[k] + run_weight(b, i, true) * run->update_s[k];
        total += lj_percentile(both, run->steps, share);
    }
    return total;
}

static void totals(bench *b)
{
    lj_benchmark_result *r = b->result;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    r->step_median_s = steps_sum(b, 0.5), r->step_p90_s = steps_sum(b, 0.9);
    r->interval_s[0] = steps_sum(b, 0), r->interval_s[1] = steps_sum(b, 1);
    for (size_t i = 0; i < r->run_count; i++) {
        const lj_benchmark_run *run = &r->runs[i];
        r->first_step_s += run_weight(b, i, false) * run->first_s;
        r->compile_s += run->compile_s;
        r->predicted_peak_bytes = run->predicted_bytes > r->predicted_peak_bytes ? run->predicted_bytes : r->predicted_peak_bytes;
        r->measured_peak_bytes = run->measured_bytes > r->measured_peak_bytes ? run->measured_bytes : r->measured_peak_bytes;
    }
    r->peak_rss_bytes = (size_t)usage.ru_maxrss * 1024;
    r->tokens_per_step = (double)(b->options->batch * b->options->seq * b->options->accum);
    r->flops_per_token = flops_per_token(b);
    r->achieved_flops = r->flops_per_token * r->tokens_per_step / r->step_median_s;
    r->gemm_peak = lj_gemm_peak_get(b->peak);
    r->mfu = r->gemm_peak.flops > 0 ? r->achieved_flops / r->gemm_peak.flops : 0;
    r->hfu = r->mfu; /* nothing is recomputed in this step */
    r->counters = lj_counters_get();
}

static lj_status options_check(const lj_benchmark_options *o)
{
    if (o->steps < 1) return lj_fail(LJ_ERR_INVALID, "--steps %lld: at least one step must be timed", (long long)o->steps);
    if (o->steps > LJ_BENCHMARK_MAX_STEPS)
        return lj_fail(LJ_ERR_LIMIT, "--steps %lld: at most %d steps are timed in one run", (long long)o->steps, LJ_BENCHMARK_MAX_STEPS);
    if (o->seq > o->config.max_position_embeddings)
        lj_log(LJ_LOG_WARN, "--seq %lld is beyond the model's %lld positions: fine for speed, not for meaning", (long long)o->seq,
               (long long)o->config.max_position_embeddings);
    return LJ_OK;
}

static lj_status all_run(bench *b)
{
    bool fits;
    LJ_TRY(options_check(b->options));
    LJ_TRY(fits_whole(b, &fits));
    fits = fits && !b->options->parts;
    if (!fits) LJ_TRY(parts_fit(b));
    LJ_TRY(peak_open(b));
    LJ_TRY(fits ? whole_run(b) : parts_run(b));
    LJ_TRY(lj_gemm_peak_sample(b->peak));
    LJ_TRY(lj_gemm_peak_sample(b->peak));
    totals(b);
    return LJ_OK;
}

lj_status lj_benchmark_run_all(const lj_benchmark_options *options, lj_benchmark_result *result)
{
    *result = (lj_benchmark_result){0};
    bench b = {options, result, NULL, lj_now_s()};
    lj_status status = all_run(&b);
    lj_gemm_peak_destroy(b.peak);
    return status;
}
