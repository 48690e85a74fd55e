/* The steps in vector operations. The including file defines STEP_PAIRS (0 or 1), and with 1 the function
 * pair_store(uint16_t *at, vec even, vec odd): rows 2r and 2r + 1 rounded to bf16 and interleaved. */
#include "kernels/attention/steps.h"
#include "kernels/vec.h"

/* A maximum that grows by less than this (in powers of two) is not adopted: sums stay exact, rescaling becomes rare. */
#define LAZY_MAX 8.0f

LJ_INLINE vec load_float(lj_dtype type, const void *data, int64_t at)
{
    return type == LJ_BF16 ? vec_load_bf16((const uint16_t *)data + at) : vec_load((const float *)data + at);
}
LJ_INLINE vec load_float_part(lj_dtype type, const void *data, int64_t at, int n)
{
    return type == LJ_BF16 ? vec_load_bf16_part((const uint16_t *)data + at, n) : vec_load_part((const float *)data + at, n);
}
LJ_INLINE void store_float(lj_dtype type, void *data, int64_t at, vec x)
{
    if (type == LJ_BF16)
        vec_store_bf16((uint16_t *)data + at, x);
    else
        vec_store((float *)data + at, x);
}
LJ_INLINE void store_float_part(lj_dtype type, void *data, int64_t at, vec x, int n)
{
    if (type == LJ_BF16)
        vec_store_bf16_part((uint16_t *)data + at, x, n);
    else
        vec_store_part((float *)data + at, x, n);
}

LJ_INLINE vec lanes_max(const lj_softmax_step *t, int64_t lane, bool masked)
{
    vec top[4] = {vec_set(-INFINITY), vec_set(-INFINITY), vec_set(-INFINITY), vec_set(-INFINITY)};
    vec factor = vec_set(t->factor);
    for (int64_t r = 0; r < t->keys; r++) {
        float *at = t->scores + r * t->width + lane;
        vec x = vec_load(at) * factor;
        if (masked) {
            x = vec_where(x, vec_set(-INFINITY), t->first_key + (int32_t)r, t->low + lane, t->high + lane);
            vec_store(at, x);
        }
        top[r & 3] = vec_max(top[r & 3], x);
    }
    return vec_max(vec_max(top[0], top[1]), vec_max(top[2], top[3]));
}

LJ_INLINE vec probability(const lj_softmax_step *t, int64_t row, int64_t lane, vec max, bool masked)
{
    vec x = vec_load(t->scores + row * t->width + lane);
    return vec_exp2(masked ? (vec)(x - max) : vec_fma(x, vec_set(t->factor), -max));
}

LJ_INLINE vec lanes_probabilities(const lj_softmax_step *t, int64_t lane, vec max, bool masked)
{
    vec sum = vec_set(0), other = vec_set(0);
    int64_t r = 0;
    for (; r + 1 < t->keys; r += 2) {
        vec even = probability(t, r, lane, max, masked), odd = probability(t, r + 1, lane, max, masked);
        sum += even, other += odd;
#if STEP_PAIRS
        pair_store((uint16_t *)t->probabilities + r * t->width + 2 * lane, even, odd);
#else
        vec_store((float *)t->probabilities + r * t->width + lane, even);
        vec_store((float *)t->probabilities + (r + 1) * t->width + lane, odd);
#endif
    }
    if (r < t->keys) {
        vec even = probability(t, r, lane, max, masked);
        sum += even;
#if STEP_PAIRS
        pair_store((uint16_t *)t->probabilities + r * t->width + 2 * lane, even, vec_set(0));
#else
        vec_store((float *)t->probabilities + r * t->width + lane, even);
#endif
    }
    return sum + other;
}

LJ_INLINE bool softmax_body(const lj_softmax_step *t, bool masked)
{
    bool moved = false;
    float before[VL], after[VL];
    for (int64_t lane = 0; lane < t->width; lane += VL) {
        vec old = vec_load(t->max + lane), top = lanes_max(t, lane, masked);
        vec_store(before, old), vec_store(after, top);
        bool lane_moved = false;
        for (int i = 0; i < VL; i++) {
            bool grows = after[i] > before[i] + LAZY_MAX;
            after[i] = grows ? after[i] : before[i];
            lane_moved |= grows;
        }
        vec max = vec_load(after), by = lane_moved ? vec_exp2(old - max) : vec_set(1);
        moved |= lane_moved;
        vec sum = lanes_probabilities(t, lane, max, masked);
        vec_store(t->max + lane, max);
        vec_store(t->rescale + lane, by);
        vec_store(t->sum + lane, vec_fma(vec_load(t->sum + lane), by, sum));
    }
    return moved;
}

static bool softmax(const lj_softmax_step *t)
{
    return t->low ? softmax_body(t, true) : softmax_body(t, false);
}

static void multiply(float *sums, int64_t rows, int64_t width, const float *by)
{
    for (int64_t lane = 0; lane < width; lane += VL) {
        vec factor = vec_load(by + lane);
        for (int64_t r = 0; r < rows; r++) vec_store(sums + r * width + lane, vec_load(sums + r * width + lane) * factor);
    }
}

typedef struct {
    vec p, ds;
} gradient_pair;

LJ_INLINE gradient_pair gradient_at(const lj_gradient_step *t, int64_t row, int64_t lane, vec lse2, vec delta, bool masked)
{
    vec x = vec_fma(vec_load(t->scores + row * t->width + lane), vec_set(t->factor), -lse2);
    vec p = vec_exp2(x);
    vec ds = p * (vec_load(t->dprobs + row * t->width + lane) - delta) * vec_set(t->scale);
    if (masked) { /* also a row that sees nothing, whose lse is -inf */
        p = vec_where(p, vec_set(0), t->first_key + (int32_t)row, t->low + lane, t->high + lane);
        ds = vec_where(ds, vec_set(0), t->first_key + (int32_t)row, t->low + lane, t->high + lane);
    }
    return (gradient_pair){p, ds};
}

LJ_INLINE void gradient_store(const lj_gradient_step *t, int64_t row, int64_t lane, gradient_pair x)
{
    int64_t at = row * t->width + lane;
    store_float(STEP_PAIRS ? LJ_BF16 : LJ_F32, t->p_rows, at, x.p);
    store_float(STEP_PAIRS ? LJ_BF16 : LJ_F32, t->ds_rows, at, x.ds);
    if (!STEP_PAIRS && t->ds_packed != t->ds_rows) vec_store((float *)t->ds_packed + at, x.ds);
}

LJ_INLINE void gradient_body(const lj_gradient_step *t, bool masked)
{
    for (int64_t lane = 0; lane < t->width; lane += VL) {
        vec lse2 = vec_load(t->lse2 + lane), delta = vec_load(t->delta + lane);
        for (int64_t r = 0; r < t->keys; r += 2) {
            bool last = r + 1 == t->keys;
            gradient_pair even = gradient_at(t, r, lane, lse2, delta, masked);
            gradient_pair odd = last ? (gradient_pair){vec_set(0), vec_set(0)} : gradient_at(t, r + 1, lane, lse2, delta, masked);
            gradient_store(t, r, lane, even);
            if (!last) gradient_store(t, r + 1, lane, odd);
#if STEP_PAIRS
            pair_store((uint16_t *)t->ds_packed + r * t->width + 2 * lane, even.ds, odd.ds);
#endif
        }
    }
}

static void gradient(const lj_gradient_step *t)
{
    if (t->low)
        gradient_body(t, true);
    else
        gradient_body(t, false);
}

/* A square: sums of `rows` (<= VL) head positions from d and VL queries from q. */
LJ_INLINE void transpose_square(lj_dtype type, const float *sums, int64_t width, const float *by, int rows, int queries, void *out, int64_t ld)
{
    vec x[VL];
    LJ_UNROLL for (int i = 0; i < VL; i++) x[i] = i < rows ? (vec)(vec_load(sums + i * width) * vec_load(by)) : vec_set(0);
    vec_transpose(x);
    LJ_UNROLL for (int i = 0; i < VL; i++)
    {
        if (i >= queries) continue;
        if (rows == VL)
            store_float(type, out, i * ld, x[i]);
        else
            store_float_part(type, out, i * ld, x[i], rows);
    }
}

static void transpose(lj_dtype type, const float *sums, int64_t rows, int64_t width, int64_t queries, const float *by, void *out, int64_t ld)
{
    for (int64_t q = 0; q < queries; q += VL)
        for (int64_t d = 0; d < rows; d += VL) {
            const float *from = sums + d * width + q;
            char *to = (char *)out + (q * ld + d) * (type == LJ_BF16 ? 2 : 4);
            int n = rows - d < VL ? (int)(rows - d) : VL, lanes = queries - q < VL ? (int)(queries - q) : VL;
            if (n == VL && lanes == VL)
                transpose_square(type, from, width, by + q, VL, VL, to, ld);
            else
                transpose_square(type, from, width, by + q, n, lanes, to, ld);
        }
}

static void convert(lj_dtype type, const float *sums, int64_t rows, int64_t columns, int64_t width, void *out, int64_t ld)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = 0;
        for (; i + VL <= columns; i += VL) store_float(type, out, r * ld + i, vec_load(sums + r * width + i));
        if (i < columns) store_float_part(type, out, r * ld + i, vec_load_part(sums + r * width + i, (int)(columns - i)), (int)(columns - i));
    }
}

static float dot_rows(lj_dtype type, const void *a, const void *b, int64_t count)
{
    vec sum = vec_set(0);
    int64_t i = 0;
    for (; i + VL <= count; i += VL) sum = vec_fma(load_float(type, a, i), load_float(type, b, i), sum);
    if (i < count) sum = vec_fma(load_float_part(type, a, i, (int)(count - i)), load_float_part(type, b, i, (int)(count - i)), sum);
    return vec_sum(sum);
}

LJ_INLINE vec load_float_clamped(lj_dtype type, const void *data, int64_t at, int64_t left)
{
    return left >= VL ? load_float(type, data, at) : load_float_part(type, data, at, (int)left);
}

/* Lane-wise products of one query and one key: their lanes sum to the dot product. */
LJ_INLINE vec key_product(lj_dtype type, const void *q, const void *k, int64_t q_at, int64_t k_at, int64_t head_dim)
{
    vec sum = vec_set(0);
    int64_t d = 0;
#if STEP_PAIRS
    if (type == LJ_BF16)
        for (; d + 2 * VL <= head_dim; d += 2 * VL) sum = pair_dot((const uint16_t *)q + q_at + d, (const uint16_t *)k + k_at + d, sum);
#endif
    for (; d < head_dim; d += VL)
        sum = vec_fma(load_float_clamped(type, q, q_at + d, head_dim - d), load_float_clamped(type, k, k_at + d, head_dim - d), sum);
    return sum;
}

/* Scores of one row for VL keys from s on (fewer at the end: the rest is unspecified). */
LJ_INLINE vec decode_scores(lj_dtype type, const lj_decode_step *t, int64_t row, int64_t s)
{
    vec x[VL];
    int64_t left = t->keys - s;
    LJ_UNROLL for (int i = 0; i < VL; i++)
    {
        int64_t key = s + (i < left ? i : left - 1);
        x[i] = key_product(type, t->q, t->k, row * t->head_dim, key * t->k_ld, t->head_dim);
    }
    vec_transpose(x);
    LJ_UNROLL for (int width = VL / 2; width > 0; width /= 2) LJ_UNROLL for (int i = 0; i < width; i++) x[i] += x[i + width];
    return x[0];
}

/* Maximum, probabilities in place of scores, their sum. */
static void decode_softmax(const lj_decode_step *t, int64_t row)
{
    float *x = t->scores + row * LJ_DECODE_KEYS, max = -1e30f;
    vec sum = vec_set(0);
    for (int64_t s = 0; s < t->keys; s++) {
        int64_t key = t->first_key + s;
        x[s] = key >= t->low[row] && key < t->high[row] ? x[s] * t->factor : -INFINITY;
        max = x[s] > max ? x[s] : max;
    }
    for (int64_t s = t->keys; s % VL; s++) x[s] = -INFINITY;
    for (int64_t s = 0; s < t->keys; s += VL) {
        vec p = vec_exp2(vec_load(x + s) - vec_set(max));
        vec_store(x + s, p);
        sum += p;
    }
    t->max[row] = max, t->sum[row] = vec_sum(sum);
}

LJ_INLINE void decode_values(lj_dtype type, const lj_decode_step *t)
{
    for (int64_t row = 0; row < t->rows; row += 4) {
        int64_t rows = t->rows - row < 4 ? t->rows - row : 4;
        const float *p[4];
        for (int64_t i = 0; i < 4; i++) p[i] = t->scores + (row + (i < rows ? i : rows - 1)) * LJ_DECODE_KEYS;
        for (int64_t d = 0; d < t->head_dim; d += VL) {
            vec sum[4] = {vec_set(0), vec_set(0), vec_set(0), vec_set(0)};
            int64_t left = t->head_dim - d;
            for (int64_t s = 0; s < t->keys; s++) {
                vec v = load_float_clamped(type, t->v, s * t->v_ld + d, left);
                LJ_UNROLL for (int i = 0; i < 4; i++) sum[i] = vec_fma(v, vec_set(p[i][s]), sum[i]);
            }
            for (int64_t i = 0; i < rows; i++) {
                float *out = t->sums + (row + i) * t->head_dim + d;
                if (left >= VL)
                    vec_store(out, sum[i]);
                else
                    vec_store_part(out, sum[i], (int)left);
            }
        }
    }
}

LJ_INLINE void decode_body(lj_dtype type, const lj_decode_step *t)
{
    for (int64_t s = 0; s < t->keys; s += VL)
        for (int64_t row = 0; row < t->rows; row++) vec_store(t->scores + row * LJ_DECODE_KEYS + s, decode_scores(type, t, row, s));
    for (int64_t row = 0; row < t->rows; row++) decode_softmax(t, row);
    decode_values(type, t);
}

static void decode(const lj_decode_step *t)
{
    if (t->type == LJ_BF16)
        decode_body(LJ_BF16, t);
    else
        decode_body(LJ_F32, t);
}
