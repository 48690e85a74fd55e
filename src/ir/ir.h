/* The graph inside: nodes in topological order, values, attributes, the op table. Passes read and rewrite this; the public
 * builders (ljperf/graph.h) only append. */
#ifndef LJ_IR_IR_H
#define LJ_IR_IR_H

#define LJ_NO_LOCATIONS
#include "ljperf/graph.h"

#include "base/memory.h"
#include "base/text.h"
#include "tensor/dtype.h"

#include <stdbool.h>

typedef enum {
#define OP(name, ...) LJ_OP_##name,
#include "ir/ops.def"
#undef OP
    LJ_OP_COUNT
} lj_op;

typedef enum {
    LJ_CLASS_LEAF,
    LJ_CLASS_UNARY,
    LJ_CLASS_BINARY,
    LJ_CLASS_TERNARY,
    LJ_CLASS_VIEW,
    LJ_CLASS_MOVE,
    LJ_CLASS_REDUCE,
    LJ_CLASS_MATMUL,
    LJ_CLASS_COLLECTIVE,
    LJ_CLASS_CALL,
    LJ_CLASS_COMPOSITE
} lj_op_class;

enum { LJ_MAX_SCOPES = 32, LJ_ANY_COUNT = 255, LJ_MAX_OUTPUTS = 4, LJ_ATTR_INTS = 8, LJ_ATTR_FLOATS = 4, LJ_MAX_NAME = 255 /* characters */ };

/* Fixed slots; ops.def gives those that an op uses their names. Unused slots are zero, so attributes compare with memcmp
 * except for the string. */
typedef struct {
    int64_t i[LJ_ATTR_INTS];
    double f[LJ_ATTR_FLOATS];
    const char *s;
} lj_attributes;

typedef struct lj_node {
    lj_op op;
    uint16_t input_count, output_count;
    lj_value *inputs;   /* in the graph's arena; may hold 0 for optional operands */
    lj_value output;    /* first of output_count consecutive values */
    lj_attributes attributes;
    const char *name;   /* inputs: the unique name; others: scope, may be "" */
    const char *file;   /* where it was built; "" = by a pass */
    int line;
    bool dead;          /* dropped by a pass; skipped by everybody, gone after lj_graph_compact */
} lj_node;

typedef struct {
    lj_type type;
    uint32_t node;   /* producer */
    uint16_t index;  /* which output of it */
} lj_value_row;

typedef struct {
    const char *name; /* outputs; "" for assignments */
    lj_value value;
    lj_value state;   /* assignment target; 0 for outputs */
} lj_result;

struct lj_graph {
    lj_arena arena;
    lj_node *nodes; /* topological: every operand stands before its user */
    size_t node_count, node_capacity;
    lj_value_row *values; /* [0] unused */
    size_t value_count, value_capacity;
    lj_result *results;
    size_t result_count, result_capacity;
    const char *symbols[LJ_MAX_SYMBOLS];
    int symbol_count;
    lj_call_row *calls; /* functions of call nodes, by name */
    size_t call_count, call_capacity;
    lj_dtype gradient_dtype;
    const char *scope, *file;
    const char *outer_scopes[LJ_MAX_SCOPES]; /* what each pop goes back to */
    int scope_depth;
    int line;
    lj_status status; /* first builder error */
    char *message;
};

typedef struct {
    const lj_graph *graph;
    const lj_node *node;         /* operands and attributes set; outputs not yet */
    const lj_type *declared;     /* types given at the node, or NULL */
    lj_type outputs[LJ_MAX_OUTPUTS];
} lj_infer;

typedef lj_status (*lj_infer_fn)(lj_infer *infer);
/* Appends gradient nodes: douts[k] is the gradient of output k (0: none reaches it); sets dins[j] for each operand that gets one (preset 0). */
typedef void (*lj_gradient_fn)(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
/* Appends the definition of composite `node` in primitives to `graph`, reading `inputs`; writes one value an output. `graph` need not be
 * the node's own graph, but has the same symbols. */
typedef void (*lj_decompose_fn)(lj_graph *graph, const lj_node *node, const lj_value *inputs, lj_value *outputs);
typedef double (*lj_flops_fn)(const lj_graph *graph, const lj_node *node, const int64_t *sizes);

typedef struct {
    const char *name;
    lj_op_class class;
    uint8_t inputs_min, inputs_max, outputs;
    const char *attributes;
    uint32_t types; /* bit a dtype: allowed for the first operand (or the result of a leaf) */
    lj_infer_fn infer;
    lj_gradient_fn gradient;   /* NULL: zero */
    double flops_per_element;  /* of the first result; -1: cost.c has a function */
    double tolerance;  /* ulps of the result's dtype */
    const char *doc;
} lj_op_row;

extern const lj_op_row lj_op_rows[LJ_OP_COUNT];

lj_status lj_op_find(const char *name, lj_op *op);

/* -- reading ------------------------------------------------------------------------------------------------------------- */
static inline lj_node *lj_producer(const lj_graph *graph, lj_value value)
{
    return &graph->nodes[graph->values[value].node];
}
static inline const lj_type *lj_type_get(const lj_graph *graph, lj_value value)
{
    return &graph->values[value].type;
}
static inline bool lj_is(const lj_graph *graph, lj_value value, lj_op op)
{
    return value && lj_producer(graph, value)->op == op;
}
/* Users of each value (operand uses plus results); array of value_count counters, in the caller's arena. */
uint32_t *lj_use_counts(const lj_graph *graph, lj_arena *arena);
/* "layers.0/rms_norm %12 (model.c:40)" in a static thread-local buffer. */
const char *lj_node_describe(const lj_graph *graph, const lj_node *node);

/* -- sizes --------------------------------------------------------------------------------------------------------------- */
bool lj_type_equal(const lj_type *a, const lj_type *b);       /* dtype and dims */
bool lj_type_same_shape(const lj_type *a, const lj_type *b);  /* dims only */
bool lj_dim_is_const(lj_dim dim, int64_t size);
int64_t lj_dim_eval(lj_dim dim, const int64_t *sizes);        /* sizes[i] of symbol i; -1 on overflow */
/* Elements and bytes of a type at given sizes; overflow gives LJ_ERR_LIMIT. */
lj_status lj_type_elements(const lj_type *type, const int64_t *sizes, int64_t *elements);
lj_status lj_type_bytes(const lj_type *type, const int64_t *sizes, size_t *bytes);
/* Product of dims as a dim. */
lj_dim lj_type_elements_dim(const lj_type *type);
void lj_dim_print(lj_text *out, const lj_graph *graph, lj_dim dim);
void lj_type_print(lj_text *out, const lj_graph *graph, const lj_type *type); /* "bf16[4*B,T,576]" */

/* -- appending and rewriting --------------------------------------------------------------------------------------------- */
/* The one way a node is made: checks arity and dtypes, infers. `declared` as the row asks (NULL else). Returns the first
 * output or 0 with the graph's error set. */
lj_value lj_node_append(lj_graph *graph, lj_op op, const lj_value *inputs, int count, const lj_attributes *attributes,
                        const lj_type *declared, int declared_count);
/* Output k of the node that made `first`. */
static inline lj_value lj_output_of(lj_value first, int k)
{
    return first ? first + (lj_value)k : 0;
}
/* Records the first error of a graph; returns 0 as a value. */
lj_value lj_graph_fail(lj_graph *graph, lj_status status, const char *format, ...) LJ_PRINTF(3, 4);

/* Copies nodes one by one into a new graph while rewriting: the way passes work. map[v] = value in `to` (0: not yet). */
typedef struct {
    const lj_graph *from;
    lj_graph *to;
    lj_value *map;
} lj_rewrite;
lj_status lj_rewrite_begin(lj_rewrite *rewrite, const lj_graph *from);
/* Copies one node with mapped operands and keeps name and location; sets map of its outputs. */
lj_status lj_rewrite_copy(lj_rewrite *rewrite, const lj_node *node);
/* Ends: results are carried over; on success *graph is replaced by the new one and the old destroyed. On failure `to` is destroyed. */
lj_status lj_rewrite_end(lj_rewrite *rewrite, lj_graph **graph, lj_status status);

/* Makes `graph` (empty) know the same symbols and calls as `like`. */
lj_status lj_graph_like(lj_graph *graph, const lj_graph *like);
/* Appends the decomposition of a composite. */
lj_status lj_decompose(lj_graph *graph, const lj_node *node, const lj_value *inputs, lj_value *outputs);

/* -- cost (cost.c) -------------------------------------------------------------------------------------------------------- */
double lj_node_flops(const lj_graph *graph, const lj_node *node, const int64_t *sizes);
double lj_node_bytes(const lj_graph *graph, const lj_node *node, const int64_t *sizes); /* operands read + results written */

#endif
