#include "kernels/peak/gemm_peak.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHAPES = 16, MAX_RUNS = 64 };

typedef struct {
    lj_peak_shape shape;
    lj_gemm *gemm;
    double rates[MAX_RUNS];
    size_t runs;
} shape_row;

struct lj_gemm_peak {
    lj_dtype dtype;
    int threads;
    shape_row rows[MAX_SHAPES];
    size_t count;
    void *a, *b, *c, *scratch;
    size_t bytes;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool same_shape(const lj_peak_shape *a, const lj_peak_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->trans_a == b->trans_a && a->trans_b == b->trans_b;
}

static lj_status shape_add(lj_gemm_peak *p, lj_peak_shape shape)
{
    lj_gemm_desc desc = LJ_GEMM_DESC_INIT;
    if (p->count == MAX_SHAPES || shape.m < 1 || shape.n < 1 || shape.k < 1) return LJ_OK;
    for (size_t i = 0; i < p->count; i++)
        if (same_shape(&p->rows[i].shape, &shape)) return LJ_OK;
    desc.a_type = desc.b_type = desc.c_type = p->dtype;
    desc.m = shape.m, desc.n = shape.n, desc.k = shape.k, desc.trans_a = shape.trans_a, desc.trans_b = shape.trans_b;
    p->rows[p->count] = (shape_row){.shape = shape};
    LJ_TRY(lj_gemm_create(&desc, p->threads, &p->rows[p->count].gemm));
    p->count++;
    return LJ_OK;
}

/* One size fits all shapes; small positive numbers, so that no product meets denormals or overflow. */
static lj_status operands_create(lj_gemm_peak *p)
{
    size_t each = lj_dtype_bytes(p->dtype), a = 0, b = 0, c = 0, scratch = 0;
    for (size_t i = 0; i < p->count; i++) {
        const lj_peak_shape *s = &p->rows[i].shape;
        a = larger(a, (size_t)(s->m * s->k) * each), b = larger(b, (size_t)(s->k * s->n) * each), c = larger(c, (size_t)(s->m * s->n) * each);
        scratch = larger(scratch, lj_gemm_scratch_bytes(p->rows[i].gemm));
    }
    LJ_TRY(lj_alloc("gemm peak", a, &p->a));
    LJ_TRY(lj_alloc("gemm peak", b, &p->b));
    LJ_TRY(lj_alloc("gemm peak", c, &p->c));
    LJ_TRY(lj_alloc("gemm peak", scratch, &p->scratch));
    p->bytes = a + b + c + scratch;
    for (size_t i = 0; i < a / each; i++) lj_element_set(p->dtype, p->a, i, (double)(i % 13) * 0.01);
    for (size_t i = 0; i < b / each; i++) lj_element_set(p->dtype, p->b, i, (double)(i % 11) * 0.01);
    return LJ_OK;
}

static double flops_of(const lj_peak_shape *s)
{
    return 2.0 * (double)s->m * (double)s->n * (double)s->k;
}

static lj_status row_run(lj_gemm_peak *p, shape_row *row)
{
    double begin = lj_now_s();
    LJ_TRY(lj_gemm_run(row->gemm, p->a, p->b, p->c, p->scratch));
    double seconds = lj_now_s() - begin;
    if (row->runs < MAX_RUNS && seconds > 0) row->rates[row->runs++] = flops_of(&row->shape) / seconds;
    return LJ_OK;
}

static lj_status all_create(lj_gemm_peak *p, const lj_peak_shape *shapes, size_t count)
{
    LJ_TRY(shape_add(p, (lj_peak_shape){2048, 2048, 2048, false, true}));
    LJ_TRY(shape_add(p, (lj_peak_shape){4096, 4096, 4096, false, true}));
    for (size_t i = 0; i < count; i++) LJ_TRY(shape_add(p, shapes[i]));
    LJ_TRY(operands_create(p));
    for (size_t i = 0; i < p->count; i++) { /* warm up: first runs pack and page in */
        LJ_TRY(row_run(p, &p->rows[i]));
        p->rows[i].runs = 0;
    }
    return LJ_OK;
}

lj_status lj_gemm_peak_create(const lj_peak_shape *shapes, size_t count, lj_dtype dtype, int threads, lj_gemm_peak **peak)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("gemm peak", sizeof(lj_gemm_peak), &memory));
    lj_gemm_peak *p = memory;
    p->dtype = dtype, p->threads = threads;
    lj_status status = all_create(p, shapes, count);
    if (status == LJ_OK)
        *peak = p;
    else
        lj_gemm_peak_destroy(p);
    return status;
}

void lj_gemm_peak_destroy(lj_gemm_peak *peak)
{
    if (!peak) return;
    for (size_t i = 0; i < peak->count; i++) lj_gemm_destroy(peak->rows[i].gemm);
    void *buffers[] = {peak->a, peak->b, peak->c, peak->scratch, peak};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) lj_free(buffers[i]);
}

lj_status lj_gemm_peak_sample(lj_gemm_peak *peak)
{
    for (size_t i = 0; i < peak->count; i++) LJ_TRY(row_run(peak, &peak->rows[i]));
    return LJ_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const shape_row *row)
{
    double sorted[MAX_RUNS];
    if (row->runs == 0) return 0;
    memcpy(sorted, row->rates, row->runs * sizeof *sorted);
    qsort(sorted, row->runs, sizeof *sorted, ascending);
    return row->runs % 2 ? sorted[row->runs / 2] : (sorted[row->runs / 2 - 1] + sorted[row->runs / 2]) / 2;
}

lj_gemm_peak_result lj_gemm_peak_get(const lj_gemm_peak *peak)
{
    lj_gemm_peak_result result = {.shape_count = peak->count};
    for (size_t i = 0; i < peak->count; i++) {
        const shape_row *row = &peak->rows[i];
        double rate = median(row);
        if (rate <= result.flops) continue;
        result.flops = rate, result.runs = row->runs;
        snprintf(result.shape, sizeof result.shape, "%lldx%lldx%lld by %s", (long long)row->shape.m, (long long)row->shape.n, (long long)row->shape.k,
                 lj_gemm_provider(row->gemm));
    }
    return result;
}

size_t lj_gemm_peak_bytes(const lj_gemm_peak *peak)
{
    return peak->bytes;
}
