/* AdamW and the sum of squares: against double arithmetic, bit-equal over instruction sets, thread counts and ways of storing the master. */
#include "support/kernel_data.h"
#include "support/testing.h"

#include "kernels/adamw_rows.h"
#include "kernels/team.h"

#include "base/machine.h"

#include <math.h>
#include <stdlib.h>

enum { COUNT = 1037 };
static const lj_adamw_range ranges[] = {{3, 500, 0.1}, {600, 601, 0.5}, {900, 5000, 0.01}};

typedef struct {
    float master[COUNT], m[COUNT], v[COUNT], grad[COUNT];
    uint16_t weight[COUNT], low[COUNT], narrow_grad[COUNT];
} buffers;

static void fill(buffers *s)
{
    uint64_t seed = 5;
    for (int i = 0; i < COUNT; i++) {
        s->master[i] = (float)test_random_normal(&seed), s->m[i] = (float)test_random_normal(&seed) * 0.01f;
        s->v[i] = (float)fabs(test_random_normal(&seed)) * 1e-4f, s->grad[i] = (float)test_random_normal(&seed) * 0.1f;
        s->narrow_grad[i] = lj_bf16_from_float(s->grad[i]);
        lj_adamw_split(s->master[i], &s->weight[i], &s->low[i]);
    }
}

static lj_adamw_args args_of(buffers *s, const float *scale)
{
    return (lj_adamw_args){.count = COUNT, .master = s->master, .weight = s->weight, .m = s->m, .v = s->v, .grad = s->grad, .grad_type = LJ_F32,
                           .ranges = ranges, .range_count = 3, .grad_scale = scale, .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .step = 3};
}

static double decay_of(int i)
{
    for (size_t r = 0; r < 3; r++)
        if (i >= ranges[r].begin && i < ranges[r].end) return ranges[r].decay;
    return 0;
}

static void matches_double(void **state)
{
    (void)state;
    static buffers s, before;
    float scale = 0.7f;
    fill(&s);
    before = s;
    lj_adamw_args a = args_of(&s, &scale);
    lj_team_run(3, lj_adamw_update, &a);
    for (int i = 0; i < COUNT; i++) {
        double g = (double)before.grad[i] * (double)scale, w = (double)before.master[i] * (1 - a.lr * decay_of(i));
        double m = (double)before.m[i] + (g - (double)before.m[i]) * (1 - a.beta1), v = (double)before.v[i] * a.beta2 + g * g * (1 - a.beta2);
        w -= a.lr / (1 - pow(a.beta1, 3)) * m / (sqrt(v) / sqrt(1 - pow(a.beta2, 3)) + a.eps);
        assert_near("w", (double)s.master[i], w, 1e-6 * (fabs(w) + 0.01), (size_t)i);
        assert_near("m", (double)s.m[i], m, 1e-6 * (fabs(m) + 0.01), (size_t)i);
        assert_near("v", (double)s.v[i], v, 1e-6 * (fabs(v) + 1e-6), (size_t)i);
        uint16_t weight, low;
        lj_adamw_split(s.master[i], &weight, &low);
        assert_int_equal(s.weight[i], weight);
    }
}

/* The split master goes through the same values, and every engine and thread count gives the same bits. */
static void all_ways_same_bits(void **state)
{
    (void)state;
    static buffers want, got;
    const lj_adamw_rows *engines[] = {&lj_adamw_generic, &lj_adamw_avx2, &lj_adamw_avx512};
    const lj_isa needs[] = {LJ_ISA_GENERIC, LJ_ISA_AVX2, LJ_ISA_AVX512};
    fill(&want);
    lj_adamw_args a = args_of(&want, NULL);
    lj_adamw_update(&a, 0, 1);
    for (int split = 0; split < 2; split++)
        for (int threads = 1; threads < 5; threads++) {
            fill(&got);
            a = args_of(&got, NULL);
            if (split) a.master = NULL, a.low = got.low;
            lj_team_run(threads, lj_adamw_update, &a);
            assert_memory_equal(got.m, want.m, sizeof got.m);
            assert_memory_equal(got.v, want.v, sizeof got.v);
            assert_memory_equal(got.weight, want.weight, sizeof got.weight);
            for (int i = 0; i < COUNT && split; i++) {
                float joined = lj_adamw_join(got.weight[i], got.low[i]);
                assert_memory_equal(&joined, &want.master[i], 4);
            }
            if (!split) assert_memory_equal(got.master, want.master, sizeof got.master);
        }
    lj_adamw_numbers n = {0.5f, 0.9f, 0.1f, 0.95f, 0.05f, 1e-8f, 0.01f, 0.3f};
    for (int e = 0; e < 3; e++) {
        if (needs[e] > lj_machine_get()->isa) continue;
        buffers *s = e ? &got : &want;
        fill(s);
        a = args_of(s, NULL);
        a.grad = s->narrow_grad, a.grad_type = LJ_BF16;
        engines[e]->update(&a, &n, 1, COUNT - 2);
        if (e) assert_memory_equal(&got, &want, sizeof got);
    }
}

static void splitting_is_exact(void **state)
{
    (void)state;
    uint64_t seed = 1;
    const uint32_t edges[] = {0, 0x80000000u, 0x7f7fffffu, 0xff7fffffu, 0x7f800000u, 0xff800000u, 1, 0x00008000u, 0x00018000u, 0x3f808000u, 0x3f818000u};
    for (int i = 0; i < 300000; i++) {
        uint32_t bits = i < 11 ? edges[i] : (uint32_t)test_random(&seed);
        if (i % 3 == 0 && i >= 11) bits = (bits & 0xffff0000u) | 0x8000u; /* ties */
        float value, again;
        uint16_t weight, low;
        memcpy(&value, &bits, 4);
        lj_adamw_split(value, &weight, &low);
        again = lj_adamw_join(weight, low);
        if (isnan(value))
            assert_true(isnan(again) && isnan(lj_bf16_to_float(weight)));
        else
            assert_memory_equal(&again, &value, 4);
    }
}

static void square_sum_is_fixed(void **state)
{
    (void)state;
    enum { N = 3 * LJ_SUM_BLOCK + 77 };
    float *x = malloc(N * sizeof *x);
    uint16_t *narrow = malloc(N * sizeof *narrow);
    double partial[4], want = 0, first = 0;
    uint64_t seed = 8;
    for (int i = 0; i < N; i++) x[i] = (float)test_random_normal(&seed), narrow[i] = lj_bf16_from_float(x[i]), want += (double)x[i] * (double)x[i];
    assert_int_equal(lj_square_sum_blocks(N), 4);
    lj_square_sum_args a = {x, LJ_F32, N, partial};
    for (int threads = 1; threads < 6; threads++) {
        lj_team_run(threads, lj_square_sum, &a);
        double total = lj_square_sum_total(partial, 4);
        if (threads == 1) first = total;
        assert_true(total == first);
    }
    assert_near("sum of squares", first, want, 1e-10 * want, 0);
    const lj_adamw_rows *engines[] = {&lj_adamw_generic, &lj_adamw_avx2, &lj_adamw_avx512};
    const lj_isa needs[] = {LJ_ISA_GENERIC, LJ_ISA_AVX2, LJ_ISA_AVX512};
    for (int e = 0; e < 3; e++) {
        if (needs[e] > lj_machine_get()->isa) continue;
        assert_true(engines[e]->square_sum(LJ_F32, x, 5, 1000) == lj_adamw_generic.square_sum(LJ_F32, x, 5, 1000));
        assert_true(engines[e]->square_sum(LJ_BF16, narrow, 5, 1003) == lj_adamw_generic.square_sum(LJ_BF16, narrow, 5, 1003));
    }
    free(x), free(narrow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_double), cmocka_unit_test(all_ways_same_bits), cmocka_unit_test(splitting_is_exact),
                                       cmocka_unit_test(square_sum_is_fixed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
