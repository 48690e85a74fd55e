/* Compiled kernels: kernel graphs in, functions out.
 *
 * lj_kernels_build takes a list of kernel graphs; equal texts become one kernel, texts that the cache (or a pack) holds are loaded,
 * the rest is compiled by the system's C compiler, several processes at a time. Kernels are counted references; the shared
 * object is closed with its last kernel. Any thread may build; a kernel is immutable afterwards. */
#ifndef LJ_CODEGEN_KERNEL_H
#define LJ_CODEGEN_KERNEL_H

#include "base/machine.h"
#include "ir/ir.h"

/* `buffers`: inputs in node order, then results in order (in place: the input's buffer again), then scratch when there is one. `sizes`:
 * value of each symbol. Each of `threads` threads calls it with its number; their work does not overlap. Returns 0, or 1 when an id was
 * out of range (results are then undefined). */
typedef int (*lj_kernel_fn)(void *const *buffers, const int64_t *sizes, int thread, int threads);

typedef struct {
    lj_kernel_fn run;
    lj_kernel_fn finish;  /* NULL, or a second step: all threads call it after all have left `run` */
    lj_dim scratch_bytes; /* 64-byte aligned memory between the two; factor 0: none */
    const char *name;     /* "k_" and 32 hexadecimal digits of the text's hash */
    const char *text;     /* the kernel's function(s), as compiled */
    int input_count, result_count;
} lj_kernel;

/* Builds kernels[i] of graphs[i]. All or none. LJ_ERR_UNSUPPORTED as lj_lower; LJ_ERR_COMPILER: no compiler, or it refused
 * (message: its first lines); LJ_ERR_IO: the cache folder; LJ_ERR_TIMEOUT: another process holds a kernel's lock for too long. */
lj_status lj_kernels_build(const lj_graph *const *graphs, size_t count, lj_kernel **kernels);
lj_kernel *lj_kernel_retain(lj_kernel *kernel);
void lj_kernel_destroy(lj_kernel *kernel); /* drops a reference; NULL is allowed */

/* Floating operations and bytes moved by a kernel graph: each input read once, each result written once. */
double lj_kernel_graph_flops(const lj_graph *graph, const int64_t *sizes);
double lj_kernel_graph_bytes(const lj_graph *graph, const int64_t *sizes);

/* Since process start. */
typedef struct {
    uint64_t compiles;   /* compiler processes started */
    uint64_t cache_hits; /* kernels that needed none */
    double compile_s;    /* wall time in lj_kernels_build */
} lj_kernel_counters;
lj_kernel_counters lj_kernel_counters_get(void);

#endif
