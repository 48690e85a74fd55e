/* Chooses the kernels and cuts arrays into blocks that stay in the first-level cache, so that several sources, widening, finishing
 * and streaming cost one pass over memory. */
#include "accl/arith/arith.h"

#include "base/machine.h"

#include <assert.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 2048 }; /* elements; 8 KiB as fp32 */

typedef struct {
    accl_acc acc;
    int narrow; /* index of its conversions, -1: none */
} type_row;

static const type_row types[] = {
    [LJ_I8] = {ACCL_ACC_I8, -1},   [LJ_U8] = {ACCL_ACC_U8, -1},   [LJ_I32] = {ACCL_ACC_I32, -1},
    [LJ_U32] = {ACCL_ACC_U32, -1}, [LJ_I64] = {ACCL_ACC_I64, -1}, [LJ_U64] = {ACCL_ACC_U64, -1},
    [LJ_F16] = {ACCL_ACC_F32, ACCL_NARROW_F16},   [LJ_F32] = {ACCL_ACC_F32, -1},
    [LJ_F64] = {ACCL_ACC_F64, -1},                [LJ_BF16] = {ACCL_ACC_F32, ACCL_NARROW_BF16},
    [LJ_F8E4M3] = {ACCL_ACC_F32, ACCL_NARROW_E4M3}, [LJ_F8E5M2] = {ACCL_ACC_F32, ACCL_NARROW_E5M2},
};

static const accl_kernels *kernels(void)
{
    static const accl_kernels *chosen;
    const accl_kernels *k = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (k) return k;
    k = &accl_kernels_generic;
#if defined(__x86_64__)
    lj_isa isa = lj_machine_get()->isa;
    if (isa >= LJ_ISA_AVX2) k = &accl_kernels_avx2;
    if (isa >= LJ_ISA_AVX512) k = &accl_kernels_avx512;
#endif
    __atomic_store_n(&chosen, k, __ATOMIC_RELAXED);
    return k;
}

static void stores_fence(void)
{
#if defined(__x86_64__)
    _mm_sfence(); /* non-temporal stores are not ordered with the flag that announces them */
#endif
}

size_t accl_work_bytes(lj_dtype type)
{
    return types[type].narrow >= 0 ? 4 : lj_dtype_bytes(type);
}

/* AVG and PREMUL add. */
static int combine_index(accl_op op)
{
    return op == ACCL_AVG || op == ACCL_PREMUL ? ACCL_SUM : (int)op;
}

/* One block: work = src widened, multiplied for PREMUL. */
static void block_begin(const accl_arith *a, void *work, const void *src, uint64_t scale, size_t n)
{
    type_row t = types[a->type];
    if (t.narrow >= 0) kernels()->widen[t.narrow](work, src, n);
    if (a->op == ACCL_PREMUL) kernels()->multiply[t.acc](work, t.narrow >= 0 ? work : src, scale, n);
    else if (t.narrow < 0) memcpy(work, src, n * lj_dtype_bytes(a->type));
}

/* Where the finished block lies: in `work`, or rounded in `out`. */
static const void *block_finish(const accl_arith *a, void *work, void *out, size_t n)
{
    type_row t = types[a->type];
    if (a->op == ACCL_AVG) kernels()->divide[t.acc](work, work, a->ranks, n);
    if (t.narrow < 0) return work;
    kernels()->narrow[t.narrow](out, work, n);
    return out;
}

static void block_store(void *dst, const void *block, size_t bytes, bool stream)
{
    if (stream) kernels()->stream(dst, block, bytes);
    else memcpy(dst, block, bytes);
}

/* Whether a source can be combined as it lies, without a widened or multiplied copy. */
static bool is_plain(const accl_arith *a)
{
    return types[a->type].narrow < 0 && a->op != ACCL_PREMUL;
}

static void block_combine_all(const accl_arith *a, void *work, const void *const *src, size_t src_count, const uint64_t *scale,
                              size_t offset, size_t n)
{
    _Alignas(64) unsigned char other[BLOCK * 8];
    void (*combine)(void *, const void *, const void *, size_t) = kernels()->combine[types[a->type].acc][combine_index(a->op)];
    size_t first = 1;
    if (is_plain(a) && src_count > 1) {
        combine(work, (const char *)src[0] + offset, (const char *)src[1] + offset, n);
        first = 2;
    } else block_begin(a, work, (const char *)src[0] + offset, scale ? scale[0] : 0, n);
    for (size_t i = first; i < src_count; i++) {
        const void *at = (const char *)src[i] + offset;
        if (!is_plain(a)) block_begin(a, other, at, scale ? scale[i] : 0, n);
        combine(work, work, is_plain(a) ? at : other, n);
    }
}

/* Two plain sources into one plain destination need no blocks. */
static bool reduce_straight(const accl_arith *a, void *const *dst, size_t dst_count, const void *const *src, size_t src_count,
                            size_t count, bool stream)
{
    if (!is_plain(a) || a->op == ACCL_AVG || dst_count != 1 || src_count != 2 || stream) return false;
    kernels()->combine[types[a->type].acc][combine_index(a->op)](dst[0], src[0], src[1], count);
    return true;
}

void accl_reduce(const accl_arith *a, void *const *dst, size_t dst_count, const void *const *src, size_t src_count,
                 const uint64_t *scale, size_t count, bool stream)
{
    _Alignas(64) unsigned char work[BLOCK * 8];
    _Alignas(64) unsigned char out[BLOCK * 2];
    size_t bytes = lj_dtype_bytes(a->type);
    assert(src_count > 0 && dst_count > 0);
    if (src_count == 1 && a->op != ACCL_PREMUL && (a->op != ACCL_AVG || a->ranks == 1)) { /* a copy keeps every bit, also of NaNs */
        for (size_t d = 0; d < dst_count; d++)
            if (dst[d] != src[0]) accl_copy(dst[d], src[0], count * bytes, stream);
        return;
    }
    if (reduce_straight(a, dst, dst_count, src, src_count, count, stream)) return;
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK, offset = at * bytes;
        block_combine_all(a, work, src, src_count, scale, offset, n);
        const void *block = block_finish(a, work, out, n);
        for (size_t d = 0; d < dst_count; d++) block_store((char *)dst[d] + offset, block, n * bytes, stream);
    }
    if (stream) stores_fence();
}

uint64_t accl_scale_widen(lj_dtype type, uint64_t scale)
{
    if (types[type].narrow < 0) return scale;
    float wide;
    uint32_t bits;
    kernels()->widen[types[type].narrow](&wide, &scale, 1);
    memcpy(&bits, &wide, 4);
    return bits;
}

void accl_work_begin(const accl_arith *a, void *work, const void *src, uint64_t scale, size_t count)
{
    size_t bytes = lj_dtype_bytes(a->type), wide = accl_work_bytes(a->type);
    for (size_t at = 0; at < count; at += BLOCK)
        block_begin(a, (char *)work + at * wide, (const char *)src + at * bytes, scale, count - at < BLOCK ? count - at : BLOCK);
}

void accl_work_combine(const accl_arith *a, void *dst, const void *left, const void *right, size_t count)
{
    kernels()->combine[types[a->type].acc][combine_index(a->op)](dst, left, right, count);
}

void accl_work_finish(const accl_arith *a, void *dst, const void *work, size_t count, bool stream)
{
    _Alignas(64) unsigned char block[BLOCK * 8];
    _Alignas(64) unsigned char out[BLOCK * 2];
    size_t bytes = lj_dtype_bytes(a->type), wide = accl_work_bytes(a->type);
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        memcpy(block, (const char *)work + at * wide, n * wide);
        block_store((char *)dst + at * bytes, block_finish(a, block, out, n), n * bytes, stream);
    }
    if (stream) stores_fence();
}

void accl_copy(void *dst, const void *src, size_t bytes, bool stream)
{
    if (!stream) {
        memcpy(dst, src, bytes);
        return;
    }
    kernels()->stream(dst, src, bytes);
    stores_fence();
}
