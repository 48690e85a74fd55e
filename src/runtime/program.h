/* The program inside: units in order, where every value lives, plans for sizes seen, and the buffers bound by the caller. */
#ifndef LJ_RUNTIME_PROGRAM_H
#define LJ_RUNTIME_PROGRAM_H

#include "codegen/kernel.h"
#include "codegen/lower.h"
#include "ljperf/program.h"
#include "passes/fuse.h"
#include "plan/offsets.h"
#include "runtime/device.h"

typedef enum {
    LJ_BUFFER_WORKSPACE, /* planned */
    LJ_BUFFER_BOUND,     /* the caller's: an input or an output */
} lj_buffer_kind;

typedef struct {
    lj_buffer_kind kind;
    lj_value value;     /* gives type and size */
    uint32_t bound;     /* index into bindings */
    uint32_t first, last; /* steps; 0 .. step_count (= after the last) */
} lj_buffer;

typedef struct {
    const char *name;
    lj_value value;
    bool is_output;
    void *data;
} lj_binding;

typedef struct lj_step_type lj_step_type;

typedef struct {
    const lj_step_type *type;
    const lj_unit *unit;   /* NULL for copies */
    const lj_node *node;   /* library steps */
    lj_kernel *kernel;     /* generated steps */
    uint32_t copy_to, copy_from; /* buffers, for copies */
    lj_value copy_value;   /* gives the bytes */
} lj_step;

/* What one step needs at given sizes. */
typedef struct {
    const lj_step *step;
    struct lj_program *program;
    const int64_t *sizes;
    void *handle;         /* the step type's own; released by it */
    size_t scratch_bytes; /* set by prepare */
    size_t scratch_offset;
} lj_planned_step;

typedef struct {
    int64_t sizes[LJ_MAX_SYMBOLS];
    lj_planned_step *steps;
    lj_plan_buffer *buffers; /* by buffer, then a scratch buffer by step */
    size_t workspace_bytes, scratch_bytes;
    lj_plan_info info;
    uint64_t last_used;
} lj_plan;

enum { LJ_MAX_PLANS = 64 };

struct lj_program {
    char *name;
    lj_graph *graph; /* after the passes */
    lj_units units;
    int threads;
    bool eager;
    const lj_device *device;
    lj_kernel **kernels; /* by unit; NULL for library units */
    uint32_t *buffer_of; /* by value; UINT32_MAX: no buffer */
    lj_buffer *buffers;
    size_t buffer_count;
    lj_binding *bindings;
    size_t binding_count;
    lj_step *steps;
    size_t step_count;
    lj_plan *plans[LJ_MAX_PLANS];
    size_t plan_count;
    uint64_t clock;
    void *workspace;
    size_t workspace_bytes;
    void **pointers; /* by buffer, for the run at hand */
    char *workspace_name;
    lj_trace_fn trace;
    void *trace_user;
    lj_arena arena;
};

/* A kind of step: how it gets ready for sizes (may be NULL) and runs. */
struct lj_step_type {
    const char *kind; /* for traces */
    lj_status (*prepare)(lj_planned_step *step);
    lj_status (*run)(const lj_planned_step *step, void *scratch);
    void (*release)(lj_planned_step *step);
};

/* Library steps by op (steps.c); NULL where the op is none. */
const lj_step_type *lj_step_type_find(lj_op op);
extern const lj_step_type lj_step_kernel, lj_step_copy;

/* For an op that writes its result where an operand stands: the operand of result k, or -1. */
int lj_in_place_operand(const lj_node *node, int output);

/* storage.c: buffers, copies, steps. */
lj_status lj_storage_assign(lj_program *program);

/* sizes.c: plan for sizes, from the cache or new. */
lj_status lj_program_sizes(const lj_program *program, const lj_size *sizes, size_t count, int64_t *out);
lj_status lj_plan_get(lj_program *program, const int64_t *sizes, lj_plan **plan);
void lj_plan_destroy(lj_plan *plan);

/* Pointer of a value's buffer in the run at hand (0: NULL). */
static inline void *lj_value_pointer(const lj_program *program, lj_value value)
{
    return value ? program->pointers[program->buffer_of[lj_storage_value(program->graph, value)]] : NULL;
}
static inline const lj_type *lj_step_type_of(const lj_planned_step *step, int input)
{
    return lj_type_get(step->program->graph, step->step->unit->inputs[input]);
}
/* Size of dim i of an operand at the step's sizes. */
static inline int64_t lj_step_dim(const lj_planned_step *step, int input, int dim)
{
    return lj_dim_eval(lj_step_type_of(step, input)->dim[dim], step->sizes);
}

/* Counters (program.c): a GEMM plan was made. */
void lj_count_primitive(void);

#endif
