/* Our own GEMM on the tile engines. Threads form a grid over rows and columns of C; B is packed in blocks of columns that all
 * threads share (or comes packed), A is read where it lies, or packed by its thread when transposed or to be widened.
 *
 *   for each batch entry, block of columns (barrier, pack B, barrier)
 *     for each block of k (only with an f32 C, or through an f32 block of scratch)
 *       for each block of the thread's rows (pack A): panel after panel */
#include "kernels/gemm/provider.h"
#include "kernels/team.h"
#include "kernels/tile/tile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { A_BLOCK_BYTES = 256 << 10, B_BLOCK_BYTES = 4 << 20 };

typedef struct {
    const lj_tile *tile;
    bool pack_a;
    int64_t k_block, row_block, column_block; /* columns: a multiple of the panel's width */
    int64_t a_k;                              /* k that a packed A block spans: k_block, or all when C is bf16 */
    int row_threads, column_threads;
    int64_t panel_bytes;                 /* of B, over all of k */
    int64_t b_offset, a_bytes, c_bytes; /* scratch: per thread A blocks and f32 C blocks, then the shared B block */
    size_t scratch;
} own_state;

typedef struct {
    const lj_gemm *gemm;
    const char *a, *b;
    char *c, *scratch;
    const lj_gemm_tail *tail;
} own_work;

/* What one thread does of one block of columns. */
typedef struct {
    const own_work *w;
    const own_state *s;
    int64_t batch, row_begin, row_end, column_begin, column_end; /* absolute */
    const char *panels;                                          /* panel of column_begin */
    char *a_block;
    float *c_block;
} own_part;

static bool is_float(lj_dtype type)
{
    return type == LJ_BF16 || type == LJ_F32;
}

static bool supports(const lj_gemm_desc *d)
{
    return is_float(d->a_type) && is_float(d->b_type) && is_float(d->c_type);
}

static int64_t at_least(int64_t value, int64_t least)
{
    return value > least ? value : least;
}

/* As many threads along rows as have two blocks of work each; the rest of the grid goes along columns. */
static void grid_choose(own_state *s, const lj_gemm_desc *d, int threads)
{
    assert(threads >= 1);
    int64_t row_units = (d->m + s->tile->rows - 1) / s->tile->rows, column_units = (d->n + s->tile->width - 1) / s->tile->width;
    int best = 1;
    double best_cost = 1e300;
    for (int rows = 1; rows <= threads; rows++) {
        if (threads % rows) continue;
        int columns = threads / rows; /* at least 1, since rows divides threads */
        /* cppcheck-suppress zerodiv */
        int64_t blocks = ((row_units + rows - 1) / rows) * ((column_units + columns - 1) / columns); /* of the busiest thread */
        double cost = (double)blocks * (1 + 0.02 * columns); /* equal work: rows first, B blocks are shared */
        if (cost < best_cost) best_cost = cost, best = rows;
    }
    s->row_threads = best, s->column_threads = threads / best;
}

static void blocks_choose(own_state *s, const lj_gemm_desc *d, int threads)
{
    const lj_tile *tile = s->tile;
    int64_t bytes = (int64_t)lj_dtype_bytes(tile->type);
    s->k_block = d->k <= tile->k_block + tile->k_block / 2 ? d->k : tile->k_block;
    bool narrow = d->c_type == LJ_BF16 && s->k_block < d->k;
    s->a_k = narrow ? d->k : s->k_block;
    s->row_block = at_least(A_BLOCK_BYTES / at_least((s->pack_a ? s->a_k : s->k_block) * bytes, 1) / tile->rows * tile->rows, tile->rows);
    if (s->row_block > d->m) s->row_block = lj_round_up(d->m, tile->rows);
    s->panel_bytes = lj_tile_panel_bytes(tile, d->k, tile->width);
    int64_t panels = at_least(B_BLOCK_BYTES / at_least(s->panel_bytes, 1), s->column_threads), all = (d->n + tile->width - 1) / tile->width;
    if (panels > all || d->packed_b) panels = all;
    s->column_block = at_least(panels, 1) * tile->width;
    s->a_bytes = s->pack_a ? lj_round_up(lj_tile_a_bytes(tile, s->row_block, s->a_k, tile->rows), 64) : 0;
    s->c_bytes = narrow ? s->row_block * tile->width * 4 : 0;
    s->b_offset = threads * (s->a_bytes + s->c_bytes);
    s->scratch = (size_t)(s->b_offset + (d->packed_b ? 0 : panels * s->panel_bytes));
}

static lj_status create(lj_gemm *gemm, const lj_gemm *like)
{
    const lj_gemm_desc *d = &gemm->desc;
    own_state *s = calloc(1, sizeof *s);
    if (!s) return lj_fail(LJ_ERR_NOMEM, "gemm: could not get %zu bytes", sizeof *s);
    s->tile = like ? ((const own_state *)like->state)->tile : lj_tile_get(d->a_type == LJ_BF16 && d->b_type == LJ_BF16 ? LJ_BF16 : LJ_F32);
    s->pack_a = d->trans_a || d->a_type != s->tile->type;
    grid_choose(s, d, gemm->threads);
    blocks_choose(s, d, gemm->threads);
    gemm->state = s;
    gemm->name = s->tile->name;
    return LJ_OK;
}

static void destroy(lj_gemm *gemm)
{
    free(gemm->state);
}

static size_t scratch_bytes(const lj_gemm *gemm)
{
    return ((const own_state *)gemm->state)->scratch;
}

static size_t packed_bytes(const lj_gemm *gemm)
{
    const lj_gemm_desc *d = &gemm->desc;
    const lj_tile *tile = ((const own_state *)gemm->state)->tile;
    return (size_t)(lj_tile_b_bytes(tile, d->k, d->n, tile->width) * (d->share_b ? 1 : d->batch));
}

/* Packs panels [begin, end), counted from first_column. */
static void panels_pack(const own_state *s, const lj_gemm_desc *d, const char *b, int64_t begin, int64_t end, int64_t first_column, char *out)
{
    int64_t width = s->tile->width, size = (int64_t)lj_dtype_bytes(d->b_type), column = first_column + begin * width;
    int64_t n = d->n - column < (end - begin) * width ? d->n - column : (end - begin) * width;
    if (begin < end)
        s->tile->pack_b(d->b_type, b + column * (d->trans_b ? d->ldb : 1) * size, d->ldb, d->trans_b, d->k, n, width, out + begin * s->panel_bytes);
}

typedef struct {
    const lj_gemm *gemm;
    const char *b;
    char *packed;
} pack_work;

static void pack_share(void *arg, int thread, int threads)
{
    const pack_work *w = arg;
    const lj_gemm_desc *d = &w->gemm->desc;
    const own_state *s = w->gemm->state;
    int64_t panels = (d->n + s->tile->width - 1) / s->tile->width, begin, end;
    for (int64_t e = 0; e < (d->share_b ? 1 : d->batch); e++) {
        lj_team_share(panels, thread, threads, &begin, &end);
        panels_pack(s, d, w->b + e * d->stride_b * (int64_t)lj_dtype_bytes(d->b_type), begin, end, 0, w->packed + e * panels * s->panel_bytes);
    }
}

static lj_status pack_b(const lj_gemm *gemm, const void *b, void *packed)
{
    pack_work work = {gemm, b, packed};
    lj_team_run(gemm->threads, pack_share, &work);
    return LJ_OK;
}

/* The A operand of rows [row, row + rows), k-block at kk. */
static lj_tile_a a_get(const own_part *p, int64_t row, int64_t rows, int64_t kk, int64_t k)
{
    const lj_gemm_desc *d = &p->w->gemm->desc;
    const lj_tile *tile = p->s->tile;
    int64_t at = p->batch * d->stride_a + row * (d->trans_a ? 1 : d->lda) + kk * (d->trans_a ? d->lda : 1);
    const char *source = p->w->a + at * (int64_t)lj_dtype_bytes(d->a_type);
    if (!p->s->pack_a) return lj_tile_plain_a(tile, source, d->lda, tile->rows);
    tile->pack_a(d->a_type, source, d->lda, d->trans_a, rows, k, tile->rows, p->a_block);
    return lj_tile_packed_a(tile, p->a_block, k, tile->rows);
}

static char *c_at(const own_part *p, int64_t row, int64_t column)
{
    const lj_gemm_desc *d = &p->w->gemm->desc;
    return p->w->c + (p->batch * d->stride_c + row * d->ldc + column) * (int64_t)lj_dtype_bytes(d->c_type);
}

/* rows x [column_begin, column_end), k-block at kk, C in place. */
static void block_direct(const own_part *p, int64_t row, int64_t rows, int64_t kk, int64_t k)
{
    const lj_gemm_desc *d = &p->w->gemm->desc;
    const lj_tile *tile = p->s->tile;
    lj_tile_a a = a_get(p, row, rows, kk, k);
    lj_tile_store store = d->c_type == LJ_BF16 ? LJ_TILE_SET_BF16 : d->accumulate || kk ? LJ_TILE_ADD : LJ_TILE_SET;
    const char *b = p->panels + kk * tile->width * (int64_t)lj_dtype_bytes(tile->type);
    for (int64_t column = p->column_begin; column < p->column_end; column += tile->width, b += p->s->panel_bytes) {
        int64_t n = p->column_end - column < tile->width ? p->column_end - column : tile->width;
        tile->panel(&a, rows, n, k, b, tile->width, c_at(p, row, column), d->ldc, store);
    }
}

static void c_narrow(const own_part *p, int64_t row, int64_t rows, int64_t column, int64_t n)
{
    for (int64_t i = 0; i < rows; i++) {
        uint16_t *out = (uint16_t *)c_at(p, row + i, column);
        const float *in = p->c_block + i * p->s->tile->width;
        for (int64_t j = 0; j < n; j++) out[j] = lj_bf16_from_float(in[j]);
    }
}

/* A bf16 C over several k-blocks: a panel's sums stay in f32 until the last. */
static void block_through_float(const own_part *p, int64_t row, int64_t rows)
{
    const lj_gemm_desc *d = &p->w->gemm->desc;
    const lj_tile *tile = p->s->tile;
    const char *b = p->panels;
    lj_tile_a whole = a_get(p, row, rows, 0, d->k);
    for (int64_t column = p->column_begin; column < p->column_end; column += tile->width, b += p->s->panel_bytes) {
        int64_t n = p->column_end - column < tile->width ? p->column_end - column : tile->width;
        for (int64_t kk = 0; kk < d->k; kk += p->s->k_block) {
            int64_t k = d->k - kk < p->s->k_block ? d->k - kk : p->s->k_block;
            lj_tile_a a = whole;
            a.data = (const char *)whole.data + kk / tile->group * whole.group_bytes;
            tile->panel(&a, rows, n, k, b + kk * tile->width * (int64_t)lj_dtype_bytes(tile->type), tile->width, p->c_block, tile->width,
                        kk ? LJ_TILE_ADD : LJ_TILE_SET);
        }
        c_narrow(p, row, rows, column, n);
    }
}

static void part_tail(const own_part *p, int64_t row, int64_t rows)
{
    const lj_gemm_tail *tail = p->w->tail;
    if (tail && !tail->whole_rows && p->column_begin < p->column_end)
        tail->fn(tail->arg, p->batch, row, rows, p->column_begin, p->column_end - p->column_begin);
}

static void part_run(const own_part *p)
{
    const lj_gemm_desc *d = &p->w->gemm->desc;
    int64_t step = p->s->row_block, k_block = p->s->k_block;
    if (p->s->c_bytes) {
        for (int64_t row = p->row_begin; row < p->row_end; row += step) {
            int64_t rows = p->row_end - row < step ? p->row_end - row : step;
            block_through_float(p, row, rows);
            part_tail(p, row, rows);
        }
        return;
    }
    for (int64_t kk = 0; kk < d->k; kk += k_block)
        for (int64_t row = p->row_begin; row < p->row_end; row += step) {
            int64_t rows = p->row_end - row < step ? p->row_end - row : step, k = d->k - kk < k_block ? d->k - kk : k_block;
            block_direct(p, row, rows, kk, k);
            if (kk + k == d->k) part_tail(p, row, rows);
        }
}

/* Rows or panels of this thread, in whole blocks of `unit`. */
static void units_share(int64_t count, int64_t unit, int index, int parts, int64_t *begin, int64_t *end)
{
    lj_team_share((count + unit - 1) / unit, index, parts, begin, end);
    *begin *= unit, *end *= unit;
    if (*end > count) *end = count;
    if (*begin > count) *begin = count;
}

/* The share of grid position `index` of one block of columns. */
static void grid_part(const own_work *w, int64_t batch, int64_t block, int64_t columns, const char *panels, int index)
{
    const lj_gemm_desc *d = &w->gemm->desc;
    const own_state *s = w->gemm->state;
    int64_t width = s->tile->width, begin, end;
    own_part part = {.w = w, .s = s, .batch = batch};
    part.a_block = w->scratch + index * (s->a_bytes + s->c_bytes);
    part.c_block = (float *)(void *)(part.a_block + s->a_bytes);
    units_share(d->m, s->tile->rows, index / s->column_threads, s->row_threads, &part.row_begin, &part.row_end);
    units_share(columns, width, index % s->column_threads, s->column_threads, &begin, &end);
    part.column_begin = block + begin, part.column_end = block + end;
    part.panels = panels + begin / width * s->panel_bytes;
    part_run(&part);
}

/* The grid was laid out for gemm->threads; should fewer run (a thread limit), each takes several positions. */
static void batch_entry(const own_work *w, int64_t batch, int thread, int threads)
{
    const lj_gemm_desc *d = &w->gemm->desc;
    const own_state *s = w->gemm->state;
    int64_t width = s->tile->width, b_entry = d->share_b ? 0 : batch, begin, end;
    char *shared = w->scratch + s->b_offset;
    for (int64_t block = 0; block < d->n; block += s->column_block) {
        int64_t columns = d->n - block < s->column_block ? d->n - block : s->column_block;
        const char *panels = w->b + b_entry * ((d->n + width - 1) / width) * s->panel_bytes;
        if (!d->packed_b) {
            lj_team_barrier();
            lj_team_share((columns + width - 1) / width, thread, threads, &begin, &end);
            panels_pack(s, d, w->b + b_entry * d->stride_b * (int64_t)lj_dtype_bytes(d->b_type), begin, end, block, shared);
            lj_team_barrier();
            panels = shared;
        }
        for (int index = thread; index < w->gemm->threads; index += threads) grid_part(w, batch, block, columns, panels, index);
    }
}

static void rows_tail(const own_work *w, int64_t batch, int thread, int threads)
{
    int64_t begin, end;
    lj_team_barrier();
    lj_team_share(w->gemm->desc.m, thread, threads, &begin, &end);
    if (begin < end) w->tail->fn(w->tail->arg, batch, begin, end - begin, 0, w->gemm->desc.n);
}

static void region(void *arg, int thread, int threads)
{
    const own_work *w = arg;
    for (int64_t batch = 0; batch < w->gemm->desc.batch; batch++) {
        batch_entry(w, batch, thread, threads);
        if (w->tail && w->tail->whole_rows) rows_tail(w, batch, thread, threads);
    }
}

static lj_status run(const lj_gemm *gemm, const void *a, const void *b, void *c, void *scratch, const lj_gemm_tail *tail)
{
    own_work work = {gemm, a, b, c, scratch, tail};
    lj_team_run(gemm->threads, region, &work);
    return LJ_OK;
}

const lj_gemm_provider_row lj_gemm_own = {"own", supports, create, destroy, scratch_bytes, run, packed_bytes, pack_b, true};
