/* AdamW in vector operations that are IEEE single steps on every instruction set: no fused multiply-add, no approximate root. */
#include "kernels/adamw_rows.h"
#include "kernels/vec.h"

typedef struct {
    vec grad_scale, keep, beta1_rest, beta2, beta2_rest, eps, step_size, root_correction;
} numbers_vec;

LJ_INLINE vec adam_step(const numbers_vec *n, vec w, vec g, vec *m, vec *v)
{
    g = g * n->grad_scale;
    w = w * n->keep;
    *m = *m + (g - *m) * n->beta1_rest;
    *v = *v * n->beta2 + (g * g) * n->beta2_rest;
    vec below = vec_sqrt(*v) / n->root_correction + n->eps;
    return w - n->step_size * (*m / below);
}

LJ_INLINE vec grad_load(lj_dtype type, const void *grad, int64_t at)
{
    return type == LJ_BF16 ? vec_load_bf16((const uint16_t *)grad + at) : vec_load((const float *)grad + at);
}

LJ_INLINE void vector_update(const numbers_vec *n, bool split, bool narrow, float *master, uint16_t *weight, uint16_t *low, float *m, float *v,
                             vec g)
{
    vec mm = vec_load(m), vv = vec_load(v);
    vec w = adam_step(n, split ? vec_join(weight, low) : vec_load(master), g, &mm, &vv);
    vec_store(m, mm), vec_store(v, vv);
    if (!split) vec_store(master, w);
    if (narrow) vec_store_high(weight, w);
    if (split) vec_store_low(low, w);
}

/* Fewer elements than a vector, through copies, so that every element takes the same instructions. */
static void tail_update(const numbers_vec *n, const lj_adamw_args *a, int64_t at, int count)
{
    float master[VL] = {0}, m[VL] = {0}, v[VL] = {0}, g[VL] = {0};
    uint16_t weight[VL] = {0}, low[VL] = {0};
    size_t wide = (size_t)count * 4, narrow = (size_t)count * 2;
    memcpy(m, a->m + at, wide), memcpy(v, a->v + at, wide);
    if (a->master) memcpy(master, a->master + at, wide);
    if (a->weight) memcpy(weight, a->weight + at, narrow);
    if (!a->master) memcpy(low, a->low + at, narrow);
    for (int i = 0; i < count; i++)
        g[i] = a->grad_type == LJ_BF16 ? lj_bf16_to_float(((const uint16_t *)a->grad)[at + i]) : ((const float *)a->grad)[at + i];
    vector_update(n, !a->master, a->weight != NULL, master, weight, low, m, v, vec_load(g));
    memcpy(a->m + at, m, wide), memcpy(a->v + at, v, wide);
    if (a->master) memcpy(a->master + at, master, wide);
    if (a->weight) memcpy(a->weight + at, weight, narrow);
    if (!a->master) memcpy(a->low + at, low, narrow);
}

LJ_INLINE void run_update(const numbers_vec *n, const lj_adamw_args *a, int64_t begin, int64_t end, bool split, bool narrow, lj_dtype grad_type)
{
    int64_t i = begin;
    for (; i + VL <= end; i += VL)
        vector_update(n, split, narrow, a->master + i, a->weight + i, a->low + i, a->m + i, a->v + i, grad_load(grad_type, a->grad, i));
    if (i < end) tail_update(n, a, i, (int)(end - i));
}

static void update(const lj_adamw_args *a, const lj_adamw_numbers *s, int64_t begin, int64_t end)
{
    numbers_vec n = {vec_set(s->grad_scale), vec_set(s->keep), vec_set(s->beta1_rest), vec_set(s->beta2), vec_set(s->beta2_rest),
                     vec_set(s->eps),        vec_set(s->step_size), vec_set(s->root_correction)};
    if (!a->master)
        run_update(&n, a, begin, end, true, true, a->grad_type);
    else if (a->weight)
        run_update(&n, a, begin, end, false, true, a->grad_type);
    else
        run_update(&n, a, begin, end, false, false, a->grad_type);
}

/* Sixteen running sums in double, whatever the vector length, then a fixed tree: the same bits everywhere. */
static double square_sum(lj_dtype type, const void *data, int64_t begin, int64_t end)
{
    double sum[16] = {0};
    int64_t i = begin;
    for (; i + 16 <= end; i += 16) {
        float x[16];
        for (int j = 0; j < 16; j += VL) vec_store(x + j, grad_load(type, data, i + j));
        for (int j = 0; j < 16; j++) sum[j] += (double)x[j] * (double)x[j];
    }
    for (int j = 0; i < end; i++, j++) {
        double x = (double)(type == LJ_BF16 ? lj_bf16_to_float(((const uint16_t *)data)[i]) : ((const float *)data)[i]);
        sum[j] += x * x;
    }
    for (int width = 8; width > 0; width /= 2)
        for (int j = 0; j < width; j++) sum[j] += sum[j + width];
    return sum[0];
}
