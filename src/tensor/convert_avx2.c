/* Sixteen-bit conversions with AVX2 and F16C; the tails go through the plain loops. */
#include "tensor/convert_loops.h"

#include <immintrin.h>

static inline __m128i load8_16(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline __m256 bf16_to_floats(const uint8_t *from)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load8_16(from)), 16));
}

/* Nearest even by integers; a NaN keeps its top bits and becomes quiet: lj_bf16_from_float, eight at a time. */
static inline void store_bf16(uint16_t *to, __m256 values)
{
    __m256i bits = _mm256_castps_si256(values);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    __m256i words = _mm256_blendv_epi8(rounded, quiet, nan);
    __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)(void *)to, packed);
}

static inline void store_f16(uint16_t *to, __m256 values)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

static void f32_bf16(void *to, const uint8_t *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) store_bf16((uint16_t *)to + i, _mm256_loadu_ps((const float *)(const void *)(from + 4 * i)));
    lj_convert_plain[LJ_F32_BF16]((uint16_t *)to + i, from + 4 * i, count - i);
}

static void f32_f16(void *to, const uint8_t *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) store_f16((uint16_t *)to + i, _mm256_loadu_ps((const float *)(const void *)(from + 4 * i)));
    lj_convert_plain[LJ_F32_F16]((uint16_t *)to + i, from + 4 * i, count - i);
}

static void bf16_f32(void *to, const uint8_t *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps((float *)to + i, bf16_to_floats(from + 2 * i));
    lj_convert_plain[LJ_BF16_F32]((float *)to + i, from + 2 * i, count - i);
}

static void bf16_f16(void *to, const uint8_t *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) store_f16((uint16_t *)to + i, bf16_to_floats(from + 2 * i));
    lj_convert_plain[LJ_BF16_F16]((uint16_t *)to + i, from + 2 * i, count - i);
}

static void f16_f32(void *to, const uint8_t *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps((float *)to + i, _mm256_cvtph_ps(load8_16(from + 2 * i)));
    lj_convert_plain[LJ_F16_F32]((float *)to + i, from + 2 * i, count - i);
}

static void f16_bf16(void *to, const uint8_t *from, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) store_bf16((uint16_t *)to + i, _mm256_cvtph_ps(load8_16(from + 2 * i)));
    lj_convert_plain[LJ_F16_BF16]((uint16_t *)to + i, from + 2 * i, count - i);
}

const lj_convert_fn lj_convert_avx2[LJ_CONVERT_PAIRS] = {
    [LJ_F32_BF16] = f32_bf16, [LJ_F32_F16] = f32_f16, [LJ_BF16_F32] = bf16_f32,
    [LJ_BF16_F16] = bf16_f16, [LJ_F16_F32] = f16_f32, [LJ_F16_BF16] = f16_bf16,
};
