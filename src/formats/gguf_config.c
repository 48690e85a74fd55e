/* What a GGUF says about the model it holds. */
#include "formats/gguf_config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *architecture;
    lj_model_family family;
} architectures[] = {{"llama", LJ_FAMILY_LLAMA}, {"qwen2", LJ_FAMILY_QWEN2}, {"qwen3", LJ_FAMILY_QWEN3}};

static const struct {
    const char *gguf, *hf;
} global_names[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

static const struct {
    const char *gguf, *hf;
} layer_names[] = {
    {"attn_norm", "input_layernorm"},        {"attn_q", "self_attn.q_proj"},           {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},          {"attn_output", "self_attn.o_proj"},      {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},     {"ffn_norm", "post_attention_layernorm"}, {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},               {"ffn_down", "mlp.down_proj"},
};

static bool layer_name_to_hf(const char *name, char *buffer)
{
    char *end;
    if (strncmp(name, "blk.", 4) != 0 || !isdigit((unsigned char)name[4])) return false;
    unsigned long layer = strtoul(name + 4, &end, 10);
    const char *part = end + 1, *kind = strrchr(name, '.');
    if (*end != '.' || kind <= part || layer > LJ_MAX_LAYERS) return false;
    if (strcmp(kind, ".weight") != 0 && strcmp(kind, ".bias") != 0) return false;
    for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++) {
        if (strlen(layer_names[i].gguf) != (size_t)(kind - part) || strncmp(part, layer_names[i].gguf, (size_t)(kind - part)) != 0) continue;
        snprintf(buffer, LJ_MAX_WEIGHT_NAME, "model.layers.%lu.%s%s", layer, layer_names[i].hf, kind);
        return true;
    }
    return false;
}

bool lj_gguf_name_to_hf(const char *name, char *buffer)
{
    for (size_t i = 0; i < sizeof global_names / sizeof *global_names; i++)
        if (strcmp(name, global_names[i].gguf) == 0) {
            snprintf(buffer, LJ_MAX_WEIGHT_NAME, "%s", global_names[i].hf);
            return true;
        }
    return layer_name_to_hf(name, buffer);
}

int64_t lj_gguf_rotary_row(int64_t row, int64_t head_dim)
{
    int64_t head = row / head_dim, within = row % head_dim, half = head_dim / 2;
    return head * head_dim + within % half * 2 + within / half;
}

static lj_status architecture_read(const lj_gguf *gguf, char *name, size_t capacity, lj_model_family *family)
{
    lj_gguf_string text = {NULL, 0};
    LJ_TRY(lj_gguf_get_string(gguf, "general.architecture", &text));
    if (!text.data) return lj_fail(LJ_ERR_FORMAT, "%s: key 'general.architecture' is missing", lj_gguf_part_path(gguf, 0));
    snprintf(name, capacity, "%.*s", (int)(text.bytes < capacity ? text.bytes : capacity - 1), text.data);
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (strcmp(name, architectures[i].architecture) == 0) {
            *family = architectures[i].family;
            return LJ_OK;
        }
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: architecture '%.60s' is not built here; built are llama, qwen2, qwen3", lj_gguf_part_path(gguf, 0), name);
}

/* One integer under the architecture's prefix; absent is an error when `low` > 0. */
typedef struct {
    const char *suffix;
    int64_t *value, low, high;
} metadata_int;

static lj_status metadata_ints_read(const lj_gguf *gguf, const char *architecture, const metadata_int *ints, size_t count)
{
    char key[160];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%s.%s", architecture, ints[i].suffix);
        if (ints[i].low > 0 && !lj_gguf_find(gguf, key)) return lj_fail(LJ_ERR_FORMAT, "%s: key '%s' is missing", lj_gguf_part_path(gguf, 0), key);
        LJ_TRY(lj_gguf_get_int(gguf, key, ints[i].value));
        if (lj_gguf_find(gguf, key) && (*ints[i].value < ints[i].low || *ints[i].value > ints[i].high))
            return lj_fail(LJ_ERR_LIMIT, "%s: key '%s' is %lld; allowed are %lld .. %lld", lj_gguf_part_path(gguf, 0), key, (long long)*ints[i].value,
                           (long long)ints[i].low, (long long)ints[i].high);
    }
    return LJ_OK;
}

static lj_status sizes_read(const lj_gguf *gguf, const char *architecture, lj_model_config *c)
{
    const int64_t wide = 1 << 24;
    int64_t rotary = 0, experts = 0;
    const metadata_int required[] = {
        {"block_count", &c->num_hidden_layers, 1, LJ_MAX_LAYERS},
        {"embedding_length", &c->hidden_size, 1, wide},
        {"feed_forward_length", &c->intermediate_size, 1, wide},
        {"attention.head_count", &c->num_attention_heads, 1, 65536},
        {"context_length", &c->max_position_embeddings, 1, (int64_t)1 << 40},
    };
    LJ_TRY(metadata_ints_read(gguf, architecture, required, sizeof required / sizeof *required));
    c->num_key_value_heads = c->num_attention_heads;
    c->head_dim = c->hidden_size / c->num_attention_heads;
    const metadata_int optional[] = {
        {"attention.head_count_kv", &c->num_key_value_heads, 0, 65536},
        {"attention.key_length", &c->head_dim, 0, 65536},
        {"attention.sliding_window", &c->sliding_window, 0, (int64_t)1 << 40},
        {"vocab_size", &c->vocab_size, 0, wide},
        {"rope.dimension_count", &rotary, 0, 65536},
        {"expert_count", &experts, 0, 65536},
    };
    LJ_TRY(metadata_ints_read(gguf, architecture, optional, sizeof optional / sizeof *optional));
    if (experts > 0) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: has %lld experts; mixtures of experts are not built here", lj_gguf_part_path(gguf, 0), (long long)experts);
    if (rotary != 0 && rotary != c->head_dim)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: rotates %lld of %lld dimensions of a head; only all are built here", lj_gguf_part_path(gguf, 0), (long long)rotary,
                       (long long)c->head_dim);
    return LJ_OK;
}

/* A window only exists where the family has one; Mistral's files say llama, so a window makes the file Mistral's. */
static void window_place(lj_model_config *c)
{
    if (c->sliding_window >= c->max_position_embeddings) c->sliding_window = 0;
    if (c->sliding_window > 0 && c->family == LJ_FAMILY_LLAMA) c->family = LJ_FAMILY_MISTRAL;
}

static lj_status vocab_read(const lj_gguf *gguf, lj_model_config *c)
{
    const lj_gguf_tensor *embedding = lj_gguf_tensor_find(gguf, "token_embd.weight");
    const lj_gguf_field *tokens = lj_gguf_find(gguf, "tokenizer.ggml.tokens");
    if (embedding && embedding->rank == 2) {
        c->vocab_size = embedding->shape[0]; /* the rows there are, padding included */
    } else if (c->vocab_size == 0 && tokens && tokens->count <= INT64_MAX) {
        c->vocab_size = (int64_t)tokens->count;
    }
    return LJ_OK;
}

static lj_status ids_read(const lj_gguf *gguf, lj_model_config *c)
{
    static const char *const end_keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    c->bos_token_id = -1, c->eos_count = 0;
    LJ_TRY(lj_gguf_get_int(gguf, "tokenizer.ggml.bos_token_id", &c->bos_token_id));
    LJ_TRY(lj_gguf_get_int(gguf, "tokenizer.ggml.padding_token_id", &c->pad_token_id));
    for (size_t i = 0; i < 2; i++) {
        int64_t id = -1;
        LJ_TRY(lj_gguf_get_int(gguf, end_keys[i], &id));
        bool known = id < 0 || (c->eos_count == 1 && c->eos_token_ids[0] == id);
        if (!known) c->eos_token_ids[c->eos_count++] = id;
    }
    return LJ_OK;
}

/* The type that most matrix bytes suggest is lost in a quantised file: what is stored decides, quantised counts as bf16. */
static lj_dtype dtype_guess(const lj_gguf *gguf)
{
    const lj_gguf_tensor *embedding = lj_gguf_tensor_find(gguf, "token_embd.weight");
    lj_dtype plain = embedding ? embedding->type->plain : LJ_DTYPE_COUNT;
    return plain == LJ_F32 || plain == LJ_F16 ? plain : LJ_BF16;
}

static bool layer_has(const lj_gguf *gguf, const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "blk.0.%s", part);
    return lj_gguf_tensor_find(gguf, name) != NULL;
}

static void structure_read(const lj_gguf *gguf, lj_model_config *c)
{
    c->tie_word_embeddings = !lj_gguf_tensor_find(gguf, "output.weight");
    c->attention_bias = layer_has(gguf, "attn_q.bias");
    c->attention_output_bias = layer_has(gguf, "attn_output.bias");
    c->mlp_bias = layer_has(gguf, "ffn_down.bias");
    c->qk_norm = layer_has(gguf, "attn_q_norm.weight");
    c->dtype = dtype_guess(gguf);
}

/* Divisor of frequency i by the llama3 rule. */
static double llama3_divisor(const lj_model_config *c, const lj_rope_scaling *r, int64_t i)
{
    double frequency = pow(c->rope_theta, -2.0 * (double)i / (double)c->head_dim), wavelength = 2 * 3.14159265358979323846 / frequency;
    double original = (double)r->original_max_position_embeddings;
    if (wavelength < original / r->high_freq_factor) return 1;
    if (wavelength > original / r->low_freq_factor) return r->factor;
    double smooth = (original / wavelength - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return 1 / ((1 - smooth) / r->factor + smooth);
}

static bool llama3_fits(const lj_model_config *c, const lj_rope_scaling *r, const uint8_t *divisors)
{
    for (int64_t i = 0; i < c->head_dim / 2; i++) {
        float stored;
        memcpy(&stored, divisors + 4 * i, 4);
        if (!(fabs((double)stored / llama3_divisor(c, r, i) - 1) < 1e-3)) return false;
    }
    return true;
}

/* The lowest frequency's divisor: the factor itself. */
static double last_divisor(const lj_model_config *c, const uint8_t *divisors)
{
    float last;
    memcpy(&last, divisors + 4 * (c->head_dim / 2 - 1), 4);
    return (double)last;
}

/* Between the plateaus 1/divisor is a line in the frequency: smooth = (original x frequency / 2 pi - low) / (high - low). Only the ratio of
 * the three shows in the divisors, so low is taken as 1 and the line's slope and intercept give the rest. */
static bool llama3_solve(const lj_model_config *c, const uint8_t *divisors, lj_rope_scaling *out)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, n = 0, factor = last_divisor(c, divisors);
    for (int64_t i = 0; i < c->head_dim / 2; i++) {
        float stored;
        memcpy(&stored, divisors + 4 * i, 4);
        if (!((double)stored > 1 + 1e-6) || !((double)stored < factor * (1 - 1e-6))) continue;
        double x = pow(c->rope_theta, -2.0 * (double)i / (double)c->head_dim) / (2 * 3.14159265358979323846);
        double y = (1 / (double)stored - 1 / factor) / (1 - 1 / factor);
        sx += x, sy += y, sxx += x * x, sxy += x * y, n += 1;
    }
    double slope = (n * sxy - sx * sy) / (n * sxx - sx * sx), intercept = (sy - slope * sx) / n;
    double width = -1 / intercept, original = slope * width; /* high - low, with low = 1 */
    if (n < 2 || !(width > 0 && width < 1e6) || !(original > 0 && original < 1e12)) return false;
    *out = (lj_rope_scaling){.type = LJ_ROPE_LLAMA3, .factor = factor, .low_freq_factor = 1};
    out->high_freq_factor = fabs(width + 1 - round(width + 1)) < 1e-2 ? round(width + 1) : width + 1;
    out->original_max_position_embeddings = llround(original);
    return llama3_fits(c, out, divisors);
}

/* rope_freqs.weight of Llama 3.1 and later. */
static lj_status rope_tensor_read(const lj_gguf *gguf, lj_model_config *c)
{
    const lj_gguf_tensor *t = lj_gguf_tensor_find(gguf, "rope_freqs.weight");
    const char *path = lj_gguf_part_path(gguf, 0);
    if (!t) return LJ_OK;
    if (t->rank != 1 || t->type->plain != LJ_F32 || t->shape[0] != c->head_dim / 2)
        return lj_fail(LJ_ERR_FORMAT, "%s: rope_freqs.weight is %lld of %s, it must be %lld of F32", path, (long long)t->shape[t->rank - 1], t->type->name,
                       (long long)c->head_dim / 2);
    if (llama3_solve(c, t->data, &c->rope_scaling)) return LJ_OK;
    /* Too few frequencies between the plateaus to solve for: the numbers of the released models, if they explain the tensor. */
    lj_rope_scaling released = {.type = LJ_ROPE_LLAMA3, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position_embeddings = 8192};
    released.factor = last_divisor(c, t->data);
    if (llama3_fits(c, &released, t->data)) {
        c->rope_scaling = released;
        return LJ_OK;
    }
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: rope_freqs.weight follows no rule known here (llama3); use the Hugging Face folder of the model", path);
}

static lj_status rope_read(const lj_gguf *gguf, const char *architecture, lj_model_config *c)
{
    char key[160], word[32];
    lj_gguf_string type = {NULL, 0};
    snprintf(key, sizeof key, "%s.rope.freq_base", architecture);
    LJ_TRY(lj_gguf_get_double(gguf, key, &c->rope_theta));
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    LJ_TRY(lj_gguf_get_double(gguf, key, &c->rms_norm_eps));
    snprintf(key, sizeof key, "%s.rope.scaling.type", architecture);
    LJ_TRY(lj_gguf_get_string(gguf, key, &type));
    snprintf(word, sizeof word, "%.*s", (int)(type.bytes < sizeof word ? type.bytes : sizeof word - 1), type.data ? type.data : "");
    if (!*word || strcmp(word, "none") == 0) return rope_tensor_read(gguf, c);
    LJ_TRY(lj_fail_in(lj_rope_type_find(word, &c->rope_scaling.type), "%s", lj_gguf_part_path(gguf, 0)));
    snprintf(key, sizeof key, "%s.rope.scaling.factor", architecture);
    LJ_TRY(lj_gguf_get_double(gguf, key, &c->rope_scaling.factor));
    if (c->rope_scaling.type == LJ_ROPE_YARN) {
        c->rope_scaling.beta_fast = 32, c->rope_scaling.beta_slow = 1;
        snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", architecture);
        LJ_TRY(lj_gguf_get_int(gguf, key, &c->rope_scaling.original_max_position_embeddings));
    } else if (c->rope_scaling.type == LJ_ROPE_DYNAMIC) {
        c->rope_scaling.original_max_position_embeddings = c->max_position_embeddings;
    }
    return LJ_OK;
}

/* Files store the epsilon as f32; the model's text said 1e-05: the shortest decimal that is the same f32. */
static double shortest_decimal(double value)
{
    char text[32];
    for (int precision = 1; precision < 10; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, value);
        if ((float)strtod(text, NULL) == (float)value) return strtod(text, NULL);
    }
    return value;
}

lj_status lj_gguf_config_read(const lj_gguf *gguf, lj_model_config *config)
{
    char architecture[64];
    lj_model_family family = LJ_FAMILY_LLAMA;
    lj_model_config c;
    LJ_TRY(architecture_read(gguf, architecture, sizeof architecture, &family));
    lj_model_config_init(&c, family);
    LJ_TRY(sizes_read(gguf, architecture, &c));
    window_place(&c);
    LJ_TRY(vocab_read(gguf, &c));
    LJ_TRY(ids_read(gguf, &c));
    structure_read(gguf, &c);
    LJ_TRY(rope_read(gguf, architecture, &c));
    c.rms_norm_eps = shortest_decimal(c.rms_norm_eps);
    c.rope_theta = shortest_decimal(c.rope_theta);
    LJ_TRY(lj_fail_in(lj_model_config_check(&c), "%s", lj_gguf_part_path(gguf, 0)));
    *config = c;
    return LJ_OK;
}
