/* Graphs: describe a computation over tensors with symbolic sizes, differentiate it, save it as text and read it back.
 *
 * Life of a graph: lj_graph_create; inputs (data, parameters, state); ops; outputs and assignments; lj_graph_status once at
 * the end; then lj_graph_differentiate, or compile it (ljperf/program.h). A graph is freed by lj_graph_destroy, never before
 * a program made from it.
 *
 * Values are small numbers that belong to their graph; 0 is "none". A builder that cannot make its node returns 0 and the
 * graph keeps the first error: builders may be chained freely, 0 as an input gives 0 again, and lj_graph_status tells.
 *
 * Rounding: each op's result is rounded to its dtype, whether or not it is fused with others; wider intermediates exist only
 * inside composites (rms_norm, rotary, swiglu, attention, head_loss, adamw, sum_squares, dropout), whose result is rounded once.
 *
 * Threads: a graph is used by one thread at a time; different graphs are independent. */
#ifndef LJPERF_GRAPH_H
#define LJPERF_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ljperf/dtype.h"
#include "ljperf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LJ_MAX_RANK = 6, LJ_MAX_SYMBOLS = 4 };

typedef struct lj_graph lj_graph;
typedef uint32_t lj_value;

/* A size: factor * product of symbols to their powers, e.g. 4 * B * T. Compare with lj_dim_equal. */
typedef struct {
    int64_t factor;
    uint8_t power[LJ_MAX_SYMBOLS];
} lj_dim;

typedef struct {
    lj_dtype dtype;
    int rank;
    lj_dim dim[LJ_MAX_RANK]; /* outermost first */
} lj_type;

LJ_API lj_dim lj_dim_const(int64_t size);
/* The symbol of that name, made when new (at most LJ_MAX_SYMBOLS a graph; more is the graph's error). */
LJ_API lj_dim lj_dim_symbol(lj_graph *graph, const char *name);
/* 1 when the graph has a symbol of that name. */
LJ_API int lj_graph_has_symbol(const lj_graph *graph, const char *name);
LJ_API lj_dim lj_dim_mul(lj_dim a, lj_dim b);
LJ_API int lj_dim_equal(lj_dim a, lj_dim b);
/* Type of constant sizes: lj_type_of(LJ_F32, 2, (int64_t[]){3, 4}). */
LJ_API lj_type lj_type_of(lj_dtype dtype, int rank, const int64_t *sizes);
/* Type of given dims. */
LJ_API lj_type lj_type_dims(lj_dtype dtype, int rank, const lj_dim *dims);

LJ_API lj_status lj_graph_create(lj_graph **graph);
LJ_API void lj_graph_destroy(lj_graph *graph);
/* First error of any builder since creation (sets the thread's message), or LJ_OK. */
LJ_API lj_status lj_graph_status(const lj_graph *graph);
/* Source location for the next nodes; the builders below call it for you. Returns graph. `file` must outlive the graph. */
LJ_API lj_graph *lj_graph_at(lj_graph *graph, const char *file, int line);
/* Prefix for names of the nodes that follow, e.g. "layers.3"; nest by pushing again. */
LJ_API void lj_graph_scope_push(lj_graph *graph, const char *format, ...);
LJ_API void lj_graph_scope_pop(lj_graph *graph);

typedef enum {
    LJ_ROLE_DATA,  /* read only, no gradient */
    LJ_ROLE_PARAM, /* read only; lj_graph_differentiate can take its gradient, in the graph's gradient dtype */
    LJ_ROLE_STATE, /* read and, through lj_graph_assign, written back */
} lj_role;

/* Names are unique in a graph. */
LJ_API lj_value lj_input(lj_graph *graph, const char *name, lj_type type, lj_role role);
LJ_API lj_status lj_graph_output(lj_graph *graph, const char *name, lj_value value);
/* At the end of the program `state` (an input with LJ_ROLE_STATE) holds `value` (same type). Done in place where it can be. */
LJ_API lj_status lj_graph_assign(lj_graph *graph, lj_value state, lj_value value);
LJ_API lj_value lj_graph_find(const lj_graph *graph, const char *name); /* an input or an output by name; 0 = none */
LJ_API lj_type lj_value_type(const lj_graph *graph, lj_value value);

/* Text form and back: lj_graph_parse(lj_graph_print(g)) prints the same text. `call` nodes need their functions again
 * (lj_graph_call_bind). The caller frees *text with lj_text_free. */
LJ_API lj_status lj_graph_print(const lj_graph *graph, char **text);
LJ_API lj_status lj_graph_parse(const char *text, lj_graph **graph);
LJ_API void lj_text_free(char *text);
/* Checks every rule of every node (types, ranks, order, names). LJ_ERR_INVALID names node, location and rule. */
LJ_API lj_status lj_graph_verify(const lj_graph *graph);

/* Gradient dtype of parameters (default LJ_F32; activations keep their own dtype). */
LJ_API lj_status lj_graph_gradient_dtype(lj_graph *graph, lj_dtype dtype);
/* Appends the backward pass: gradients[i] = d sum(loss) / d with[i], in the same shape. `loss` must be a float scalar (rank 0).
 * A value that the loss does not depend on gets a zero gradient. Patterns are lifted to composites first. */
LJ_API lj_status lj_graph_differentiate(lj_graph *graph, lj_value loss, const lj_value *with, size_t count, lj_value *gradients);

/* -- opaque calls (graph breaks) ------------------------------------------------------------------------------------------ */

typedef struct {
    lj_dtype dtype;
    int rank;
    int64_t dim[LJ_MAX_RANK]; /* concrete sizes */
    void *data;               /* contiguous, row-major */
} lj_tensor;

/* Returns 0 on success; anything else ends the run with LJ_ERR_INVALID and this node's name. Called from one thread at a time. */
typedef int (*lj_call_fn)(void *user, const lj_tensor *inputs, int input_count, const lj_tensor *outputs, int output_count);

typedef struct {
    const char *name; /* unique in the process for one behaviour: printed, and part of the text form */
    lj_call_fn forward;
    /* Inputs: the forward's inputs, its outputs, gradients of its outputs. Outputs: gradients of its inputs (floats only, in order).
     * NULL: not differentiable; differentiating through it is an error that names it. */
    lj_call_fn backward;
    void *user;
} lj_call_row;

/* One node with `output_count` outputs of the given types; outputs[] receives them. */
LJ_API lj_status lj_call(lj_graph *graph, const lj_call_row *row, const lj_value *inputs, int input_count, const lj_type *types,
                         int output_count, lj_value *outputs);
/* After a parse: gives the functions to every call node named row->name. LJ_ERR_NOT_FOUND when there is none. */
LJ_API lj_status lj_graph_call_bind(lj_graph *graph, const lj_call_row *row);

/* -- ops ------------------------------------------------------------------------------------------------------------------
 * Two-input elementwise ops broadcast as NumPy does (sizes 1 stretch, missing outer dims are added). Comparisons give LJ_BOOL. */

LJ_API lj_value lj_const(lj_graph *graph, lj_type type, double value);      /* filled with one value */
LJ_API lj_value lj_iota(lj_graph *graph, lj_type type, int axis);           /* index along axis */
LJ_API lj_value lj_random(lj_graph *graph, lj_value seed, lj_type type, int64_t stream); /* uniform [0,1), a function of (seed i64 scalar, stream, position) alone */

LJ_API lj_value lj_neg(lj_graph *graph, lj_value x);
LJ_API lj_value lj_abs(lj_graph *graph, lj_value x);
LJ_API lj_value lj_exp(lj_graph *graph, lj_value x);
LJ_API lj_value lj_ln(lj_graph *graph, lj_value x); /* natural logarithm (op log) */
LJ_API lj_value lj_sqrt(lj_graph *graph, lj_value x);
LJ_API lj_value lj_rsqrt(lj_graph *graph, lj_value x);
LJ_API lj_value lj_recip(lj_graph *graph, lj_value x);
LJ_API lj_value lj_sin(lj_graph *graph, lj_value x);
LJ_API lj_value lj_cos(lj_graph *graph, lj_value x);
LJ_API lj_value lj_tanh(lj_graph *graph, lj_value x);
LJ_API lj_value lj_sigmoid(lj_graph *graph, lj_value x);
LJ_API lj_value lj_floor(lj_graph *graph, lj_value x);
LJ_API lj_value lj_not(lj_graph *graph, lj_value x);
LJ_API lj_value lj_cast(lj_graph *graph, lj_value x, lj_dtype dtype);

LJ_API lj_value lj_add(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_sub(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_mul(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_div(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_max(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_min(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_lt(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_le(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_eq(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_and(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_or(lj_graph *graph, lj_value a, lj_value b);
LJ_API lj_value lj_where(lj_graph *graph, lj_value condition, lj_value a, lj_value b);

LJ_API lj_value lj_reshape(lj_graph *graph, lj_value x, int rank, const lj_dim *dims);
LJ_API lj_value lj_transpose(lj_graph *graph, lj_value x, const int *permutation); /* out dim i = in dim permutation[i] */
LJ_API lj_value lj_broadcast(lj_graph *graph, lj_value x, int rank, const lj_dim *dims);
LJ_API lj_value lj_slice(lj_graph *graph, lj_value x, int axis, int64_t start, int64_t length); /* of an axis of constant size */
LJ_API lj_value lj_pad(lj_graph *graph, lj_value x, int axis, int64_t before, int64_t after);   /* zeros */
LJ_API lj_value lj_concat(lj_graph *graph, const lj_value *xs, int count, int axis);

LJ_API lj_value lj_sum(lj_graph *graph, lj_value x, int axis); /* reductions keep the axis with size 1 */
LJ_API lj_value lj_maximum(lj_graph *graph, lj_value x, int axis);
LJ_API lj_value lj_argmax(lj_graph *graph, lj_value x, int axis); /* i32; the first of equals */
LJ_API lj_value lj_sum_all(lj_graph *graph, lj_value x);          /* to rank 0 */

/* Rows of table [V, ...] picked by ids (i32, any shape [I...]): [I..., ...]. An id outside 0..V-1 ends the run with an error. */
LJ_API lj_value lj_gather(lj_graph *graph, lj_value table, lj_value ids);
/* base [V, ...] plus rows of updates [I..., ...] added at ids, in the order of the rows. */
LJ_API lj_value lj_scatter_add(lj_graph *graph, lj_value base, lj_value ids, lj_value updates);
/* x [B, S, ...] with rows start[b] .. start[b]+T-1 of its second axis replaced by update [B, T, ...]; start i32 [B]. */
LJ_API lj_value lj_update_rows(lj_graph *graph, lj_value x, lj_value update, lj_value start);

/* [..., M, K] x [..., K, N] -> [..., M, N]; transpose flags swap the last two dims of an operand as stored. Equal leading dims.
 * fp32 accumulation for 16-bit types. `out` is the result's dtype; `c` (0 = none, type of the result) is added before rounding. */
LJ_API lj_value lj_matmul(lj_graph *graph, lj_value a, lj_value b, int transpose_a, int transpose_b, lj_dtype out, lj_value c);
/* x [..., K] times weight [N, K] transposed: [..., N], dtype of x. */
LJ_API lj_value lj_linear(lj_graph *graph, lj_value x, lj_value weight);

/* Collectives over the program's communicator of `ranks` members; axis 0 is gathered or scattered. */
LJ_API lj_value lj_all_gather(lj_graph *graph, lj_value x, int ranks);
LJ_API lj_value lj_reduce_scatter(lj_graph *graph, lj_value x, int ranks);
LJ_API lj_value lj_all_reduce(lj_graph *graph, lj_value x, int ranks);
LJ_API lj_value lj_all_to_all(lj_graph *graph, lj_value x, int ranks);
LJ_API lj_value lj_send(lj_graph *graph, lj_value x, int peer); /* gives x back: keep it alive by an output */
LJ_API lj_value lj_recv(lj_graph *graph, lj_type type, int peer);

/* Composites. Multi-output ones return their first output. */
LJ_API lj_value lj_rms_norm(lj_graph *graph, lj_value x, lj_value weight, double eps); /* over the last dim; weight [C] */
LJ_API lj_value lj_softmax(lj_graph *graph, lj_value x);                               /* over the last dim; built from primitives */
/* Rotates pairs (d, d + D/2) of x [B, T, H, D] by the angles of tables cos, sin [P, D] (f32; both halves equal) at positions i32 [B, T]. */
LJ_API lj_value lj_rotary(lj_graph *graph, lj_value x, lj_value cosines, lj_value sines, lj_value positions);
LJ_API lj_value lj_swiglu(lj_graph *graph, lj_value gate, lj_value up); /* gate * sigmoid(gate) * up */

typedef struct {
    double scale;     /* of the scores; 0 = 1 / sqrt(D) */
    int causal;       /* 1: query i sees keys up to its own position */
    int64_t window;   /* > 0: only the last `window` keys */
    lj_value starts;  /* i32 [B, T]: first key a query may see (document borders); 0 = none */
    lj_value q_start; /* i32 [B]: position of the first query (decoding from a cache); 0 = S - T */
} lj_attention_options;
/* q [B, T, Hq, D], k and v [B, S, Hkv, D], Hq a multiple of Hkv -> [B, T, Hq, D]. */
LJ_API lj_value lj_attention(lj_graph *graph, lj_value q, lj_value k, lj_value v, const lj_attention_options *options);
/* Cross entropy of x [N, C] against targets i32 [N] under head weight [V, C]: losses f32 [N]; a negative target gives 0. No logits are kept. */
LJ_API lj_value lj_head_loss(lj_graph *graph, lj_value x, lj_value weight, lj_value targets);
LJ_API lj_value lj_dropout(lj_graph *graph, lj_value x, lj_value seed, double rate, int64_t stream);
LJ_API lj_value lj_sum_squares(lj_graph *graph, lj_value x); /* f32 scalar, summed in double in a fixed order */

typedef struct {
    double beta1, beta2, eps, weight_decay;
} lj_adamw_options;
/* master, m, v f32 [N]; gradient f32 or bf16 [N]; scalars f32 [4] = {learning rate, gradient scale, 1 - beta1^t, 1 - beta2^t}.
 * outputs[3] = new master, m, v. */
LJ_API lj_status lj_adamw(lj_graph *graph, lj_value master, lj_value m, lj_value v, lj_value gradient, lj_value scalars,
                          const lj_adamw_options *options, lj_value outputs[3]);

/* Each builder records where it was called. (A macro does not expand itself again, so the names below reach the functions.) */
#ifndef LJ_NO_LOCATIONS
#define LJ_HERE(g) lj_graph_at((g), __FILE__, __LINE__)
#define lj_input(g, ...) lj_input(LJ_HERE(g), __VA_ARGS__)
#define lj_call(g, ...) lj_call(LJ_HERE(g), __VA_ARGS__)
#define lj_const(g, ...) lj_const(LJ_HERE(g), __VA_ARGS__)
#define lj_neg(g, ...) lj_neg(LJ_HERE(g), __VA_ARGS__)
#define lj_exp(g, ...) lj_exp(LJ_HERE(g), __VA_ARGS__)
#define lj_ln(g, ...) lj_ln(LJ_HERE(g), __VA_ARGS__)
#define lj_sqrt(g, ...) lj_sqrt(LJ_HERE(g), __VA_ARGS__)
#define lj_rsqrt(g, ...) lj_rsqrt(LJ_HERE(g), __VA_ARGS__)
#define lj_tanh(g, ...) lj_tanh(LJ_HERE(g), __VA_ARGS__)
#define lj_sigmoid(g, ...) lj_sigmoid(LJ_HERE(g), __VA_ARGS__)
#define lj_cast(g, ...) lj_cast(LJ_HERE(g), __VA_ARGS__)
#define lj_add(g, ...) lj_add(LJ_HERE(g), __VA_ARGS__)
#define lj_sub(g, ...) lj_sub(LJ_HERE(g), __VA_ARGS__)
#define lj_mul(g, ...) lj_mul(LJ_HERE(g), __VA_ARGS__)
#define lj_div(g, ...) lj_div(LJ_HERE(g), __VA_ARGS__)
#define lj_max(g, ...) lj_max(LJ_HERE(g), __VA_ARGS__)
#define lj_min(g, ...) lj_min(LJ_HERE(g), __VA_ARGS__)
#define lj_where(g, ...) lj_where(LJ_HERE(g), __VA_ARGS__)
#define lj_reshape(g, ...) lj_reshape(LJ_HERE(g), __VA_ARGS__)
#define lj_transpose(g, ...) lj_transpose(LJ_HERE(g), __VA_ARGS__)
#define lj_broadcast(g, ...) lj_broadcast(LJ_HERE(g), __VA_ARGS__)
#define lj_slice(g, ...) lj_slice(LJ_HERE(g), __VA_ARGS__)
#define lj_concat(g, ...) lj_concat(LJ_HERE(g), __VA_ARGS__)
#define lj_sum(g, ...) lj_sum(LJ_HERE(g), __VA_ARGS__)
#define lj_maximum(g, ...) lj_maximum(LJ_HERE(g), __VA_ARGS__)
#define lj_sum_all(g, ...) lj_sum_all(LJ_HERE(g), __VA_ARGS__)
#define lj_gather(g, ...) lj_gather(LJ_HERE(g), __VA_ARGS__)
#define lj_matmul(g, ...) lj_matmul(LJ_HERE(g), __VA_ARGS__)
#define lj_linear(g, ...) lj_linear(LJ_HERE(g), __VA_ARGS__)
#define lj_rms_norm(g, ...) lj_rms_norm(LJ_HERE(g), __VA_ARGS__)
#define lj_softmax(g, ...) lj_softmax(LJ_HERE(g), __VA_ARGS__)
#define lj_rotary(g, ...) lj_rotary(LJ_HERE(g), __VA_ARGS__)
#define lj_swiglu(g, ...) lj_swiglu(LJ_HERE(g), __VA_ARGS__)
#define lj_attention(g, ...) lj_attention(LJ_HERE(g), __VA_ARGS__)
#define lj_head_loss(g, ...) lj_head_loss(LJ_HERE(g), __VA_ARGS__)
#define lj_dropout(g, ...) lj_dropout(LJ_HERE(g), __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif
#endif
