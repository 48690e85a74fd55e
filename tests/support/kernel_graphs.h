/* The fixed set of kernel graphs: what the fusing pass makes of a model's parts, and the corners of each form. Judged against
 * single-op kernels and the reference, printed as golden text, compiled with every compiler. */
#ifndef LJ_TESTS_KERNEL_GRAPHS_H
#define LJ_TESTS_KERNEL_GRAPHS_H

#include "support/sheet.h"

typedef struct {
    const char *name;
    void (*build)(test_sheet *sheet); /* symbols B and T, in this order */
    int64_t bound;                    /* of the ids' table; 0: none */
} kernel_graph_row;

extern const kernel_graph_row kernel_graph_rows[];
extern const int kernel_graph_count;

#endif
