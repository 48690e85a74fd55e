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
    lj_attention_layout l = {.d = d, .tile = lj_tile_get(d->type)};
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

static bool lane_sees(int32_t low, int32_t high, int64_t begin, int64_t end)
{
    return low < end && high > begin && low < high;
}

lj_attention_shape lj_attention_shape_of(const int32_t *low, const int32_t *high, int64_t first_key, int64_t keys, int64_t width)
{
    lj_attention_shape shape;
    for (int64_t q = 0; q < 4; q++) {
        int64_t begin = first_key + q * LJ_KEY_QUARTER, end = lj_smaller(begin + LJ_KEY_QUARTER, first_key + keys), from = 0, to = width;
        while (from < to && (begin >= end || !lane_sees(low[from], high[from], begin, end))) from++;
        while (to > from && !lane_sees(low[to - 1], high[to - 1], begin, end)) to--;
        shape.first[q] = from / 16 * 16;
        shape.end[q] = from < to ? lj_smaller(lj_round_up(to, 16), width) : shape.first[q];
    }
    return shape;
}

static int64_t group_bytes(const lj_tile *tile)
{
    return tile->group * (int64_t)lj_dtype_bytes(tile->type);
}

/* Offsets into a panel of `width` columns: column first, k-row at (a multiple of the group). */
static const char *panel_at(const lj_tile *tile, const void *b, int64_t width, int64_t k, int64_t column)
{
    return (const char *)b + (k / tile->group * width + column) * group_bytes(tile);
}

void lj_attention_by_keys(const lj_attention_layout *l, const lj_attention_shape *shape, const lj_tile_a *a, int64_t keys, int64_t depth,
                          const void *b, float *scores)
{
    if (!shape) {
        l->tile->panel(a, keys, l->width, depth, b, l->width, scores, l->width, LJ_TILE_SET);
        return;
    }
    for (int64_t q = 0; q < 4 && q * LJ_KEY_QUARTER < keys; q++) {
        int64_t row = q * LJ_KEY_QUARTER, first = shape->first[q];
        lj_tile_a part = *a;
        part.data = (const char *)a->data + row * a->row_bytes;
        if (first < shape->end[q])
            l->tile->panel(&part, lj_smaller(keys - row, LJ_KEY_QUARTER), shape->end[q] - first, depth, panel_at(l->tile, b, l->width, 0, first),
                           l->width, scores + row * l->width + first, l->width, LJ_TILE_SET);
    }
}

/* Keys [*from, *to) that lanes [lane, lane + count) see any of, in whole quarters. */
static void quarters_of(const lj_attention_shape *shape, int64_t lane, int64_t count, int64_t *from, int64_t *to)
{
    *from = *to = 0;
    for (int64_t q = 0; q < 4; q++) {
        if (shape->first[q] >= lane + count || shape->end[q] <= lane) continue;
        if (*to == 0) *from = q * LJ_KEY_QUARTER;
        *to = (q + 1) * LJ_KEY_QUARTER;
    }
}

void lj_attention_by_queries(const lj_attention_layout *l, const lj_attention_shape *shape, const lj_tile_a *a, int64_t rows, int64_t keys,
                             const void *b, float *sums, bool add)
{
    lj_tile_store store = add ? LJ_TILE_ADD : LJ_TILE_SET;
    if (!shape) {
        l->tile->panel(a, rows, l->width, keys, b, l->width, sums, l->width, store);
        return;
    }
    for (int64_t lane = 0; lane < l->width; lane += 32) {
        int64_t from, to, count = lj_smaller(l->width - lane, 32);
        lj_tile_a part = *a;
        quarters_of(shape, lane, count, &from, &to);
        from = from / l->tile->a_k_multiple * l->tile->a_k_multiple;
        if (add && from >= to) continue;
        part.data = (const char *)a->data + from / l->tile->group * a->group_bytes;
        l->tile->panel(&part, rows, count, lj_smaller(to, keys) - from, panel_at(l->tile, b, l->width, from, lane), l->width, sums + lane, l->width,
                       store);
    }
}

void lj_attention_to_keys(const lj_attention_layout *l, const lj_attention_shape *shape, const void *a_rows, int64_t keys, int64_t queries,
                          const void *b, int64_t columns, float *sums)
{
    int64_t wide = l->tile->wide_width, panel_bytes = lj_tile_panel_bytes(l->tile, l->width, wide), step = shape ? LJ_KEY_QUARTER : LJ_KEY_BLOCK;
    for (int64_t row = 0; row < keys; row += step) {
        int64_t first = shape ? shape->first[row / step] : 0, end = shape ? lj_smaller(shape->end[row / step], queries) : queries;
        const char *rows = (const char *)a_rows + (row * l->width + first) * (int64_t)lj_dtype_bytes(l->tile->type);
        lj_tile_a a = lj_tile_plain_a(l->tile, rows, l->width, l->tile->wide_rows);
        for (int64_t at = 0; at < columns && first < end; at += wide)
            l->tile->panel(&a, lj_smaller(keys - row, step), lj_smaller(columns - at, wide), end - first,
                           panel_at(l->tile, (const char *)b + at / wide * panel_bytes, wide, first, 0), wide, sums + row * columns + at, columns,
                           LJ_TILE_ADD);
    }
}
