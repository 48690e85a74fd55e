#include "formats/deepspeed.h"

#include "base/log.h"
#include "formats/strict_json.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILE_BYTES = 4 << 20 };

typedef struct {
    const char *path;
    lj_deepspeed *out;
} reader;

/* What becomes of a top-level key. */
typedef enum { HONOURED, NO_EFFECT, REFUSED } fate;

static lj_status read_counts(reader *r, const json_t *value, const char *key);
static lj_status read_clip(reader *r, const json_t *value, const char *key);
static lj_status read_optimizer(reader *r, const json_t *value, const char *key);
static lj_status read_scheduler(reader *r, const json_t *value, const char *key);
static lj_status read_bf16(reader *r, const json_t *value, const char *key);
static lj_status read_off(reader *r, const json_t *value, const char *key);
static lj_status read_zero(reader *r, const json_t *value, const char *key);

static const struct {
    const char *name;
    fate what;
    lj_status (*read)(reader *r, const json_t *value, const char *key);
    const char *note; /* refused: what will take it */
} keys[] = {
    {"train_batch_size", HONOURED, read_counts, NULL},
    {"train_micro_batch_size_per_gpu", HONOURED, read_counts, NULL},
    {"gradient_accumulation_steps", HONOURED, read_counts, NULL},
    {"gradient_clipping", HONOURED, read_clip, NULL},
    {"optimizer", HONOURED, read_optimizer, NULL},
    {"scheduler", HONOURED, read_scheduler, NULL},
    {"bf16", HONOURED, read_bf16, NULL},
    {"bfloat16", HONOURED, read_bf16, NULL},
    {"fp16", HONOURED, read_off, "fp16 training is not built; use bf16"},
    {"amp", HONOURED, read_off, "apex amp is not built; use bf16"},
    {"zero_optimization", NO_EFFECT, read_zero, NULL},
    {"zero_allow_untested_optimizer", NO_EFFECT, NULL, NULL},
    {"zero_force_ds_cpu_optimizer", NO_EFFECT, NULL, NULL},
    {"steps_per_print", NO_EFFECT, NULL, NULL},
    {"wall_clock_breakdown", NO_EFFECT, NULL, NULL},
    {"dump_state", NO_EFFECT, NULL, NULL},
    {"prescale_gradients", NO_EFFECT, NULL, NULL},
    {"gradient_predivide_factor", NO_EFFECT, NULL, NULL},
    {"communication_data_type", NO_EFFECT, NULL, NULL},
    {"comms_logger", NO_EFFECT, NULL, NULL},
    {"memory_breakdown", NO_EFFECT, NULL, NULL},
    {"disable_allgather", NO_EFFECT, NULL, NULL},
    {"sparse_gradients", NO_EFFECT, NULL, NULL},
    {"activation_checkpointing", REFUSED, NULL, "the recompute optimisation takes it: remove the section and set CHECKPOINT_OPTIMIZATION=true"},
    {"flops_profiler", REFUSED, NULL, "ljperf benchmark counts operations: remove the section"},
    {"tensorboard", REFUSED, NULL, "--tensorboard takes it: remove the section"},
    {"wandb", REFUSED, NULL, "metrics.jsonl holds the same numbers: remove the section"},
    {"csv_monitor", REFUSED, NULL, "metrics.jsonl holds the same numbers: remove the section"},
    {"data_types", REFUSED, NULL, "gradients accumulate in fp32 here: remove the section"},
    {"data_efficiency", REFUSED, NULL, "nothing here takes it: remove the section"},
    {"curriculum_learning", REFUSED, NULL, "nothing here takes it: remove the section"},
    {"aio", REFUSED, NULL, "offloading is not built: remove the section"},
    {"elasticity", REFUSED, NULL, "nothing here takes it: remove the section"},
    {"autotuning", REFUSED, NULL, "ljperf plan takes its place: remove the section"},
    {"compression_training", REFUSED, NULL, "nothing here takes it: remove the section"},
    {"sparse_attention", REFUSED, NULL, "nothing here takes it: remove the section"},
};
enum { KEYS = sizeof keys / sizeof *keys };

static bool is_auto(const json_t *value)
{
    return json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
}

static lj_status number_read(const char *path, const json_t *value, const char *key, double *out)
{
    if (is_auto(value)) return LJ_OK;
    if (!json_is_number(value)) return lj_fail(LJ_ERR_FORMAT, "%s: '%s' must be a number or \"auto\"", path, key);
    *out = json_number_value(value);
    return LJ_OK;
}

static lj_status count_read(const char *path, const json_t *value, const char *key, int64_t least, int64_t *out)
{
    if (is_auto(value)) return LJ_OK;
    if (!json_is_integer(value) || json_integer_value(value) < least)
        return lj_fail(LJ_ERR_FORMAT, "%s: '%s' must be a whole number of at least %lld or \"auto\"", path, key, (long long)least);
    *out = json_integer_value(value);
    return LJ_OK;
}

static lj_status read_counts(reader *r, const json_t *value, const char *key)
{
    int64_t *at = strcmp(key, "train_batch_size") == 0              ? &r->out->train_batch
                  : strcmp(key, "gradient_accumulation_steps") == 0 ? &r->out->accumulation
                                                                    : &r->out->micro_batch;
    return count_read(r->path, value, key, 1, at);
}

static lj_status read_clip(reader *r, const json_t *value, const char *key)
{
    return number_read(r->path, value, key, &r->out->clip);
}

static lj_status betas_read(reader *r, const json_t *value)
{
    if (is_auto(value)) return LJ_OK;
    if (json_array_size(value) != 2) return lj_fail(LJ_ERR_FORMAT, "%s: optimizer.params.betas must be two numbers", r->path);
    LJ_TRY(number_read(r->path, json_array_get(value, 0), "betas[0]", &r->out->beta1));
    return number_read(r->path, json_array_get(value, 1), "betas[1]", &r->out->beta2);
}

static lj_status optimizer_param(reader *r, const char *key, const json_t *value)
{
    struct {
        const char *name;
        double *at;
    } numbers[] = {{"lr", &r->out->lr}, {"eps", &r->out->eps}, {"weight_decay", &r->out->weight_decay}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].name) == 0) return number_read(r->path, value, key, numbers[i].at);
    if (strcmp(key, "betas") == 0) return betas_read(r, value);
    if (strcmp(key, "bias_correction") == 0 || strcmp(key, "torch_adam") == 0 || strcmp(key, "adam_w_mode") == 0) {
        if (json_is_true(value) || is_auto(value) || (strcmp(key, "torch_adam") == 0 && json_is_false(value))) return LJ_OK;
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: optimizer.params.%s must be true: AdamW here corrects its bias and decouples the decay", r->path, key);
    }
    return lj_fail(LJ_ERR_NOT_FOUND, "%s: optimizer.params.%s is unknown; known are lr, betas, eps, weight_decay", r->path, key);
}

static lj_status read_optimizer(reader *r, const json_t *value, const char *section)
{
    const char *type = NULL, *key;
    json_t *param;
    LJ_TRY(lj_json_get_string(value, r->path, "type", &type));
    if (!type || (strcmp(type, "AdamW") != 0 && strcmp(type, "Adam") != 0))
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: %s.type is '%s'; built is AdamW", r->path, section, type ? type : "missing");
    if (strcmp(type, "Adam") == 0) lj_log(LJ_LOG_INFO, "note: %s: DeepSpeed's Adam decouples its decay by default: read as AdamW", r->path);
    json_object_foreach((json_t *)value, key, param) if (strcmp(key, "type") != 0 && strcmp(key, "params") != 0)
        return lj_fail(LJ_ERR_NOT_FOUND, "%s: %s.%s is unknown; known are type, params", r->path, section, key);
    json_object_foreach(json_object_get(value, "params"), key, param) LJ_TRY(optimizer_param(r, key, param));
    r->out->has_optimizer = true;
    return LJ_OK;
}

static lj_status scheduler_param(reader *r, const char *key, const json_t *value)
{
    lj_deepspeed *d = r->out;
    if (strcmp(key, "warmup_min_lr") == 0) return number_read(r->path, value, key, &d->warmup_min_lr);
    if (strcmp(key, "warmup_max_lr") == 0) return number_read(r->path, value, key, &d->warmup_max_lr);
    if (strcmp(key, "warmup_num_steps") == 0) return count_read(r->path, value, key, 0, &d->warmup_steps);
    if (strcmp(key, "total_num_steps") == 0) return count_read(r->path, value, key, 1, &d->total_steps);
    if (strcmp(key, "last_batch_iteration") == 0 && json_integer_value(value) == -1) return LJ_OK;
    if (strcmp(key, "warmup_type") == 0) {
        const char *type = json_string_value(value);
        if (!type || (strcmp(type, "log") != 0 && strcmp(type, "linear") != 0))
            return lj_fail(LJ_ERR_INVALID, "%s: scheduler.params.warmup_type must be \"log\" or \"linear\"", r->path);
        d->warmup_linear = strcmp(type, "linear") == 0;
        return LJ_OK;
    }
    return lj_fail(LJ_ERR_NOT_FOUND, "%s: scheduler.params.%s is unknown; known are warmup_min_lr, warmup_max_lr, warmup_num_steps, warmup_type, total_num_steps",
                   r->path, key);
}

static lj_status read_scheduler(reader *r, const json_t *value, const char *section)
{
    const char *type = NULL, *key;
    json_t *param;
    LJ_TRY(lj_json_get_string(value, r->path, "type", &type));
    if (!type || (strcmp(type, "WarmupLR") != 0 && strcmp(type, "WarmupDecayLR") != 0))
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: %s.type is '%s'; built are WarmupLR, WarmupDecayLR", r->path, section, type ? type : "missing");
    r->out->scheduler = strcmp(type, "WarmupLR") == 0 ? LJ_DS_WARMUP : LJ_DS_WARMUP_DECAY;
    r->out->warmup_steps = 1000; /* DeepSpeed's defaults */
    r->out->warmup_min_lr = 0;
    json_object_foreach(json_object_get(value, "params"), key, param) LJ_TRY(scheduler_param(r, key, param));
    if (r->out->scheduler == LJ_DS_WARMUP && r->out->total_steps > 0)
        return lj_fail(LJ_ERR_INVALID, "%s: total_num_steps belongs to WarmupDecayLR, the scheduler is WarmupLR", r->path);
    return LJ_OK;
}

static lj_status read_bf16(reader *r, const json_t *value, const char *section)
{
    const char *key;
    json_t *entry;
    if (strcmp(section, "bfloat16") == 0) lj_log(LJ_LOG_INFO, "note: %s: section 'bfloat16' read as 'bf16'", r->path);
    json_object_foreach((json_t *)value, key, entry) if (strcmp(key, "enabled") != 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: '%s' has no place in section '%s': bf16 needs no loss scale; remove it", r->path, key, section);
    const json_t *enabled = json_object_get(value, "enabled");
    if (is_auto(enabled)) return LJ_OK;
    if (!json_is_boolean(enabled)) return lj_fail(LJ_ERR_FORMAT, "%s: %s.enabled must be true, false or \"auto\"", r->path, section);
    r->out->bf16_set = true, r->out->bf16 = json_is_true(enabled);
    return LJ_OK;
}

/* A section that is fine while it is switched off. */
static lj_status read_off(reader *r, const json_t *value, const char *section)
{
    if (json_is_false(value) || json_is_false(json_object_get(value, "enabled")) || is_auto(json_object_get(value, "enabled"))) return LJ_OK;
    for (int i = 0; i < KEYS; i++)
        if (strcmp(keys[i].name, section) == 0) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: %s: %s", r->path, section, keys[i].note);
    return LJ_OK;
}

/* Stages shard over ranks; on one there is nothing to shard. Offloading would change where things lie. */
static lj_status read_zero(reader *r, const json_t *value, const char *section)
{
    int64_t stage = 0;
    LJ_TRY(lj_json_get_int(value, r->path, "stage", &stage));
    if (stage < 0 || stage > 3) return lj_fail(LJ_ERR_INVALID, "%s: %s.stage is %lld; stages are 0 .. 3", r->path, section, (long long)stage);
    static const char *const offloads[] = {"offload_optimizer", "offload_param"};
    for (int i = 0; i < 2; i++) {
        const char *device = json_string_value(json_object_get(json_object_get(value, offloads[i]), "device"));
        if (device && strcmp(device, "none") != 0 && strcmp(device, "cpu") != 0)
            return lj_fail(LJ_ERR_UNSUPPORTED, "%s: %s.%s.device '%s': offloading is not built; remove it", r->path, section, offloads[i], device);
    }
    return LJ_OK;
}

static lj_status key_unknown(const char *path, const char *key)
{
    const char *names[KEYS];
    for (int i = 0; i < KEYS; i++) names[i] = keys[i].name;
    const char *near = lj_nearest_name(key, names, KEYS);
    if (!near && strncmp(key, "bf", 2) == 0) near = "bf16";
    if (near && strcmp(near, "bfloat16") == 0) near = "bf16";
    return lj_fail(LJ_ERR_NOT_FOUND, "%s: unknown key '%s'%s%s%s", path, key, near ? "; did you mean '" : "; remove it", near ? near : "", near ? "'?" : "");
}

static lj_status key_read(reader *r, const char *key, const json_t *value)
{
    for (int i = 0; i < KEYS; i++) {
        if (strcmp(keys[i].name, key) != 0) continue;
        if (keys[i].what == REFUSED) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: %s: %s", r->path, key, keys[i].note);
        if (keys[i].what == NO_EFFECT) lj_text_add(&r->out->ignored, r->out->ignored.length ? ", %s" : "%s", key);
        return keys[i].read ? keys[i].read(r, value, key) : LJ_OK;
    }
    return key_unknown(r->path, key);
}

static const char *world(int ranks, char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, "world size %d%s", ranks, ranks == 1 ? ", no launcher variables found" : "");
    return buffer;
}

/* Which product the total had to be a multiple of, when one of its factors was left to us. */
static lj_status batches_wrong(int64_t train, int64_t micro, int64_t accumulation, int64_t divisor, int ranks)
{
    char where[64], multiple[96] = "";
    if (divisor > 0) snprintf(multiple, sizeof multiple, "; %lld is not a multiple of %lld", (long long)train, (long long)divisor);
    return lj_fail(LJ_ERR_INVALID, "train_batch_size %lld != micro batch %lld x accumulation %lld x ranks %d (%s)%s", (long long)train,
                   (long long)micro, (long long)accumulation, ranks, world(ranks, where, sizeof where), multiple);
}

lj_status lj_deepspeed_batches(int64_t *train, int64_t *micro, int64_t *accumulation, int ranks)
{
    int64_t t = *train, m = *micro, a = *accumulation, divisor = 0;
    if (t < 0 && m < 0 && a < 0) return LJ_OK;
    if (t < 0 && m < 0)
        return lj_fail(LJ_ERR_INVALID, "gradient_accumulation_steps %lld alone gives no batch; add train_micro_batch_size_per_gpu", (long long)a);
    if (m < 0) divisor = (a < 0 ? 1 : a) * ranks, m = t / divisor;
    if (a < 0 && t < 0) a = 1;
    if (a < 0) divisor = m > 0 ? m * ranks : ranks, a = t / divisor;
    if (t < 0) t = m * a * ranks;
    if (m < 1 || a < 1 || t != m * a * ranks) return batches_wrong(t, m, a, divisor, ranks);
    *train = t, *micro = m, *accumulation = a;
    return LJ_OK;
}

static lj_status file_read(reader *r, const json_t *root)
{
    const char *key;
    json_t *value;
    if (!json_is_object(root)) return lj_fail(LJ_ERR_FORMAT, "%s: the file must be a JSON object", r->path);
    if (json_object_get(root, "bf16") && json_object_get(root, "bfloat16"))
        return lj_fail(LJ_ERR_INVALID, "%s: both 'bf16' and 'bfloat16' are there; keep bf16", r->path);
    json_object_foreach((json_t *)root, key, value) LJ_TRY(key_read(r, key, value));
    return LJ_OK;
}

lj_status lj_deepspeed_read(const char *path, int ranks, lj_deepspeed *out)
{
    json_t *root;
    lj_deepspeed d = {.train_batch = -1, .micro_batch = -1, .accumulation = -1, .lr = NAN, .beta1 = NAN, .beta2 = NAN, .eps = NAN,
                      .weight_decay = NAN, .clip = NAN, .warmup_min_lr = NAN, .warmup_max_lr = NAN, .warmup_steps = -1, .total_steps = -1};
    lj_text_init(&d.ignored);
    LJ_TRY(lj_json_load(path, MAX_FILE_BYTES, &root));
    reader r = {path, &d};
    lj_status status = file_read(&r, root);
    json_decref(root);
    if (status == LJ_OK) status = lj_fail_in(lj_deepspeed_batches(&d.train_batch, &d.micro_batch, &d.accumulation, ranks), "%s", path);
    if (status == LJ_OK) status = lj_text_status(&d.ignored);
    if (status == LJ_OK)
        *out = d;
    else
        lj_deepspeed_release(&d);
    return status;
}

void lj_deepspeed_release(lj_deepspeed *deepspeed)
{
    lj_text_release(&deepspeed->ignored);
}
