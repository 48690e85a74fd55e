/* From kernel graphs to loop nests.
 *
 * A kernel graph is a small graph of primitives: its inputs (in node order) are the buffers it reads, its results (in order) the
 * buffers it writes, all contiguous and row-major with symbolic sizes. A result with a `state` input is done in place: it shares
 * that input's buffer; no other buffers may overlap. */
#ifndef LJ_CODEGEN_LOWER_H
#define LJ_CODEGEN_LOWER_H

#include "ir/ir.h"

typedef struct lj_lowered lj_lowered;

enum { LJ_MAX_GROUPS = 16 };

/* LJ_ERR_UNSUPPORTED with the reason when the graph has no form that is generated (see docs of the forms in lower.c):
 *   rows      elementwise ops with sums and maxima over the last axis, views and gathers at the leaves, concat and pad at the root
 *   columns   chains of sums (or maxima) over leading or middle axes, elementwise ops before and after
 *   single    argmax, scatter_add, update_rows alone
 * The lowered kernel does not refer to the graph. */
lj_status lj_lower(const lj_graph *kernel, lj_lowered **out);
void lj_lowered_destroy(lj_lowered *lowered);
/* What lj_lower would say: LJ_OK, LJ_ERR_UNSUPPORTED with the reason, or LJ_ERR_NOMEM. */
lj_status lj_lower_accepts(const lj_graph *kernel);

/* -- single.c: kernels of one node with a form of their own */
lj_status lj_lower_single(lj_lowered *lowered, const int *input_buffer, bool *taken);

#endif
