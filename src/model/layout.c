/* The table of parameter kinds, and how weights of the file fall into them. */
#include "model/layout.h"

#include <stdio.h>
#include <string.h>

/* Suffixes of the file's weights that make up a parameter, in row order. */
static const struct {
    const char *name;
    bool decay, in_layer;
    const char *weights[3];
} kinds[LJ_PARAM_KIND_COUNT] = {
    [LJ_PARAM_EMBED] = {"embed", true, false, {"model.embed_tokens.weight"}},
    [LJ_PARAM_INPUT_NORM] = {"input_norm", false, true, {"input_layernorm.weight"}},
    [LJ_PARAM_QKV] = {"qkv", true, true, {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"}},
    [LJ_PARAM_QKV_BIAS] = {"qkv_bias", false, true, {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"}},
    [LJ_PARAM_Q_NORM] = {"q_norm", false, true, {"self_attn.q_norm.weight"}},
    [LJ_PARAM_K_NORM] = {"k_norm", false, true, {"self_attn.k_norm.weight"}},
    [LJ_PARAM_OUT] = {"out", true, true, {"self_attn.o_proj.weight"}},
    [LJ_PARAM_OUT_BIAS] = {"out_bias", false, true, {"self_attn.o_proj.bias"}},
    [LJ_PARAM_POST_NORM] = {"post_norm", false, true, {"post_attention_layernorm.weight"}},
    [LJ_PARAM_GATE_UP] = {"gate_up", true, true, {"mlp.gate_proj.weight", "mlp.up_proj.weight"}},
    [LJ_PARAM_GATE_UP_BIAS] = {"gate_up_bias", false, true, {"mlp.gate_proj.bias", "mlp.up_proj.bias"}},
    [LJ_PARAM_DOWN] = {"down", true, true, {"mlp.down_proj.weight"}},
    [LJ_PARAM_DOWN_BIAS] = {"down_bias", false, true, {"mlp.down_proj.bias"}},
    [LJ_PARAM_FINAL_NORM] = {"final_norm", false, false, {"model.norm.weight"}},
    [LJ_PARAM_HEAD] = {"head", true, false, {"lm_head.weight"}},
};

/* "model.layers.12.mlp.up_proj.weight" -> "mlp.up_proj.weight"; other names as they are. */
static const char *weight_suffix(const lj_model_weight *weight)
{
    if (weight->layer < 0) return weight->name;
    const char *dot = strchr(weight->name + strlen("model.layers."), '.');
    return dot ? dot + 1 : weight->name;
}

/* Kind of a weight and its place among the kind's weights; false for a name that the table does not have. */
static bool kind_of(const lj_model_weight *weight, lj_param_kind *kind, int *place)
{
    const char *suffix = weight_suffix(weight);
    for (int k = 0; k < LJ_PARAM_KIND_COUNT; k++)
        for (int i = 0; i < 3 && kinds[k].weights[i]; i++) {
            if (kinds[k].in_layer != (weight->layer >= 0) || strcmp(kinds[k].weights[i], suffix) != 0) continue;
            *kind = (lj_param_kind)k, *place = i;
            return true;
        }
    return false;
}

static bool in_part(const lj_model_config *config, lj_model_part part, const lj_model_weight *weight)
{
    switch (weight->role) {
    case LJ_WEIGHT_EMBEDDING: return part.embedding || (part.head && config->tie_word_embeddings);
    case LJ_WEIGHT_HEAD: return part.head;
    default: return weight->layer < 0 ? part.head : weight->layer < part.layers;
    }
}

static int64_t weight_elements(const lj_model_weight *weight)
{
    return weight->shape[0] * (weight->rank == 2 ? weight->shape[1] : 1);
}

/* The parameter of a kind and layer, made when it is not there. */
static lj_param *param_at(lj_param_layout *layout, lj_param_kind kind, int layer)
{
    for (size_t i = layout->param_count; i-- > 0;)
        if (layout->params[i].kind == kind && layout->params[i].layer == layer) return &layout->params[i];
    lj_param *param = &layout->params[layout->param_count++];
    *param = (lj_param){.kind = kind, .layer = layer, .decay = kinds[kind].decay};
    param->name = layer < 0 ? kinds[kind].name : lj_arena_printf(&layout->arena, "layers.%d.%s", layer, kinds[kind].name);
    return param;
}

static lj_status slot_add(lj_param_layout *layout, const lj_model_weight *weight)
{
    lj_param_kind kind;
    int place;
    if (!kind_of(weight, &kind, &place)) return lj_fail(LJ_ERR_UNSUPPORTED, "weight %s has no place in the graphs", weight->name);
    lj_param *param = param_at(layout, kind, weight->layer);
    if (!param->name) return LJ_ERR_NOMEM;
    lj_weight_slot *slot = &layout->slots[layout->slot_count++];
    *slot = (lj_weight_slot){*weight, (size_t)(param - layout->params), param->elements, weight_elements(weight)};
    param->rank = weight->rank;
    param->shape[0] += weight->shape[0], param->shape[1] = weight->shape[1];
    param->elements += slot->count;
    return LJ_OK;
}

static int64_t aligned(int64_t elements)
{
    return (elements + LJ_PARAM_ALIGN - 1) / LJ_PARAM_ALIGN * LJ_PARAM_ALIGN;
}

/* Matrices first, then the rest, each in graph order. */
static void offsets_assign(lj_param_layout *layout)
{
    int64_t at = 0;
    for (int group = 0; group < 2; group++) {
        for (size_t i = 0; i < layout->param_count; i++) {
            lj_param *param = &layout->params[i];
            if (param->decay != (group == 0)) continue;
            param->offset = at;
            at += aligned(param->elements);
            layout->parameter_count += param->elements;
        }
        if (group == 0) layout->decay_elements = at;
    }
    layout->total_elements = at;
}

static lj_status config_supported(const lj_model_config *config)
{
    if (config->hidden_act == LJ_ACT_GELU)
        return lj_fail(LJ_ERR_UNSUPPORTED, "hidden_act 'gelu' (the exact one) has no op here; built are silu, gelu_pytorch_tanh, relu");
    return lj_model_config_check(config);
}

static lj_status layout_fill(lj_param_layout *layout)
{
    const lj_model_config *config = &layout->config;
    size_t count = lj_model_weight_count(config);
    layout->params = lj_arena_alloc(&layout->arena, count * sizeof *layout->params);
    layout->slots = lj_arena_alloc(&layout->arena, count * sizeof *layout->slots);
    if (!layout->params || !layout->slots) return LJ_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        lj_model_weight weight;
        lj_model_weight_get(config, i, &weight);
        if (in_part(config, layout->part, &weight)) LJ_TRY(slot_add(layout, &weight));
    }
    offsets_assign(layout);
    return LJ_OK;
}

lj_status lj_layout_init(lj_param_layout *layout, const lj_model_config *config, lj_model_part part)
{
    LJ_TRY(config_supported(config));
    if (part.layers < 0 || part.layers > config->num_hidden_layers)
        return lj_fail(LJ_ERR_INVALID, "%lld layers asked for, the model has %lld", (long long)part.layers, (long long)config->num_hidden_layers);
    *layout = (lj_param_layout){.config = *config, .part = part};
    lj_arena_init(&layout->arena, "param_layout");
    lj_status status = layout_fill(layout);
    if (status != LJ_OK) lj_layout_release(layout);
    return status;
}

void lj_layout_release(lj_param_layout *layout)
{
    lj_arena_release(&layout->arena);
    *layout = (lj_param_layout){0};
}

const lj_param *lj_layout_find(const lj_param_layout *layout, lj_param_kind kind, int layer)
{
    for (size_t i = 0; i < layout->param_count; i++)
        if (layout->params[i].kind == kind && layout->params[i].layer == layer) return &layout->params[i];
    return NULL;
}

const lj_weight_slot *lj_layout_slot(const lj_param_layout *layout, const char *weight_name)
{
    for (size_t i = 0; i < layout->slot_count; i++)
        if (strcmp(layout->slots[i].weight.name, weight_name) == 0) return &layout->slots[i];
    return NULL;
}

int64_t lj_layout_matmul_parameters(const lj_param_layout *layout)
{
    bool tied = layout->config.tie_word_embeddings && layout->part.head;
    int64_t total = 0;
    for (size_t i = 0; i < layout->param_count; i++) {
        const lj_param *param = &layout->params[i];
        if (param->decay && (param->kind != LJ_PARAM_EMBED || tied)) total += param->elements;
    }
    return total;
}

double lj_layout_flops_per_token(const lj_param_layout *layout, int64_t seq)
{
    const lj_model_config *c = &layout->config;
    double attention = 6.0 * (double)layout->part.layers * (double)(c->num_attention_heads * c->head_dim) * (double)seq;
    return 6.0 * (double)lj_layout_matmul_parameters(layout) + attention;
}
