/* Backward. Tiles are transposed as in forward:
 *
 *   S^T = K Q^T    dP^T = V dO^T    P^T, dS^T by the gradient step
 *   dV += P^T dO   dK += dS^T Q     dQ^T += K^T dS^T
 *
 * First every thread packs its share of Q and dO (both ways) and sums delta = rowsum(dO * O). Then the units (entry, kv head, key block), in this
 * order, are cut into contiguous runs of equal work, one a thread: dK and dV of a unit are one thread's, dQ gathers in its own f32 sums. A (entry,
 * kv head) that was cut between threads leaves partial sums, which are added in thread order at the end. */
#include "kernels/attention/layout.h"
#include "kernels/team.h"

#include <math.h>
#include <string.h>

#define LOG2E 1.4426950408889634f

typedef struct {
    lj_attention_layout l;
    int64_t panel_t, panel;          /* bytes of one block: [head_dim] x queries, and queries x [head_dim] */
    int64_t block_bytes;             /* of one (entry, head, query block): Q^T, dO^T, Q, dO */
    int64_t lanes_offset;            /* lse2 and delta: [entry][head][query block][2][width] */
    int64_t bounds_offset;           /* [entry][query block] */
    int64_t cost_offset;             /* [entry][key block] int64 */
    int64_t thread_offset, thread_bytes;
    int64_t k_t, k_rows, v_rows;     /* K^T, and K and V when widened */
    int64_t tile_bytes, p_bytes, ds_packed_bytes, kv_sums, lanes, q_sums; /* q_sums: one of two slots */
    int64_t total;
} backward_plan;

static backward_plan plan_make(const lj_attention_desc *d, int threads)
{
    backward_plan p = {.l = lj_attention_layout_of(d)};
    const lj_attention_layout *l = &p.l;
    const lj_tile *tile = l->tile;
    int64_t blocks = d->batch * d->heads * l->query_blocks, size = (int64_t)lj_dtype_bytes(tile->type), rows = tile->wide_rows;
    p.panel_t = lj_round_up(lj_tile_panel_bytes(tile, d->head_dim, l->width), 64);
    p.panel = lj_round_up(lj_tile_b_bytes(tile, l->width, d->head_dim, tile->wide_width), 64);
    p.block_bytes = 2 * (p.panel_t + p.panel);
    p.lanes_offset = blocks * p.block_bytes;
    p.bounds_offset = p.lanes_offset + lj_round_up(blocks * 2 * l->width * 4, 64);
    p.cost_offset = p.bounds_offset + lj_round_up(d->batch * l->query_blocks * (int64_t)sizeof(lj_attention_bounds), 64);
    p.thread_offset = p.cost_offset + lj_round_up(d->batch * l->key_blocks * 8, 64);
    p.k_t = lj_round_up(lj_tile_a_bytes(tile, d->head_dim, LJ_KEY_BLOCK, rows), 64);
    p.k_rows = l->widen ? lj_round_up(lj_tile_a_bytes(tile, LJ_KEY_BLOCK, d->head_dim, rows), 64) : 0;
    p.v_rows = p.k_rows;
    p.tile_bytes = LJ_KEY_BLOCK * l->width * 4;
    p.p_bytes = LJ_KEY_BLOCK * l->width * size;
    p.ds_packed_bytes = tile->group > 1 ? lj_tile_panel_bytes(tile, LJ_KEY_BLOCK, l->width) : 0;
    p.kv_sums = lj_round_up(LJ_KEY_BLOCK * d->head_dim * 4, 64);
    p.lanes = lj_round_up(2 * l->width * 4, 64);
    p.q_sums = l->group * l->query_blocks * d->head_dim * l->width * 4;
    p.thread_bytes = lj_round_up(p.k_t + p.k_rows + p.v_rows + 2 * p.tile_bytes + 2 * p.p_bytes + p.ds_packed_bytes + 2 * p.kv_sums + p.lanes +
                                     2 * p.q_sums,
                                 64);
    p.total = p.thread_offset + threads * p.thread_bytes;
    return p;
}

size_t lj_attention_backward_scratch(const lj_attention_desc *desc, int threads)
{
    return (size_t)plan_make(desc, threads).total;
}

/* One thread's buffers and place. */
typedef struct {
    const backward_plan *p;
    const lj_attention_backward_args *a;
    lj_attention_masks masks;
    int64_t b, kv_head, kb, keys; /* the unit: entry, kv head, key block and its real keys */
    char *k_t, *k_rows, *v_rows, *p_rows, *ds_rows, *ds_packed;
    float *scores, *dprobs, *dk, *dv, *q_slots[2], *q_sums;
    int32_t *low, *high;
} work;

static void work_buffers(work *w, const backward_plan *p, const lj_attention_backward_args *a, int thread)
{
    char *at = (char *)a->scratch + p->thread_offset + thread * p->thread_bytes;
    w->p = p, w->a = a;
    w->masks = (lj_attention_masks){a->first_key, a->kv_lens};
    w->k_t = at, at += p->k_t;
    w->k_rows = at, at += p->k_rows;
    w->v_rows = at, at += p->v_rows;
    w->scores = (float *)(void *)at, at += p->tile_bytes;
    w->dprobs = (float *)(void *)at, at += p->tile_bytes;
    w->p_rows = at, at += p->p_bytes;
    w->ds_rows = at, at += p->p_bytes;
    w->ds_packed = p->ds_packed_bytes ? at : w->ds_rows, at += p->ds_packed_bytes;
    w->dk = (float *)(void *)at, at += p->kv_sums;
    w->dv = (float *)(void *)at, at += p->kv_sums;
    w->low = (int32_t *)(void *)at, w->high = w->low + p->l.width, at += p->lanes;
    w->q_slots[0] = (float *)(void *)at, at += p->q_sums;
    w->q_slots[1] = (float *)(void *)at;
}

/* The packed block of (b, head, qb): Q^T, dO^T, Q, dO in this order. */
static char *q_block(const work *w, int64_t b, int64_t head, int64_t qb)
{
    return (char *)w->a->scratch + ((b * w->p->l.d->heads + head) * w->p->l.query_blocks + qb) * w->p->block_bytes;
}

static float *q_lanes(const work *w, int64_t b, int64_t head, int64_t qb)
{
    return (float *)(void *)((char *)w->a->scratch + w->p->lanes_offset) + ((b * w->p->l.d->heads + head) * w->p->l.query_blocks + qb) * 2 * w->p->l.width;
}

static lj_attention_bounds *q_bounds(const work *w, int64_t b)
{
    return (lj_attention_bounds *)((char *)w->a->scratch + w->p->bounds_offset) + b * w->p->l.query_blocks;
}

static int64_t *unit_costs(const work *w, int64_t b)
{
    return (int64_t *)((char *)w->a->scratch + w->p->cost_offset) + b * w->p->l.key_blocks;
}

/* B operands of `count` rows of head_dim: one panel of the transpose, panels of the rows. */
static void both_pack(const lj_attention_layout *l, const char *rows, int64_t row_stride, int64_t count, char *transposed, char *plain)
{
    int64_t wide = l->tile->wide_width, panel_bytes = lj_tile_panel_bytes(l->tile, l->width, wide);
    l->tile->pack_b(l->d->type, rows, row_stride, true, l->d->head_dim, count, l->width, transposed);
    for (int64_t d = 0; d < l->d->head_dim; d += wide)
        l->tile->pack_b(l->d->type, rows + d * l->element, row_stride, false, count, lj_smaller(l->d->head_dim - d, wide), wide,
                        plain + d / wide * panel_bytes);
}

static void queries_pack(const work *w, int64_t index)
{
    const lj_attention_layout *l = &w->p->l;
    const lj_attention_desc *d = l->d;
    int64_t qb = index % l->query_blocks, head = index / l->query_blocks % d->heads, b = index / l->query_blocks / d->heads;
    int64_t first = qb * l->width, count = lj_smaller(d->q_len - first, l->width);
    char *at = q_block(w, b, head, qb);
    float *lse2 = q_lanes(w, b, head, qb), *delta = lse2 + l->width;
    both_pack(l, lj_attention_at(&w->a->q, l->element, b, first, head), w->a->q.row_stride, count, at, at + 2 * w->p->panel_t);
    both_pack(l, lj_attention_at(&w->a->dout, l->element, b, first, head), w->a->dout.row_stride, count, at + w->p->panel_t,
              at + 2 * w->p->panel_t + w->p->panel);
    for (int64_t i = 0; i < l->width; i++) {
        bool real = i < count;
        lse2[i] = real ? w->a->lse[(b * d->heads + head) * d->q_len + first + i] * LOG2E : 0;
        delta[i] = real ? l->steps->dot(d->type, lj_attention_at(&w->a->out, l->element, b, first + i, head),
                                        lj_attention_at(&w->a->dout, l->element, b, first + i, head), d->head_dim)
                        : 0;
    }
}

/* Bounds of entry b's query blocks, and how many of them each key block meets. */
static void entry_prepare(const work *w, int64_t b)
{
    const lj_attention_layout *l = &w->p->l;
    lj_attention_bounds *bounds = q_bounds(w, b);
    int64_t *costs = unit_costs(w, b), keys = lj_attention_keys(l->d, &w->masks, b);
    for (int64_t qb = 0; qb < l->query_blocks; qb++) bounds[qb] = lj_attention_block_bounds(l, &w->masks, b, qb, w->low, w->high);
    for (int64_t kb = 0; kb < l->key_blocks; kb++) {
        costs[kb] = 1;
        for (int64_t qb = 0; qb < l->query_blocks; qb++)
            costs[kb] += 4 * l->group * lj_attention_sees(bounds[qb], kb * LJ_KEY_BLOCK, lj_smaller((kb + 1) * LJ_KEY_BLOCK, keys));
    }
}

static lj_tile_a rows_operand(const work *w, const lj_attention_view *view, char *packed)
{
    const lj_attention_layout *l = &w->p->l;
    const char *rows = lj_attention_at(view, l->element, w->b, w->kb * LJ_KEY_BLOCK, w->kv_head);
    if (!l->widen) return lj_tile_plain_a(l->tile, rows, view->row_stride, l->tile->wide_rows);
    l->tile->pack_a(l->d->type, rows, view->row_stride, false, w->keys, l->d->head_dim, l->tile->wide_rows, packed);
    return lj_tile_packed_a(l->tile, packed, l->d->head_dim, l->tile->wide_rows);
}

typedef struct {
    lj_tile_a k, v, k_t; /* A operands of this unit */
} operands;

static void tile_products(const work *w, const operands *o, int64_t head, int64_t qb, bool masked, float *q_sums)
{
    const lj_attention_layout *l = &w->p->l;
    const lj_attention_desc *d = l->d;
    int64_t width = l->width, queries = lj_smaller(d->q_len - qb * width, width), first_key = w->kb * LJ_KEY_BLOCK;
    const char *q_t = q_block(w, w->b, head, qb), *dout_t = q_t + w->p->panel_t, *q = dout_t + w->p->panel_t, *dout = q + w->p->panel;
    const float *lse2 = q_lanes(w, w->b, head, qb);
    lj_attention_shape shape, *partly = NULL;
    if (masked) lj_attention_block_bounds(l, &w->masks, w->b, qb, w->low, w->high);
    if (masked && !l->widen) shape = lj_attention_shape_of(w->low, w->high, first_key, w->keys, width), partly = &shape;
    lj_attention_by_keys(l, partly, &o->k, w->keys, d->head_dim, q_t, w->scores);
    lj_attention_by_keys(l, partly, &o->v, w->keys, d->head_dim, dout_t, w->dprobs);
    lj_gradient_step step = {w->scores, w->dprobs, w->keys, width, d->scale * LOG2E, d->scale, masked ? w->low : NULL, w->high,
                             (int32_t)first_key, lse2, lse2 + width, w->p_rows, w->ds_rows, w->ds_packed};
    l->steps->gradient(&step);
    lj_attention_to_keys(l, partly, w->p_rows, w->keys, queries, dout, d->head_dim, w->dv);
    lj_attention_to_keys(l, partly, w->ds_rows, w->keys, queries, q, d->head_dim, w->dk);
    lj_attention_by_queries(l, partly, &o->k_t, d->head_dim, w->keys, w->ds_packed, q_sums, true);
}

/* dK and dV of one key block, and its part of dQ. */
static void unit_run(work *w)
{
    const lj_attention_layout *l = &w->p->l;
    const lj_attention_desc *d = l->d;
    int64_t begin = w->kb * LJ_KEY_BLOCK, rows = lj_smaller(d->kv_len - begin, LJ_KEY_BLOCK);
    w->keys = lj_smaller(lj_attention_keys(d, &w->masks, w->b) - begin, LJ_KEY_BLOCK);
    if (w->keys < 0) w->keys = 0;
    memset(w->dk, 0, (size_t)w->p->kv_sums), memset(w->dv, 0, (size_t)w->p->kv_sums);
    if (w->keys) {
        int block_rows = l->tile->wide_rows;
        operands o = {.k = rows_operand(w, &w->a->k, w->k_rows), .v = rows_operand(w, &w->a->v, w->v_rows)};
        l->tile->pack_a(d->type, lj_attention_at(&w->a->k, l->element, w->b, begin, w->kv_head), w->a->k.row_stride, true, d->head_dim, w->keys,
                        block_rows, w->k_t);
        o.k_t = lj_tile_packed_a(l->tile, w->k_t, w->keys, block_rows);
        const lj_attention_bounds *bounds = q_bounds(w, w->b);
        for (int64_t g = 0; g < l->group; g++)
            for (int64_t qb = 0; qb < l->query_blocks; qb++)
                if (lj_attention_sees(bounds[qb], begin, begin + w->keys))
                    tile_products(w, &o, w->kv_head * l->group + g, qb, !lj_attention_sees_all(bounds[qb], begin, begin + w->keys),
                                  w->q_sums + (g * l->query_blocks + qb) * d->head_dim * l->width);
    }
    l->steps->convert(d->type, w->dk, rows, d->head_dim, d->head_dim, lj_attention_at(&w->a->dk, l->element, w->b, begin, w->kv_head),
                      w->a->dk.row_stride);
    l->steps->convert(d->type, w->dv, rows, d->head_dim, d->head_dim, lj_attention_at(&w->a->dv, l->element, w->b, begin, w->kv_head),
                      w->a->dv.row_stride);
}

/* Writes dQ of query block `item` (head in group, block) of a (entry, kv head) from its finished sums. */
static void dq_store(const work *w, int64_t b, int64_t kv_head, int64_t item, const float *sums)
{
    const lj_attention_layout *l = &w->p->l;
    int64_t qb = item % l->query_blocks, head = kv_head * l->group + item / l->query_blocks, queries = lj_smaller(l->d->q_len - qb * l->width, l->width);
    static const float one[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    l->steps->transpose(l->d->type, sums, l->d->head_dim, l->width, queries, one,
                        lj_attention_at(&w->a->dq, l->element, b, qb * l->width, head), w->a->dq.row_stride);
}

/* Units [begin, end) of every thread, equal in work: thread t takes units whose middle falls into its share of the whole. */
static int64_t units_before(const work *w, int thread, int threads, int64_t total)
{
    const lj_attention_desc *d = w->p->l.d;
    int64_t before = 0, unit = 0;
    for (int64_t b = 0; b < d->batch; b++) {
        const int64_t *costs = unit_costs(w, b);
        for (int64_t h = 0; h < d->kv_heads; h++)
            for (int64_t kb = 0; kb < w->p->l.key_blocks; kb++, unit++) {
                if ((2 * before + costs[kb]) * threads >= 2 * total * thread) return unit;
                before += costs[kb];
            }
    }
    return unit;
}

static int64_t total_cost(const work *w)
{
    const lj_attention_desc *d = w->p->l.d;
    int64_t total = 0;
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t kb = 0; kb < w->p->l.key_blocks; kb++) total += unit_costs(w, b)[kb] * d->kv_heads;
    return total;
}

/* A pair (entry, kv head) with all units in one run needs no partial sums. */
static bool pair_is_whole(int64_t pair, int64_t key_blocks, int64_t begin, int64_t end)
{
    return pair * key_blocks >= begin && (pair + 1) * key_blocks <= end;
}

/* Slot of a pair's sums in the thread that runs [begin, end): 0 for a cut pair at the front, 1 for every other. */
static int pair_slot(int64_t pair, int64_t key_blocks, int64_t begin, int64_t end)
{
    return pair == begin / key_blocks && !pair_is_whole(pair, key_blocks, begin, end) ? 0 : 1;
}

static void run_units(work *w, int64_t begin, int64_t end)
{
    const lj_attention_layout *l = &w->p->l;
    int64_t items = l->group * l->query_blocks, sums = l->d->head_dim * l->width;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t pair = unit / l->key_blocks;
        w->kb = unit % l->key_blocks, w->kv_head = pair % l->d->kv_heads, w->b = pair / l->d->kv_heads;
        w->q_sums = w->q_slots[pair_slot(pair, l->key_blocks, begin, end)];
        if (unit == begin || w->kb == 0) memset(w->q_sums, 0, (size_t)w->p->q_sums);
        unit_run(w);
        if (w->kb + 1 == l->key_blocks && pair_is_whole(pair, l->key_blocks, begin, end))
            for (int64_t i = 0; i < items; i++) dq_store(w, w->b, w->kv_head, i, w->q_sums + i * sums);
    }
}

static void add_into(float *sums, const float *more, int64_t count)
{
    for (int64_t i = 0; i < count; i++) sums[i] += more[i];
}

/* Adds the partial sums of cut pairs in thread order; items of all of them are dealt out over the threads. */
static void join_pairs(const work *w, int thread, int threads, int64_t total)
{
    const lj_attention_layout *l = &w->p->l;
    int64_t items = l->group * l->query_blocks, sums = l->d->head_dim * l->width, dealt = 0;
    work owner;
    for (int first = 0; first + 1 < threads; first++) {
        int64_t begin = units_before(w, first, threads, total), end = units_before(w, first + 1, threads, total);
        int64_t pair = end / l->key_blocks; /* the one cut after this thread's last unit */
        if (begin == end || end % l->key_blocks == 0 || begin > pair * l->key_blocks) continue; /* not where that pair starts */
        for (int64_t i = 0; i < items; i++, dealt++) {
            if (dealt % threads != thread) continue;
            work_buffers(&owner, w->p, w->a, first);
            float *out = owner.q_slots[pair_slot(pair, l->key_blocks, begin, end)] + i * sums;
            for (int other = first + 1; other < threads; other++) {
                int64_t from = units_before(w, other, threads, total), to = units_before(w, other + 1, threads, total);
                if (from >= (pair + 1) * l->key_blocks) break;
                if (from == to) continue;
                work_buffers(&owner, w->p, w->a, other);
                add_into(out, owner.q_slots[pair_slot(pair, l->key_blocks, from, to)] + i * sums, sums);
            }
            dq_store(w, pair / l->d->kv_heads, pair % l->d->kv_heads, i, out);
        }
    }
}

static void dq_clear(const work *w, int thread, int threads)
{
    const lj_attention_desc *d = w->p->l.d;
    int64_t begin, end;
    lj_team_share(d->batch * d->q_len * d->heads, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        memset(lj_attention_at(&w->a->dq, w->p->l.element, i / d->heads / d->q_len, i / d->heads % d->q_len, i % d->heads), 0,
               (size_t)(d->head_dim * w->p->l.element));
}

void lj_attention_backward(void *args, int thread, int threads)
{
    const lj_attention_backward_args *a = args;
    const lj_attention_desc *d = &a->desc;
    backward_plan plan = plan_make(d, threads);
    work w;
    int64_t begin, end;
    work_buffers(&w, &plan, a, thread);
    if (d->kv_len == 0) {
        dq_clear(&w, thread, threads);
        return;
    }
    lj_team_share(d->batch * d->heads * plan.l.query_blocks, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) queries_pack(&w, i);
    lj_team_share(d->batch, thread, threads, &begin, &end);
    for (int64_t b = begin; b < end; b++) entry_prepare(&w, b);
    lj_team_barrier();
    int64_t total = total_cost(&w);
    run_units(&w, units_before(&w, thread, threads, total), units_before(&w, thread + 1, threads, total));
    lj_team_barrier();
    join_pairs(&w, thread, threads, total);
}
