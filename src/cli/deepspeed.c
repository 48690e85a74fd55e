#include "cli/deepspeed.h"

#include "base/log.h"
#include "formats/deepspeed.h"
#include "model/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    lj_config *config;
    lj_config_source source;
    lj_text conflicts;
} settings;

/* Sets one value, or notes that a flag contradicts it. */
static lj_status put(settings *s, lj_config_key key, const char *from, const char *text)
{
    const char *row = lj_config_rows[key].name;
    bool flagged = s->config->source[key] == LJ_FROM_FLAG;
    if (s->source == LJ_FROM_FILE && flagged) {
        bool same = lj_config_rows[key].type == LJ_CONFIG_INT || lj_config_rows[key].type == LJ_CONFIG_FLOAT
                        ? lj_config_float(s->config, key) == strtod(text, NULL)
                        : strcmp(lj_config_string(s->config, key), text) == 0;
        if (!same) lj_text_add(&s->conflicts, "%s--%s %s but %s %s", s->conflicts.length ? "; " : "", row, lj_config_string(s->config, key), from, text);
    }
    return lj_config_set(s->config, key, text, s->source);
}

static lj_status put_number(settings *s, lj_config_key key, const char *from, double value)
{
    char text[64];
    if (isnan(value)) return LJ_OK;
    snprintf(text, sizeof text, "%.17g", value);
    return put(s, key, from, text);
}

static lj_status put_count(settings *s, lj_config_key key, const char *from, int64_t value)
{
    char text[32];
    if (value < 0) return LJ_OK;
    snprintf(text, sizeof text, "%lld", (long long)value);
    return put(s, key, from, text);
}

static lj_status schedule_put(settings *s, const lj_deepspeed *d)
{
    if (d->scheduler == LJ_DS_NO_SCHEDULER) return LJ_OK;
    LJ_TRY(put(s, LJ_CFG_schedule, "scheduler.type", d->warmup_linear ? "warmup_decay_linear" : "warmup_decay_log"));
    LJ_TRY(put_count(s, LJ_CFG_warmup, "warmup_num_steps", d->warmup_steps));
    LJ_TRY(put_number(s, LJ_CFG_min_lr, "warmup_min_lr", d->warmup_min_lr));
    LJ_TRY(put_number(s, LJ_CFG_lr, "warmup_max_lr", d->warmup_max_lr));
    if (d->scheduler == LJ_DS_WARMUP) return put(s, LJ_CFG_decay, "WarmupLR", "false");
    return put_count(s, LJ_CFG_steps, "total_num_steps", d->total_steps);
}

static lj_status all_put(settings *s, const lj_deepspeed *d)
{
    LJ_TRY(put_count(s, LJ_CFG_batch, "train_micro_batch_size_per_gpu", d->micro_batch));
    LJ_TRY(put_count(s, LJ_CFG_accum, "gradient_accumulation_steps", d->accumulation));
    LJ_TRY(put_number(s, LJ_CFG_lr, "optimizer.params.lr", d->lr));
    LJ_TRY(put_number(s, LJ_CFG_beta1, "optimizer.params.betas[0]", d->beta1));
    LJ_TRY(put_number(s, LJ_CFG_beta2, "optimizer.params.betas[1]", d->beta2));
    LJ_TRY(put_number(s, LJ_CFG_adam_eps, "optimizer.params.eps", d->eps));
    LJ_TRY(put_number(s, LJ_CFG_weight_decay, "optimizer.params.weight_decay", d->weight_decay));
    LJ_TRY(put_number(s, LJ_CFG_clip, "gradient_clipping", d->clip));
    if (d->bf16_set) LJ_TRY(put(s, LJ_CFG_dtype, "bf16.enabled", d->bf16 ? "bf16" : "fp32"));
    return schedule_put(s, d);
}

static lj_status file_put(settings *s, const char *path)
{
    lj_deepspeed d;
    LJ_TRY(lj_deepspeed_read(path, 1, &d));
    if (d.ignored.length) lj_log(LJ_LOG_INFO, "note: %s: no effect on one rank: %s", path, d.ignored.data);
    lj_status status = all_put(s, &d);
    lj_deepspeed_release(&d);
    return status;
}

static lj_status preset_put(settings *s)
{
    lj_model_source source;
    LJ_TRY(lj_model_source_open(lj_config_string(s->config, LJ_CFG_model), &source));
    lj_status status = source.is_preset && *source.deepspeed ? file_put(s, source.deepspeed) : LJ_OK;
    lj_model_source_close(&source);
    return status;
}

lj_status lj_deepspeed_settings(lj_config *config)
{
    const char *file = lj_config_string(config, LJ_CFG_deepspeed);
    settings s = {config, *file ? LJ_FROM_FILE : LJ_FROM_PRESET, {0}};
    lj_text_init(&s.conflicts);
    lj_status status = *file ? file_put(&s, file) : preset_put(&s);
    if (status == LJ_OK && s.conflicts.length)
        status = lj_fail(LJ_ERR_INVALID, "flags contradict %s: %s; drop the flags, or write \"auto\" in the file", file, s.conflicts.data);
    if (status == LJ_OK && *file)
        lj_log(LJ_LOG_INFO, "note: %s: computing in %s, batch %s x %s", file, lj_config_string(config, LJ_CFG_dtype),
               lj_config_string(config, LJ_CFG_batch), lj_config_string(config, LJ_CFG_accum));
    lj_text_release(&s.conflicts);
    return status;
}
