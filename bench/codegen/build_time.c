/* Seconds that 40 distinct kernels take to build in this process: the fixed kernel graphs and as many small ones as are missing. Run it
 * twice with one LJPERF_CACHE for the cold and the warm figure. Prints JSON: seconds, compiler runs, cache hits. */
#include "base/clock.h"
#include "codegen/kernel.h"
#include "support/kernel_graphs.h"

#include <stdio.h>
#include <stdlib.h>

enum { KERNELS = 40 };

static void small(test_sheet *sheet, int k)
{
    lj_graph *g = sheet->graph;
    lj_dim dims[2] = {lj_dim_symbol(g, "B"), lj_dim_const(256)};
    lj_value x = test_sheet_input(sheet, lj_type_dims(LJ_BF16, 2, dims), FILL_NORMAL);
    lj_value y = lj_tanh(g, lj_mul(g, x, lj_const(g, lj_value_type(g, x), 2 + k)));
    test_sheet_output(sheet, lj_div(g, y, lj_sum(g, y, 1)));
}

int main(void)
{
    static test_sheet sheets[KERNELS];
    const lj_graph *graphs[KERNELS];
    lj_kernel *kernels[KERNELS];
    for (int i = 0; i < KERNELS; i++) {
        test_sheet_init(&sheets[i]);
        if (i < kernel_graph_count)
            kernel_graph_rows[i].build(&sheets[i]);
        else
            small(&sheets[i], i);
        graphs[i] = sheets[i].graph;
    }
    double start = lj_now_s();
    if (lj_kernels_build(graphs, KERNELS, kernels) != LJ_OK) {
        fprintf(stderr, "%s\n", lj_error_message());
        return 1;
    }
    double seconds = lj_now_s() - start;
    lj_kernel_counters counters = lj_kernel_counters_get();
    printf("{\"kernels\": %d, \"seconds\": %.4f, \"compiles\": %llu, \"cache_hits\": %llu}\n", KERNELS, seconds,
           (unsigned long long)counters.compiles, (unsigned long long)counters.cache_hits);
    return 0;
}
