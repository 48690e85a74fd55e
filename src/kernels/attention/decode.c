/* Forward for a few new queries against a long cache: bound by reading K and V once, so the heads that share a kv head go together and the keys
 * are split into runs of LJ_DECODE_KEYS that any thread may take. Partial results are joined in the order of the runs, whatever the threads. */
#include "kernels/attention/decode.h"
#include "kernels/team.h"

#include <math.h>
#include <string.h>

#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

enum { DECODE_QUERIES = 3 }; /* beyond this the tile products are faster */

bool lj_attention_decodes(const lj_attention_desc *d)
{
    return d->q_len <= DECODE_QUERIES;
}

typedef struct {
    int64_t rows, runs;         /* queries that share a kv head (group * q_len); runs of keys */
    int64_t partial;            /* floats of one run's result: max, sum, sums */
    int64_t thread_offset, thread_floats, total_floats;
} decode_plan;

static decode_plan plan_make(const lj_attention_layout *l, int threads)
{
    const lj_attention_desc *d = l->d;
    decode_plan p = {.rows = l->group * d->q_len, .runs = (d->kv_len + LJ_DECODE_KEYS - 1) / LJ_DECODE_KEYS};
    p.partial = lj_round_up(p.rows * (2 + d->head_dim), 16);
    p.thread_offset = d->batch * d->kv_heads * p.runs * p.partial;
    /* q rows (at most f32), scores, low and high */
    p.thread_floats = lj_round_up(p.rows * (d->head_dim + LJ_DECODE_KEYS + 2), 16) + 64;
    p.total_floats = p.thread_offset + threads * p.thread_floats;
    return p;
}

size_t lj_attention_decode_scratch(const lj_attention_desc *d, int threads)
{
    lj_attention_layout l = lj_attention_layout_of(d);
    return (size_t)plan_make(&l, threads).total_floats * sizeof(float);
}

/* Row r = (query t, head g of the group): t * group + g. */
static void rows_gather(const lj_attention_layout *l, const lj_attention_forward_args *a, int64_t b, int64_t kv_head, char *q, int32_t *low,
                        int32_t *high)
{
    const lj_attention_desc *d = l->d;
    lj_attention_masks masks = {a->first_key, a->kv_lens};
    size_t bytes = (size_t)(d->head_dim * l->element);
    int32_t lows[64], highs[64];
    lj_attention_block_bounds(l, &masks, b, 0, lows, highs);
    for (int64_t t = 0; t < d->q_len; t++)
        for (int64_t g = 0; g < l->group; g++) {
            int64_t r = t * l->group + g;
            memcpy(q + (size_t)r * bytes, lj_attention_at(&a->q, l->element, b, t, kv_head * l->group + g), bytes);
            low[r] = lows[t], high[r] = highs[t];
        }
}

/* One run of keys of (b, kv head). */
static void run_one(const lj_attention_layout *l, const decode_plan *p, const lj_attention_forward_args *a, int64_t index, float *own)
{
    const lj_attention_desc *d = l->d;
    int64_t run = index % p->runs, kv_head = index / p->runs % d->kv_heads, b = index / p->runs / d->kv_heads, first = run * LJ_DECODE_KEYS;
    lj_attention_masks masks = {a->first_key, a->kv_lens};
    int64_t keys = lj_smaller(lj_attention_keys(d, &masks, b) - first, LJ_DECODE_KEYS);
    float *partial = (float *)a->scratch + index * p->partial;
    int32_t *low = (int32_t *)(void *)(own + p->rows * (d->head_dim + LJ_DECODE_KEYS)), *high = low + p->rows;
    if (keys <= 0) return;
    rows_gather(l, a, b, kv_head, (char *)(own + p->rows * LJ_DECODE_KEYS), low, high);
    lj_decode_step step = {d->type, own + p->rows * LJ_DECODE_KEYS, lj_attention_at(&a->k, l->element, b, first, kv_head),
                           lj_attention_at(&a->v, l->element, b, first, kv_head), a->k.row_stride, a->v.row_stride, p->rows, keys, d->head_dim,
                           d->scale * LOG2E, low, high, (int32_t)first, own, partial, partial + p->rows, partial + 2 * p->rows};
    l->steps->decode(&step);
}

/* Joins the runs of row r of (b, kv head) into out and lse. `sums` is the first run's, which holds the result. */
static void row_join(const lj_attention_layout *l, const decode_plan *p, const lj_attention_forward_args *a, int64_t b, int64_t kv_head, int64_t r)
{
    const lj_attention_desc *d = l->d;
    lj_attention_masks masks = {a->first_key, a->kv_lens};
    int64_t runs = (lj_attention_keys(d, &masks, b) + LJ_DECODE_KEYS - 1) / LJ_DECODE_KEYS, t = r / l->group, head = kv_head * l->group + r % l->group;
    float *parts = (float *)a->scratch + (b * d->kv_heads + kv_head) * p->runs * p->partial, max = -1e30f, sum = 0;
    float *out = parts + 2 * p->rows + r * d->head_dim;
    for (int64_t i = 0; i < runs; i++) max = parts[i * p->partial + r] > max ? parts[i * p->partial + r] : max;
    for (int64_t i = 0; i < runs; i++) {
        const float *part = parts + i * p->partial;
        float by = exp2f(part[r] - max);
        sum += part[p->rows + r] * by;
        for (int64_t x = 0; x < d->head_dim; x++) out[x] = (i ? out[x] : 0) + part[2 * p->rows + r * d->head_dim + x] * by;
    }
    bool seen = sum != 0;
    if (a->lse) a->lse[(b * d->heads + head) * d->q_len + t] = seen ? max * LN2 + logf(sum) : -INFINITY;
    for (int64_t x = 0; x < d->head_dim; x++) out[x] = seen ? out[x] / sum : 0;
    l->steps->convert(d->type, out, 1, d->head_dim, d->head_dim, lj_attention_at(&a->out, l->element, b, t, head), d->head_dim);
}

void lj_attention_decode(const lj_attention_forward_args *a, int thread, int threads)
{
    lj_attention_layout l = lj_attention_layout_of(&a->desc);
    decode_plan p = plan_make(&l, threads);
    int64_t begin, end, pairs = a->desc.batch * a->desc.kv_heads;
    lj_team_share(pairs * p.runs, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) run_one(&l, &p, a, i, (float *)a->scratch + p.thread_offset + thread * p.thread_floats);
    lj_team_barrier();
    lj_team_share(pairs * p.rows, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) row_join(&l, &p, a, i / p.rows / a->desc.kv_heads, i / p.rows % a->desc.kv_heads, i % p.rows);
}
