/* Generated kernels run by hand, without the runtime: a kernel graph as one kernel, or any graph of primitives node by node,
 * each node a kernel of its own. Threads take turns, so that a wrong share shows as a hole or an overlap. */
#ifndef LJ_TESTS_ALONE_H
#define LJ_TESTS_ALONE_H

#include "codegen/kernel.h"
#include "support/sheet.h"

/* Runs a kernel of `graph` on buffers by name: inputs, and outputs that the graph's results name. Returns the kernel's code, or -1 when
 * memory is short. */
int test_kernel_run(const lj_kernel *kernel, const lj_graph *graph, const int64_t *sizes, int threads, const test_buffers *inputs,
                    const test_buffers *outputs);

/* Every node but inputs as a kernel graph of its own; graphs[i] is of node nodes[i]. */
typedef struct {
    lj_graph **graphs;
    lj_kernel **kernels; /* set by test_alone_build */
    uint32_t *nodes;
    size_t count;
} test_alone;

lj_status test_alone_init(test_alone *alone, const lj_graph *graph);
lj_status test_alone_build(test_alone *alone);
void test_alone_release(test_alone *alone);
/* Fills `values` (outputs "v<value>" of an exposed graph, one for each value but inputs) from `inputs`. */
int test_alone_run(const test_alone *alone, const lj_graph *exposed, const int64_t *sizes, int threads, const test_buffers *inputs,
                   const test_buffers *values);

#endif
