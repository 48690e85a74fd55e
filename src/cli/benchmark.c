/* ljperf benchmark: how fast a model trains here, and how close to the limit. */
#include "base/file.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/deepspeed.h"
#include "kernels/peak/bandwidth.h"
#include "model/source.h"
#include "train/benchmark.h"
#include "train/recompute_choice.h"
#include "train/corpus.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const lj_config *config;
    lj_model_source source;
    lj_tokenizer *tokenizer;
    lj_corpus corpus;
    lj_rows rows;
    lj_benchmark_options options;
    lj_benchmark_result result;
    lj_profile *profile; /* NULL: not asked for */
    lj_recompute_candidate recompute; /* what --recompute auto chose */
} benchmark;

static void progress(void *user, const char *line)
{
    bool terminal = *(const bool *)user;
    fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", line);
}

/* A setting that the user gave (a flag, a variable, --deepspeed), or the benchmark's own default. */
static int64_t given_or(const lj_config *config, lj_config_key key, int64_t initial)
{
    return config->source[key] >= LJ_FROM_FILE ? lj_config_int(config, key) : initial;
}

/* From 7 billion parameters on a step takes half a minute here: batch 1, 2048 tokens, 1 + 3 steps. */
static lj_status options_fill(benchmark *b)
{
    const lj_config *c = b->config;
    lj_benchmark_options *o = &b->options;
    bool large = lj_model_parameter_count(&b->source.config) > (int64_t)6e9, any = lj_config_is_set(c, LJ_CFG_batch);
    int threads = (int)lj_config_int(c, LJ_CFG_threads);
    *o = (lj_benchmark_options){.config = b->source.config,
                                .batch = any ? lj_config_int(c, LJ_CFG_batch) : large ? 1 : 4,
                                .seq = given_or(c, LJ_CFG_seq, large ? 2048 : 512),
                                .accum = lj_config_int(c, LJ_CFG_accum),
                                .steps = given_or(c, LJ_CFG_steps, large ? 3 : 8),
                                .warmup = given_or(c, LJ_CFG_warmup, large ? 1 : 2),
                                .layers = lj_config_int(c, LJ_CFG_layers),
                                .threads = threads ? threads : lj_machine_get()->cores,
                                .eager = !lj_config_bool(c, LJ_CFG_compile),
                                .parts = lj_config_bool(c, LJ_CFG_parts),
                                .recompute = lj_config_string(c, LJ_CFG_recompute),
                                .learning_rate = lj_config_float(c, LJ_CFG_lr),
                                .clip = lj_config_float(c, LJ_CFG_clip),
                                .seed = (uint64_t)lj_config_int(c, LJ_CFG_seed),
                                .limit_bytes = lj_config_size(c, LJ_CFG_memory),
                                .profile = b->profile};
    if (o->layers > b->source.config.num_hidden_layers)
        return lj_fail(LJ_ERR_INVALID, "--layers %lld: the model has %lld", (long long)o->layers, (long long)b->source.config.num_hidden_layers);
    return lj_dtype_find(lj_config_string(c, LJ_CFG_dtype), &o->dtype);
}

/* --recompute auto for the model as a whole; what does not fit at all is measured by parts, which keep everything. */
static lj_status recompute_resolve(benchmark *b)
{
    lj_benchmark_options *o = &b->options;
    lj_param_layout layout;
    if (strcmp(o->recompute, "auto") != 0) return LJ_OK;
    lj_model_part part = lj_model_whole(&b->source.config);
    if (o->layers) part.layers = o->layers;
    LJ_TRY(lj_layout_init(&layout, &b->source.config, part));
    lj_trainer_options options = {.dtype = o->dtype, .threads = o->threads, .eager = o->eager, .accumulate = o->accum > 1, .rows = o->batch, .length = o->seq,
                                  .recompute = o->recompute, .adamw = {0.9, 0.95, 1e-8, 0.1}};
    lj_status status = lj_recompute_resolve(&layout, &options, o->limit_bytes, &b->recompute);
    o->recompute = status == LJ_OK ? options.recompute : "none";
    lj_layout_release(&layout);
    return status == LJ_ERR_NOMEM ? LJ_OK : status;
}

static lj_status data_open(benchmark *b)
{
    const char *path = lj_config_string(b->config, LJ_CFG_data);
    if (!*path || strcmp(path, "synthetic") == 0) return LJ_OK;
    LJ_TRY(lj_model_source_tokenizer(&b->source, lj_config_string(b->config, LJ_CFG_tokenizer), &b->tokenizer));
    if ((int64_t)lj_tokenizer_size(b->tokenizer) > b->source.config.vocab_size)
        return lj_fail(LJ_ERR_INVALID, "the tokenizer has %zu ids, the model's vocabulary %lld; they do not belong together",
                       lj_tokenizer_size(b->tokenizer), (long long)b->source.config.vocab_size);
    LJ_TRY(lj_corpus_read(path, b->tokenizer, NULL, &b->corpus));
    LJ_TRY(lj_fail_in(lj_rows_init(&b->rows, &b->corpus, 0, b->corpus.token_count, b->options.seq), "%s", path));
    lj_rows_shuffle(&b->rows, b->options.seed);
    b->options.rows = &b->rows;
    return LJ_OK;
}

static const char *bytes_text(size_t bytes, char *buffer)
{
    return lj_size_format((double)bytes, buffer, 32);
}

static void settings_print(const benchmark *b)
{
    const lj_benchmark_options *o = &b->options;
    printf("%s  %s  batch %lld x %lld tokens, accumulation %lld, %d threads, compiler %s, data %s, seed %llu, clip %g, lr %g\n", b->source.name,
           o->dtype == LJ_F32 ? "fp32" : "bf16 mixed (fp32 master)", (long long)o->batch, (long long)o->seq, (long long)o->accum, o->threads,
           o->eager ? "off" : "on", o->rows ? lj_config_string(b->config, LJ_CFG_data) : "synthetic", (unsigned long long)o->seed, o->clip,
           o->learning_rate);
    printf("ljperf %s on %s, class %s; %lld warm-up and %lld timed steps\n\n", LJ_VERSION, lj_machine_get()->cpu_name, lj_machine_class(),
           (long long)o->warmup, (long long)o->steps);
}

static void parts_print(const lj_benchmark_result *r)
{
    char need[32];
    printf("by parts: the whole would need %s\n  %-10s %14s %14s %12s\n", bytes_text(r->whole_bytes, need), "part", "micro s", "update s", "memory");
    for (size_t i = 0; i < r->run_count; i++) {
        const lj_benchmark_run *run = &r->runs[i];
        printf("  %-10s %14.3f %14.3f %12s\n", run->name, lj_median(run->micro_s, run->steps), lj_median(run->update_s, run->steps),
               bytes_text(run->measured_bytes, need));
    }
    if (r->check_layers > 0)
        printf("  check: embedding, %.0f layer%s and head in one: %.3f s measured, %.3f s summed (%+.1f %%)\n", r->check_layers,
               r->check_layers > 1 ? "s" : "", r->check_measured_s, r->check_summed_s, 100 * (r->check_summed_s / r->check_measured_s - 1));
    else if (*r->check_note)
        printf("  check of the sum: %s\n", r->check_note);
}

static void result_print(const benchmark *b)
{
    const lj_benchmark_result *r = &b->result;
    char predicted[32], counted[32], rss[32], flops[32], peak[32], isa[32];
    settings_print(b);
    if (r->by_parts) parts_print(r);
    const char *word = r->by_parts ? "extrapolated to all layers" : "measured";
    printf("%-14s %.1f (%s, %lld of %lld layers)\n", "tokens/s", r->tokens_per_step / r->step_median_s, word, (long long)r->layers_measured,
           (long long)r->layers_total);
    printf("%-14s %.3f s median, %.3f s p90, interval %.3f .. %.3f s\n", "step", r->step_median_s, r->step_p90_s, r->interval_s[0], r->interval_s[1]);
    printf("%-14s %sFLOPS = %.3f G FLOP/token x tokens / time\n", "achieved", lj_si_format(r->achieved_flops, flops, sizeof flops),
           r->flops_per_token * 1e-9);
    printf("%-14s %.1f %%   hfu %.1f %%\n", "mfu", 100 * r->mfu, 100 * r->hfu);
    printf("%-14s %sFLOPS (%s, median of %zu; best of %zu shapes)\n", "gemm_peak", lj_si_format(r->gemm_peak.flops, peak, sizeof peak), r->gemm_peak.shape,
           r->gemm_peak.runs, r->gemm_peak.shape_count);
    printf("%-14s %sFLOPS (%s)\n", "isa_peak", lj_si_format(r->isa_peak.flops, isa, sizeof isa), r->isa_peak.name);
    printf("%-14s %.2f s (first step %.2f s; %llu kernels compiled, %llu from the cache, %llu GEMM plans)\n", "compile", r->compile_s, r->first_step_s,
           (unsigned long long)r->counters.compiles, (unsigned long long)r->counters.cache_hits, (unsigned long long)r->counters.new_primitives);
    printf("%-14s %s predicted, %s counted, %s resident\n", "peak memory", bytes_text(r->predicted_peak_bytes, predicted),
           bytes_text(r->measured_peak_bytes, counted), bytes_text(r->peak_rss_bytes, rss));
    if (!r->by_parts) printf("%-14s %.4f first, %.4f last\n", "loss", r->runs[0].loss_first, r->runs[0].loss_last);
}

/* The profile's table on standard output, after the figures. */
static lj_status profile_print(benchmark *b)
{
    lj_profile *profile = b->profile;
    lj_text out;
    if (!profile) return LJ_OK;
    profile->gemm_peak_flops = b->result.gemm_peak.flops;
    LJ_TRY(lj_bandwidth_measure(b->options.threads, &profile->bandwidth));
    lj_text_init(&out);
    lj_profile_print(profile, &out);
    lj_status status = lj_text_status(&out);
    if (status == LJ_OK && out.data) printf("\n%s", out.data);
    lj_text_release(&out);
    return status;
}

static json_t *run_json(const lj_benchmark_run *run)
{
    return json_pack("{s:s, s:f, s:f, s:I, s:f, s:f, s:I, s:I}", "name", run->name, "micro_s_median", lj_median(run->micro_s, run->steps),
                     "update_s_median", lj_median(run->update_s, run->steps), "steps", (json_int_t)run->steps, "first_s", run->first_s, "compile_s",
                     run->compile_s, "predicted_bytes", (json_int_t)run->predicted_bytes, "measured_bytes", (json_int_t)run->measured_bytes);
}

static void put(json_t *root, const char *key, json_t *value)
{
    (void)json_object_set_new(root, key, value);
}

static void settings_json(const benchmark *b, json_t *root)
{
    const lj_benchmark_options *o = &b->options;
    put(root, "schema", json_string("ljperf.benchmark/1"));
    put(root, "model", json_string(b->source.name));
    put(root, "dtype", json_string(o->dtype == LJ_F32 ? "fp32" : "bf16"));
    put(root, "batch", json_integer(o->batch));
    put(root, "seq", json_integer(o->seq));
    put(root, "accum", json_integer(o->accum));
    put(root, "steps", json_integer(o->steps));
    put(root, "warmup", json_integer(o->warmup));
    put(root, "threads", json_integer(o->threads));
    put(root, "ranks", json_integer(1));
    put(root, "compile", json_boolean(!o->eager));
    put(root, "data", json_string(o->rows ? lj_config_string(b->config, LJ_CFG_data) : "synthetic"));
    put(root, "clip", json_real(o->clip));
    put(root, "lr", json_real(o->learning_rate));
    put(root, "seed", json_integer((json_int_t)o->seed));
    put(root, "versions", json_pack("{s:s}", "ljperf", LJ_VERSION));
    put(root, "machine", json_pack("{s:s, s:s, s:s}", "cpu", lj_machine_get()->cpu_name, "class", lj_machine_class(), "isa",
                                   lj_isa_name(lj_machine_get()->isa)));
    put(root, "formula", json_string("mfu = (6 x matmul parameters incl. head + 6 x layers x heads x head_dim x seq) x tokens / time / gemm_peak"));
}

static void speed_json(const lj_benchmark_result *r, json_t *root)
{
    double rate = r->tokens_per_step / r->step_median_s;
    put(root, "mode", json_string(r->by_parts ? "parts" : "whole"));
    put(root, "layers_total", json_integer(r->layers_total));
    put(root, "layers_measured", json_integer(r->layers_measured));
    put(root, "tokens_per_s", r->by_parts ? json_null() : json_real(rate));
    put(root, "tokens_per_s_full", json_real(rate));
    put(root, "step_s_median", json_real(r->step_median_s));
    put(root, "step_s_p90", json_real(r->step_p90_s));
    put(root, "step_s_interval", json_pack("[f, f]", r->interval_s[0], r->interval_s[1]));
    put(root, "first_step_s", json_real(r->first_step_s));
    put(root, "compile_s", json_real(r->compile_s));
    put(root, "compiles", json_integer((json_int_t)r->counters.compiles));
    put(root, "cache_hits", json_integer((json_int_t)r->counters.cache_hits));
    put(root, "new_primitives", json_integer((json_int_t)r->counters.new_primitives));
    put(root, "flops_per_token", json_real(r->flops_per_token));
    put(root, "achieved_flops", json_real(r->achieved_flops));
    put(root, "gemm_peak_flops", json_real(r->gemm_peak.flops));
    put(root, "gemm_peak_shape", json_string(r->gemm_peak.shape));
    put(root, "isa_peak_flops", json_real(r->isa_peak.flops));
    put(root, "isa_peak_instruction", json_string(r->isa_peak.name));
    put(root, "mfu", json_real(r->mfu));
    put(root, "hfu", json_real(r->hfu));
}

static void memory_json(const lj_benchmark_result *r, json_t *root)
{
    put(root, "predicted_peak_bytes", json_integer((json_int_t)r->predicted_peak_bytes));
    put(root, "measured_peak_bytes", json_integer((json_int_t)r->measured_peak_bytes));
    put(root, "peak_rss_bytes", json_integer((json_int_t)r->peak_rss_bytes));
    put(root, "loss_first", r->by_parts ? json_null() : json_real(r->runs[0].loss_first));
    put(root, "loss_last", r->by_parts ? json_null() : json_real(r->runs[0].loss_last));
    json_t *parts = json_array(), *warnings = json_array(), *times = json_array();
    for (size_t i = 0; i < r->run_count; i++) json_array_append_new(parts, run_json(&r->runs[i]));
    for (size_t i = 0; i < lj_fallback_count(); i++) json_array_append_new(warnings, json_string(lj_fallback_get(i)));
    for (size_t i = 0; !r->by_parts && i < r->runs[0].steps; i++) json_array_append_new(times, json_real(r->runs[0].micro_s[i] + r->runs[0].update_s[i]));
    put(root, "runs", parts);
    put(root, "step_times_s", times);
    put(root, "warnings", warnings);
    json_t *check = r->check_layers > 0 ? json_pack("{s:f, s:f, s:f}", "layers", r->check_layers, "measured_s", r->check_measured_s, "summed_s", r->check_summed_s)
                    : *r->check_note    ? json_pack("{s:s}", "note", r->check_note)
                                        : json_null();
    put(root, "sum_check", check);
}

static lj_status json_write(const benchmark *b, const char *path)
{
    if (!*path) return LJ_OK;
    json_t *root = json_object();
    settings_json(b, root);
    speed_json(&b->result, root);
    memory_json(&b->result, root);
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(root);
    lj_status status = text ? lj_file_write(path, text, strlen(text)) : lj_fail(LJ_ERR_NOMEM, "result of the benchmark");
    free(text);
    return status;
}

/* One line a timed step (or a part's step): name, step, micro and update seconds. */
static lj_status csv_write(const lj_benchmark_result *r, const char *path)
{
    lj_text csv;
    if (!*path) return LJ_OK;
    lj_text_init(&csv);
    lj_text_add(&csv, "run,step,micro_s,update_s\n");
    for (size_t i = 0; i < r->run_count; i++)
        for (size_t k = 0; k < r->runs[i].steps; k++)
            lj_text_add(&csv, "%s,%zu,%.6f,%.6f\n", r->runs[i].name, k + 1, r->runs[i].micro_s[k], r->runs[i].update_s[k]);
    lj_status status = lj_text_status(&csv);
    if (status == LJ_OK) status = lj_file_write(path, csv.data, csv.length);
    lj_text_release(&csv);
    return status;
}

static lj_status benchmark_run(benchmark *b)
{
    bool terminal = isatty(STDERR_FILENO) != 0;
    const char *json = lj_config_string(b->config, LJ_CFG_json);
    LJ_TRY(lj_model_source_open(lj_config_string(b->config, LJ_CFG_model), &b->source));
    LJ_TRY(options_fill(b));
    LJ_TRY(recompute_resolve(b));
    LJ_TRY(data_open(b));
    if (!lj_config_bool(b->config, LJ_CFG_quiet)) b->options.progress = progress, b->options.user = &terminal;
    lj_status status = lj_benchmark_run_all(&b->options, &b->result);
    if (b->options.progress && terminal) fputs("\r\033[K", stderr);
    LJ_TRY(status);
    if (strcmp(json, "-") != 0) {
        result_print(b);
        LJ_TRY(profile_print(b));
    }
    LJ_TRY(json_write(b, json));
    return csv_write(&b->result, lj_config_string(b->config, LJ_CFG_csv));
}

int lj_command_benchmark(const lj_command_input *input)
{
    benchmark *b = calloc(1, sizeof *b);
    lj_profile *profile = NULL;
    lj_config *config = (lj_config *)input->config; /* defaults of a DeepSpeed file are laid under the flags */
    if (!b) return lj_exit(lj_fail(LJ_ERR_NOMEM, "the benchmark's record"));
    b->config = config;
    if (!*lj_config_string(config, LJ_CFG_model)) {
        free(b);
        (void)lj_fail(LJ_ERR_INVALID, "which model? give --model PRESET (ljperf models lists them), DIR or FILE.gguf");
        return LJ_EXIT_USAGE;
    }
    if (lj_config_bool(config, LJ_CFG_profile)) profile = calloc(1, sizeof *profile);
    lj_status status = lj_deepspeed_settings(config);
    b->profile = profile;
    if (status == LJ_OK) status = benchmark_run(b);
    free(profile);
    lj_rows_release(&b->rows);
    lj_corpus_release(&b->corpus);
    lj_tokenizer_destroy(b->tokenizer);
    lj_model_source_close(&b->source);
    free(b);
    return lj_exit(status);
}
