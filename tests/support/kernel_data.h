/* Buffers with sentinels and naive products for kernel tests. */
#ifndef LJ_TESTS_KERNEL_DATA_H
#define LJ_TESTS_KERNEL_DATA_H

#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

/* A buffer of `count` elements between two guards. */
typedef struct {
    lj_dtype type;
    size_t count;
    void *data;
    void *base;
} guarded;

guarded guarded_create(lj_dtype type, size_t count);
/* Fills with normal values times `scale`, rounded to the type. */
void guarded_fill(guarded *g, uint64_t *seed, double scale);
/* Fails the test when a guard was touched. */
void guarded_check(const guarded *g, const char *what);
void guarded_destroy(guarded *g);
double guarded_get(const guarded *g, size_t index);

/* Largest |got - want| / (|want| + scale of the row); fails above `tolerance` with the index. */
void assert_near(const char *what, double got, double want, double tolerance, size_t index);

/* For main(): runs this program once for each instruction set up to the machine's, with LJPERF_ISA set; the sum of their exit codes. In
 * such a child it returns -1: run the tests. */
int run_for_every_isa(char **argv);

#endif
