#include "kernels/attention/layout.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

const lj_attention_steps *lj_attention_steps_for(lj_isa isa, lj_dtype engine_type)
{
    static const struct {
        const lj_attention_steps *f32, *bf16;
    } rows[LJ_ISA_COUNT] = {
        [LJ_ISA_GENERIC] = {&lj_attention_generic, NULL},
#if defined(__x86_64__)
        [LJ_ISA_AVX2] = {&lj_attention_avx2, NULL},
        [LJ_ISA_AVX512] = {&lj_attention_avx512, NULL},
        [LJ_ISA_AVX512_BF16] = {&lj_attention_avx512, &lj_attention_avx512bf16},
        [LJ_ISA_AMX] = {&lj_attention_avx512, &lj_attention_avx512bf16},
#endif
    };
    return engine_type == LJ_BF16 ? rows[isa].bf16 : rows[isa].f32;
}

lj_status lj_attention_check(const lj_attention_desc *d)
{
    if (d->type != LJ_BF16 && d->type != LJ_F32)
        return lj_fail(LJ_ERR_INVALID, "attention: type %s; take bf16 or f32", lj_dtype_name(d->type));
    if (d->batch < 0 || d->q_len < 0 || d->kv_len < 0 || d->heads < 0 || d->kv_heads < 1 || d->head_dim < 1 || d->window < 0)
        return lj_fail(LJ_ERR_INVALID, "attention: batch %lld, q_len %lld, kv_len %lld, heads %lld, kv_heads %lld, head_dim %lld, window %lld",
                       (long long)d->batch, (long long)d->q_len, (long long)d->kv_len, (long long)d->heads, (long long)d->kv_heads,
                       (long long)d->head_dim, (long long)d->window);
    if (d->heads % d->kv_heads)
        return lj_fail(LJ_ERR_INVALID, "attention: %lld heads is no multiple of %lld kv_heads", (long long)d->heads, (long long)d->kv_heads);
    if (d->window && !d->causal) return lj_fail(LJ_ERR_INVALID, "attention: a window of %lld needs causal", (long long)d->window);
    if (d->kv_len > INT32_MAX / 2 || d->q_start > INT32_MAX / 2 || d->q_len > INT32_MAX / 2)
        return lj_fail(LJ_ERR_INVALID, "attention: more than %d keys", INT32_MAX / 2);
    if (!(d->scale > 0) || isinf(d->scale)) return lj_fail(LJ_ERR_INVALID, "attention: scale %g must be positive", (double)d->scale);
    return LJ_OK;
}

lj_attention_layout lj_attention_layout_of(const lj_attention_desc *d)
{
    lj_isa isa = lj_machine_get()->isa;
    lj_attention_layout l = {.d = d, .tile = lj_tile_for(isa, d->type)};
    assert(d->type == LJ_BF16 || d->type == LJ_F32);
    l.steps = lj_attention_steps_for(isa, l.tile->type);
    l.width = lj_smaller(l.tile->wide_width, lj_round_up(d->q_len > 0 ? d->q_len : 1, 16));
    l.query_blocks = (d->q_len + l.width - 1) / l.width;
    l.key_blocks = (d->kv_len + LJ_KEY_BLOCK - 1) / LJ_KEY_BLOCK;
    l.group = d->heads / d->kv_heads;
    l.widen = l.tile->type != d->type;
    l.element = (int64_t)lj_dtype_bytes(d->type);
    return l;
}

int64_t lj_attention_keys(const lj_attention_desc *d, const lj_attention_masks *masks, int64_t b)
{
    return masks->kv_lens ? masks->kv_lens[b] : d->kv_len;
}

lj_attention_bounds lj_attention_block_bounds(const lj_attention_layout *l, const lj_attention_masks *masks, int64_t b, int64_t qb, int32_t *low,
                                              int32_t *high)
{
    const lj_attention_desc *d = l->d;
    int64_t keys = lj_attention_keys(d, masks, b), start = d->q_start < 0 ? keys - d->q_len : d->q_start;
    lj_attention_bounds x = {INT32_MAX, 0, INT32_MAX, 0};
    for (int64_t i = 0; i < l->width; i++) {
        int64_t t = qb * l->width + i, position = start + t, from = 0, to = keys;
        low[i] = high[i] = 0;
        if (t >= d->q_len) continue;
        if (d->causal && position + 1 < to) to = position + 1;
        if (d->window && position - d->window + 1 > from) from = position - d->window + 1;
        if (masks->first_key && masks->first_key[b * d->q_len + t] > from) from = masks->first_key[b * d->q_len + t];
        if (to < from) to = from;
        low[i] = (int32_t)from, high[i] = (int32_t)to;
        if (low[i] < x.least_low) x.least_low = low[i];
        if (low[i] > x.most_low) x.most_low = low[i];
        if (high[i] < x.least_high) x.least_high = high[i];
        if (high[i] > x.most_high) x.most_high = high[i];
    }
    return x;
}
