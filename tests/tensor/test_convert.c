/* The fast half-precision conversions against the plain ones of dtype.c, and array conversions against single elements. */
#include "support/testing.h"

#include "tensor/convert.h"

#include <math.h>

static void every_half_to_float(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 65536; code++) {
        uint16_t bits = (uint16_t)code;
        float fast = lj_half_to_float(bits);
        double plain = lj_element_get(LJ_F16, &bits, 0);
        if (isnan(plain))
            assert_true(isnan(fast));
        else
            assert_true((double)fast == plain && !signbit(fast) == !signbit(plain));
    }
}

static void floats_to_half(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int i = 0; i < 2000000; i++) {
        uint32_t bits = (uint32_t)test_random(&seed);
        if (i & 1) bits = (bits & 0x81ffffff) | 0x33000000 | (bits & 0x0e000000); /* near and inside the range of halves */
        float value;
        uint16_t plain;
        memcpy(&value, &bits, 4);
        lj_element_set(LJ_F16, &plain, 0, (double)value);
        if (!isnan(value)) assert_int_equal(lj_half_from_float(value), plain);
    }
    assert_true(isnan(lj_half_to_float(lj_half_from_float(NAN))));
}

static void arrays_equal_elements(void **state)
{
    (void)state;
    enum { N = 77 };
    uint64_t seed = 5;
    for (int to = 0; to < LJ_DTYPE_COUNT; to++)
        for (int from = 0; from < LJ_DTYPE_COUNT; from++) {
            uint64_t source[N + 1], out[N], expected[N];
            uint8_t shifted[8 * (N + 1)];
            for (int i = 0; i < N; i++) lj_element_set((lj_dtype)from, source, (size_t)i, test_random_normal(&seed) * 10);
            memcpy(shifted + 1, source, lj_dtype_bytes((lj_dtype)from) * N); /* unaligned */
            lj_convert((lj_dtype)to, out, (lj_dtype)from, shifted + 1, N);
            for (int i = 0; i < N; i++) lj_element_set((lj_dtype)to, expected, (size_t)i, lj_element_get((lj_dtype)from, source, (size_t)i));
            assert_memory_equal(out, expected, lj_dtype_bytes((lj_dtype)to) * N);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_half_to_float), cmocka_unit_test(floats_to_half), cmocka_unit_test(arrays_equal_elements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
