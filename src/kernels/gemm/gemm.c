/* The public face: checks, provider, zero sizes, tails of providers that have none. */
#include "kernels/gemm/choice.h"
#include "kernels/gemm/provider.h"
#include "kernels/team.h"

#include <stdlib.h>
#include <string.h>

static lj_status ld_resolve(const char *name, int64_t *ld, int64_t row)
{
    if (*ld == 0) *ld = row;
    if (*ld < row) return lj_fail(LJ_ERR_INVALID, "gemm: %s is %lld, its rows have %lld elements", name, (long long)*ld, (long long)row);
    return LJ_OK;
}

/* Checks, and replaces defaults by what they mean. */
static lj_status desc_resolve(lj_gemm_desc *d)
{
    if (d->m < 0 || d->n < 0 || d->k < 0 || d->batch < 0)
        return lj_fail(LJ_ERR_INVALID, "gemm: sizes must not be negative, got m %lld, n %lld, k %lld, batch %lld", (long long)d->m,
                       (long long)d->n, (long long)d->k, (long long)d->batch);
    if (d->accumulate && d->c_type != LJ_F32 && d->c_type != LJ_F64)
        return lj_fail(LJ_ERR_INVALID, "gemm: cannot accumulate into %s; take f32 or f64", lj_dtype_name(d->c_type));
    LJ_TRY(ld_resolve("lda", &d->lda, d->trans_a ? d->m : d->k));
    LJ_TRY(ld_resolve("ldb", &d->ldb, d->trans_b ? d->k : d->n));
    LJ_TRY(ld_resolve("ldc", &d->ldc, d->n));
    if (d->stride_a == 0) d->stride_a = d->lda * (d->trans_a ? d->k : d->m);
    if (d->stride_c == 0) d->stride_c = d->ldc * d->m;
    if (d->share_b)
        d->stride_b = 0;
    else if (d->stride_b == 0)
        d->stride_b = d->ldb * (d->trans_b ? d->n : d->k);
    return LJ_OK;
}

static bool is_empty(const lj_gemm_desc *d)
{
    return d->m == 0 || d->n == 0 || d->k == 0 || d->batch == 0;
}

static lj_status gemm_make(const lj_gemm_desc *desc, int threads, const lj_gemm_provider_row *provider, const lj_gemm *like, lj_gemm **out)
{
    if (threads < 1) return lj_fail(LJ_ERR_INVALID, "gemm: %d threads; at least 1 is needed", threads);
    lj_gemm *gemm = calloc(1, sizeof *gemm);
    if (!gemm) return lj_fail(LJ_ERR_NOMEM, "gemm: could not get %zu bytes", sizeof *gemm);
    *gemm = (lj_gemm){.desc = *desc, .threads = threads, .provider = provider};
    lj_status status = provider->create(gemm, like);
    if (status != LJ_OK) {
        free(gemm);
        return status;
    }
    *out = gemm;
    return LJ_OK;
}

lj_status lj_gemm_create_with(const lj_gemm_desc *desc, int threads, const lj_gemm_provider_row *provider, lj_gemm **out)
{
    lj_gemm_desc resolved = *desc;
    LJ_TRY(desc_resolve(&resolved));
    if (!provider->supports(&resolved))
        return lj_fail(LJ_ERR_UNSUPPORTED, "gemm: provider %s has no %s x %s -> %s product; plain has", provider->name,
                       lj_dtype_name(desc->a_type), lj_dtype_name(desc->b_type), lj_dtype_name(desc->c_type));
    return gemm_make(&resolved, threads, provider, NULL, out);
}

lj_status lj_gemm_create(const lj_gemm_desc *desc, int threads, lj_gemm **out)
{
    lj_gemm_desc resolved = *desc;
    const lj_gemm_provider_row *provider = &lj_gemm_plain;
    LJ_TRY(desc_resolve(&resolved));
    if (!is_empty(&resolved) && threads >= 1) LJ_TRY(lj_gemm_choose(&resolved, threads, &provider));
    return gemm_make(&resolved, threads, provider, NULL, out);
}

lj_status lj_gemm_create_like(const lj_gemm_desc *desc, int threads, const lj_gemm *like, lj_gemm **out)
{
    lj_gemm_desc resolved = *desc;
    LJ_TRY(desc_resolve(&resolved));
    const lj_gemm_desc *other = &like->desc;
    if (other->n != resolved.n || other->k != resolved.k || other->b_type != resolved.b_type || other->packed_b != resolved.packed_b)
        return lj_fail(LJ_ERR_INVALID, "gemm: B is %lld x %lld here and %lld x %lld in the product it should match", (long long)resolved.k,
                       (long long)resolved.n, (long long)other->k, (long long)other->n);
    return gemm_make(&resolved, threads, is_empty(&resolved) ? &lj_gemm_plain : like->provider, is_empty(&resolved) ? NULL : like, out);
}

void lj_gemm_destroy(lj_gemm *gemm)
{
    if (!gemm) return;
    gemm->provider->destroy(gemm);
    free(gemm);
}

size_t lj_gemm_scratch_bytes(const lj_gemm *gemm)
{
    return is_empty(&gemm->desc) ? 0 : gemm->provider->scratch_bytes(gemm);
}

const char *lj_gemm_provider(const lj_gemm *gemm)
{
    return gemm->name;
}

const lj_gemm_desc *lj_gemm_get_desc(const lj_gemm *gemm)
{
    return &gemm->desc;
}

size_t lj_gemm_packed_bytes(const lj_gemm *gemm)
{
    return gemm->desc.packed_b ? gemm->provider->packed_bytes(gemm) : 0;
}

lj_status lj_gemm_pack_b(const lj_gemm *gemm, const void *b, void *packed)
{
    if (!gemm->desc.packed_b) return lj_fail(LJ_ERR_INVALID, "gemm: packing asked of a product made without packed_b");
    return gemm->desc.n == 0 || gemm->desc.k == 0 ? LJ_OK : gemm->provider->pack_b(gemm, b, packed);
}

/* k = 0: C = 0, or C unchanged. */
static void c_clear(const lj_gemm_desc *d, void *c)
{
    size_t size = lj_dtype_bytes(d->c_type);
    for (int64_t e = 0; e < d->batch && !d->accumulate; e++)
        for (int64_t i = 0; i < d->m; i++) memset((char *)c + (size_t)(e * d->stride_c + i * d->ldc) * size, 0, (size_t)d->n * size);
}

typedef struct {
    const lj_gemm_desc *desc;
    const lj_gemm_tail *tail;
} tail_work;

static void tail_share(void *arg, int thread, int threads)
{
    const tail_work *w = arg;
    int64_t begin, end;
    lj_team_share(w->desc->m, thread, threads, &begin, &end);
    for (int64_t e = 0; e < w->desc->batch && begin < end; e++) w->tail->fn(w->tail->arg, e, begin, end - begin, 0, w->desc->n);
}

lj_status lj_gemm_run_tail(const lj_gemm *gemm, const void *a, const void *b, void *c, void *scratch, const lj_gemm_tail *tail)
{
    const lj_gemm_desc *d = &gemm->desc;
    bool empty = is_empty(d);
    if (empty)
        c_clear(d, c);
    else
        LJ_TRY(gemm->provider->run(gemm, a, b, c, scratch, tail));
    if (!tail || d->m == 0 || d->n == 0 || (!empty && gemm->provider->runs_tail)) return LJ_OK;
    tail_work work = {d, tail};
    lj_team_run(gemm->threads, tail_share, &work);
    return LJ_OK;
}

lj_status lj_gemm_run(const lj_gemm *gemm, const void *a, const void *b, void *c, void *scratch)
{
    return lj_gemm_run_tail(gemm, a, b, c, scratch, NULL);
}
