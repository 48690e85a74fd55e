/* Families, their defaults, the checks, and the table of weights. Knows no file format. */
#include "formats/model_config.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *model_type, *architecture;
    bool attention_bias, attention_output_bias, qk_norm;
    int64_t bos, eos; /* what transformers assumes when the file is silent */
    int64_t max_positions;
    double rope_theta;
} family_row;

static const family_row families[LJ_FAMILY_COUNT] = {
    [LJ_FAMILY_LLAMA] = {"llama", "LlamaForCausalLM", false, false, false, 1, 2, 2048, 1e4},
    [LJ_FAMILY_MISTRAL] = {"mistral", "MistralForCausalLM", false, false, false, 1, 2, 131072, 1e4},
    [LJ_FAMILY_QWEN2] = {"qwen2", "Qwen2ForCausalLM", true, false, false, -1, -1, 32768, 1e4},
    [LJ_FAMILY_QWEN3] = {"qwen3", "Qwen3ForCausalLM", false, false, true, -1, -1, 32768, 1e4},
};

static const char *const activations[LJ_ACT_COUNT] = {"silu", "gelu", "gelu_pytorch_tanh", "relu"};
static const char *const rope_types[LJ_ROPE_COUNT] = {"default", "linear", "dynamic", "yarn", "llama3"};

void lj_model_config_init(lj_model_config *config, lj_model_family family)
{
    const family_row *row = &families[family];
    *config = (lj_model_config){.family = family,
                                .max_position_embeddings = row->max_positions,
                                .rms_norm_eps = 1e-6,
                                .rope_theta = row->rope_theta,
                                .attention_bias = row->attention_bias,
                                .attention_output_bias = row->attention_output_bias,
                                .qk_norm = row->qk_norm,
                                .initializer_range = 0.02,
                                .dtype = LJ_F32,
                                .bos_token_id = row->bos,
                                .pad_token_id = -1,
                                .eos_token_ids = {row->eos},
                                .eos_count = row->eos >= 0};
}

const char *lj_model_family_name(lj_model_family family)
{
    return families[family].model_type;
}

const char *lj_model_family_architecture(lj_model_family family)
{
    return families[family].architecture;
}

/* Index of `name` among `names`, or -1. */
static int name_index(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return i;
    return -1;
}

lj_status lj_model_family_find(const char *model_type, lj_model_family *family)
{
    for (int i = 0; i < LJ_FAMILY_COUNT; i++) {
        if (strcmp(model_type, families[i].model_type) != 0) continue;
        *family = (lj_model_family)i;
        return LJ_OK;
    }
    return lj_fail(LJ_ERR_UNSUPPORTED, "model_type '%.80s' is not built here; built are llama, mistral, qwen2, qwen3", model_type);
}

const char *lj_activation_name(lj_activation activation)
{
    return activations[activation];
}

lj_status lj_activation_find(const char *name, lj_activation *activation)
{
    int index = strcmp(name, "swish") == 0 ? LJ_ACT_SILU : name_index(name, activations, LJ_ACT_COUNT);
    if (index < 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "hidden_act '%.80s' is not known; known are silu, gelu, gelu_pytorch_tanh, relu", name);
    *activation = (lj_activation)index;
    return LJ_OK;
}

const char *lj_rope_type_name(lj_rope_type type)
{
    return rope_types[type];
}

lj_status lj_rope_type_find(const char *name, lj_rope_type *type)
{
    int index = name_index(name, rope_types, LJ_ROPE_COUNT);
    if (index < 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "rope_type '%.80s' is not known; known are default, linear, dynamic, yarn, llama3", name);
    *type = (lj_rope_type)index;
    return LJ_OK;
}

typedef struct {
    const char *name;
    int64_t value, low, high;
} bound;

static lj_status bounds_check(const bound *bounds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bounds[i].value < bounds[i].low || bounds[i].value > bounds[i].high)
            return lj_fail(LJ_ERR_LIMIT, "%s is %lld; allowed are %lld .. %lld", bounds[i].name, (long long)bounds[i].value,
                           (long long)bounds[i].low, (long long)bounds[i].high);
    return LJ_OK;
}

static lj_status sizes_check(const lj_model_config *c)
{
    const int64_t wide = (int64_t)1 << 24; /* 16 M: ten times today's widest vocabulary; squares stay far inside 62 bits */
    const bound bounds[] = {
        {"vocab_size", c->vocab_size, 1, wide},
        {"hidden_size", c->hidden_size, 1, wide},
        {"intermediate_size", c->intermediate_size, 1, wide},
        {"num_hidden_layers", c->num_hidden_layers, 0, LJ_MAX_LAYERS},
        {"num_attention_heads", c->num_attention_heads, 1, 65536},
        {"num_key_value_heads", c->num_key_value_heads, 1, c->num_attention_heads},
        {"head_dim", c->head_dim, 2, 65536},
        {"max_position_embeddings", c->max_position_embeddings, 1, (int64_t)1 << 40},
        {"sliding_window", c->sliding_window, 0, (int64_t)1 << 40},
        {"max_window_layers", c->max_window_layers, 0, (int64_t)1 << 40},
        {"bos_token_id", c->bos_token_id, -1, c->vocab_size - 1},
        {"pad_token_id", c->pad_token_id, -1, wide},
        {"num_attention_heads x head_dim", c->num_attention_heads * c->head_dim, 2, wide},
    };
    return bounds_check(bounds, sizeof bounds / sizeof *bounds);
}

static lj_status rope_check(const lj_model_config *c)
{
    const lj_rope_scaling *r = &c->rope_scaling;
    if (!(c->rope_theta > 0) || !isfinite(c->rope_theta)) return lj_fail(LJ_ERR_INVALID, "rope_theta is %g; it must be above 0", c->rope_theta);
    if (r->type == LJ_ROPE_DEFAULT) return LJ_OK;
    const char *name = lj_rope_type_name(r->type);
    if (!(r->factor >= 1) || !isfinite(r->factor)) return lj_fail(LJ_ERR_INVALID, "rope scaling '%s': factor is %g; it must be at least 1", name, r->factor);
    if (r->type >= LJ_ROPE_DYNAMIC && (r->original_max_position_embeddings < 1 || r->original_max_position_embeddings > (int64_t)1 << 40))
        return lj_fail(LJ_ERR_INVALID, "rope scaling '%s': original_max_position_embeddings is %lld; it must be at least 1", name,
                       (long long)r->original_max_position_embeddings);
    if (r->type == LJ_ROPE_LLAMA3 && !(r->low_freq_factor > 0 && r->high_freq_factor > r->low_freq_factor))
        return lj_fail(LJ_ERR_INVALID, "rope scaling 'llama3': low_freq_factor %g must be above 0 and below high_freq_factor %g", r->low_freq_factor,
                       r->high_freq_factor);
    if (r->type == LJ_ROPE_YARN && !(r->beta_slow > 0 && r->beta_fast >= r->beta_slow))
        return lj_fail(LJ_ERR_INVALID, "rope scaling 'yarn': beta_slow %g must be above 0 and at most beta_fast %g", r->beta_slow, r->beta_fast);
    return LJ_OK;
}

lj_status lj_model_config_check(const lj_model_config *config)
{
    const lj_model_config *c = config;
    LJ_TRY(sizes_check(c));
    if (c->num_attention_heads % c->num_key_value_heads)
        return lj_fail(LJ_ERR_INVALID, "num_attention_heads %lld is no multiple of num_key_value_heads %lld", (long long)c->num_attention_heads,
                       (long long)c->num_key_value_heads);
    if (c->head_dim % 2) return lj_fail(LJ_ERR_INVALID, "head_dim %lld is odd; rotary embedding needs pairs", (long long)c->head_dim);
    if (!(c->rms_norm_eps >= 0 && c->rms_norm_eps < 1)) return lj_fail(LJ_ERR_INVALID, "rms_norm_eps is %g; allowed are 0 .. 1", c->rms_norm_eps);
    if (!(c->initializer_range >= 0 && c->initializer_range <= 1))
        return lj_fail(LJ_ERR_INVALID, "initializer_range is %g; allowed are 0 .. 1", c->initializer_range);
    if (!(c->attention_dropout >= 0 && c->attention_dropout < 1))
        return lj_fail(LJ_ERR_INVALID, "attention_dropout is %g; allowed are 0 .. 1", c->attention_dropout);
    for (int i = 0; i < c->eos_count; i++)
        if (c->eos_token_ids[i] < 0 || c->eos_token_ids[i] >= c->vocab_size)
            return lj_fail(LJ_ERR_INVALID, "eos_token_id %lld is outside the vocabulary of %lld", (long long)c->eos_token_ids[i], (long long)c->vocab_size);
    return rope_check(c);
}

/* A weight of each layer; a size is named by the field it comes from, 0 = no second dimension. */
typedef enum { NONE, HIDDEN, FFN, Q_ROWS, KV_ROWS, HEAD_DIM } size_name;
typedef enum { ALWAYS, QKV_BIAS, OUT_BIAS, MLP_BIAS, QK_NORM } presence;

static const struct {
    const char *name;
    lj_weight_role role;
    size_name rows, columns;
    presence when;
} layer_weights[] = {
    {"input_layernorm.weight", LJ_WEIGHT_NORM, HIDDEN, NONE, ALWAYS},
    {"self_attn.q_proj.weight", LJ_WEIGHT_MATRIX, Q_ROWS, HIDDEN, ALWAYS},
    {"self_attn.q_proj.bias", LJ_WEIGHT_BIAS, Q_ROWS, NONE, QKV_BIAS},
    {"self_attn.k_proj.weight", LJ_WEIGHT_MATRIX, KV_ROWS, HIDDEN, ALWAYS},
    {"self_attn.k_proj.bias", LJ_WEIGHT_BIAS, KV_ROWS, NONE, QKV_BIAS},
    {"self_attn.v_proj.weight", LJ_WEIGHT_MATRIX, KV_ROWS, HIDDEN, ALWAYS},
    {"self_attn.v_proj.bias", LJ_WEIGHT_BIAS, KV_ROWS, NONE, QKV_BIAS},
    {"self_attn.q_norm.weight", LJ_WEIGHT_NORM, HEAD_DIM, NONE, QK_NORM},
    {"self_attn.k_norm.weight", LJ_WEIGHT_NORM, HEAD_DIM, NONE, QK_NORM},
    {"self_attn.o_proj.weight", LJ_WEIGHT_MATRIX, HIDDEN, Q_ROWS, ALWAYS},
    {"self_attn.o_proj.bias", LJ_WEIGHT_BIAS, HIDDEN, NONE, OUT_BIAS},
    {"post_attention_layernorm.weight", LJ_WEIGHT_NORM, HIDDEN, NONE, ALWAYS},
    {"mlp.gate_proj.weight", LJ_WEIGHT_MATRIX, FFN, HIDDEN, ALWAYS},
    {"mlp.gate_proj.bias", LJ_WEIGHT_BIAS, FFN, NONE, MLP_BIAS},
    {"mlp.up_proj.weight", LJ_WEIGHT_MATRIX, FFN, HIDDEN, ALWAYS},
    {"mlp.up_proj.bias", LJ_WEIGHT_BIAS, FFN, NONE, MLP_BIAS},
    {"mlp.down_proj.weight", LJ_WEIGHT_MATRIX, HIDDEN, FFN, ALWAYS},
    {"mlp.down_proj.bias", LJ_WEIGHT_BIAS, HIDDEN, NONE, MLP_BIAS},
};
enum { LAYER_WEIGHTS = sizeof layer_weights / sizeof *layer_weights };

static bool present(const lj_model_config *c, presence when)
{
    const bool answers[] = {true, c->attention_bias, c->attention_output_bias, c->mlp_bias, c->qk_norm};
    return answers[when];
}

static int64_t size_of(const lj_model_config *c, size_name name)
{
    const int64_t sizes[] = {0, c->hidden_size, c->intermediate_size, c->num_attention_heads * c->head_dim,
                             c->num_key_value_heads * c->head_dim, c->head_dim};
    return sizes[name];
}

static size_t weights_in_layer(const lj_model_config *c)
{
    size_t count = 0;
    for (size_t i = 0; i < LAYER_WEIGHTS; i++) count += present(c, layer_weights[i].when);
    return count;
}

size_t lj_model_weight_count(const lj_model_config *config)
{
    return 2 + !config->tie_word_embeddings + (size_t)config->num_hidden_layers * weights_in_layer(config);
}

static void layer_weight_get(const lj_model_config *c, size_t layer, size_t nth, lj_model_weight *weight)
{
    size_t row = 0;
    for (; row + 1 < LAYER_WEIGHTS; row++) /* what is left for the last row is its own */
        if (present(c, layer_weights[row].when) && nth-- == 0) break;
    *weight = (lj_model_weight){.role = layer_weights[row].role,
                                .layer = (int)layer,
                                .rank = layer_weights[row].columns == NONE ? 1 : 2,
                                .shape = {size_of(c, layer_weights[row].rows), size_of(c, layer_weights[row].columns)}};
    snprintf(weight->name, sizeof weight->name, "model.layers.%zu.%s", layer, layer_weights[row].name);
}

void lj_model_weight_get(const lj_model_config *config, size_t index, lj_model_weight *weight)
{
    size_t in_layer = weights_in_layer(config), layers_end = 1 + in_layer * (size_t)config->num_hidden_layers;
    if (index > 0 && index < layers_end) {
        layer_weight_get(config, (index - 1) / in_layer, (index - 1) % in_layer, weight);
        return;
    }
    *weight = (lj_model_weight){.role = index == 0            ? LJ_WEIGHT_EMBEDDING
                                        : index == layers_end ? LJ_WEIGHT_NORM
                                                              : LJ_WEIGHT_HEAD,
                                .layer = -1,
                                .rank = index == layers_end ? 1 : 2,
                                .shape = {index == layers_end ? config->hidden_size : config->vocab_size,
                                          index == layers_end ? 0 : config->hidden_size}};
    snprintf(weight->name, sizeof weight->name, "%s",
             index == 0 ? "model.embed_tokens.weight" : index == layers_end ? "model.norm.weight" : "lm_head.weight");
}

int64_t lj_model_parameter_count(const lj_model_config *config)
{
    int64_t total = 0;
    size_t count = lj_model_weight_count(config);
    for (size_t i = 0; i < count; i++) {
        lj_model_weight weight;
        lj_model_weight_get(config, i, &weight);
        total += weight.shape[0] * (weight.rank == 2 ? weight.shape[1] : 1);
    }
    return total;
}
