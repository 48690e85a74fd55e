/* What the reference computes with, and the functions of the ops. Private to src/ref. */
#ifndef LJ_REF_TENSOR_H
#define LJ_REF_TENSOR_H

#include "ref/ref.h"

/* Floats in f, integers and bool in i (u64 as its bits). */
typedef union {
    double f;
    int64_t i;
} lj_ref_cell;

typedef struct {
    lj_dtype dtype;
    int rank;
    int64_t dim[LJ_MAX_RANK];
    int64_t count; /* elements */
    lj_ref_cell *cells; /* owned */
} lj_ref_tensor;

static inline bool lj_ref_is_float(const lj_ref_tensor *tensor)
{
    return lj_dtype_rows[tensor->dtype].is_float;
}

/* Zeroed elements for `type` at `sizes`. Released with lj_ref_tensor_release; a released or zeroed struct may be released. */
lj_status lj_ref_tensor_init(lj_ref_tensor *tensor, const lj_type *type, const int64_t *sizes);
void lj_ref_tensor_release(lj_ref_tensor *tensor);
lj_status lj_ref_tensor_copy(lj_ref_tensor *to, const lj_ref_tensor *from);
/* From and to a buffer in the tensor's dtype (doubles for floats when exact). */
void lj_ref_tensor_load(lj_ref_tensor *tensor, const void *data, bool exact);
void lj_ref_tensor_store(const lj_ref_tensor *tensor, void *data, bool exact);
/* Rounds every element to the dtype: floats to its grid unless exact, integers to their low bits. */
void lj_ref_tensor_round(lj_ref_tensor *tensor, bool exact);

/* One element rounded to a dtype as lj_ref_tensor_round does. */
lj_ref_cell lj_ref_cell_round(lj_dtype dtype, lj_ref_cell cell, bool exact);
/* As a double, whatever the dtype. */
double lj_ref_cell_number(lj_dtype dtype, lj_ref_cell cell);
/* a < b, as that dtype orders them. */
bool lj_ref_cell_less(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b);

/* Row-major position -> index of each dim, and back. */
void lj_ref_unravel(const lj_ref_tensor *tensor, int64_t position, int64_t *index);
int64_t lj_ref_ravel(const lj_ref_tensor *tensor, const int64_t *index);
/* Elements of dims from `from` up to, not including, `to`. */
int64_t lj_ref_extent(const lj_ref_tensor *tensor, int from, int to);

/* How a run computes: see lj_ref_options. `noise`: state of the random numbers, NULL for none. */
typedef struct {
    bool exact;
    bool inside; /* a composite's definition: an implementation of its own rounds in other places, so everything is nudged */
    uint64_t *noise;
} lj_ref_mode;

/* What an op's function sees. Results are allocated and zero; they are rounded after it returns. */
typedef struct {
    const lj_graph *graph;
    const lj_node *node;
    const int64_t *sizes;
    const lj_ref_tensor *const *inputs; /* NULL where the operand is 0 */
    lj_ref_tensor *outputs;
    lj_ref_mode mode;
} lj_ref_op;

typedef lj_status (*lj_ref_fn)(const lj_ref_op *op);

/* One function a row of the op table, composites excepted. Collectives and input belong to the interpreter (run.c). */
#define LJ_REF_DECLARE_LEAF(name) lj_status lj_ref_##name(const lj_ref_op *op);
#define LJ_REF_DECLARE_UNARY LJ_REF_DECLARE_LEAF
#define LJ_REF_DECLARE_BINARY LJ_REF_DECLARE_LEAF
#define LJ_REF_DECLARE_TERNARY LJ_REF_DECLARE_LEAF
#define LJ_REF_DECLARE_VIEW LJ_REF_DECLARE_LEAF
#define LJ_REF_DECLARE_MOVE LJ_REF_DECLARE_LEAF
#define LJ_REF_DECLARE_REDUCE LJ_REF_DECLARE_LEAF
#define LJ_REF_DECLARE_MATMUL LJ_REF_DECLARE_LEAF
#define LJ_REF_DECLARE_CALL LJ_REF_DECLARE_LEAF
#define LJ_REF_DECLARE_COLLECTIVE(name)
#define LJ_REF_DECLARE_COMPOSITE(name)
#define OP(name, class, ...) LJ_REF_DECLARE_##class(name)
#include "ir/ops.def"
#undef OP

/* Decomposes, then interprets. */
lj_status lj_ref_composite(const lj_ref_op *op);

/* Collectives take every rank's operand at once: inputs[r] -> outputs[r]. */
typedef struct {
    int ranks;
    const lj_ref_tensor *const *inputs;
    lj_ref_tensor *const *outputs;
} lj_ref_exchange;
typedef void (*lj_ref_exchange_fn)(const lj_ref_exchange *exchange);
void lj_ref_all_gather(const lj_ref_exchange *exchange);
void lj_ref_reduce_scatter(const lj_ref_exchange *exchange);
void lj_ref_all_reduce(const lj_ref_exchange *exchange);
void lj_ref_all_to_all(const lj_ref_exchange *exchange);

/* The table: `run` for what one rank does alone, `exchange` for what all ranks do together; send and recv have neither. */
typedef struct {
    lj_ref_fn run;
    lj_ref_exchange_fn exchange;
} lj_ref_row;
extern const lj_ref_row lj_ref_rows[LJ_OP_COUNT];

#endif
