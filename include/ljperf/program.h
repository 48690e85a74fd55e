/* Programs: a graph compiled to a flat list of steps, planned for given sizes, bound to buffers, run.
 *
 * Life of a program: lj_program_compile (passes, kernels built or taken from the cache) -> lj_program_plan for a set of sizes
 * (pure arithmetic: exact bytes before anything is allocated; cached per set) -> lj_program_bind every input and output ->
 * lj_program_run, any number of times -> lj_program_destroy.
 *
 * Buffers belong to the caller, are contiguous row-major and 64-byte aligned for best speed; the program owns its workspace,
 * which grows to the largest plan committed and is released with it.
 *
 * Threads: one thread at a time per program; different programs may run in different threads, each with its own team. */
#ifndef LJPERF_PROGRAM_H
#define LJPERF_PROGRAM_H

#include "ljperf/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lj_program lj_program;

typedef struct {
    int threads;              /* team size; 0 = processors of the affinity mask */
    int eager;                /* 1: every op its own step, as an eager framework would run it ("compiler off") */
    const char *disable;      /* passes switched off, "fuse,cse"; NULL = none (lj_pass_names lists them) */
    const char *dump_after;   /* passes whose result is handed to `dump`; "all" = each; NULL = none */
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    const char *recompute;    /* what of each layer's forward pass the backward pass computes again: none, cheap, attention, full,
                                 layers:N, groups:N, list:A,B,...; NULL = none. Layers are the scopes "layers.N" of the graph */
    const char *name;         /* of the program in reports and allocation names; NULL = "program" */
} lj_program_options;
#define LJ_PROGRAM_OPTIONS_INIT {0}

/* Compiles; `graph` is only read and may be destroyed afterwards, except that call functions stay in use. Errors: the graph's own, LJ_ERR_COMPILER
 * with the remedy, LJ_ERR_UNSUPPORTED for a refused fallback. */
LJ_API lj_status lj_program_compile(const lj_graph *graph, const lj_program_options *options, lj_program **program);
LJ_API void lj_program_destroy(lj_program *program);

/* One symbol's size, by name. Every symbol of the graph must be given, in any order; 0 is legal. */
typedef struct {
    const char *symbol;
    int64_t size;
} lj_size;

typedef struct {
    size_t workspace_bytes;  /* one block, planned: activations and temporaries */
    size_t scratch_bytes;    /* inside workspace_bytes: the largest need of library steps */
    size_t input_bytes;      /* bound by the caller: parameters, data, state */
    size_t output_bytes;
    size_t peak_bytes;       /* workspace + inputs + outputs */
    size_t step_count;
    size_t peak_step;        /* step at which the most of the workspace is live */
} lj_plan_info;

/* Plans for these sizes without allocating. */
LJ_API lj_status lj_program_plan(lj_program *program, const lj_size *sizes, size_t count, lj_plan_info *info);

/* What a run at these sizes does, by kind of step: operations, and bytes moved (each operand read once, each result written once). */
typedef struct {
    double gemm_flops, library_flops, total_bytes, kernel_bytes;
} lj_program_work;
LJ_API lj_status lj_program_count(lj_program *program, const lj_size *sizes, size_t count, lj_program_work *work);

/* Bytes of an input or output at given sizes. */
LJ_API lj_status lj_program_bytes(lj_program *program, const char *name, const lj_size *sizes, size_t count, size_t *bytes);
/* Buffer of an input or output. Inputs and outputs must not overlap. The buffer must hold the bytes of the sizes of each later run. */
LJ_API lj_status lj_program_bind(lj_program *program, const char *name, void *data);
/* Everything that can be known up front (sizes, bindings, memory) is checked before the first step. A run that fails in a step (an id outside
 * its table, a call that returned an error) has already written what stood before that step: outputs and state are then undefined. */
LJ_API lj_status lj_program_run(lj_program *program, const lj_size *sizes, size_t count);

/* Allocates the workspace for these sizes now, so that a later run cannot fail for want of memory. */
LJ_API lj_status lj_program_commit(lj_program *program, const lj_size *sizes, size_t count);

/* Counters since process start. */
typedef struct {
    uint64_t compiles;        /* compiler processes started */
    uint64_t cache_hits;      /* kernels taken from the cache */
    uint64_t new_primitives;  /* GEMM plans made */
    double compile_s;         /* wall time of building kernels */
} lj_counters;
LJ_API lj_counters lj_counters_get(void);

/* Called after each step of a run with its kind ("kernel", "gemm", "library", "call", "collective"), name, seconds, flops and bytes. NULL: off. */
typedef void (*lj_trace_fn)(void *user, const char *kind, const char *name, double seconds, double flops, double bytes);
LJ_API void lj_program_trace(lj_program *program, lj_trace_fn fn, void *user);

/* Names of the passes in order; returns their number. */
LJ_API size_t lj_pass_names(const char *const **names);

#ifdef __cplusplus
}
#endif
#endif
