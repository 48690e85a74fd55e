/* Attention without a T x T buffer: forward and backward, grouped-query, causal, sliding window, documents, KV cache.
 *
 *   out[b,t,h,:] = sum_s softmax_s(scale * q[b,t,h,:] . k[b,s,h*kv_heads/heads,:]) v[b,s,h*kv_heads/heads,:]
 *
 * Both functions are team kernels fn(args, thread, threads): call them through lj_team_run with the args struct; every thread
 * must enter. Storage bf16 or f32; sums in f32; probabilities are rounded to the storage type before they meet V (bf16), as the
 * reference frameworks do. Forward results do not depend on the number of threads; dq may (fixed for a given number). */
#ifndef LJ_KERNELS_ATTENTION_H
#define LJ_KERNELS_ATTENTION_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    lj_dtype type; /* of q, k, v, out and their gradients: LJ_BF16 or LJ_F32 */
    int64_t batch, q_len, kv_len, heads, kv_heads, head_dim;
    /* Query i stands at position q_start + i of the keys. Causal: it sees keys <= that position. -1 means kv_len - q_len (the
     * queries are the newest; training has q_len = kv_len). */
    int64_t q_start;
    int64_t window; /* > 0: sees only keys > position - window; needs causal. 0: no window */
    float scale;    /* usually 1 / sqrt(head_dim) */
    bool causal;
} lj_attention_desc;

/* A matrix of heads: element (b, t, h, d) is data[b * batch_stride + t * row_stride + h * head_stride + d]; strides in
 * elements, so q, k, v may be slices of a fused qkv matrix. */
typedef struct {
    void *data;
    int64_t batch_stride, row_stride, head_stride;
} lj_attention_view;

/* Dense [batch, rows, heads, head_dim]. */
static inline lj_attention_view lj_attention_dense(void *data, int64_t rows, int64_t heads, int64_t head_dim)
{
    return (lj_attention_view){data, rows * heads * head_dim, heads * head_dim, head_dim};
}

typedef struct {
    lj_attention_desc desc;
    lj_attention_view q, k, v; /* read */
    lj_attention_view out;     /* written */
    float *lse;                /* [batch, heads, q_len]: log of the softmax's denominator; -inf for a row that sees nothing (its
                                  out is 0). May be NULL in forward */
    const int32_t *first_key;  /* [batch, q_len]: first key each query may see (start of its document), or NULL */
    const int32_t *kv_lens;    /* [batch]: keys that entry b really has (<= desc.kv_len; q_start -1 then counts from it), or NULL */
    void *scratch;             /* lj_attention_forward_scratch, 64-byte aligned */
} lj_attention_forward_args;

typedef struct {
    lj_attention_desc desc;
    lj_attention_view q, k, v, out, dout; /* read; out and lse as forward left them */
    const float *lse;
    const int32_t *first_key, *kv_lens;
    lj_attention_view dq, dk, dv; /* written (every element of the described sizes) */
    void *scratch;
} lj_attention_backward_args;

/* LJ_ERR_INVALID with name and numbers: sizes, heads not a multiple of kv_heads, window without causal, a type that is not
 * bf16 or f32. The kernels assert what this checks. */
lj_status lj_attention_check(const lj_attention_desc *desc);

/* Exact scratch bytes for these sizes and `threads`. */
size_t lj_attention_forward_scratch(const lj_attention_desc *desc, int threads);
size_t lj_attention_backward_scratch(const lj_attention_desc *desc, int threads);

void lj_attention_forward(void *args /* lj_attention_forward_args */, int thread, int threads);
void lj_attention_backward(void *args /* lj_attention_backward_args */, int thread, int threads);

#endif
