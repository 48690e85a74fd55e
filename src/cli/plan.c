/* ljperf plan: what a training step will take, before anything is allocated, and what recomputing would make of it. */
#include "base/file.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/deepspeed.h"
#include "model/source.h"
#include "train/recompute_choice.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CURVE_POINTS = 8 };

typedef struct {
    const lj_config *config;
    lj_param_layout layout;
    lj_trainer_options options;
    lj_machine_rates rates;
    uint64_t limit;
    lj_recompute_candidate kept, chosen, curve[CURVE_POINTS + 4];
    size_t curve_count;
    bool fits;
    char advice[512];
} plan;

static const char *bytes_text(double bytes)
{
    static char buffers[8][32];
    static unsigned turn;
    return lj_size_format(bytes, buffers[turn++ % 8], 32);
}

static lj_status curve_add(plan *p, const char *text, int level, int layers)
{
    lj_recompute_candidate *c = &p->curve[p->curve_count++];
    *c = (lj_recompute_candidate){.level = level, .layers = layers};
    snprintf(c->text, sizeof c->text, "%s", text);
    return lj_recompute_evaluate(&p->layout, &p->options, &p->rates, p->kept.step_s, c);
}

/* none, cheap, attention, then whole layers in even steps. */
static lj_status curve_fill(plan *p)
{
    int layers = (int)p->layout.part.layers;
    char text[32];
    LJ_TRY(curve_add(p, "none", LJ_RECOMPUTE_NONE, 0));
    LJ_TRY(curve_add(p, "cheap", LJ_RECOMPUTE_CHEAP, layers));
    LJ_TRY(curve_add(p, "attention", LJ_RECOMPUTE_ATTENTION, layers));
    for (int i = 1, last = 0; i <= CURVE_POINTS; i++) {
        int count = layers * i / CURVE_POINTS;
        if (count == last) continue;
        snprintf(text, sizeof text, "layers:%d", last = count);
        LJ_TRY(curve_add(p, text, LJ_RECOMPUTE_LAYER, count));
    }
    return LJ_OK;
}

/* What would not help: the part of the peak that recomputing cannot touch. */
static void advice_fill(plan *p)
{
    const lj_trainer_bytes *b = &p->kept.bytes, *least = &p->curve[p->curve_count - 1].bytes;
    size_t states = b->master + b->moments + b->gradients + b->compute;
    if (least->workspace + least->workspace / 20 >= b->workspace)
        snprintf(p->advice, sizeof p->advice, "recomputing does not help: the workspace is %s with and %s without it; its peak lies in the head or the update",
                 bytes_text((double)least->workspace), bytes_text((double)b->workspace));
    else if (states > least->workspace * 4)
        snprintf(p->advice, sizeof p->advice, "weights, gradients and optimizer take %s whatever is recomputed; a larger micro-batch costs little memory here",
                 bytes_text((double)states));
    else
        snprintf(p->advice, sizeof p->advice, "halving the micro-batch halves the activations (%s) and needs twice the accumulation",
                 bytes_text((double)b->workspace));
}

static lj_status plan_make(plan *p)
{
    LJ_TRY(lj_machine_rates_measure(&p->layout, &p->options, &p->rates));
    snprintf(p->kept.text, sizeof p->kept.text, "none");
    LJ_TRY(lj_recompute_evaluate(&p->layout, &p->options, &p->rates, 0, &p->kept));
    LJ_TRY(curve_fill(p));
    lj_status status = lj_recompute_choose(&p->layout, &p->options, &p->rates, p->limit, &p->chosen);
    p->fits = status == LJ_OK;
    advice_fill(p);
    return status == LJ_ERR_NOMEM ? LJ_OK : status;
}

static void plan_print(const plan *p)
{
    char words[96];
    const lj_trainer_bytes *b = &p->chosen.bytes;
    const struct {
        const char *name;
        size_t bytes;
    } parts[] = {{"compute weights", b->compute}, {"master weights", b->master},  {"optimizer moments", b->moments},
                 {"gradients", b->gradients},     {"data", b->data},              {"activations and scratch", b->workspace}};
    printf("limit            %s%s\nrecompute        %s%s\npeak             %s, predicted slow-down %.1f %%\n", bytes_text((double)p->limit),
           lj_config_is_set(p->config, LJ_CFG_memory) ? "" : " (free now, less a tenth)", lj_recompute_describe(&p->chosen, (int)p->layout.part.layers, words, sizeof words),
           p->fits ? "" : " (and still too much)", bytes_text((double)b->peak), 100 * p->chosen.slowdown);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) printf("  %-24s %12s\n", parts[i].name, bytes_text((double)parts[i].bytes));
    printf("\n  %-12s %12s %12s %10s\n", "recompute", "peak", "workspace", "slow-down");
    for (size_t i = 0; i < p->curve_count; i++)
        printf("  %-12s %12s %12s %8.1f %%\n", p->curve[i].text, bytes_text((double)p->curve[i].bytes.peak), bytes_text((double)p->curve[i].bytes.workspace),
               100 * p->curve[i].slowdown);
    printf("\n%s\n", p->advice);
}

static json_t *bytes_json(const lj_trainer_bytes *b)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "compute_weights", (json_int_t)b->compute, "master_weights", (json_int_t)b->master, "moments",
                     (json_int_t)b->moments, "gradients", (json_int_t)b->gradients, "data", (json_int_t)b->data, "workspace", (json_int_t)b->workspace);
}

static lj_status json_write(const plan *p, const char *path)
{
    json_t *curve = json_array();
    for (size_t i = 0; i < p->curve_count; i++)
        json_array_append_new(curve, json_pack("{s:s, s:I, s:f}", "recompute", p->curve[i].text, "peak_bytes", (json_int_t)p->curve[i].bytes.peak, "slowdown",
                                               p->curve[i].slowdown));
    int whole = p->chosen.level == LJ_RECOMPUTE_LAYER ? p->chosen.layers : 0;
    json_t *root = json_pack("{s:s, s:I, s:b, s:I, s:o, s:s, s:i, s:f, s:o, s:s}", "schema", "ljperf.plan/1", "limit_bytes", (json_int_t)p->limit, "fits",
                             p->fits, "peak_bytes", (json_int_t)p->chosen.bytes.peak, "parts", bytes_json(&p->chosen.bytes), "recompute", p->chosen.text,
                             "recompute_layers", whole, "recompute_slowdown", p->chosen.slowdown, "curve", curve, "advice", p->advice);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text) return lj_fail(LJ_ERR_NOMEM, "the plan as JSON");
    lj_status status = lj_file_write(path, text, strlen(text));
    free(text);
    return status;
}

static lj_status plan_run(plan *p)
{
    const char *json = lj_config_string(p->config, LJ_CFG_json);
    p->limit = lj_config_is_set(p->config, LJ_CFG_memory) ? lj_config_size(p->config, LJ_CFG_memory) : lj_memory_available() / 10 * 9;
    p->options = (lj_trainer_options){.threads = (int)lj_config_int(p->config, LJ_CFG_threads),
                                      .accumulate = lj_config_int(p->config, LJ_CFG_accum) > 1,
                                      .rows = lj_config_int(p->config, LJ_CFG_batch),
                                      .length = lj_config_int(p->config, LJ_CFG_seq),
                                      .adamw = {0.9, 0.95, 1e-8, 0.1}};
    LJ_TRY(lj_dtype_find(lj_config_string(p->config, LJ_CFG_dtype), &p->options.dtype));
    LJ_TRY(plan_make(p));
    if (strcmp(json, "-") != 0) plan_print(p);
    if (*json) LJ_TRY(json_write(p, json));
    if (p->fits) return LJ_OK;
    return lj_fail(LJ_ERR_NOMEM, "the least that would do is %s, %s may be used", bytes_text((double)p->chosen.bytes.peak), bytes_text((double)p->limit));
}

int lj_command_plan(const lj_command_input *input)
{
    lj_model_source source;
    const char *model = lj_config_string(input->config, LJ_CFG_model);
    if (!*model) {
        (void)lj_fail(LJ_ERR_INVALID, "which model? give --model PRESET (ljperf models lists them), DIR or FILE.gguf");
        return LJ_EXIT_USAGE;
    }
    if (lj_deepspeed_settings((lj_config *)input->config) != LJ_OK || lj_model_source_open(model, &source) != LJ_OK) return LJ_EXIT_FAILED;
    plan *p = calloc(1, sizeof *p);
    lj_status status = p ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "the plan's record");
    lj_model_part part = lj_model_whole(&source.config);
    int64_t layers = lj_config_int(input->config, LJ_CFG_layers);
    if (layers && layers < part.layers) part.layers = layers;
    if (status == LJ_OK) status = lj_layout_init(&p->layout, &source.config, part);
    if (status == LJ_OK) {
        p->config = input->config;
        status = plan_run(p);
        lj_layout_release(&p->layout);
    }
    free(p);
    lj_model_source_close(&source);
    return lj_exit(status);
}
