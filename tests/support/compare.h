/* Judging numbers by several norms: scaled largest error with its index, relative L2, distance in units of the last place,
 * share of a tolerance used. */
#ifndef LJ_TESTS_COMPARE_H
#define LJ_TESTS_COMPARE_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    size_t count;
    double max_error;  /* largest |got - expected| */
    double max_scaled; /* max_error over the largest finite |expected|; max_error itself when all are 0 */
    double relative_l2;
    double max_ulps; /* largest distance in units of the last place of the expected number */
    size_t at;       /* element of max_ulps */
    double got, expected; /* there */
} test_difference;

/* Distance to the next number of that dtype above |at| (the gap that rounding to it can move); 1 for integers. The smallest
 * subnormal's gap is the floor; infinity counts as the number after the largest. */
double test_ulp(lj_dtype dtype, double at);
/* |got - expected| in units of the last place of `expected`. Equal infinities and two NaNs are 0 apart, a NaN beside a number
 * is infinitely far, +0 equals -0. */
double test_ulps_apart(lj_dtype dtype, double got, double expected);

test_difference test_compare(lj_dtype dtype, const void *got, const void *expected, size_t count);

/* Largest share used of a tolerance of `ulps` units of the last place of the expected number plus extra[i] (NULL: nothing).
 * 1 is the limit; where nothing is allowed any difference is infinity. *at (may be NULL) receives the element. */
double test_share(lj_dtype dtype, const void *got, const void *expected, size_t count, double ulps, const double *extra, size_t *at);

#endif
