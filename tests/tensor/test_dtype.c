#include "support/testing.h"

#include "tensor/dtype.h"

#include <math.h>

/* Every code of every type of up to 16 bits survives decode and encode; NaN codes stay NaN. */
static void small_types_round_trip(void **state)
{
    (void)state;
    for (int t = 0; t < LJ_DTYPE_COUNT; t++) {
        if (lj_dtype_bytes((lj_dtype)t) > 2 || t == LJ_BOOL) continue;
        uint32_t codes = lj_dtype_bytes((lj_dtype)t) == 1 ? 256 : 65536;
        for (uint32_t code = 0; code < codes; code++) {
            uint64_t store = code, again = 0;
            double value = lj_element_get((lj_dtype)t, &store, 0);
            lj_element_set((lj_dtype)t, &again, 0, value);
            if (isnan(value))
                assert_true(isnan(lj_element_get((lj_dtype)t, &again, 0)));
            else
                assert_int_equal(again, code);
        }
    }
}

static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    assert_true(lj_dtype_round(LJ_BF16, 1.0 + 1.0 / 256) == 1.0);             /* tie to even */
    assert_true(lj_dtype_round(LJ_BF16, 1.0 + 3.0 / 256) == 1.0 + 4.0 / 256); /* tie to even, up */
    assert_true(lj_dtype_round(LJ_F16, 65520) == INFINITY);
    assert_true(lj_dtype_round(LJ_F8E5M2, 1e9) == INFINITY);
    assert_true(isnan(lj_dtype_round(LJ_F8E4M3, 1e9)));
    assert_true(lj_dtype_round(LJ_F8E4M3, 448) == 448);
    assert_true(lj_dtype_round(LJ_I8, 200.7) == 127);
    assert_true(lj_dtype_round(LJ_U8, -3) == 0);
}

static void fast_bf16_equals_plain(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)test_random(&seed);
        float value;
        memcpy(&value, &bits, 4);
        if (isnan(value)) continue;
        uint16_t plain;
        lj_element_set(LJ_BF16, &plain, 0, (double)value);
        assert_int_equal(lj_bf16_from_float(value), plain);
    }
}

static void names_are_found(void **state)
{
    (void)state;
    lj_dtype type;
    assert_ok(lj_dtype_find("bfloat16", &type));
    assert_int_equal(type, LJ_BF16);
    assert_ok(lj_dtype_find("F8_E4M3", &type));
    assert_int_equal(type, LJ_F8E4M3);
    assert_fails(lj_dtype_find("bf61", &type), LJ_ERR_NOT_FOUND, "did you mean bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_types_round_trip), cmocka_unit_test(rounding_is_to_nearest_even),
                                       cmocka_unit_test(fast_bf16_equals_plain), cmocka_unit_test(names_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
