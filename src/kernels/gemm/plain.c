/* The portable fallback: every element type, any strides, threads over rows of C. Not fast; always right. */
#include "kernels/gemm/provider.h"
#include "kernels/team.h"

#include <string.h>

typedef struct {
    const lj_gemm_desc *desc;
    const void *a, *b;
    void *c;
} plain_work;

static bool supports(const lj_gemm_desc *desc)
{
    (void)desc;
    return true;
}

/* f32 keeps f32 sums for the float types up to 32 bits (as every provider does); anything wider sums in double. */
static bool sums_in_float(const lj_gemm_desc *d)
{
    return lj_dtype_rows[d->a_type].is_float && lj_dtype_rows[d->b_type].is_float && lj_dtype_bytes(d->a_type) <= 4 &&
           lj_dtype_bytes(d->b_type) <= 4 && d->c_type != LJ_F64;
}

static double dot(const plain_work *w, int64_t a, int64_t a_step, int64_t b, int64_t b_step)
{
    const lj_gemm_desc *d = w->desc;
    float narrow = 0;
    double wide = 0;
    bool in_float = sums_in_float(d);
    for (int64_t i = 0; i < d->k; i++) {
        double x = lj_element_get(d->a_type, w->a, (size_t)(a + i * a_step));
        double y = lj_element_get(d->b_type, w->b, (size_t)(b + i * b_step));
        if (in_float)
            narrow += (float)x * (float)y;
        else
            wide += x * y;
    }
    return in_float ? (double)narrow : wide;
}

/* f64 throughout needs no conversions. */
static double dot_f64(const plain_work *w, int64_t a, int64_t a_step, int64_t b, int64_t b_step)
{
    const double *x = (const double *)w->a + a, *y = (const double *)w->b + b;
    double sum = 0;
    for (int64_t i = 0; i < w->desc->k; i++) sum += x[i * a_step] * y[i * b_step];
    return sum;
}

static void row(const plain_work *w, int64_t batch, int64_t i)
{
    const lj_gemm_desc *d = w->desc;
    double (*product)(const plain_work *, int64_t, int64_t, int64_t, int64_t) = d->a_type == LJ_F64 && d->b_type == LJ_F64 ? dot_f64 : dot;
    int64_t a = batch * d->stride_a + i * (d->trans_a ? 1 : d->lda), b = batch * d->stride_b;
    for (int64_t j = 0; j < d->n; j++) {
        size_t at = (size_t)(batch * d->stride_c + i * d->ldc + j);
        double sum = product(w, a, d->trans_a ? d->lda : 1, b + j * (d->trans_b ? d->ldb : 1), d->trans_b ? 1 : d->ldb);
        if (d->accumulate) sum += lj_element_get(d->c_type, w->c, at);
        lj_element_set(d->c_type, w->c, at, sum);
    }
}

static void rows(void *arg, int thread, int threads)
{
    const plain_work *w = arg;
    int64_t begin, end;
    lj_team_share(w->desc->batch * w->desc->m, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) row(w, i / w->desc->m, i % w->desc->m);
}

static lj_status create(lj_gemm *gemm, const lj_gemm *like)
{
    (void)like;
    gemm->name = "plain";
    return LJ_OK;
}

static void destroy(lj_gemm *gemm)
{
    (void)gemm;
}

static size_t scratch_bytes(const lj_gemm *gemm)
{
    (void)gemm;
    return 0;
}

/* Packed B is B dense in its stored order. */
static size_t packed_bytes(const lj_gemm *gemm)
{
    const lj_gemm_desc *d = &gemm->desc;
    return (size_t)(d->k * d->n * (d->share_b ? 1 : d->batch)) * lj_dtype_bytes(d->b_type);
}

static lj_status pack_b(const lj_gemm *gemm, const void *b, void *packed)
{
    const lj_gemm_desc *d = &gemm->desc;
    int64_t stored_rows = d->trans_b ? d->n : d->k, columns = d->trans_b ? d->k : d->n, entries = d->share_b ? 1 : d->batch;
    size_t size = lj_dtype_bytes(d->b_type), line = (size_t)columns * size;
    char *out = packed;
    for (int64_t e = 0; e < entries; e++)
        for (int64_t r = 0; r < stored_rows; r++, out += line)
            memcpy(out, (const char *)b + (size_t)(e * d->stride_b + r * d->ldb) * size, line);
    return LJ_OK;
}

static lj_status run(const lj_gemm *gemm, const void *a, const void *b, void *c, void *scratch, const lj_gemm_tail *tail)
{
    (void)scratch, (void)tail;
    lj_gemm_desc d = gemm->desc;
    if (d.packed_b) {
        d.ldb = d.trans_b ? d.k : d.n;
        d.stride_b = d.share_b ? 0 : d.k * d.n;
    }
    plain_work work = {&d, a, b, c};
    lj_team_run(gemm->threads, rows, &work);
    return LJ_OK;
}

const lj_gemm_provider_row lj_gemm_plain = {"plain", supports, create, destroy, scratch_bytes, run, packed_bytes, pack_b, false};
