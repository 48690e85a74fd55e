/* Matrix products: C = A * B or C += A * B, through a table of providers (oneDNN, our own micro-kernels, a plain fallback).
 *
 * Life of a product: describe it (lj_gemm_desc), create a handle (picks provider and layout: measured once for a shape on this
 * class of machine, kept on disk), ask for scratch bytes, then run as often as you like, from the master thread and outside any
 * team region. Optionally weights are packed once (lj_gemm_pack_b) and reused by every run until they change.
 *
 * Numerics: bf16 and f32 accumulate in f32, f64 in f64, others (plain provider) in f64; the result is rounded once to c_type.
 * For a fixed thread count and provider the result is the same bits in every run. Zero sizes are legal: k = 0 gives zeros, or C
 * unchanged when accumulating. */
#ifndef LJ_KERNELS_GEMM_H
#define LJ_KERNELS_GEMM_H

#include "base/text.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All sizes, leading dimensions and strides in elements. Row-major:
 *   A is m x k (trans_a: stored k x m), B is k x n (trans_b: stored n x k), C is m x n.
 * lda/ldb/ldc: distance of stored rows; 0 = dense. stride_a/b/c: distance of batch entries; 0 = dense for A and C when
 * batch > 1, and *shared by all entries* for B when share_b is set. */
typedef struct {
    lj_dtype a_type, b_type, c_type;
    int64_t m, n, k;
    bool trans_a, trans_b;
    int64_t batch; /* 0 entries are legal; a plain product has 1 */
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
    bool share_b;    /* one B for the whole batch */
    bool accumulate; /* C += A * B; c_type f32 or f64 */
    bool packed_b;   /* run gets B as lj_gemm_pack_b left it */
} lj_gemm_desc;

/* Unset members mean their default; batch 1, bf16. */
#define LJ_GEMM_DESC_INIT ((lj_gemm_desc){.a_type = LJ_BF16, .b_type = LJ_BF16, .c_type = LJ_BF16, .batch = 1})

/* Work on finished elements of C while they are hot. fn is called for disjoint rectangles that cover one batch entry's C,
 * by any thread of the team, after these elements are final in memory. */
typedef struct {
    void (*fn)(void *arg, int64_t batch, int64_t row, int64_t rows, int64_t col, int64_t cols);
    void *arg;
    bool whole_rows; /* rectangles must span all n columns (row statistics) */
} lj_gemm_tail;

typedef struct lj_gemm lj_gemm;

/* LJ_ERR_INVALID: negative sizes, a leading dimension below its row, accumulate into a 16-bit or whole-number C.
 * LJ_ERR_UNSUPPORTED: LJPERF_GEMM names a provider that cannot do it (the message says which can). Any thread; the handle may
 * be used by several threads at once when each has its own scratch. The first creation of a shape may measure (about 0.1 s). */
lj_status lj_gemm_create(const lj_gemm_desc *desc, int threads, lj_gemm **out);
/* The same product at another m (and batch), with provider and B layout of `like`, so that one packed B serves both.
 * LJ_ERR_UNSUPPORTED when the provider has no such primitive. */
lj_status lj_gemm_create_like(const lj_gemm_desc *desc, int threads, const lj_gemm *like, lj_gemm **out);
void lj_gemm_destroy(lj_gemm *gemm); /* NULL allowed */

/* Exact bytes of scratch (64-byte aligned) that run needs; may be 0. */
size_t lj_gemm_scratch_bytes(const lj_gemm *gemm);
/* "onednn", "own-avx512bf16", "plain", ... Static storage. */
const char *lj_gemm_provider(const lj_gemm *gemm);
const lj_gemm_desc *lj_gemm_get_desc(const lj_gemm *gemm);

/* Runs; master thread, outside any region. c must not overlap a or b. tail may be NULL. LJ_ERR_* only when a library refuses. */
lj_status lj_gemm_run(const lj_gemm *gemm, const void *a, const void *b, void *c, void *scratch);
lj_status lj_gemm_run_tail(const lj_gemm *gemm, const void *a, const void *b, void *c, void *scratch, const lj_gemm_tail *tail);

/* Packed B (handles with packed_b). Bytes of the packed form (64-byte aligned), and the packing itself from the plain B of the
 * description (ldb, trans_b; batch entries one after the other unless share_b). */
size_t lj_gemm_packed_bytes(const lj_gemm *gemm);
lj_status lj_gemm_pack_b(const lj_gemm *gemm, const void *b, void *packed);

/* Table of the choices kept for this machine class: a line a shape with each provider's measured GFLOPS. */
lj_status lj_gemm_choices_print(lj_text *out);

#endif
