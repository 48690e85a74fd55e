/* Runs of equal decay for each thread; the numbers that depend on the step, in double. */
#include "kernels/adamw_rows.h"

#include "base/machine.h"
#include "kernels/team.h"

#include <assert.h>
#include <math.h>

static const lj_adamw_rows *rows_get(void)
{
#if defined(__x86_64__)
    if (lj_machine_get()->isa >= LJ_ISA_AVX512) return &lj_adamw_avx512;
    if (lj_machine_get()->isa >= LJ_ISA_AVX2) return &lj_adamw_avx2;
#endif
    return &lj_adamw_generic;
}

static lj_adamw_numbers numbers_of(const lj_adamw_args *a)
{
    double step = (double)a->step;
    double correction1 = a->correction1 > 0 ? a->correction1 : 1 - pow(a->beta1, step);
    double correction2 = a->correction2 > 0 ? a->correction2 : 1 - pow(a->beta2, step);
    return (lj_adamw_numbers){.grad_scale = a->grad_scale ? *a->grad_scale : 1,
                              .keep = 1,
                              .beta1_rest = (float)(1 - a->beta1),
                              .beta2 = (float)a->beta2,
                              .beta2_rest = (float)(1 - a->beta2),
                              .eps = (float)a->eps,
                              .step_size = (float)(a->lr / correction1),
                              .root_correction = (float)sqrt(correction2)};
}

/* Elements [begin, end) with one decay. */
static void run(const lj_adamw_rows *rows, const lj_adamw_args *a, lj_adamw_numbers n, double decay, int64_t begin, int64_t end)
{
    n.keep = (float)(1 - a->lr * decay);
    if (begin < end) rows->update(a, &n, begin, end);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

void lj_adamw_update(void *args, int thread, int threads)
{
    const lj_adamw_args *a = args;
    const lj_adamw_rows *rows = rows_get();
    lj_adamw_numbers n = numbers_of(a);
    int64_t begin, end;
    assert((a->step >= 1 || (a->correction1 > 0 && a->correction2 > 0)) && (a->master || (a->weight && a->low)));
    lj_team_share((a->count + 63) / 64, thread, threads, &begin, &end);
    begin *= 64, end = clamp(end * 64, 0, a->count);
    int64_t at = begin;
    for (int64_t i = 0; i < a->range_count && at < end; i++) {
        int64_t from = clamp(a->ranges[i].begin, at, end), to = clamp(a->ranges[i].end, at, end);
        run(rows, a, n, 0, at, from);
        run(rows, a, n, a->ranges[i].decay, from, to);
        at = to > from ? to : from;
    }
    run(rows, a, n, 0, at, end);
}

void lj_square_sum(void *args, int thread, int threads)
{
    const lj_square_sum_args *a = args;
    const lj_adamw_rows *rows = rows_get();
    int64_t begin, end;
    lj_team_share(lj_square_sum_blocks(a->count), thread, threads, &begin, &end);
    for (int64_t block = begin; block < end; block++)
        a->partial[block] = rows->square_sum(a->type, a->data, block * LJ_SUM_BLOCK, clamp((block + 1) * LJ_SUM_BLOCK, 0, a->count));
}

double lj_square_sum_total(const double *partial, int64_t blocks)
{
    double total = 0;
    for (int64_t i = 0; i < blocks; i++) total += partial[i];
    return total;
}
