/* Between the interpreter's files. Private to src/ref. */
#ifndef LJ_REF_RUN_H
#define LJ_REF_RUN_H

#include "ref/tensor.h"

enum { LJ_REF_MAX_RANKS = 64 };

/* One graph on its way: the tensors of the values that are alive, and the node that comes next. */
typedef struct {
    const lj_graph *graph;
    lj_ref_tensor *tensors; /* by value; cells NULL: not made yet, or no longer needed */
    uint32_t *last_use;     /* by value: last node that reads it; UINT32_MAX keeps it to the end */
    size_t next;
} lj_ref_frame;

lj_status lj_ref_frame_init(lj_ref_frame *frame, const lj_graph *graph);
void lj_ref_frame_release(lj_ref_frame *frame);
/* The value stays after its last reader. */
void lj_ref_frame_keep(lj_ref_frame *frame, lj_value value);

/* Runs the frames of `count` ranks to their ends. Inputs must stand in their tensors. */
lj_status lj_ref_frames_run(lj_ref_frame *frames, int count, const int64_t *sizes, lj_ref_mode mode);

/* Runs one node that needs no other rank; allocates the results, which the caller releases. Nothing is left on failure. */
lj_status lj_ref_node_run(const lj_graph *graph, const lj_node *node, const int64_t *sizes, lj_ref_mode mode,
                          const lj_ref_tensor *const *inputs, lj_ref_tensor *outputs);
/* Moves each element of a float result by up to its row's tolerance (noise.c). */
void lj_ref_nudge(const lj_node *node, const lj_ref_tensor *const *inputs, lj_ref_tensor *output, lj_ref_mode mode);
/* Allocates and rounds around a function that fills the results. */
lj_status lj_ref_outputs_init(const lj_graph *graph, const lj_node *node, const int64_t *sizes, lj_ref_tensor *outputs);
void lj_ref_outputs_release(lj_ref_tensor *outputs, int count);

#endif
