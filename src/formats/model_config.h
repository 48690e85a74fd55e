/* What a model is, as numbers: the one struct between files (config.json, GGUF metadata) and the graph builder.
 *
 * A plain value: copy it freely. lj_model_config_init gives the defaults of a family, a reader fills it, and
 * lj_model_config_check proves it before anybody allocates from it. Names of fields and weights are those of Hugging Face. */
#ifndef LJ_FORMATS_MODEL_CONFIG_H
#define LJ_FORMATS_MODEL_CONFIG_H

#include "base/status.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Limits that a file may not exceed; a number beyond them is refused by name before it is used. */
enum {
    LJ_MAX_LAYERS = 4096,
    LJ_MAX_EOS = 8,
    LJ_MAX_WEIGHT_NAME = 128,
};

typedef enum { LJ_FAMILY_LLAMA, LJ_FAMILY_MISTRAL, LJ_FAMILY_QWEN2, LJ_FAMILY_QWEN3, LJ_FAMILY_COUNT } lj_model_family;
typedef enum { LJ_ACT_SILU, LJ_ACT_GELU, LJ_ACT_GELU_TANH, LJ_ACT_RELU, LJ_ACT_COUNT } lj_activation;
typedef enum { LJ_ROPE_DEFAULT, LJ_ROPE_LINEAR, LJ_ROPE_DYNAMIC, LJ_ROPE_YARN, LJ_ROPE_LLAMA3, LJ_ROPE_COUNT } lj_rope_type;

/* Scaling of the rotary frequencies. Fields that a type does not use are 0. */
typedef struct {
    lj_rope_type type;
    double factor;                                    /* linear, dynamic, yarn, llama3 */
    double low_freq_factor, high_freq_factor;         /* llama3 */
    double attention_factor, beta_fast, beta_slow;    /* yarn; attention_factor 0: 0.1 ln(factor) + 1 */
    int64_t original_max_position_embeddings;         /* yarn, llama3; dynamic: max_position_embeddings of the file */
} lj_rope_scaling;

typedef struct {
    lj_model_family family;
    int64_t vocab_size, hidden_size, intermediate_size;
    int64_t num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim;
    int64_t max_position_embeddings;
    double rms_norm_eps, rope_theta;
    lj_rope_scaling rope_scaling;
    lj_activation hidden_act;
    bool tie_word_embeddings;   /* lm_head.weight is model.embed_tokens.weight */
    bool attention_bias;        /* q_proj, k_proj, v_proj have a bias */
    bool attention_output_bias; /* o_proj has one */
    bool mlp_bias;              /* gate_proj, up_proj, down_proj have one */
    bool qk_norm;               /* RMS norm over head_dim of each query and key head (q_norm, k_norm), before the rotation */
    int64_t sliding_window;     /* a query sees itself and the sliding_window - 1 tokens before it; 0: all before it */
    int64_t max_window_layers;  /* with sliding_window > 0: the first layer that slides; the layers below it see everything */
    double initializer_range;   /* standard deviation of fresh matrices */
    double attention_dropout;
    lj_dtype dtype;             /* of the stored weights, as the file says (f32 when it is silent) */
    int64_t bos_token_id, pad_token_id; /* -1: none */
    int64_t eos_token_ids[LJ_MAX_EOS];
    int eos_count;
} lj_model_config;

/* Defaults of a family where config.json may be silent (transformers' own): everything but the sizes, which are 0. */
void lj_model_config_init(lj_model_config *config, lj_model_family family);

/* Sizes positive and within limits, divisibility (heads by key-value heads, even head_dim), products that fit 62 bits, token ids
 * inside the vocabulary. LJ_ERR_INVALID or LJ_ERR_LIMIT with the field, its value and what is allowed. Any thread. */
lj_status lj_model_config_check(const lj_model_config *config);

/* "llama" <-> LJ_FAMILY_LLAMA and so on: the model_type of config.json; "LlamaForCausalLM": the architecture. */
const char *lj_model_family_name(lj_model_family family);
const char *lj_model_family_architecture(lj_model_family family);
lj_status lj_model_family_find(const char *model_type, lj_model_family *family); /* LJ_ERR_UNSUPPORTED lists the families */
const char *lj_activation_name(lj_activation activation);                        /* "silu" */
lj_status lj_activation_find(const char *name, lj_activation *activation);
const char *lj_rope_type_name(lj_rope_type type); /* "default", "linear", "dynamic", "yarn", "llama3" */
lj_status lj_rope_type_find(const char *name, lj_rope_type *type);

typedef enum { LJ_WEIGHT_EMBEDDING, LJ_WEIGHT_MATRIX, LJ_WEIGHT_BIAS, LJ_WEIGHT_NORM, LJ_WEIGHT_HEAD } lj_weight_role;

/* One weight that the model has. shape[0] is the output side: a matrix maps shape[1] inputs to shape[0] outputs. */
typedef struct {
    char name[LJ_MAX_WEIGHT_NAME]; /* "model.layers.0.self_attn.q_proj.weight" */
    lj_weight_role role;
    int layer; /* -1: outside the layers */
    int rank;  /* 1 or 2 */
    int64_t shape[2];
} lj_model_weight;

/* Number of weights of the model and weight `index` of them: embedding, layers in order, final norm, head. A tied head is no
 * weight of its own. The order and the names are the contract of files, checkpoints and the graph's parameters. */
size_t lj_model_weight_count(const lj_model_config *config);
void lj_model_weight_get(const lj_model_config *config, size_t index, lj_model_weight *weight);
/* Parameters in all, tied ones once. */
int64_t lj_model_parameter_count(const lj_model_config *config);

#endif
