/* Forward. First every thread packs its share of V (transposed) and, where the storage type is widened, of K; then each thread takes a contiguous
 * run of (entry, head, block of queries), equal in work, and walks the keys that the block sees. */
#include "kernels/attention/decode.h"
#include "kernels/attention/layout.h"
#include "kernels/team.h"

#include <math.h>
#include <string.h>

#define LOG2E 1.4426950408889634f
#define LN2 0.6931471805599453f

typedef struct {
    lj_attention_layout l;
    int64_t v_block, k_block;                   /* bytes of one packed key block */
    int64_t v_offset, k_offset, thread_offset;  /* in scratch */
    int64_t q_panel, scores, probabilities, sums, lanes, thread_bytes;
    int64_t total;
} forward_plan;

static forward_plan plan_make(const lj_attention_desc *d, int threads)
{
    forward_plan p = {.l = lj_attention_layout_of(d)};
    const lj_attention_layout *l = &p.l;
    int64_t blocks = d->batch * d->kv_heads * l->key_blocks, rows = l->tile->wide_rows;
    p.v_block = lj_round_up(lj_tile_a_bytes(l->tile, d->head_dim, LJ_KEY_BLOCK, rows), 64);
    p.k_block = l->widen ? lj_round_up(lj_tile_a_bytes(l->tile, LJ_KEY_BLOCK, d->head_dim, rows), 64) : 0;
    p.k_offset = blocks * p.v_block;
    p.thread_offset = p.k_offset + blocks * p.k_block;
    p.q_panel = lj_round_up(lj_tile_panel_bytes(l->tile, d->head_dim, l->width), 64);
    p.scores = LJ_KEY_BLOCK * l->width * 4;
    p.probabilities = lj_tile_panel_bytes(l->tile, LJ_KEY_BLOCK, l->width);
    p.sums = d->head_dim * l->width * 4;
    p.lanes = 5 * l->width * 4; /* max, sum, rescale, low, high */
    p.thread_bytes = lj_round_up(p.q_panel + p.scores + p.probabilities + p.sums + p.lanes, 64);
    p.total = p.thread_offset + threads * p.thread_bytes;
    return p;
}

size_t lj_attention_forward_scratch(const lj_attention_desc *desc, int threads)
{
    return lj_attention_decodes(desc) ? lj_attention_decode_scratch(desc, threads) : (size_t)plan_make(desc, threads).total;
}

/* Packs key block kb of (b, kv head). */
static void keys_pack(const forward_plan *p, const lj_attention_forward_args *a, int64_t index)
{
    const lj_attention_layout *l = &p->l;
    const lj_attention_desc *d = l->d;
    int64_t kb = index % l->key_blocks, head = index / l->key_blocks % d->kv_heads, b = index / l->key_blocks / d->kv_heads;
    lj_attention_masks masks = {a->first_key, a->kv_lens};
    int64_t keys = lj_smaller(lj_attention_keys(d, &masks, b) - kb * LJ_KEY_BLOCK, LJ_KEY_BLOCK);
    if (keys <= 0) return;
    char *scratch = a->scratch;
    l->tile->pack_a(d->type, lj_attention_at(&a->v, l->element, b, kb * LJ_KEY_BLOCK, head), a->v.row_stride, true, d->head_dim, keys,
                    l->tile->wide_rows, scratch + p->v_offset + index * p->v_block);
    if (l->widen)
        l->tile->pack_a(d->type, lj_attention_at(&a->k, l->element, b, kb * LJ_KEY_BLOCK, head), a->k.row_stride, false, keys, d->head_dim,
                        l->tile->wide_rows, scratch + p->k_offset + index * p->k_block);
}

/* One thread's buffers and the block it works on. */
typedef struct {
    const forward_plan *p;
    const lj_attention_forward_args *a;
    int64_t b, head, kv_head, qb;
    char *q_panel, *probabilities;
    float *scores, *sums, *max, *sum, *rescale;
    int32_t *low, *high;
} block;

static void block_buffers(block *x, const forward_plan *p, const lj_attention_forward_args *a, int thread)
{
    char *at = (char *)a->scratch + p->thread_offset + thread * p->thread_bytes;
    x->p = p, x->a = a;
    x->q_panel = at, at += p->q_panel;
    x->scores = (float *)(void *)at, at += p->scores;
    x->probabilities = at, at += p->probabilities;
    x->sums = (float *)(void *)at, at += p->sums;
    x->max = (float *)(void *)at, x->sum = x->max + p->l.width, x->rescale = x->sum + p->l.width;
    x->low = (int32_t *)(void *)(x->rescale + p->l.width), x->high = x->low + p->l.width;
}

static lj_tile_a k_operand(const block *x, int64_t kb)
{
    const lj_attention_layout *l = &x->p->l;
    int64_t index = (x->b * l->d->kv_heads + x->kv_head) * l->key_blocks + kb;
    int rows = l->tile->wide_rows;
    if (l->widen) return lj_tile_packed_a(l->tile, (char *)x->a->scratch + x->p->k_offset + index * x->p->k_block, l->d->head_dim, rows);
    return lj_tile_plain_a(l->tile, lj_attention_at(&x->a->k, l->element, x->b, kb * LJ_KEY_BLOCK, x->kv_head), x->a->k.row_stride, rows);
}

/* Scores, softmax step, and their product with V for one block of keys. */
static void key_block(const block *x, int64_t kb, int64_t keys, bool masked, bool first)
{
    const lj_attention_layout *l = &x->p->l;
    const lj_attention_desc *d = l->d;
    int64_t index = (x->b * d->kv_heads + x->kv_head) * l->key_blocks + kb;
    lj_tile_a k = k_operand(x, kb);
    lj_attention_shape shape, *partly = NULL; /* packed K rows cannot be taken from any row on */
    if (masked && !l->widen) shape = lj_attention_shape_of(x->low, x->high, kb * LJ_KEY_BLOCK, keys, l->width), partly = &shape;
    lj_attention_by_keys(l, partly, &k, keys, d->head_dim, x->q_panel, x->scores);
    lj_softmax_step step = {x->scores, keys, l->width, d->scale * LOG2E, masked ? x->low : NULL, x->high, (int32_t)(kb * LJ_KEY_BLOCK),
                            x->max, x->sum, x->rescale, x->probabilities};
    bool moved = l->steps->softmax(&step);
    if (moved && !first) l->steps->multiply(x->sums, d->head_dim, l->width, x->rescale);
    lj_tile_a v = lj_tile_packed_a(l->tile, (char *)x->a->scratch + x->p->v_offset + index * x->p->v_block, keys, l->tile->wide_rows);
    lj_attention_by_queries(l, partly, &v, d->head_dim, keys, x->probabilities, x->sums, !first);
}

/* Divides by the sums, writes out and lse. */
static void block_finish(const block *x, int64_t queries)
{
    const lj_attention_layout *l = &x->p->l;
    const lj_attention_desc *d = l->d;
    float *lse = x->a->lse ? x->a->lse + (x->b * d->heads + x->head) * d->q_len + x->qb * l->width : NULL;
    for (int64_t i = 0; i < queries; i++) {
        bool seen = x->sum[i] != 0; /* NaN counts as seen */
        if (lse) lse[i] = seen ? x->max[i] * LN2 + logf(x->sum[i]) : -INFINITY;
        x->rescale[i] = seen ? 1 / x->sum[i] : 0;
    }
    l->steps->transpose(d->type, x->sums, d->head_dim, l->width, queries, x->rescale,
                        lj_attention_at(&x->a->out, l->element, x->b, x->qb * l->width, x->head), x->a->out.row_stride);
}

static void query_block(block *x)
{
    const lj_attention_layout *l = &x->p->l;
    const lj_attention_desc *d = l->d;
    lj_attention_masks masks = {x->a->first_key, x->a->kv_lens};
    lj_attention_bounds bounds = lj_attention_block_bounds(l, &masks, x->b, x->qb, x->low, x->high);
    int64_t queries = lj_smaller(d->q_len - x->qb * l->width, l->width), keys = lj_attention_keys(d, &masks, x->b);
    bool first = true;
    l->tile->pack_b(d->type, lj_attention_at(&x->a->q, l->element, x->b, x->qb * l->width, x->head), x->a->q.row_stride, true, d->head_dim,
                    queries, l->width, x->q_panel);
    for (int64_t i = 0; i < l->width; i++) x->max[i] = -1e30f, x->sum[i] = 0;
    for (int64_t kb = bounds.least_low / LJ_KEY_BLOCK; kb * LJ_KEY_BLOCK < bounds.most_high; kb++) {
        int64_t begin = kb * LJ_KEY_BLOCK, end = lj_smaller(begin + LJ_KEY_BLOCK, keys);
        key_block(x, kb, end - begin, !lj_attention_sees_all(bounds, begin, end), first);
        first = false;
    }
    if (first) memset(x->sums, 0, (size_t)x->p->sums);
    block_finish(x, queries);
}

/* Key blocks that each query block of entry b walks, plus one for its own cost. */
static int64_t entry_cost(const block *x, int64_t b, int64_t qb)
{
    lj_attention_masks masks = {x->a->first_key, x->a->kv_lens};
    lj_attention_bounds bounds = lj_attention_block_bounds(&x->p->l, &masks, b, qb, x->low, x->high);
    int64_t blocks = (bounds.most_high + LJ_KEY_BLOCK - 1) / LJ_KEY_BLOCK - bounds.least_low / LJ_KEY_BLOCK;
    return 1 + 2 * (blocks > 0 ? blocks : 0);
}

void lj_attention_forward(void *args, int thread, int threads)
{
    const lj_attention_forward_args *a = args;
    const lj_attention_desc *d = &a->desc;
    if (lj_attention_decodes(d)) {
        lj_attention_decode(a, thread, threads);
        return;
    }
    forward_plan plan = plan_make(d, threads);
    block x;
    int64_t begin, end, total = 0, before = 0;
    block_buffers(&x, &plan, a, thread);
    lj_team_share(d->batch * d->kv_heads * plan.l.key_blocks, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) keys_pack(&plan, a, i);
    lj_team_barrier();
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t qb = 0; qb < plan.l.query_blocks; qb++) total += entry_cost(&x, b, qb) * d->heads;
    for (x.b = 0; x.b < d->batch; x.b++)
        for (x.head = 0; x.head < d->heads; x.head++)
            for (x.qb = 0; x.qb < plan.l.query_blocks; x.qb++) {
                int64_t cost = entry_cost(&x, x.b, x.qb), owner = (2 * before + cost) * threads / (2 * total);
                before += cost;
                if (owner != thread) continue;
                x.kv_head = x.head / plan.l.group;
                query_block(&x);
            }
}
