/* Cuts the graph into units of work: generated kernels (groups of primitives, each a small graph of its own) and nodes that a
 * library runs (products, attention, the head, calls, collectives). Reshapes cost nothing and make no unit. */
#ifndef LJ_PASSES_FUSE_H
#define LJ_PASSES_FUSE_H

#include "ir/ir.h"

typedef struct {
    lj_graph *kernel;    /* primitives only; inputs in order of `inputs`, results in order of `outputs`; NULL for a library node */
    uint32_t node;       /* the library node, or the last member of the group */
    lj_value *inputs;    /* values read, as buffers (library nodes: the operands as they stand, 0 for a missing one) */
    lj_value *outputs;   /* values written */
    uint32_t input_count, output_count;
} lj_unit;

typedef struct {
    lj_unit *units; /* in an order that runs */
    size_t count;
    lj_arena arena;
} lj_units;

typedef struct {
    bool fuse;                                /* false: every op its own kernel (views and constants still cost nothing) */
    /* Can code be generated for this group? LJ_ERR_UNSUPPORTED: it is taken apart; any other failure ends. */
    lj_status (*accepts)(const lj_graph *kernel);
} lj_fuse_options;

lj_status lj_fuse(const lj_graph *graph, const lj_fuse_options *options, lj_units *units);
void lj_units_release(lj_units *units);
/* The units as text, for --dump-after fuse. */
lj_status lj_units_print(const lj_graph *graph, const lj_units *units, lj_text *out);

/* Attention reads q, k, v in place when they are slices of the heads' axis: follows one such slice. Returns the value whose
 * buffer holds the operand, and the first head of it in *head (0 without a slice). */
lj_value lj_attention_operand(const lj_graph *graph, lj_value value, int64_t *head);
/* Follows reshapes to the value that owns the buffer. */
lj_value lj_storage_value(const lj_graph *graph, lj_value value);

#endif
