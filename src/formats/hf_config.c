/* config.json: a table of plain fields, and functions for the few that need thought. */
#include "formats/hf_config.h"

#include "base/file.h"
#include "formats/strict_json.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG_BYTES = 16 << 20 };

typedef enum { FIELD_INT, FIELD_DOUBLE, FIELD_BOOL } field_type;

/* Fields that mean the same in the file and in the struct. */
static const struct {
    const char *key;
    field_type type;
    size_t offset;
} fields[] = {
#define FIELD(type, name) {#name, type, offsetof(lj_model_config, name)}
    FIELD(FIELD_INT, vocab_size),
    FIELD(FIELD_INT, hidden_size),
    FIELD(FIELD_INT, intermediate_size),
    FIELD(FIELD_INT, num_hidden_layers),
    FIELD(FIELD_INT, num_attention_heads),
    FIELD(FIELD_INT, num_key_value_heads),
    FIELD(FIELD_INT, head_dim),
    FIELD(FIELD_INT, max_position_embeddings),
    FIELD(FIELD_DOUBLE, rms_norm_eps),
    FIELD(FIELD_DOUBLE, rope_theta),
    FIELD(FIELD_DOUBLE, initializer_range),
    FIELD(FIELD_DOUBLE, attention_dropout),
    FIELD(FIELD_BOOL, tie_word_embeddings),
    FIELD(FIELD_INT, bos_token_id),
    FIELD(FIELD_INT, pad_token_id),
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields };

static lj_status fields_read(const json_t *root, const char *where, lj_model_config *config)
{
    for (size_t i = 0; i < FIELDS; i++) {
        void *at = (char *)config + fields[i].offset;
        switch (fields[i].type) {
        case FIELD_INT: LJ_TRY(lj_json_get_int(root, where, fields[i].key, at)); break;
        case FIELD_DOUBLE: LJ_TRY(lj_json_get_double(root, where, fields[i].key, at)); break;
        case FIELD_BOOL: LJ_TRY(lj_json_get_bool(root, where, fields[i].key, at)); break;
        }
    }
    return LJ_OK;
}

static lj_status required_check(const json_t *root, const char *where)
{
    static const char *const required[] = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!lj_json_has(root, required[i])) return lj_fail(LJ_ERR_FORMAT, "%s: '%s' is missing", where, required[i]);
    return LJ_OK;
}

static lj_status family_read(const json_t *root, const char *where, lj_model_family *family)
{
    const char *model_type = NULL;
    LJ_TRY(lj_json_get_string(root, where, "model_type", &model_type));
    if (!model_type) return lj_fail(LJ_ERR_FORMAT, "%s: 'model_type' is missing", where);
    return lj_fail_in(lj_model_family_find(model_type, family), "%s", where);
}

/* null and absence differ here: "bos_token_id": null says that there is none. */
static void null_ids_read(const json_t *root, lj_model_config *config)
{
    if (json_is_null(json_object_get(root, "bos_token_id"))) config->bos_token_id = -1;
    if (json_is_null(json_object_get(root, "eos_token_id"))) config->eos_count = 0;
    if (config->pad_token_id < -1) config->pad_token_id = -1;
}

static lj_status eos_read(const json_t *root, const char *where, lj_model_config *config)
{
    const json_t *eos = json_object_get(root, "eos_token_id");
    if (!eos || json_is_null(eos)) return LJ_OK;
    size_t count = json_is_array(eos) ? json_array_size(eos) : 1;
    if (count > LJ_MAX_EOS) return lj_fail(LJ_ERR_LIMIT, "%s: eos_token_id has %zu entries, at most %d are read", where, count, LJ_MAX_EOS);
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_is_array(eos) ? json_array_get(eos, i) : eos;
        if (!json_is_integer(id)) return lj_fail(LJ_ERR_FORMAT, "%s: 'eos_token_id' must be a whole number or a list of them", where);
        config->eos_token_ids[i] = json_integer_value(id);
    }
    config->eos_count = (int)count;
    return LJ_OK;
}

static lj_status dtype_read(const json_t *root, const char *where, lj_model_config *config)
{
    const char *name = NULL;
    LJ_TRY(lj_json_get_string(root, where, "torch_dtype", &name));
    LJ_TRY(lj_json_get_string(root, where, "dtype", &name));
    if (!name || strcmp(name, "auto") == 0) return LJ_OK;
    if (strncmp(name, "torch.", 6) == 0) name += 6;
    LJ_TRY(lj_fail_in(lj_dtype_find(name, &config->dtype), "%s: dtype", where));
    if (!lj_dtype_rows[config->dtype].is_float) return lj_fail(LJ_ERR_INVALID, "%s: dtype '%s' is no floating-point type", where, name);
    return LJ_OK;
}

static lj_status act_read(const json_t *root, const char *where, lj_model_config *config)
{
    const char *name = NULL;
    LJ_TRY(lj_json_get_string(root, where, "hidden_act", &name));
    return name ? lj_fail_in(lj_activation_find(name, &config->hidden_act), "%s", where) : LJ_OK;
}

/* attention_bias means q, k, v and o in Llama and Qwen3; Qwen2 has q, k, v always; Mistral has none. */
static lj_status bias_read(const json_t *root, const char *where, lj_model_config *config)
{
    bool attention = config->attention_bias;
    LJ_TRY(lj_json_get_bool(root, where, "attention_bias", &attention));
    if (config->family == LJ_FAMILY_LLAMA || config->family == LJ_FAMILY_QWEN3)
        config->attention_bias = config->attention_output_bias = attention;
    if (config->family == LJ_FAMILY_LLAMA) LJ_TRY(lj_json_get_bool(root, where, "mlp_bias", &config->mlp_bias));
    return LJ_OK;
}

/* layer_types, where written, must be what sliding_window and max_window_layers say: full layers first, sliding ones after. */
static lj_status layer_types_read(const json_t *root, const char *where, lj_model_config *config)
{
    const json_t *types = json_object_get(root, "layer_types");
    if (!json_is_array(types) || json_array_size(types) == 0) return LJ_OK;
    if ((int64_t)json_array_size(types) != config->num_hidden_layers)
        return lj_fail(LJ_ERR_FORMAT, "%s: layer_types has %zu entries, num_hidden_layers is %lld", where, json_array_size(types),
                       (long long)config->num_hidden_layers);
    int64_t first = config->num_hidden_layers;
    for (int64_t i = 0; i < config->num_hidden_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        bool slides = type && strcmp(type, "sliding_attention") == 0;
        if (!slides && (!type || strcmp(type, "full_attention") != 0))
            return lj_fail(LJ_ERR_UNSUPPORTED, "%s: layer_types[%lld] is '%.40s'; known are full_attention, sliding_attention", where, (long long)i,
                           type ? type : "?");
        if (slides && first > i) first = i;
        if (!slides && first < i)
            return lj_fail(LJ_ERR_UNSUPPORTED, "%s: layer_types mixes sliding and full layers (layer %lld is full after a sliding one)", where,
                           (long long)i);
    }
    if (first == config->num_hidden_layers) config->sliding_window = 0;
    if (first < config->num_hidden_layers && config->sliding_window == 0)
        return lj_fail(LJ_ERR_FORMAT, "%s: layer_types has sliding layers but sliding_window is not set", where);
    config->max_window_layers = config->sliding_window ? first : 0;
    return LJ_OK;
}

static lj_status window_read(const json_t *root, const char *where, lj_model_config *config)
{
    bool qwen = config->family == LJ_FAMILY_QWEN2 || config->family == LJ_FAMILY_QWEN3, use = !qwen;
    if (config->family == LJ_FAMILY_LLAMA) return LJ_OK;
    config->max_window_layers = qwen ? 28 : 0;
    config->sliding_window = json_object_get(root, "sliding_window") ? 0 : 4096;
    LJ_TRY(lj_json_get_int(root, where, "sliding_window", &config->sliding_window));
    if (qwen) {
        LJ_TRY(lj_json_get_bool(root, where, "use_sliding_window", &use));
        LJ_TRY(lj_json_get_int(root, where, "max_window_layers", &config->max_window_layers));
    }
    if (!use || config->sliding_window == 0) config->sliding_window = config->max_window_layers = 0;
    LJ_TRY(layer_types_read(root, where, config));
    /* A window that no layer has is no window: one meaning, one spelling. */
    if (config->max_window_layers >= config->num_hidden_layers) config->sliding_window = config->max_window_layers = 0;
    return LJ_OK;
}

static lj_status rope_numbers_read(const json_t *rope, const char *where, lj_model_config *config)
{
    lj_rope_scaling *r = &config->rope_scaling;
    double partial = 1;
    LJ_TRY(lj_json_get_double(rope, where, "rope_theta", &config->rope_theta));
    LJ_TRY(lj_json_get_double(rope, where, "partial_rotary_factor", &partial));
    if (partial != 1) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: partial_rotary_factor is %g; only 1 is built here", where, partial);
    if (r->type == LJ_ROPE_DEFAULT) return LJ_OK;
    if (!lj_json_has(rope, "factor")) return lj_fail(LJ_ERR_FORMAT, "%s: rope scaling '%s' has no 'factor'", where, lj_rope_type_name(r->type));
    LJ_TRY(lj_json_get_double(rope, where, "factor", &r->factor));
    if (r->type >= LJ_ROPE_DYNAMIC) r->original_max_position_embeddings = config->max_position_embeddings;
    if (r->type == LJ_ROPE_YARN || r->type == LJ_ROPE_LLAMA3)
        LJ_TRY(lj_json_get_int(rope, where, "original_max_position_embeddings", &r->original_max_position_embeddings));
    if (r->type == LJ_ROPE_LLAMA3) {
        LJ_TRY(lj_json_get_double(rope, where, "low_freq_factor", &r->low_freq_factor));
        LJ_TRY(lj_json_get_double(rope, where, "high_freq_factor", &r->high_freq_factor));
    }
    if (r->type == LJ_ROPE_YARN) {
        static const char *const foreign[] = {"mscale", "mscale_all_dim", "truncate"};
        for (size_t i = 0; i < 3; i++)
            if (lj_json_has(rope, foreign[i])) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: yarn with '%s' is not built here", where, foreign[i]);
        r->beta_fast = 32, r->beta_slow = 1;
        LJ_TRY(lj_json_get_double(rope, where, "attention_factor", &r->attention_factor));
        LJ_TRY(lj_json_get_double(rope, where, "beta_fast", &r->beta_fast));
        LJ_TRY(lj_json_get_double(rope, where, "beta_slow", &r->beta_slow));
    }
    return LJ_OK;
}

static lj_status rope_object_read(const json_t *rope, const char *where, const char *key, lj_model_config *config)
{
    if (!json_is_object(rope)) return lj_fail(LJ_ERR_FORMAT, "%s: '%s' must be an object or null", where, key);
    const char *type = "default";
    LJ_TRY(lj_json_get_string(rope, where, "type", &type)); /* the oldest spelling; rope_type wins */
    LJ_TRY(lj_json_get_string(rope, where, "rope_type", &type));
    LJ_TRY(lj_fail_in(lj_rope_type_find(type, &config->rope_scaling.type), "%s: %s", where, key));
    return rope_numbers_read(rope, where, config);
}

/* rope_parameters, when there, is the newer library's word and wins over rope_scaling. */
static lj_status rope_read(const json_t *root, const char *where, lj_model_config *config)
{
    static const char *const keys[] = {"rope_parameters", "rope_scaling"};
    double partial = 1;
    LJ_TRY(lj_json_get_double(root, where, "partial_rotary_factor", &partial));
    if (partial != 1) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: partial_rotary_factor is %g; only 1 is built here", where, partial);
    for (size_t i = 0; i < 2; i++)
        if (lj_json_has(root, keys[i])) return rope_object_read(json_object_get(root, keys[i]), where, keys[i], config);
    return LJ_OK;
}

/* What changes the meaning of the weights and is not in the struct. */
static lj_status refuse_foreign(const json_t *root, const char *where)
{
    if (!lj_json_has(root, "quantization_config")) return LJ_OK;
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: 'quantization_config': the weights are packed by another tool; use the unquantised model or a GGUF", where);
}

/* Absent and null differ: absent is the library's default of the family, null is "as many as query heads". */
static int64_t kv_heads_default(const json_t *root, const lj_model_config *config)
{
    static const int64_t absent[LJ_FAMILY_COUNT] = {0, 8, 32, 32};
    bool is_null = json_object_get(root, "num_key_value_heads") != NULL;
    return is_null || absent[config->family] == 0 ? config->num_attention_heads : absent[config->family];
}

static lj_status head_defaults(const json_t *root, const char *where, lj_model_config *config)
{
    if (!lj_json_has(root, "num_key_value_heads")) config->num_key_value_heads = kv_heads_default(root, config);
    if (lj_json_has(root, "head_dim")) return LJ_OK;
    if (config->family == LJ_FAMILY_QWEN3) {
        config->head_dim = 128;
        return LJ_OK;
    }
    if (config->num_attention_heads < 1 || config->hidden_size % config->num_attention_heads)
        return lj_fail(LJ_ERR_INVALID, "%s: hidden_size %lld is no multiple of num_attention_heads %lld, and head_dim is not given", where,
                       (long long)config->hidden_size, (long long)config->num_attention_heads);
    config->head_dim = config->hidden_size / config->num_attention_heads;
    return LJ_OK;
}

static lj_status config_from_json(const json_t *root, const char *where, lj_model_config *config)
{
    if (!json_is_object(root)) return lj_fail(LJ_ERR_FORMAT, "%s: is no JSON object", where);
    lj_model_family family;
    LJ_TRY(family_read(root, where, &family));
    lj_model_config_init(config, family);
    LJ_TRY(required_check(root, where));
    LJ_TRY(fields_read(root, where, config));
    null_ids_read(root, config);
    LJ_TRY(eos_read(root, where, config));
    LJ_TRY(head_defaults(root, where, config));
    LJ_TRY(refuse_foreign(root, where));
    LJ_TRY(dtype_read(root, where, config));
    LJ_TRY(act_read(root, where, config));
    LJ_TRY(bias_read(root, where, config));
    LJ_TRY(window_read(root, where, config));
    LJ_TRY(rope_read(root, where, config));
    return lj_fail_in(lj_model_config_check(config), "%s", where);
}

lj_status lj_hf_config_parse(const char *where, const char *text, size_t bytes, lj_model_config *config)
{
    json_t *root;
    lj_model_config read;
    LJ_TRY(lj_json_parse(where, text, bytes, &root));
    lj_status status = config_from_json(root, where, &read);
    json_decref(root);
    if (status == LJ_OK) *config = read;
    return status;
}

lj_status lj_hf_config_read(const char *path, lj_model_config *config)
{
    json_t *root;
    lj_model_config read;
    LJ_TRY(lj_json_load(path, MAX_CONFIG_BYTES, &root));
    lj_status status = config_from_json(root, path, &read);
    json_decref(root);
    if (status == LJ_OK) *config = read;
    return status;
}

static const char *torch_dtype_name(lj_dtype dtype)
{
    return dtype == LJ_BF16 ? "bfloat16" : dtype == LJ_F16 ? "float16" : dtype == LJ_F64 ? "float64" : "float32";
}

/* JSON wants whole floats as "10000.0" for libraries that check types. */
static json_t *real(double value)
{
    return json_real(value);
}

static json_t *rope_object(const lj_model_config *config, bool with_theta)
{
    const lj_rope_scaling *r = &config->rope_scaling;
    json_t *rope = json_object();
    json_object_set_new(rope, "rope_type", json_string(lj_rope_type_name(r->type)));
    if (with_theta) json_object_set_new(rope, "rope_theta", real(config->rope_theta));
    if (r->type != LJ_ROPE_DEFAULT) json_object_set_new(rope, "factor", real(r->factor));
    if (r->type == LJ_ROPE_LLAMA3) {
        json_object_set_new(rope, "low_freq_factor", real(r->low_freq_factor));
        json_object_set_new(rope, "high_freq_factor", real(r->high_freq_factor));
    }
    if (r->type == LJ_ROPE_YARN) {
        if (r->attention_factor != 0) json_object_set_new(rope, "attention_factor", real(r->attention_factor));
        json_object_set_new(rope, "beta_fast", real(r->beta_fast));
        json_object_set_new(rope, "beta_slow", real(r->beta_slow));
    }
    if (r->type == LJ_ROPE_YARN || r->type == LJ_ROPE_LLAMA3)
        json_object_set_new(rope, "original_max_position_embeddings", json_integer(r->original_max_position_embeddings));
    return rope;
}

static void rope_write(json_t *root, const lj_model_config *config)
{
    json_object_set_new(root, "rope_theta", real(config->rope_theta));
    json_object_set_new(root, "rope_scaling", config->rope_scaling.type == LJ_ROPE_DEFAULT ? json_null() : rope_object(config, false));
    json_object_set_new(root, "rope_parameters", rope_object(config, true));
}

static json_t *id_or_null(int64_t id)
{
    return id < 0 ? json_null() : json_integer(id);
}

static json_t *eos_value(const lj_model_config *config)
{
    if (config->eos_count == 0) return json_null();
    if (config->eos_count == 1) return json_integer(config->eos_token_ids[0]);
    json_t *list = json_array();
    for (int i = 0; i < config->eos_count; i++) json_array_append_new(list, json_integer(config->eos_token_ids[i]));
    return list;
}

static void fields_write(json_t *root, const lj_model_config *config)
{
    for (size_t i = 0; i < FIELDS; i++) {
        const void *at = (const char *)config + fields[i].offset;
        json_t *value = fields[i].type == FIELD_INT      ? json_integer(*(const int64_t *)at)
                        : fields[i].type == FIELD_DOUBLE ? real(*(const double *)at)
                                                         : json_boolean(*(const bool *)at);
        json_object_set_new(root, fields[i].key, value);
    }
    json_object_set_new(root, "bos_token_id", id_or_null(config->bos_token_id));
    json_object_set_new(root, "eos_token_id", eos_value(config));
    json_object_set_new(root, "pad_token_id", id_or_null(config->pad_token_id));
}

static void window_write(json_t *root, const lj_model_config *config)
{
    bool slides = config->sliding_window > 0;
    if (config->family == LJ_FAMILY_LLAMA) return;
    json_object_set_new(root, "sliding_window", slides ? json_integer(config->sliding_window) : json_null());
    if (config->family == LJ_FAMILY_MISTRAL) return;
    json_object_set_new(root, "use_sliding_window", json_boolean(slides));
    json_object_set_new(root, "max_window_layers", json_integer(slides ? config->max_window_layers : config->num_hidden_layers));
}

/* Every part of the struct must have a place in the family's file; what has none would be lost in silence. */
static lj_status writable_check(const lj_model_config *c)
{
    lj_model_config plain;
    lj_model_config_init(&plain, c->family);
    bool free_bias = c->family == LJ_FAMILY_LLAMA || c->family == LJ_FAMILY_QWEN3;
    bool bias_fits = free_bias ? c->attention_bias == c->attention_output_bias
                               : c->attention_bias == plain.attention_bias && c->attention_output_bias == plain.attention_output_bias;
    const char *misfit = !bias_fits                                                ? "attention_bias"
                         : c->mlp_bias && c->family != LJ_FAMILY_LLAMA             ? "mlp_bias"
                         : c->qk_norm != plain.qk_norm                             ? "qk_norm"
                         : c->sliding_window > 0 && c->family == LJ_FAMILY_LLAMA   ? "sliding_window"
                         : c->max_window_layers > 0 && c->family == LJ_FAMILY_MISTRAL ? "max_window_layers"
                                                                                   : NULL;
    if (!misfit) return LJ_OK;
    return lj_fail(LJ_ERR_UNSUPPORTED, "config.json of a %s model has no place for this %s", lj_model_family_name(c->family), misfit);
}

static json_t *config_to_json(const lj_model_config *config)
{
    json_t *root = json_object(), *architectures = json_array();
    json_array_append_new(architectures, json_string(lj_model_family_architecture(config->family)));
    json_object_set_new(root, "architectures", architectures);
    json_object_set_new(root, "model_type", json_string(lj_model_family_name(config->family)));
    fields_write(root, config);
    json_object_set_new(root, "hidden_act", json_string(lj_activation_name(config->hidden_act)));
    if (config->family == LJ_FAMILY_LLAMA || config->family == LJ_FAMILY_QWEN3)
        json_object_set_new(root, "attention_bias", json_boolean(config->attention_bias));
    if (config->family == LJ_FAMILY_LLAMA) json_object_set_new(root, "mlp_bias", json_boolean(config->mlp_bias));
    window_write(root, config);
    rope_write(root, config);
    json_object_set_new(root, "torch_dtype", json_string(torch_dtype_name(config->dtype)));
    json_object_set_new(root, "dtype", json_string(torch_dtype_name(config->dtype)));
    json_object_set_new(root, "use_cache", json_true());
    return root;
}

static lj_status json_write(const char *folder, const char *name, json_t *root)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return lj_fail(LJ_ERR_INVALID, "path of %s is too long", name);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    if (!text) return lj_fail(LJ_ERR_NOMEM, "%s: could not build the text", path);
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the terminator: the file ends with a newline */
    lj_status status = lj_file_write(path, text, length + 1);
    free(text);
    return status;
}

lj_status lj_hf_config_write(const char *folder, const lj_model_config *config)
{
    LJ_TRY(lj_model_config_check(config));
    LJ_TRY(writable_check(config));
    json_t *root = config_to_json(config), *generation = json_object();
    json_object_set_new(generation, "bos_token_id", id_or_null(config->bos_token_id));
    json_object_set_new(generation, "eos_token_id", eos_value(config));
    json_object_set_new(generation, "pad_token_id", id_or_null(config->pad_token_id));
    lj_status status = json_write(folder, "config.json", root);
    if (status == LJ_OK) status = json_write(folder, "generation_config.json", generation);
    json_decref(root);
    json_decref(generation);
    return status;
}
