#include "kernels/peak/bandwidth.h"

#include "base/clock.h"
#include "base/memory.h"
#include "kernels/team.h"

#include <stdlib.h>

enum { TRIAD_ELEMENTS = 16 << 20, TRIAD_RUNS = 7 };

typedef struct {
    float *a;
    const float *b, *c;
} triad_args;

static void triad_share(void *arg, int thread, int threads)
{
    const triad_args *t = arg;
    int64_t begin, end;
    lj_team_share(TRIAD_ELEMENTS, thread, threads, &begin, &end);
    float *restrict a = t->a;
    const float *restrict b = t->b, *restrict c = t->c;
    for (int64_t i = begin; i < end; i++) a[i] = b[i] + 3.0f * c[i];
}

static void fill_share(void *arg, int thread, int threads)
{
    const triad_args *t = arg;
    int64_t begin, end;
    lj_team_share(TRIAD_ELEMENTS, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) t->a[i] = 0, ((float *)t->b)[i] = 1, ((float *)t->c)[i] = 2;
}

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

lj_status lj_bandwidth_measure(int threads, double *bytes_per_s)
{
    const size_t bytes = (size_t)TRIAD_ELEMENTS * sizeof(float);
    void *memory;
    double seconds[TRIAD_RUNS];
    LJ_TRY(lj_alloc("bandwidth", 3 * bytes, &memory));
    float *base = memory;
    triad_args t = {base, base + TRIAD_ELEMENTS, base + 2 * (size_t)TRIAD_ELEMENTS};
    lj_team_run(threads, fill_share, &t);
    for (int i = 0; i < TRIAD_RUNS; i++) {
        double begin = lj_now_s();
        lj_team_run(threads, triad_share, &t);
        seconds[i] = lj_now_s() - begin;
    }
    lj_free(memory);
    qsort(seconds, TRIAD_RUNS, sizeof *seconds, ascending);
    *bytes_per_s = 3 * (double)bytes / seconds[TRIAD_RUNS / 2];
    return LJ_OK;
}
