/* A model as graphs over one parameter layout: `micro` (forward, backward, add to the gradients), `update` (global norm, clip,
 * AdamW, compute copy), `eval` (losses), `logits`, `decode` (with a KV cache).
 *
 * Symbols: B sequences, T tokens of each, P rows of the rotary tables, S capacity of the KV cache. Activations are [B*T, C].
 * Inputs common to the forward graphs (all but `update`):
 *   NAME                 a parameter of the layout, in the compute dtype
 *   tokens    i32 [B*T]  ids; with a part that has no embedding instead: x [B, T, C] in the compute dtype
 *   positions i32 [B, T] rows of the rotary tables
 *   cosines, sines f32 [P, head_dim]
 *   starts    i32 [B, T] first position a token may see (documents packed in one row); only with options.documents
 * `micro` and `eval`:
 *   targets   i32 [B*T]  id to predict, negative: none
 * `micro`:
 *   weights   f32 [B*T]  weight of each token's loss; 1 / (target tokens of the whole step, over micro batches and ranks) makes
 *                        the sum of the outputs `loss` over micro batches the mean loss, and the gradients exact
 *   grad.NAME f32        state: the gradient is added to it, or written with options.first
 *   dx        [B*T, C]   only in a part without head: the gradient that comes from above
 *   outputs: loss f32 (parts with head); dx_out [B*T, C] (parts without embedding)
 * `eval`: output losses f32 [B*T], 0 where there is no target.
 * `logits`: output logits f32 [B*T, V].
 * `decode`: start i32 [B] (cache rows already filled), last i32 [B] (row of x whose logits are wanted), state cache.k.L and
 *   cache.v.L [B, S, key-value heads, head_dim]; output logits f32 [B, V]. The new keys stand in rows start .. start+T-1.
 * `update`: groups "decay" and "rest" (absent when empty) of the flat buffers: state master.G, m.G, v.G f32, grad.G f32 (read),
 *   and in bf16 state compute.G; hyper f32 [4] = {learning rate, clip norm (infinity: none), 1 - beta1^t, 1 - beta2^t};
 *   output norm f32, the gradient's global norm before clipping.
 *
 * Each function gives a new graph that the caller destroys. Any thread. */
#ifndef LJ_MODEL_GRAPHS_H
#define LJ_MODEL_GRAPHS_H

#include "ljperf/graph.h"
#include "model/layout.h"

typedef struct {
    lj_dtype dtype; /* of weights as computed with, and activations: LJ_F32 or LJ_BF16 */
    bool documents; /* attention limited by the input `starts` */
    bool first;     /* micro: gradients are written, not added to */
} lj_model_graph_options;

lj_status lj_model_graph_micro(const lj_param_layout *layout, const lj_model_graph_options *options, lj_graph **graph);
lj_status lj_model_graph_eval(const lj_param_layout *layout, const lj_model_graph_options *options, lj_graph **graph);
lj_status lj_model_graph_logits(const lj_param_layout *layout, const lj_model_graph_options *options, lj_graph **graph);
lj_status lj_model_graph_decode(const lj_param_layout *layout, const lj_model_graph_options *options, lj_graph **graph);
lj_status lj_model_graph_update(const lj_param_layout *layout, lj_dtype dtype, const lj_adamw_options *adamw, lj_graph **graph);

#endif
