/* The loop over chunks of rows: logits by GEMM, one pass over each row's logits, two GEMMs for the gradient. */
#include "kernels/head_loss.h"

#include "base/memory.h"
#include "kernels/gemm/gemm.h"
#include "kernels/loss_rows.h"
#include "kernels/team.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_PER_CHUNK = 512 };

/* The three products for one number of rows. */
typedef struct {
    int64_t rows;
    lj_gemm *logits, *dx, *dw;
} chunk_products;

struct lj_head_loss_handle {
    lj_head_loss_desc desc;
    int threads;
    chunk_products whole, last; /* last: the remainder, when there is one */
    size_t logits_bytes, scratch_bytes;
};

static void products_destroy(chunk_products *p)
{
    lj_gemm_destroy(p->logits), lj_gemm_destroy(p->dx), lj_gemm_destroy(p->dw);
    *p = (chunk_products){0};
}

/* dlogits of a row lie at the front of that row's f32 logits. */
static int64_t gradient_ld(const lj_head_loss_desc *d)
{
    return d->vocab * (d->type == LJ_BF16 ? 2 : 1);
}

static lj_status products_create(const lj_head_loss_desc *d, int64_t rows, int threads, chunk_products *p)
{
    *p = (chunk_products){.rows = rows};
    if (rows == 0) return LJ_OK;
    lj_gemm_desc logits = {d->type, d->type, LJ_F32, .m = rows, .n = d->vocab, .k = d->channels, .trans_b = true, .batch = 1};
    lj_gemm_desc dx = {d->type, d->type, d->type, .m = rows, .n = d->channels, .k = d->vocab, .batch = 1, .lda = gradient_ld(d)};
    lj_gemm_desc dw = {d->type, d->type, LJ_F32, .m = d->vocab, .n = d->channels, .k = rows, .trans_a = true, .batch = 1, .lda = gradient_ld(d),
                       .accumulate = true};
    lj_status status = lj_gemm_create(&logits, threads, &p->logits);
    if (status == LJ_OK && d->gradient) status = lj_gemm_create(&dx, threads, &p->dx);
    if (status == LJ_OK && d->gradient) status = lj_gemm_create(&dw, threads, &p->dw);
    if (status != LJ_OK) products_destroy(p);
    return status;
}

static size_t scratch_of(const chunk_products *p)
{
    const lj_gemm *all[] = {p->logits, p->dx, p->dw};
    size_t most = 0;
    for (int i = 0; i < 3; i++) {
        size_t bytes = all[i] ? lj_gemm_scratch_bytes(all[i]) : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

static lj_status desc_check(lj_head_loss_desc *d)
{
    if (d->type != LJ_BF16 && d->type != LJ_F32) return lj_fail(LJ_ERR_INVALID, "head loss: type %s; take bf16 or f32", lj_dtype_name(d->type));
    if (d->rows < 0 || d->channels < 1 || d->vocab < 1 || d->vocab > INT32_MAX || d->rows_per_chunk < 0)
        return lj_fail(LJ_ERR_INVALID, "head loss: rows %lld, channels %lld, vocab %lld, rows_per_chunk %lld", (long long)d->rows,
                       (long long)d->channels, (long long)d->vocab, (long long)d->rows_per_chunk);
    if (d->rows_per_chunk == 0) d->rows_per_chunk = ROWS_PER_CHUNK;
    if (d->rows_per_chunk > d->rows) d->rows_per_chunk = d->rows;
    return LJ_OK;
}

lj_status lj_head_loss_create(const lj_head_loss_desc *desc, int threads, lj_head_loss_handle **out)
{
    lj_head_loss_desc d = *desc;
    LJ_TRY(desc_check(&d));
    lj_head_loss_handle *handle = calloc(1, sizeof *handle);
    if (!handle) return lj_fail(LJ_ERR_NOMEM, "head loss: could not get %zu bytes", sizeof *handle);
    handle->desc = d, handle->threads = threads;
    lj_status status = products_create(&d, d.rows_per_chunk, threads, &handle->whole);
    if (status == LJ_OK && d.rows) status = products_create(&d, d.rows % d.rows_per_chunk, threads, &handle->last);
    if (status != LJ_OK) {
        lj_head_loss_destroy(handle);
        return status;
    }
    size_t whole = scratch_of(&handle->whole), last = scratch_of(&handle->last);
    handle->logits_bytes = ((size_t)d.rows_per_chunk * (size_t)d.vocab * 4 + 63) / 64 * 64;
    handle->scratch_bytes = handle->logits_bytes + (whole > last ? whole : last);
    *out = handle;
    return LJ_OK;
}

void lj_head_loss_destroy(lj_head_loss_handle *handle)
{
    if (!handle) return;
    products_destroy(&handle->whole), products_destroy(&handle->last);
    free(handle);
}

size_t lj_head_loss_scratch(const lj_head_loss_handle *handle)
{
    return handle->scratch_bytes;
}

static lj_status targets_check(const lj_head_loss_desc *d, const int32_t *target)
{
    for (int64_t i = 0; i < d->rows; i++)
        if (target[i] >= d->vocab)
            return lj_fail(LJ_ERR_INVALID, "head loss: target %d of row %lld is above %lld, the vocabulary's last", target[i], (long long)i,
                           (long long)d->vocab - 1);
    return LJ_OK;
}

typedef struct {
    const lj_head_loss_handle *handle;
    const lj_head_loss_args *args;
    const lj_loss_row_fn row;
    int64_t first, rows;
} rows_work;

/* Rows are independent: any split gives the same bits. */
static void rows_share(void *arg, int thread, int threads)
{
    const rows_work *w = arg;
    const lj_head_loss_desc *d = &w->handle->desc;
    int64_t begin, end;
    lj_team_share(w->rows, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t at = w->first + i;
        lj_loss_row row = {.logits = (float *)w->args->scratch + i * d->vocab,
                           .vocab = d->vocab,
                           .target = w->args->target[at] < 0 ? LJ_HEAD_LOSS_IGNORED : w->args->target[at],
                           .gradient = w->args->dx || w->args->dw,
                           .type = d->type,
                           .scale = w->args->scale ? w->args->scale[at] : 0};
        w->row(&row);
        if (w->args->loss) w->args->loss[at] = row.loss;
        if (w->args->lse) w->args->lse[at] = row.lse;
    }
}

static lj_status chunk_run(const lj_head_loss_handle *handle, const lj_head_loss_args *a, const chunk_products *p, int64_t first)
{
    const lj_head_loss_desc *d = &handle->desc;
    size_t row_bytes = (size_t)d->channels * lj_dtype_bytes(d->type);
    const char *x = (const char *)a->x + (size_t)first * row_bytes;
    char *dx = a->dx ? (char *)a->dx + (size_t)first * row_bytes : NULL, *scratch = (char *)a->scratch + handle->logits_bytes;
    LJ_TRY(lj_gemm_run(p->logits, x, a->w, a->scratch, scratch));
    rows_work work = {handle, a, lj_loss_row_get(), first, p->rows};
    lj_team_run(handle->threads, rows_share, &work);
    if (dx) LJ_TRY(lj_gemm_run(p->dx, a->scratch, a->w, dx, scratch));
    if (a->dw) LJ_TRY(lj_gemm_run(p->dw, a->scratch, x, a->dw, scratch));
    return LJ_OK;
}

lj_status lj_head_loss_run(const lj_head_loss_handle *handle, const lj_head_loss_args *a)
{
    const lj_head_loss_desc *d = &handle->desc;
    if ((a->dx || a->dw) && (!d->gradient || !a->scale))
        return lj_fail(LJ_ERR_INVALID, "head loss: a gradient needs gradient in the description and a scale for each row");
    LJ_TRY(targets_check(d, a->target));
    for (int64_t first = 0; first < d->rows; first += d->rows_per_chunk)
        LJ_TRY(chunk_run(handle, a, d->rows - first < d->rows_per_chunk ? &handle->last : &handle->whole, first));
    return LJ_OK;
}
