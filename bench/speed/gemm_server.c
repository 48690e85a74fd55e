/* Runs one product for each input line "m n k trans_a trans_b dtype repeats" through lj_gemm (the provider that measurement chose), packing included, and
 * prints its median seconds and provider. One side of row_gemm.py. */
#include "base/clock.h"
#include "base/memory.h"
#include "kernels/gemm/gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void *buffer(size_t bytes)
{
    void *p;
    if (lj_alloc("bench", bytes, &p) != LJ_OK) exit(1);
    memset(p, 0x3c, bytes); /* 0.01 as bf16 and as f32 */
    return p;
}

static double median_run(const lj_gemm *gemm, int repeats)
{
    const lj_gemm_desc *d = lj_gemm_get_desc(gemm);
    size_t size = lj_dtype_bytes(d->a_type);
    void *a = buffer((size_t)(d->m * d->k) * size), *b = buffer((size_t)(d->k * d->n) * size), *c = buffer((size_t)(d->m * d->n) * lj_dtype_bytes(d->c_type));
    void *scratch = buffer(lj_gemm_scratch_bytes(gemm));
    double times[64];
    for (int i = -1; i < repeats; i++) {
        double start = lj_now_s();
        if (lj_gemm_run(gemm, a, b, c, scratch) != LJ_OK) exit(1);
        if (i >= 0) times[i] = lj_now_s() - start;
    }
    qsort(times, (size_t)repeats, sizeof *times, by_value);
    lj_free(a), lj_free(b), lj_free(c), lj_free(scratch);
    return times[repeats / 2];
}

int main(int argc, char **argv)
{
    long long m, n, k;
    int trans_a, trans_b, repeats, threads = argc > 1 ? atoi(argv[1]) : 2;
    char dtype[8];
    while (scanf("%lld %lld %lld %d %d %7s %d", &m, &n, &k, &trans_a, &trans_b, dtype, &repeats) == 7) {
        lj_gemm_desc d = LJ_GEMM_DESC_INIT;
        lj_gemm *gemm;
        if (strcmp(dtype, "f32") == 0) d.a_type = d.b_type = d.c_type = LJ_F32;
        d.m = m, d.n = n, d.k = k, d.trans_a = trans_a, d.trans_b = trans_b;
        if (lj_gemm_create(&d, threads, &gemm) != LJ_OK) {
            fprintf(stderr, "%s\n", lj_error_message());
            return 1;
        }
        printf("%.9g %s\n", median_run(gemm, repeats < 64 ? repeats : 64), lj_gemm_provider(gemm));
        fflush(stdout);
        lj_gemm_destroy(gemm);
    }
    return 0;
}
