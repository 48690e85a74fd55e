/* The Llama family's forward pass. What differs between models is read from the config's fields, never from a name. */
#include "model/forward.h"

#include <math.h>
#include <stdio.h>

static lj_value param(const lj_forward *f, lj_param_kind kind, int layer)
{
    const lj_param *found = lj_layout_find(f->layout, kind, layer);
    return found ? f->params[found - f->layout->params] : 0;
}

static lj_type type2(lj_dtype dtype, lj_dim rows, lj_dim columns)
{
    return lj_type_dims(dtype, 2, (lj_dim[]){rows, columns});
}

static lj_status params_declare(lj_forward *f)
{
    const lj_param_layout *layout = f->layout;
    f->params = lj_arena_alloc(&f->arena, layout->param_count * sizeof *f->params);
    if (!f->params) return LJ_ERR_NOMEM;
    for (size_t i = 0; i < layout->param_count; i++) {
        const lj_param *p = &layout->params[i];
        f->params[i] = lj_input(f->graph, p->name, lj_type_of(f->options->dtype, p->rank, p->shape), LJ_ROLE_PARAM);
    }
    return LJ_OK;
}

static void inputs_declare(lj_forward *f)
{
    lj_graph *g = f->graph;
    const lj_param_layout *layout = f->layout;
    if (layout->part.layers) {
        lj_dim p = lj_dim_symbol(g, "P"), d = lj_dim_const(layout->config.head_dim);
        f->positions = lj_input(g, "positions", type2(LJ_I32, f->b, f->t), LJ_ROLE_DATA);
        f->cosines = lj_input(g, "cosines", type2(LJ_F32, p, d), LJ_ROLE_DATA);
        f->sines = lj_input(g, "sines", type2(LJ_F32, p, d), LJ_ROLE_DATA);
        if (f->options->documents) f->starts = lj_input(g, "starts", type2(LJ_I32, f->b, f->t), LJ_ROLE_DATA);
    }
}

lj_status lj_forward_begin(lj_forward *forward, const lj_param_layout *layout, const lj_model_graph_options *options)
{
    *forward = (lj_forward){.layout = layout, .options = options};
    if (options->dtype != LJ_F32 && options->dtype != LJ_BF16)
        return lj_fail(LJ_ERR_UNSUPPORTED, "models are computed in f32 or bf16, not %s", lj_dtype_name(options->dtype));
    LJ_TRY(lj_graph_create(&forward->graph));
    lj_arena_init(&forward->arena, "model_forward");
    forward->b = lj_dim_symbol(forward->graph, "B");
    forward->t = lj_dim_symbol(forward->graph, "T");
    forward->rows = lj_dim_mul(forward->b, forward->t);
    lj_status status = params_declare(forward);
    if (status != LJ_OK) return lj_forward_end(forward, status, NULL);
    inputs_declare(forward);
    return LJ_OK;
}

static lj_value linear(lj_graph *g, lj_value x, lj_value weight, lj_value bias)
{
    lj_value y = lj_linear(g, x, weight);
    return bias ? lj_add(g, y, bias) : y;
}

static lj_value activation(lj_graph *g, lj_activation kind, lj_value gate, lj_value up)
{
    if (kind == LJ_ACT_SILU) return lj_swiglu(g, gate, up);
    lj_type one = {.dtype = lj_value_type(g, gate).dtype};
    if (kind == LJ_ACT_RELU) return lj_mul(g, lj_max(g, gate, lj_const(g, one, 0)), up);
    /* gelu, tanh form (Hendrycks and Gimpel 2016): x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    lj_value cube = lj_mul(g, lj_mul(g, gate, gate), gate);
    lj_value inner = lj_add(g, gate, lj_mul(g, cube, lj_const(g, one, 0.044715)));
    lj_value wave = lj_tanh(g, lj_mul(g, inner, lj_const(g, one, sqrt(2 / 3.14159265358979323846))));
    lj_value half = lj_mul(g, gate, lj_const(g, one, 0.5));
    return lj_mul(g, lj_mul(g, half, lj_add(g, wave, lj_const(g, one, 1))), up);
}

/* Heads [first, first + count) of [B, T, H, D]. */
static lj_value heads(lj_forward *f, lj_value qkv, int64_t first, int64_t count)
{
    return lj_slice(f->graph, qkv, 2, first, count);
}

/* Norm over head_dim where the model has one, then the rotation. */
static lj_value rotate(lj_forward *f, lj_value x, lj_param_kind norm, int layer)
{
    lj_value weight = param(f, norm, layer);
    if (weight) x = lj_rms_norm(f->graph, x, weight, f->layout->config.rms_norm_eps);
    return lj_rotary(f->graph, x, f->cosines, f->sines, f->positions);
}

/* Writes this call's keys or values into the layer's cache and gives the whole cache. */
static lj_value cached(lj_forward *f, const char *which, int layer, lj_value update)
{
    const lj_model_config *c = &f->layout->config;
    char name[48];
    snprintf(name, sizeof name, "cache.%s.%d", which, layer);
    lj_dim dims[] = {f->b, lj_dim_symbol(f->graph, "S"), lj_dim_const(c->num_key_value_heads), lj_dim_const(c->head_dim)};
    lj_value cache = lj_input(f->graph, name, lj_type_dims(f->options->dtype, 4, dims), LJ_ROLE_STATE);
    lj_value filled = lj_update_rows(f->graph, cache, update, f->start);
    (void)lj_graph_assign(f->graph, cache, filled);
    return filled;
}

static lj_value attention(lj_forward *f, lj_value x, int layer, bool use_cache)
{
    const lj_model_config *c = &f->layout->config;
    lj_graph *g = f->graph;
    int64_t hq = c->num_attention_heads, hkv = c->num_key_value_heads;
    lj_value qkv = linear(g, x, param(f, LJ_PARAM_QKV, layer), param(f, LJ_PARAM_QKV_BIAS, layer));
    qkv = lj_reshape(g, qkv, 4, (lj_dim[]){f->b, f->t, lj_dim_const(hq + 2 * hkv), lj_dim_const(c->head_dim)});
    lj_value q = rotate(f, heads(f, qkv, 0, hq), LJ_PARAM_Q_NORM, layer);
    lj_value k = rotate(f, heads(f, qkv, hq, hkv), LJ_PARAM_K_NORM, layer);
    lj_value v = heads(f, qkv, hq + hkv, hkv);
    if (use_cache) k = cached(f, "k", layer, k), v = cached(f, "v", layer, v);
    int64_t window = c->sliding_window && layer >= c->max_window_layers ? c->sliding_window : 0;
    lj_attention_options options = {.causal = 1, .window = window, .starts = f->starts, .q_start = f->start};
    lj_value out = lj_attention(g, q, k, v, &options);
    out = lj_reshape(g, out, 2, (lj_dim[]){f->rows, lj_dim_const(hq * c->head_dim)});
    return linear(g, out, param(f, LJ_PARAM_OUT, layer), param(f, LJ_PARAM_OUT_BIAS, layer));
}

static lj_value mlp(lj_forward *f, lj_value x, int layer)
{
    const lj_model_config *c = &f->layout->config;
    lj_graph *g = f->graph;
    lj_value both = linear(g, x, param(f, LJ_PARAM_GATE_UP, layer), param(f, LJ_PARAM_GATE_UP_BIAS, layer));
    lj_value gate = lj_slice(g, both, 1, 0, c->intermediate_size);
    lj_value up = lj_slice(g, both, 1, c->intermediate_size, c->intermediate_size);
    lj_value hidden = activation(g, c->hidden_act, gate, up);
    return linear(g, hidden, param(f, LJ_PARAM_DOWN, layer), param(f, LJ_PARAM_DOWN_BIAS, layer));
}

static void layer_build(lj_forward *f, int layer, bool use_cache)
{
    lj_graph *g = f->graph;
    double eps = f->layout->config.rms_norm_eps;
    lj_graph_scope_push(g, "layers.%d", layer);
    lj_value normed = lj_rms_norm(g, f->x, param(f, LJ_PARAM_INPUT_NORM, layer), eps);
    f->x = lj_add(g, f->x, attention(f, normed, layer, use_cache));
    normed = lj_rms_norm(g, f->x, param(f, LJ_PARAM_POST_NORM, layer), eps);
    f->x = lj_add(g, f->x, mlp(f, normed, layer));
    lj_graph_scope_pop(g);
}

/* A part without embedding takes the residual stream; the reshape makes it a value whose gradient keeps the compute dtype. */
static lj_value stream_input(lj_forward *f)
{
    lj_dim c = lj_dim_const(f->layout->config.hidden_size);
    lj_value x = lj_input(f->graph, "x", lj_type_dims(f->options->dtype, 3, (lj_dim[]){f->b, f->t, c}), LJ_ROLE_DATA);
    return f->x_input = lj_reshape(f->graph, x, 2, (lj_dim[]){f->rows, c});
}

static lj_value embed(lj_forward *f)
{
    lj_value tokens = lj_input(f->graph, "tokens", lj_type_dims(LJ_I32, 1, &f->rows), LJ_ROLE_DATA);
    return lj_gather(f->graph, param(f, LJ_PARAM_EMBED, -1), tokens);
}

void lj_forward_layers(lj_forward *forward, bool use_cache)
{
    if (use_cache) forward->start = lj_input(forward->graph, "start", lj_type_dims(LJ_I32, 1, &forward->b), LJ_ROLE_DATA);
    forward->x = forward->layout->part.embedding ? embed(forward) : stream_input(forward);
    for (int layer = 0; layer < forward->layout->part.layers; layer++) layer_build(forward, layer, use_cache);
}

lj_value lj_forward_final_norm(lj_forward *forward, lj_value x)
{
    return lj_rms_norm(forward->graph, x, param(forward, LJ_PARAM_FINAL_NORM, -1), forward->layout->config.rms_norm_eps);
}

lj_value lj_forward_head(const lj_forward *forward)
{
    return param(forward, forward->layout->config.tie_word_embeddings ? LJ_PARAM_EMBED : LJ_PARAM_HEAD, -1);
}

lj_status lj_forward_end(lj_forward *forward, lj_status status, lj_graph **graph)
{
    if (status == LJ_OK) status = lj_graph_status(forward->graph);
    if (status == LJ_OK)
        *graph = forward->graph;
    else
        lj_graph_destroy(forward->graph);
    lj_arena_release(&forward->arena);
    return status;
}
