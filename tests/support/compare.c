#include "support/compare.h"

#include <math.h>

double test_ulp(lj_dtype dtype, double at)
{
    const lj_dtype_row *row = &lj_dtype_rows[dtype];
    if (!row->is_float) return 1;
    double magnitude = fabs(at);
    if (!(magnitude <= row->max)) magnitude = row->max;
    /* the gap below the smallest normal number: found by rounding, so that it holds for every layout */
    static const int lowest[LJ_DTYPE_COUNT] = {[LJ_F16] = -14,    [LJ_BF16] = -126,  [LJ_F32] = -126,
                                               [LJ_F64] = -1022, [LJ_F8E4M3] = -6, [LJ_F8E5M2] = -14};
    int exponent = magnitude > 0 ? ilogb(magnitude) : lowest[dtype];
    if (exponent < lowest[dtype]) exponent = lowest[dtype];
    return ldexp(1, exponent - row->mantissa_bits);
}

/* Infinity as the number that follows the largest finite one. */
static double number_line(lj_dtype dtype, double value)
{
    if (!isinf(value)) return value;
    double next = lj_dtype_rows[dtype].max;
    return copysign(dtype == LJ_F64 ? next : next + test_ulp(dtype, next), value);
}

static double error_of(lj_dtype dtype, double got, double expected)
{
    if (isnan(got) && isnan(expected)) return 0;
    if (isnan(got) || isnan(expected)) return INFINITY;
    if (got == expected) return 0;
    return fabs(number_line(dtype, got) - number_line(dtype, expected));
}

double test_ulps_apart(lj_dtype dtype, double got, double expected)
{
    return error_of(dtype, got, expected) / test_ulp(dtype, expected);
}

/* 64-bit integers as they are: doubles would hide their low bits. */
static bool integers_differ(lj_dtype dtype, const void *got, const void *expected, size_t i, double *error)
{
    if (dtype != LJ_I64 && dtype != LJ_U64) return false;
    uint64_t a = ((const uint64_t *)got)[i], b = ((const uint64_t *)expected)[i];
    *error = a == b ? 0 : fmax(1, fabs(lj_element_get(dtype, got, i) - lj_element_get(dtype, expected, i)));
    return true;
}

static double element_error(lj_dtype dtype, const void *got, const void *expected, size_t i)
{
    double error;
    if (integers_differ(dtype, got, expected, i, &error)) return error;
    return error_of(dtype, lj_element_get(dtype, got, i), lj_element_get(dtype, expected, i));
}

test_difference test_compare(lj_dtype dtype, const void *got, const void *expected, size_t count)
{
    test_difference d = {.count = count};
    double largest = 0, error_squares = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double want = lj_element_get(dtype, expected, i), error = element_error(dtype, got, expected, i);
        double ulps = error / test_ulp(dtype, want);
        if (isfinite(want)) largest = fmax(largest, fabs(want)), squares += want * want;
        error_squares += error * error;
        d.max_error = fmax(d.max_error, error);
        if (ulps > d.max_ulps || i == 0) d.max_ulps = ulps, d.at = i, d.got = lj_element_get(dtype, got, i), d.expected = want;
    }
    d.max_scaled = largest > 0 ? d.max_error / largest : d.max_error;
    d.relative_l2 = squares > 0 ? sqrt(error_squares / squares) : sqrt(error_squares);
    return d;
}

double test_share(lj_dtype dtype, const void *got, const void *expected, size_t count, double ulps, const double *extra, size_t *at)
{
    double worst = 0;
    if (at) *at = 0;
    for (size_t i = 0; i < count; i++) {
        double error = element_error(dtype, got, expected, i);
        if (error == 0) continue;
        double allowed = (ulps > 0 ? ulps * test_ulp(dtype, lj_element_get(dtype, expected, i)) : 0) + (extra ? extra[i] : 0);
        double share = allowed > 0 ? error / allowed : INFINITY;
        if (share <= worst) continue;
        worst = share;
        if (at) *at = i;
    }
    return worst;
}
