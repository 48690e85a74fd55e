/* The few vector operations that kernels are written in, for the instruction set that the including file is compiled for
 * (AVX-512, AVX2 with FMA, or GCC's portable 16-byte vectors). Include from files named by instruction set only. */
#ifndef LJ_KERNELS_VEC_H
#define LJ_KERNELS_VEC_H

#include "tensor/dtype.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LJ_INLINE static inline __attribute__((always_inline))
#define LJ_UNROLL _Pragma("GCC unroll 16")

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>

typedef __m512 vec;
enum { VL = 16 };

LJ_INLINE __mmask16 vec_tail(int n)
{
    return (__mmask16)((1u << n) - 1);
}
LJ_INLINE vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}
LJ_INLINE vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
LJ_INLINE void vec_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}
LJ_INLINE vec vec_load_part(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(vec_tail(n), p);
}
LJ_INLINE void vec_store_part(float *p, vec x, int n)
{
    _mm512_mask_storeu_ps(p, vec_tail(n), x);
}
LJ_INLINE vec vec_from_bits(__m256i bits)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
LJ_INLINE vec vec_load_bf16(const uint16_t *p)
{
    return vec_from_bits(_mm256_loadu_si256((const __m256i *)p));
}
LJ_INLINE vec vec_load_bf16_part(const uint16_t *p, int n)
{
    return vec_from_bits(_mm256_maskz_loadu_epi16(vec_tail(n), p));
}
/* Nearest even; NaN stays a quiet NaN. Same bits as lj_bf16_from_float, but for denormals, which the bf16 instructions flush. */
LJ_INLINE __m256i vec_to_bits(vec x)
{
#if defined(__AVX512BF16__)
    return (__m256i)_mm512_cvtneps_pbh(x);
#else
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet));
#endif
}
LJ_INLINE void vec_store_bf16(uint16_t *p, vec x)
{
    _mm256_storeu_si256((__m256i *)p, vec_to_bits(x));
}
LJ_INLINE void vec_store_bf16_part(uint16_t *p, vec x, int n)
{
    _mm256_mask_storeu_epi16(p, vec_tail(n), vec_to_bits(x));
}
LJ_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
LJ_INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
/* Whole powers: x * 2^n for whole n, with overflow and underflow right. */
LJ_INLINE vec vec_round(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
LJ_INLINE vec vec_scale2(vec x, vec n)
{
    return _mm512_scalef_ps(x, n);
}
/* x where low <= at < high in that lane, else `other`. */
LJ_INLINE vec vec_where(vec x, vec other, int32_t at, const int32_t *low, const int32_t *high)
{
    __m512i a = _mm512_set1_epi32(at);
    __mmask16 in = _mm512_cmple_epi32_mask(_mm512_loadu_si512(low), a) & _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(high), a);
    return _mm512_mask_mov_ps(other, in, x);
}
LJ_INLINE float vec_sum(vec x)
{
    return _mm512_reduce_add_ps(x);
}
LJ_INLINE vec vec_sqrt(vec x)
{
    return _mm512_sqrt_ps(x);
}
/* Rows become columns, in place. */
LJ_INLINE void vec_transpose(vec r[16])
{
    vec t[16];
    LJ_UNROLL for (int i = 0; i < 16; i += 2) t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    LJ_UNROLL for (int i = 0; i < 16; i += 4) LJ_UNROLL for (int j = 0; j < 2; j++) {
            __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
            r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    LJ_UNROLL for (int i = 0; i < 4; i++)
    {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88), t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88), t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    LJ_UNROLL for (int i = 0; i < 8; i++)
    {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88), r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}
/* bf16 pairs as 32-bit lanes: element i of two rows (the second may be NULL: zeros), and up to 32 neighbours of one row; `n` counts lanes and
 * elements. */
LJ_INLINE vec vec_pairs_of_rows(const uint16_t *even, const uint16_t *odd, int n)
{
    __mmask16 some = vec_tail(n);
    __m512i a = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, even));
    if (!odd) return _mm512_castsi512_ps(a);
    __m512i b = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, odd));
    return _mm512_castsi512_ps(_mm512_or_si512(a, _mm512_slli_epi32(b, 16)));
}
LJ_INLINE vec vec_pairs_of_row(const uint16_t *p, int64_t n)
{
    if (n >= 32) return _mm512_castsi512_ps(_mm512_loadu_si512(p));
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), p));
}
/* f32 from its rounded upper half and its low half; and the two halves (nearest, ties away from zero): see adamw.h. */
LJ_INLINE vec vec_join(const uint16_t *weight, const uint16_t *low)
{
    __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)weight)), 16);
    return _mm512_castsi512_ps(_mm512_add_epi32(high, _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)low))));
}
LJ_INLINE void vec_store_high(uint16_t *weight, vec x)
{
    __m512i bits = _mm512_castps_si512(x), rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x8000)), 16);
    __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    __m512i chosen = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
    _mm256_storeu_si256((__m256i *)weight, _mm512_cvtepi32_epi16(chosen));
}
LJ_INLINE void vec_store_low(uint16_t *low, vec x)
{
    _mm256_storeu_si256((__m256i *)low, _mm512_cvtepi32_epi16(_mm512_castps_si512(x)));
}

#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

typedef __m256 vec;
enum { VL = 8 };

LJ_INLINE __m256i vec_tail(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
LJ_INLINE vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}
LJ_INLINE vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
LJ_INLINE void vec_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}
LJ_INLINE vec vec_load_part(const float *p, int n)
{
    return _mm256_maskload_ps(p, vec_tail(n));
}
LJ_INLINE void vec_store_part(float *p, vec x, int n)
{
    _mm256_maskstore_ps(p, vec_tail(n), x);
}
LJ_INLINE vec vec_load_bf16(const uint16_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
LJ_INLINE vec vec_load_bf16_part(const uint16_t *p, int n)
{
    uint16_t whole[8] = {0};
    memcpy(whole, p, (size_t)n * 2);
    return vec_load_bf16(whole);
}
LJ_INLINE __m128i vec_to_bits(vec x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i chosen = _mm256_blendv_epi8(rounded, quiet, nan);
    __m256i packed = _mm256_packus_epi32(chosen, chosen);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
LJ_INLINE void vec_store_bf16(uint16_t *p, vec x)
{
    _mm_storeu_si128((__m128i *)p, vec_to_bits(x));
}
LJ_INLINE void vec_store_bf16_part(uint16_t *p, vec x, int n)
{
    uint16_t whole[8];
    vec_store_bf16(whole, x);
    memcpy(p, whole, (size_t)n * 2);
}
LJ_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
LJ_INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
LJ_INLINE vec vec_round(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* In two steps, so that a result below the normal range is reached too. */
LJ_INLINE vec vec_scale2(vec x, vec n)
{
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), rest = _mm256_sub_epi32(whole, half);
    __m256i bias = _mm256_set1_epi32(127);
    vec first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vec second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(x, first), second);
}
LJ_INLINE vec vec_where(vec x, vec other, int32_t at, const int32_t *low, const int32_t *high)
{
    __m256i a = _mm256_set1_epi32(at), l = _mm256_loadu_si256((const __m256i *)low), h = _mm256_loadu_si256((const __m256i *)high);
    __m256i in = _mm256_andnot_si256(_mm256_cmpgt_epi32(l, a), _mm256_cmpgt_epi32(h, a));
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(in));
}
LJ_INLINE float vec_sum(vec x)
{
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
}
LJ_INLINE vec vec_sqrt(vec x)
{
    return _mm256_sqrt_ps(x);
}
LJ_INLINE void vec_transpose(vec r[8])
{
    vec t[8];
    LJ_UNROLL for (int i = 0; i < 8; i += 2) t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    LJ_UNROLL for (int i = 0; i < 8; i += 4) LJ_UNROLL for (int j = 0; j < 2; j++) {
            __m256d a = _mm256_castps_pd(t[i + j]), b = _mm256_castps_pd(t[i + j + 2]);
            r[i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), r[i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
        }
    LJ_UNROLL for (int i = 0; i < 4; i++) t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20), t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    LJ_UNROLL for (int i = 0; i < 8; i++) r[i] = t[i];
}
LJ_INLINE vec vec_join(const uint16_t *weight, const uint16_t *low)
{
    __m256i high = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)weight)), 16);
    return _mm256_castsi256_ps(_mm256_add_epi32(high, _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)low))));
}
/* The low halves of eight 32-bit lanes. */
LJ_INLINE __m128i vec_low_halves(__m256i lanes)
{
    __m256i masked = _mm256_and_si256(lanes, _mm256_set1_epi32(0xffff));
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(masked, masked), 0x08));
}
LJ_INLINE void vec_store_high(uint16_t *weight, vec x)
{
    __m256i bits = _mm256_castps_si256(x), rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x8000)), 16);
    __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm_storeu_si128((__m128i *)weight, vec_low_halves(_mm256_blendv_epi8(rounded, quiet, nan)));
}
LJ_INLINE void vec_store_low(uint16_t *low, vec x)
{
    _mm_storeu_si128((__m128i *)low, vec_low_halves(_mm256_castps_si256(x)));
}

#else

typedef float vec __attribute__((vector_size(16)));
typedef int32_t vec_int __attribute__((vector_size(16)));
enum { VL = 4 };

LJ_INLINE vec vec_set(float x)
{
    return (vec){x, x, x, x};
}
LJ_INLINE vec vec_load(const float *p)
{
    vec x;
    memcpy(&x, p, sizeof x);
    return x;
}
LJ_INLINE void vec_store(float *p, vec x)
{
    memcpy(p, &x, sizeof x);
}
LJ_INLINE vec vec_load_part(const float *p, int n)
{
    vec x = {0, 0, 0, 0};
    memcpy(&x, p, (size_t)n * 4);
    return x;
}
LJ_INLINE void vec_store_part(float *p, vec x, int n)
{
    memcpy(p, &x, (size_t)n * 4);
}
LJ_INLINE vec vec_load_bf16_part(const uint16_t *p, int n)
{
    vec x = {0, 0, 0, 0};
    for (int i = 0; i < n; i++) x[i] = lj_bf16_to_float(p[i]);
    return x;
}
LJ_INLINE vec vec_load_bf16(const uint16_t *p)
{
    return (vec){lj_bf16_to_float(p[0]), lj_bf16_to_float(p[1]), lj_bf16_to_float(p[2]), lj_bf16_to_float(p[3])};
}
LJ_INLINE void vec_store_bf16_part(uint16_t *p, vec x, int n)
{
    for (int i = 0; i < n; i++) p[i] = lj_bf16_from_float(x[i]);
}
LJ_INLINE void vec_store_bf16(uint16_t *p, vec x)
{
    vec_store_bf16_part(p, x, 4);
}
LJ_INLINE vec vec_fma(vec a, vec b, vec c)
{
    return a * b + c;
}
LJ_INLINE vec vec_max(vec a, vec b)
{
    vec_int take = a > b; /* b when either is NaN, as the x86 instruction does */
    return (vec)(((vec_int)a & take) | ((vec_int)b & ~take));
}
LJ_INLINE vec vec_round(vec x)
{
    vec shift = vec_set(12582912.0f); /* 1.5 * 2^23: |x| < 2^22 here */
    return (x + shift) - shift;
}
LJ_INLINE vec vec_scale2(vec x, vec n)
{
    vec_int whole = __builtin_convertvector(n, vec_int), half = whole >> 1, rest = whole - half;
    return x * (vec)((half + 127) << 23) * (vec)((rest + 127) << 23);
}
LJ_INLINE vec vec_where(vec x, vec other, int32_t at, const int32_t *low, const int32_t *high)
{
    vec_int l, h, a = {at, at, at, at};
    memcpy(&l, low, sizeof l), memcpy(&h, high, sizeof h);
    vec_int in = (l <= a) & (h > a);
    return (vec)(((vec_int)x & in) | ((vec_int)other & ~in));
}
LJ_INLINE float vec_sum(vec x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}
LJ_INLINE void vec_transpose(vec r[4])
{
    vec t[4];
    for (int i = 0; i < 4; i++) t[i] = (vec){r[0][i], r[1][i], r[2][i], r[3][i]};
    for (int i = 0; i < 4; i++) r[i] = t[i];
}
LJ_INLINE vec vec_sqrt(vec x)
{
    return (vec){sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3])};
}
LJ_INLINE vec vec_join(const uint16_t *weight, const uint16_t *low)
{
    vec_int high = {weight[0], weight[1], weight[2], weight[3]};
    return (vec)((high << 16) + (vec_int){(int16_t)low[0], (int16_t)low[1], (int16_t)low[2], (int16_t)low[3]});
}
LJ_INLINE void vec_store_high(uint16_t *weight, vec x)
{
    for (int i = 0; i < 4; i++) {
        uint32_t bits = (uint32_t)((vec_int)x)[i];
        weight[i] = (uint16_t)(x[i] != x[i] ? (bits >> 16 | 0x40) : (bits + 0x8000) >> 16);
    }
}
LJ_INLINE void vec_store_low(uint16_t *low, vec x)
{
    for (int i = 0; i < 4; i++) low[i] = (uint16_t)((vec_int)x)[i];
}
#endif

/* 2^x: minimax polynomial of degree 6 on [-1/2, 1/2] (relative error below 2e-7), exact zero below -150, infinity above 128; NaN
 * stays NaN. */
LJ_INLINE vec vec_exp2(vec x)
{
    x = vec_max(vec_set(-151.0f), x); /* this order keeps a NaN in x */
    x = -vec_max(vec_set(-129.0f), -x);
    vec n = vec_round(x), f = x - n;
    vec p = vec_set(1.5403530393381609954e-4f);
    p = vec_fma(p, f, vec_set(1.3333558146428443423e-3f));
    p = vec_fma(p, f, vec_set(9.6181291076284771619e-3f));
    p = vec_fma(p, f, vec_set(5.5504108664821579953e-2f));
    p = vec_fma(p, f, vec_set(2.4022650695910071233e-1f));
    p = vec_fma(p, f, vec_set(6.9314718055994530942e-1f));
    p = vec_fma(p, f, vec_set(1.0f));
    return vec_scale2(p, n);
}

#define LJ_LOG2E 1.4426950408889634f
#define LJ_LN2 0.6931471805599453f

#endif
