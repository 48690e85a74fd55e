/* Inside of the grouping: what fuse.c (who belongs together) and fuse_extract.c (kernel graphs, order) share. */
#ifndef LJ_PASSES_FUSE_GROUP_H
#define LJ_PASSES_FUSE_GROUP_H

#include "passes/fuse.h"

typedef enum {
    LJ_PART_ALIAS,  /* inputs and reshapes: no work */
    LJ_PART_INLINE, /* recomputed wherever it is read: constants, views, widening casts */
    LJ_PART_CORE,   /* elementwise work and sums over the last axis: grouped */
    LJ_PART_ROOT,   /* concat and pad: take what feeds only them */
    LJ_PART_COLUMN, /* sums over all axes but the last: recompute what feeds them */
    LJ_PART_SINGLE, /* one primitive, its own kernel */
    LJ_PART_LIBRARY /* a unit of its own, not generated */
} lj_part;

enum { LJ_NO_GROUP = UINT32_MAX };

typedef struct {
    const lj_graph *graph;
    const lj_fuse_options *options;
    lj_arena *scratch;
    lj_part *part;      /* by node */
    uint32_t *group;    /* by node: group number, LJ_NO_GROUP for aliases and inlined ones */
    bool *alone;        /* by node: taken apart after a refusal */
    bool *needed;       /* by value: must stand in memory */
    uint32_t *libraries; /* by node: library nodes up to it */
    uint32_t *first_member; /* by group: head of its list of nodes */
    uint32_t *next_member;  /* by node: the next of its group */
    uint32_t *stamp;    /* by node, for searches */
    uint32_t stamp_now;
    uint32_t group_count;
    uint32_t *uses;     /* by value */
} lj_grouping;

static inline const lj_node *lj_grouping_producer(const lj_grouping *g, lj_value value)
{
    return lj_producer(g->graph, value);
}

/* Fills part and group. */
lj_status lj_grouping_run(lj_grouping *grouping);
/* Fills needed. */
void lj_grouping_needs(lj_grouping *grouping);
/* Makes the units. *refused is the number of a group that accepts() turned down (then units are not made), or LJ_NO_GROUP. */
lj_status lj_grouping_extract(lj_grouping *grouping, lj_units *units, uint32_t *refused);

/* A chain of sums over leading axes that ends at `node`: its first operand, or 0 when the chain does not cover all of them. */
lj_value lj_column_source(const lj_graph *graph, const lj_node *node, const uint32_t *uses);

#endif
