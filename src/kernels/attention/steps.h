/* Inside of attention: the vector work between the products, one table an instruction set.
 *
 * Everything is transposed: a tile of scores is [keys][queries], so each query's softmax runs down a lane and nothing is ever
 * summed across a vector. `width` is the number of query lanes (a multiple of the vector length). */
#ifndef LJ_KERNELS_ATTENTION_STEPS_H
#define LJ_KERNELS_ATTENTION_STEPS_H

#include "base/machine.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    float *scores; /* [keys][width], raw products; overwritten */
    int64_t keys, width;
    float factor;             /* scale * log2(e) */
    const int32_t *low, *high; /* [width] keys each lane may see, [low, high); NULL: all */
    int32_t first_key;        /* absolute number of row 0 */
    float *max, *sum;         /* [width] running maximum (times factor) and sum of 2^(score * factor - max) */
    float *rescale;           /* [width] written when the function returns true: what earlier sums must be multiplied with */
    void *probabilities;      /* packed B of the tile engine, [ceil(keys / group)][width][group] */
} lj_softmax_step;

typedef struct {
    const float *scores, *dprobs; /* [keys][width] */
    int64_t keys, width;
    float factor, scale;
    const int32_t *low, *high;
    int32_t first_key;
    const float *lse2, *delta; /* [width]: lse * log2(e), and sum of dout * out */
    void *p_rows, *ds_rows;    /* [keys][width] of the engine's type (A operands) */
    void *ds_packed;           /* the same as packed B; may be ds_rows where the two forms are equal (group 1) */
} lj_gradient_step;

/* Few queries against a run of keys (decoding): `rows` queries that share K and V. */
typedef struct {
    lj_dtype type; /* of q, k, v */
    const void *q; /* [rows][head_dim] */
    const void *k, *v;
    int64_t k_ld, v_ld; /* elements between keys */
    int64_t rows, keys, head_dim;
    float factor;
    const int32_t *low, *high; /* [rows] keys each row sees */
    int32_t first_key;
    float *scores;     /* [rows][LJ_DECODE_KEYS] scratch */
    float *max, *sum;  /* [rows] written; max is -1e30 and sum 0 for a row that sees none */
    float *sums;       /* [rows][head_dim] written: sum of probabilities (relative to max) times v */
} lj_decode_step;
enum { LJ_DECODE_KEYS = 128 };

typedef struct lj_attention_steps {
    bool pairs; /* probabilities are bf16 pairs */
    /* true: the maximum moved, sums so far must be multiplied by rescale. */
    bool (*softmax)(const lj_softmax_step *step);
    void (*multiply)(float *sums, int64_t rows, int64_t width, const float *by);
    void (*gradient)(const lj_gradient_step *step);
    /* out[q * ld + d] = sums[d * width + q] * by[q] for q < queries, rounded to type. */
    void (*transpose)(lj_dtype type, const float *sums, int64_t rows, int64_t width, int64_t queries, const float *by, void *out, int64_t ld);
    /* out[r * ld + i] = sums[r * width + i], rounded to type. */
    void (*convert)(lj_dtype type, const float *sums, int64_t rows, int64_t columns, int64_t width, void *out, int64_t ld);
    float (*dot)(lj_dtype type, const void *a, const void *b, int64_t count);
    void (*decode)(const lj_decode_step *step);
} lj_attention_steps;

extern const lj_attention_steps lj_attention_generic, lj_attention_avx2, lj_attention_avx512, lj_attention_avx512bf16;

const lj_attention_steps *lj_attention_steps_for(lj_isa isa, lj_dtype engine_type);

#endif
