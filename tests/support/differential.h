/* Judging what ran against the reference, node by node: each result is compared with the reference of that one node on the
 * operands that were really there, so that no error is excused by an earlier one. */
#ifndef LJ_TESTS_DIFFERENTIAL_H
#define LJ_TESTS_DIFFERENTIAL_H

#include "support/sheet.h"

/* What was found wrong first; empty: nothing. */
typedef struct {
    char text[600];
    double worst_share; /* of a tolerance, over everything judged */
    char worst_node[160];
} test_verdict;

bool test_verdict_fail(test_verdict *verdict, const char *format, ...) LJ_PRINTF(2, 3); /* false; keeps the first */

/* -- graphs made from graphs ------------------------------------------------------------------------------------------------ */

/* A copy; NULL never (aborts without memory). The caller destroys it. */
lj_graph *test_graph_copy(const lj_graph *graph);
/* A copy in which every value but inputs is an output too, named "v<value>". */
lj_graph *test_graph_expose(const lj_graph *graph);
/* A copy in which each composite is its definition. `disguise` puts "+ 0" behind each product and each quotient, so that
 * nothing recognises the patterns again. */
lj_graph *test_graph_decompose(const lj_graph *graph, bool disguise);

/* -- judging ---------------------------------------------------------------------------------------------------------------- */

/* Buffers of an exposed graph's values: inputs as they were before the run, and the outputs. */
typedef struct {
    const lj_graph *graph;
    const int64_t *sizes;
    const test_buffers *inputs, *outputs;
} test_run;

/* Compares every node's results with the reference within the row's tolerance. */
bool test_judge_nodes(const test_run *run, test_verdict *verdict);
/* Sentinels whole. */
bool test_judge_sentinels(const test_buffers *buffers, test_verdict *verdict);
/* Same bits (of the outputs that both have, by name; NaNs of any kind are equal). */
bool test_judge_same_bits(const test_buffers *a, const test_buffers *b, const char *what, test_verdict *verdict);

/* The reference over whole buffers; states are written back. */
lj_status test_reference_run(const lj_graph *graph, const int64_t *sizes, const test_buffers *inputs, const test_buffers *outputs, bool exact);

/* With every result nudged by what its row allows; noise 0: not. */
lj_status test_reference_noisy(const lj_graph *graph, const int64_t *sizes, const test_buffers *inputs, const test_buffers *outputs, uint64_t noise);

#endif
