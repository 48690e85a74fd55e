/* Inside of the graph builders: the forward pass, shared by all of them. */
#ifndef LJ_MODEL_FORWARD_H
#define LJ_MODEL_FORWARD_H

#include "model/graphs.h"

typedef struct {
    lj_graph *graph;
    const lj_param_layout *layout;
    const lj_model_graph_options *options;
    lj_dim b, t, rows;   /* B, T, B * T */
    lj_arena arena;      /* of the builder's own lists */
    lj_value *params;    /* by index in the layout */
    lj_value cosines, sines, positions, starts;
    lj_value start;      /* decode: cache rows already filled; 0 elsewhere */
    lj_value x;          /* residual stream after the last built layer */
    lj_value x_input;    /* parts without embedding: what dx_out is the gradient of */
} lj_forward;

/* Makes the graph and its common inputs; on failure there is nothing to release. */
lj_status lj_forward_begin(lj_forward *forward, const lj_param_layout *layout, const lj_model_graph_options *options);
/* Embedding and layers: fills x. With `cached` the layers read and write the KV cache. */
void lj_forward_layers(lj_forward *forward, bool cached);
/* Final norm of `x` [rows, C]. */
lj_value lj_forward_final_norm(lj_forward *forward, lj_value x);
/* The head's weight [V, C]: lm_head or the tied embedding. */
lj_value lj_forward_head(const lj_forward *forward);
/* Gives the graph to the caller, or destroys it and returns its error. `status` is a failure that came before. */
lj_status lj_forward_end(lj_forward *forward, lj_status status, lj_graph **graph);

#endif
