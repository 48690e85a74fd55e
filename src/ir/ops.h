/* The functions that ops.def names: inference (infer.c) and gradients (gradients.c), and the composites' definitions (decompose.c). */
#ifndef LJ_IR_OPS_H
#define LJ_IR_OPS_H

#include "ir/ir.h"

lj_status lj_infer_declared(lj_infer *infer);
lj_status lj_infer_random(lj_infer *infer);
lj_status lj_infer_same(lj_infer *infer);
lj_status lj_infer_cast(lj_infer *infer);
lj_status lj_infer_same2(lj_infer *infer);
lj_status lj_infer_compare(lj_infer *infer);
lj_status lj_infer_where(lj_infer *infer);
lj_status lj_infer_reshape(lj_infer *infer);
lj_status lj_infer_transpose(lj_infer *infer);
lj_status lj_infer_broadcast(lj_infer *infer);
lj_status lj_infer_slice(lj_infer *infer);
lj_status lj_infer_pad(lj_infer *infer);
lj_status lj_infer_concat(lj_infer *infer);
lj_status lj_infer_gather(lj_infer *infer);
lj_status lj_infer_scatter_add(lj_infer *infer);
lj_status lj_infer_update_rows(lj_infer *infer);
lj_status lj_infer_reduce(lj_infer *infer);
lj_status lj_infer_argmax(lj_infer *infer);
lj_status lj_infer_matmul(lj_infer *infer);
lj_status lj_infer_all_gather(lj_infer *infer);
lj_status lj_infer_reduce_scatter(lj_infer *infer);
lj_status lj_infer_all_to_all(lj_infer *infer);
lj_status lj_infer_rms_norm(lj_infer *infer);
lj_status lj_infer_rms_norm_grad(lj_infer *infer);
lj_status lj_infer_rotary(lj_infer *infer);
lj_status lj_infer_swiglu_grad(lj_infer *infer);
lj_status lj_infer_attention(lj_infer *infer);
lj_status lj_infer_attention_grad(lj_infer *infer);
lj_status lj_infer_head_loss(lj_infer *infer);
lj_status lj_infer_head_loss_grad(lj_infer *infer);
lj_status lj_infer_head_loss_train(lj_infer *infer);
lj_status lj_infer_dropout(lj_infer *infer);
lj_status lj_infer_sum_squares(lj_infer *infer);
lj_status lj_infer_adamw(lj_infer *infer);

void lj_gradient_refused(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_neg(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_abs(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_exp(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_log(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_sqrt(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_rsqrt(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_recip(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_sin(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_cos(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_tanh(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_sigmoid(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_cast(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_add(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_sub(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_mul(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_div(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_max(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_min(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_where(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_reshape(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_transpose(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_broadcast(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_slice(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_pad(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_concat(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_gather(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_scatter_add(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_sum(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_maximum(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_matmul(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_all_gather(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_reduce_scatter(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_all_reduce(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_all_to_all(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_call(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_rms_norm(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_rotary(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_swiglu(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_attention(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_head_loss(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_dropout(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);
void lj_gradient_sum_squares(lj_graph *graph, const lj_node *node, const lj_value *douts, lj_value *dins);

/* By op; NULL where the row is no composite, or its flops are a number an element. */
extern const lj_decompose_fn lj_decompose_rows[LJ_OP_COUNT];
extern const lj_flops_fn lj_flops_rows[LJ_OP_COUNT];

/* The dtype a gradient of `value` has: parameters the graph's choice, everything else its own. */
lj_dtype lj_gradient_dtype_of(const lj_graph *graph, lj_value value);

#endif
