/* The reference: every op in plain loops, every graph node by node. It is the oracle of the tests and is never optimised.
 *
 * Numbers are held as doubles (floats) or 64-bit integers, computed and accumulated in double, and rounded to the declared
 * dtype after each node. Composites run their decomposition, call nodes their function. It shares no code with what it
 * judges: of the rest of the library it uses the graph, the dtype table and allocation only.
 *
 * One thread at a time per run; nothing is kept between runs. */
#ifndef LJ_REF_REF_H
#define LJ_REF_REF_H

#include "ir/ir.h"

/* An input or output of the graph by name. Contiguous, row-major, in its dtype (see `exact`). */
typedef struct {
    const char *name;
    void *data;
} lj_ref_binding;

typedef struct {
    /* No result is rounded to a float dtype (constants are, as inputs were), and every float buffer (bound, or handed to a call function) is an array of
     * double whatever its dtype says: the truth that finite differences need. Integers and bool stay what they are. */
    bool exact;
    /* Not 0: each result is nudged at random by what its row's tolerance allows (this seeds the numbers). Several such runs
     * show how far the errors of honest implementations travel. */
    uint64_t noise;
} lj_ref_options;

/* Runs `graph` at `sizes` (sizes[i] of symbol i). Every input must be bound; outputs may be left out. Inputs that an
 * assignment targets are written back. Buffers are written only on success. Collectives are those of one rank.
 * LJ_ERR_NOT_FOUND: an input without a buffer; LJ_ERR_INVALID: an id out of range, a call that failed, a collective of more
 * ranks than run; LJ_ERR_NOMEM, LJ_ERR_LIMIT. `options` may be NULL. */
lj_status lj_ref_run(const lj_graph *graph, const int64_t *sizes, const lj_ref_binding *inputs, size_t input_count,
                     const lj_ref_binding *outputs, size_t output_count, const lj_ref_options *options);

/* A rank of a simulated communicator: its own graph (or the same one) and its own buffers. */
typedef struct {
    const lj_graph *graph;
    const lj_ref_binding *inputs;
    size_t input_count;
    const lj_ref_binding *outputs;
    size_t output_count;
} lj_ref_member;

/* Runs `count` ranks in lockstep: the n-th collective of each rank meets the n-th of the others, sends and receives match in
 * order by pair. LJ_ERR_PEER names the rank and node that wait for ever, or collectives that do not fit together. */
lj_status lj_ref_run_members(const lj_ref_member *members, int count, const int64_t *sizes, const lj_ref_options *options);

/* Runs one node on given operands: inputs[j] is the buffer of operand j (NULL where the operand is 0), outputs[k] receives
 * result k (NULL: not wanted). Any op except input, send and recv. */
lj_status lj_ref_node(const lj_graph *graph, const lj_node *node, const int64_t *sizes, const void *const *inputs,
                      void *const *outputs, const lj_ref_options *options);

#endif
