/* One row: maximum, sum of exponentials, then the gradient in place. Each vector is read before its place is overwritten; a bf16 row ends
 * before the f32 data that is still to be read. */
#include "kernels/loss_rows.h"
#include "kernels/vec.h"

static float row_max(const float *x, int64_t count)
{
    vec top[4] = {vec_set(-INFINITY), vec_set(-INFINITY), vec_set(-INFINITY), vec_set(-INFINITY)};
    float all[VL], most = -INFINITY;
    int64_t i = 0;
    for (; i + 4 * VL <= count; i += 4 * VL)
        for (int j = 0; j < 4; j++) top[j] = vec_max(top[j], vec_load(x + i + j * VL));
    vec_store(all, vec_max(vec_max(top[0], top[1]), vec_max(top[2], top[3])));
    for (int j = 0; j < VL; j++) most = all[j] > most ? all[j] : most;
    for (; i < count; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* Sum of 2^(x * log2e - shift). */
static float row_sum(const float *x, int64_t count, float shift)
{
    vec sum[2] = {vec_set(0), vec_set(0)}, factor = vec_set(LJ_LOG2E), by = vec_set(-shift);
    int64_t i = 0;
    for (; i + 2 * VL <= count; i += 2 * VL)
        for (int j = 0; j < 2; j++) sum[j] += vec_exp2(vec_fma(vec_load(x + i + j * VL), factor, by));
    for (; i < count; i += VL) {
        int n = count - i < VL ? (int)(count - i) : VL;
        float part[VL] = {0};
        vec_store(part, vec_exp2(vec_fma(vec_load_part(x + i, n), factor, by)));
        sum[0] += vec_load_part(part, n);
    }
    return vec_sum(sum[0] + sum[1]);
}

static void row_gradient(const lj_loss_row *row, float shift)
{
    vec factor = vec_set(LJ_LOG2E), by = vec_set(-shift), scale = vec_set(row->scale);
    uint16_t *narrow = (uint16_t *)(void *)row->logits;
    for (int64_t i = 0; i < row->vocab; i += VL) {
        int n = row->vocab - i < VL ? (int)(row->vocab - i) : VL;
        vec x = n == VL ? vec_load(row->logits + i) : vec_load_part(row->logits + i, n);
        vec g = vec_exp2(vec_fma(x, factor, by)) * scale;
        if (row->type == LJ_BF16 && n == VL)
            vec_store_bf16(narrow + i, g);
        else if (row->type == LJ_BF16)
            vec_store_bf16_part(narrow + i, g, n);
        else
            vec_store_part(row->logits + i, g, n);
    }
}

LJ_INLINE void loss_row(lj_loss_row *row)
{
    bool ignored = row->target < 0;
    float max = row_max(row->logits, row->vocab), sum = row_sum(row->logits, row->vocab, max * LJ_LOG2E);
    row->lse = max + logf(sum);
    float at = ignored ? 0 : row->logits[row->target];
    row->loss = ignored ? 0 : row->lse - at;
    if (!row->gradient) return;
    if (ignored) {
        memset(row->logits, 0, (size_t)row->vocab * lj_dtype_bytes(row->type));
        return;
    }
    float hit = (expf(at - row->lse) - 1) * row->scale;
    row_gradient(row, row->lse * LJ_LOG2E);
    if (row->type == LJ_BF16)
        ((uint16_t *)(void *)row->logits)[row->target] = lj_bf16_from_float(hit);
    else
        row->logits[row->target] = hit;
}
