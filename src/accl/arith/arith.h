/* Elementwise reduction of several arrays, and copies; every element type and operation, instruction set chosen at run time.
 *
 * Narrow floats (fp16, bf16, both fp8) are widened to fp32, combined there and rounded once. Sources are combined in the order
 * they are given, so the order of addition is the caller's. Arrays may have any alignment. */
#ifndef ACCL_ARITH_H
#define ACCL_ARITH_H

#include "tensor/dtype.h"

typedef enum { ACCL_SUM, ACCL_PROD, ACCL_MAX, ACCL_MIN, ACCL_AVG, ACCL_PREMUL, ACCL_OP_COUNT } accl_op;

typedef struct {
    lj_dtype type;
    accl_op op;
    uint32_t ranks; /* the divisor of ACCL_AVG */
} accl_arith;

/* dst[0..dst_count) all get combine(src[0], src[1], ...), finished (divided for AVG). dst[i] may equal a source, not overlap one
 * otherwise. scale: each source's multiplier (accl_scale_widen), read for PREMUL only.
 * stream: write past the caches (for results larger than they are). */
void accl_reduce(const accl_arith *a, void *const *dst, size_t dst_count, const void *const *src, size_t src_count,
                 const uint64_t *scale, size_t count, bool stream);

/* The same in pieces, for algorithms that pass partial results on. Partial results have accl_work_bytes an element (fp32 for narrow
 * floats, else the type itself). begin: work = src, multiplied for PREMUL. combine: dst = a op b (a is the one of lower rank).
 * finish: dst = work, divided for AVG and rounded. */
size_t accl_work_bytes(lj_dtype type);
void accl_work_begin(const accl_arith *a, void *work, const void *src, uint64_t scale, size_t count);
void accl_work_combine(const accl_arith *a, void *dst, const void *left, const void *right, size_t count);
void accl_work_finish(const accl_arith *a, void *dst, const void *work, size_t count, bool stream);

/* A multiplier of the element type (its bits) as accl_reduce and accl_work_begin take it: fp32 bits for narrow floats. */
uint64_t accl_scale_widen(lj_dtype type, uint64_t scale);

/* memcpy; stream: past the caches. */
void accl_copy(void *dst, const void *src, size_t bytes, bool stream);

/* One instruction set's kernels. Accumulators: the eight types that arithmetic is done in. */
typedef enum { ACCL_ACC_I8, ACCL_ACC_U8, ACCL_ACC_I32, ACCL_ACC_U32, ACCL_ACC_I64, ACCL_ACC_U64, ACCL_ACC_F32, ACCL_ACC_F64, ACCL_ACC_COUNT } accl_acc;
typedef enum { ACCL_NARROW_F16, ACCL_NARROW_BF16, ACCL_NARROW_E4M3, ACCL_NARROW_E5M2, ACCL_NARROW_COUNT } accl_narrow;
typedef struct {
    void (*combine[ACCL_ACC_COUNT][4])(void *dst, const void *a, const void *b, size_t n); /* by SUM PROD MAX MIN */
    void (*multiply[ACCL_ACC_COUNT])(void *dst, const void *src, uint64_t bits, size_t n);
    void (*divide[ACCL_ACC_COUNT])(void *dst, const void *src, uint32_t by, size_t n);
    void (*widen[ACCL_NARROW_COUNT])(float *dst, const void *src, size_t n);
    void (*narrow[ACCL_NARROW_COUNT])(void *dst, const float *src, size_t n);
    void (*stream)(void *dst, const void *src, size_t bytes); /* non-temporal copy, fenced by accl_copy's and accl_reduce's end */
} accl_kernels;
extern const accl_kernels accl_kernels_generic, accl_kernels_avx2, accl_kernels_avx512;

#endif
