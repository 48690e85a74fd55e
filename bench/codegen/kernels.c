/* Speed of generated kernels: GB/s of each (inputs read once, results written once) beside the machine's triad, the rounds interleaved.
 * Arguments: threads, tokens, rounds. Prints a JSON line a kernel with the rates of all rounds; bench/speed/row_kernel_bandwidth.py judges. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/machine.h"
#include "codegen/kernel.h"
#include "support/kernel_graphs.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    int row;
    test_sheet sheet;
    lj_kernel *kernel;
    void *buffers[32];
    double bytes;
    double *seconds;
} contender;

static const char *const names[] = {"norm_residual", "norm_gradient", "swiglu_gradient", "residual", "rotary", "qkv_concat", "qkv_gradient", "weight_gradient"};
enum { COUNT = sizeof names / sizeof *names };

static int row_of(const char *name)
{
    for (int i = 0; i < kernel_graph_count; i++)
        if (strcmp(kernel_graph_rows[i].name, name) == 0) return i;
    abort();
}

static void *fresh(size_t bytes)
{
    void *out = aligned_alloc(1 << 21, (bytes + (1 << 21)) >> 21 << 21);
    if (!out) abort();
    memset(out, 0, bytes ? bytes : 1);
    return out;
}

static void fill(void *data, size_t bytes, lj_dtype dtype, int64_t bound)
{
    size_t count = bytes / lj_dtype_bytes(dtype);
    for (size_t i = 0; i < count; i++)
        lj_element_set(dtype, data, i, bound ? (double)(i % (size_t)bound) : (double)(i * 2654435761u % 2048) / 1024.0 - 1.0);
}

static void prepare(contender *c, const char *name, const int64_t *sizes, int rounds)
{
    c->name = name, c->row = row_of(name);
    test_sheet_init(&c->sheet);
    kernel_graph_rows[c->row].build(&c->sheet);
    if (lj_kernels_build((const lj_graph *const *)&c->sheet.graph, 1, &c->kernel) != LJ_OK) {
        fprintf(stderr, "%s: %s\n", name, lj_error_message());
        exit(1);
    }
    const lj_graph *graph = c->sheet.graph;
    int count = 0;
    for (size_t i = 0; i < graph->node_count; i++) {
        const lj_node *node = &graph->nodes[i];
        size_t bytes;
        if (node->op != LJ_OP_input || lj_type_bytes(lj_type_get(graph, node->output), sizes, &bytes) != LJ_OK) continue;
        lj_dtype dtype = lj_type_get(graph, node->output)->dtype;
        fill(c->buffers[count++] = fresh(bytes), bytes, dtype, dtype == LJ_I32 ? kernel_graph_rows[c->row].bound : 0);
    }
    for (size_t r = 0; r < graph->result_count; r++) {
        size_t bytes;
        if (lj_type_bytes(lj_type_get(graph, graph->results[r].value), sizes, &bytes) != LJ_OK) exit(1);
        c->buffers[count++] = fresh(bytes);
    }
    c->buffers[count] = fresh((size_t)lj_dim_eval(c->kernel->scratch_bytes, sizes));
    c->bytes = lj_kernel_graph_bytes(graph, sizes);
    c->seconds = calloc((size_t)rounds, sizeof *c->seconds);
}

static double run(const contender *c, const int64_t *sizes)
{
    double start = lj_now_s();
#pragma omp parallel
    {
        c->kernel->run((void *const *)c->buffers, sizes, omp_get_thread_num(), omp_get_num_threads());
        if (c->kernel->finish) {
#pragma omp barrier
            c->kernel->finish((void *const *)c->buffers, sizes, omp_get_thread_num(), omp_get_num_threads());
        }
    }
    return lj_now_s() - start;
}

/* a = b + s c: 12 bytes an element (the read for ownership of a is not counted, as for the kernels). */
static double triad(float *a, const float *b, const float *c, int64_t count)
{
    double start = lj_now_s();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i++) a[i] = b[i] + 3.0f * c[i];
    return (double)count * 12 / (lj_now_s() - start);
}

static void print_rates(const char *name, const double *bytes_s, int rounds, const char *end)
{
    printf("\"%s\": [", name);
    for (int r = 0; r < rounds; r++) printf("%s%.3f", r ? ", " : "", bytes_s[r] / 1e9);
    printf("]%s", end);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : lj_machine_get()->cores, rounds = argc > 3 ? atoi(argv[3]) : 9;
    int64_t sizes[LJ_MAX_SYMBOLS] = {4, argc > 2 ? atoll(argv[2]) / 4 : 4096}, count = 16 << 20;
    if (sizes[1] > 300 * 1000 || rounds < 3) return 2;
    omp_set_num_threads(threads);
    static contender contenders[COUNT];
    double *triads = calloc((size_t)rounds, sizeof *triads);
    float *a = fresh((size_t)count * 4), *b = fresh((size_t)count * 4), *c = fresh((size_t)count * 4);
    for (int i = 0; i < COUNT; i++) prepare(&contenders[i], names[i], sizes, rounds);
    for (int r = -1; r < rounds; r++) {
        double rate = triad(a, b, c, count);
        if (r >= 0) triads[r] = rate;
        for (int i = 0; i < COUNT; i++) {
            double seconds = run(&contenders[i], sizes);
            if (r >= 0) contenders[i].seconds[r] = seconds;
        }
    }
    for (int i = 0; i < COUNT; i++) {
        for (int r = 0; r < rounds; r++) contenders[i].seconds[r] = contenders[i].bytes / contenders[i].seconds[r];
        printf("{\"kernel\": \"%s\", ", contenders[i].name);
        print_rates("gb_s", contenders[i].seconds, rounds, ", ");
        print_rates("triad_gb_s", triads, rounds, "}\n");
    }
    return 0;
}
