/* The ordered list of passes. A pass rewrites the graph; each can be printed after and switched off by name.
 *
 * Order: lift patterns, clean up, merge the head's forward and gradient, accumulate in place, expand composites that have no
 * library kernel, clean up again. Grouping into kernels (fuse.h) reads what comes out. */
#ifndef LJ_PASSES_PASSES_H
#define LJ_PASSES_PASSES_H

#include "ir/ir.h"
#include "ljperf/program.h"

typedef struct {
    bool eager; /* operators one by one: no merging, the head with full logits */
    const char *recompute; /* lj_recompute_parse; NULL = none */
} lj_pass_context;

typedef struct {
    const char *name;
    lj_status (*run)(lj_graph **graph, const lj_pass_context *context);
    bool in_eager; /* also part of an eager program */
    const char *doc;
} lj_pass;

extern const lj_pass lj_passes[];
extern const size_t lj_pass_count;

/* Runs the list over a copy of `graph`; *out is the caller's. Verifies after each pass (an invalid graph names the pass). */
lj_status lj_passes_run(const lj_graph *graph, const lj_program_options *options, lj_graph **out);
/* True when `name` stands in a comma list (NULL: no). */
bool lj_name_listed(const char *list, const char *name);

/* The passes, a file each. */
lj_status lj_pass_fold(lj_graph **graph, const lj_pass_context *context);
lj_status lj_pass_match(lj_graph **graph, const lj_pass_context *context);
lj_status lj_pass_cse(lj_graph **graph, const lj_pass_context *context);
lj_status lj_pass_dce(lj_graph **graph, const lj_pass_context *context);
lj_status lj_pass_head(lj_graph **graph, const lj_pass_context *context);
lj_status lj_pass_accumulate(lj_graph **graph, const lj_pass_context *context);
lj_status lj_pass_recompute(lj_graph **graph, const lj_pass_context *context);
lj_status lj_pass_expand(lj_graph **graph, const lj_pass_context *context);

/* True for a composite that a library kernel runs as one step (expand leaves it). */
bool lj_has_library_kernel(const lj_graph *graph, const lj_node *node, bool eager);

#endif
