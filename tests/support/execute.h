/* One graph, two ways to run it: on the reference interpreter, or compiled. */
#ifndef LJ_TESTS_EXECUTE_H
#define LJ_TESTS_EXECUTE_H

#include "ljperf/graph.h"
#include "ljperf/program.h"

typedef enum { TEST_REFERENCE, TEST_COMPILED } test_backend;

/* An input or output by name. */
typedef struct {
    const char *name;
    void *data;
} test_binding;

lj_status test_execute(const lj_graph *graph, test_backend backend, const lj_size *sizes, size_t size_count, const test_binding *bindings,
                       size_t count);

#endif
