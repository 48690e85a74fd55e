/* What of the forward pass is computed again in the backward pass instead of being kept.
 *
 * A choice is a level for each layer (the number behind "layers." in a node's scope) and a group size:
 *   none       keep everything
 *   cheap      norm outputs and the gated activation are built again from their kept operands
 *   attention  cheap, and the attention core's output (q, k, v stay)
 *   layer      everything but the layer's input
 * Calls and collectives are never run twice; what they made is kept. */
#ifndef LJ_PASSES_RECOMPUTE_H
#define LJ_PASSES_RECOMPUTE_H

#include "ir/ir.h"

typedef enum { LJ_RECOMPUTE_NONE, LJ_RECOMPUTE_CHEAP, LJ_RECOMPUTE_ATTENTION, LJ_RECOMPUTE_LAYER, LJ_RECOMPUTE_LEVELS } lj_recompute_level;

enum { LJ_RECOMPUTE_MAX_LAYERS = 1024 };

typedef struct {
    uint8_t level[LJ_RECOMPUTE_MAX_LAYERS];
    int group; /* layers of LJ_RECOMPUTE_LAYER that are rebuilt together from the first one's input; 1 = each alone */
} lj_recompute;

/* "none" | "cheap" | "attention" | "full" | "layers:N" (the first N whole) | "list:0,2,5" | "groups:G" (all layers, G together) |
 * "levels:0123..." (a digit a layer). `layers` is how many the model has; LJ_ERR_INVALID names what is wrong. */
lj_status lj_recompute_parse(const char *text, int layers, lj_recompute *out);

/* Layers that the graph's scopes name: one more than the highest number; 0 without any. */
int lj_graph_layers(const lj_graph *graph);

/* Rewrites: each backward reader of a value that is not kept reads a copy made just before its first such reader. */
lj_status lj_recompute_apply(lj_graph **graph, const lj_recompute *choice);

/* True for a node of the backward pass (its scope has the component "grad"). */
bool lj_node_is_backward(const lj_node *node);

#endif
