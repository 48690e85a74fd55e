/* Spellings of composites in primitives: what the matcher tries, a row a composite. */
#ifndef LJ_IR_PATTERNS_H
#define LJ_IR_PATTERNS_H

#include "ir/match.h"

typedef struct {
    lj_op op;
    int spellings;
    /* Quick look: can `root`, made by `made_by`, be the last op of this composite? */
    bool (*may_root)(const lj_graph *graph, lj_value root, lj_op made_by);
    /* Builds a spelling for the types found around `root`: holes first, as inputs; marks where `numbers` is NULL. 0: does not apply. */
    lj_value (*build)(lj_graph *pattern, const lj_graph *graph, lj_value root, int spelling, const double *numbers);
    /* Fills operands and attributes of the match from the holes and numbers. False: they are no valid ones. */
    bool (*finish)(const lj_graph *graph, lj_value root, int spelling, const lj_value *holes, const double *numbers, lj_match *match);
} lj_pattern_row;

extern const lj_pattern_row lj_patterns[];
extern const size_t lj_pattern_count;

/* A mark is a number that nobody writes by hand; -1 for every other number. */
int lj_pattern_mark_index(double value);

#endif
