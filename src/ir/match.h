/* Recognising composites in primitives. The patterns are the composites' own definitions (decompose.c) and spellings of them
 * that people write (patterns.c). */
#ifndef LJ_IR_MATCH_H
#define LJ_IR_MATCH_H

#include "ir/ir.h"

enum { LJ_MATCH_INPUTS = 8 };

typedef struct {
    lj_op op;
    lj_attributes attributes;
    lj_value inputs[LJ_MATCH_INPUTS];
    int input_count;
    lj_value root; /* value of the graph that the composite's first result replaces */
} lj_match;

/* The composite that computes `root`, if one does: true fills *match. Interior values may have other users (they then stay). */
bool lj_match_root(const lj_graph *graph, lj_value root, lj_match *match);

#endif
