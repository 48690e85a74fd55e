/* The judges themselves: a wrong number must be seen in every norm, a right one in none. */
#include "support/compare.h"
#include "support/testing.h"

#include <math.h>

static void ulp_is_the_gap_to_the_next_number(void **state)
{
    (void)state;
    static const lj_dtype types[] = {LJ_F16, LJ_BF16, LJ_F32, LJ_F64, LJ_F8E4M3, LJ_F8E5M2};
    uint64_t seed = 3;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < 2000; i++) {
            double x = lj_dtype_round(types[t], test_random_normal(&seed) * pow(2, (double)test_random_range(&seed, -20, 6)));
            double ulp = test_ulp(types[t], x), sign = x < 0 ? -1 : 1;
            if (!(fabs(x) < lj_dtype_rows[types[t]].max)) continue;
            assert_true(lj_dtype_round(types[t], x + sign * ulp) == x + sign * ulp);                    /* is a number */
            if (types[t] != LJ_F64) assert_true(lj_dtype_round(types[t], x + sign * ulp * 0.49) == x); /* nothing between */
        }
    assert_true(test_ulp(LJ_F32, 0) == ldexp(1, -149));
    assert_true(test_ulp(LJ_F16, 1e-7) == ldexp(1, -24));
    assert_true(test_ulp(LJ_I32, 12345) == 1);
}

static void distances_know_the_special_numbers(void **state)
{
    (void)state;
    double max = lj_dtype_rows[LJ_F32].max;
    assert_true(test_ulps_apart(LJ_F32, 0.0, -0.0) == 0);
    assert_true(test_ulps_apart(LJ_F32, NAN, NAN) == 0);
    assert_true(isinf(test_ulps_apart(LJ_F32, NAN, 1)));
    assert_true(isinf(test_ulps_apart(LJ_F32, 1, NAN)));
    assert_true(test_ulps_apart(LJ_F32, INFINITY, INFINITY) == 0);
    assert_true(test_ulps_apart(LJ_F32, max, INFINITY) == 1);
    assert_true(test_ulps_apart(LJ_F32, -INFINITY, INFINITY) > 1e6);
    assert_true(test_ulps_apart(LJ_BF16, 1 + 1.0 / 128, 1) == 1);
}

static void every_norm_sees_a_fault(void **state)
{
    (void)state;
    float expected[100], got[100];
    uint64_t seed = 5;
    for (int i = 0; i < 100; i++) got[i] = expected[i] = (float)test_random_normal(&seed);
    test_difference same = test_compare(LJ_F32, got, expected, 100);
    assert_true(same.max_error == 0 && same.relative_l2 == 0 && same.max_ulps == 0 && same.max_scaled == 0);
    got[63] += 1;
    test_difference d = test_compare(LJ_F32, got, expected, 100);
    assert_int_equal(d.at, 63);
    assert_true(fabs(d.max_error - 1) < 1e-6 && d.max_scaled > 0.2 && d.relative_l2 > 0.05 && d.max_ulps > 1e4);
    got[63] = NAN;
    d = test_compare(LJ_F32, got, expected, 100);
    assert_true(isinf(d.max_error) && isinf(d.relative_l2) && d.at == 63);
}

static void shares_are_of_the_tolerance(void **state)
{
    (void)state;
    float expected[3] = {1, 100, 0}, got[3] = {1 + 2 * 0x1p-23f, 100, 0};
    double extra[3] = {0, 0, 1e-3};
    size_t at;
    assert_true(test_share(LJ_F32, got, expected, 3, 4, NULL, &at) == 0.5 && at == 0);
    assert_true(isinf(test_share(LJ_F32, got, expected, 3, 0, NULL, &at)));
    got[0] = 1, got[2] = 2e-3f;
    double share = test_share(LJ_F32, got, expected, 3, 1, extra, &at);
    assert_true(share > 1.99 && share < 2.01 && at == 2);
}

static void wide_integers_are_not_compared_as_doubles(void **state)
{
    (void)state;
    int64_t expected = INT64_MAX, got = INT64_MAX - 1; /* the same double */
    assert_true(test_compare(LJ_I64, &got, &expected, 1).max_error == 1);
    assert_true(isinf(test_share(LJ_I64, &got, &expected, 1, 0, NULL, NULL)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ulp_is_the_gap_to_the_next_number), cmocka_unit_test(distances_know_the_special_numbers),
                                       cmocka_unit_test(every_norm_sees_a_fault), cmocka_unit_test(shares_are_of_the_tolerance),
                                       cmocka_unit_test(wide_integers_are_not_compared_as_doubles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
