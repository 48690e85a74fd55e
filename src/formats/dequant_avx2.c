/* Block decoders with AVX2: the same products and sums as dequant_plain.c, eight at a time, so the same bits. Each is written once over
 * an `output` that is known at compile time: floats, or bf16 rounded in the register (loading is bound by memory, so the floats
 * should never be stored). */
#include "formats/dequant_blocks.h"
#include "tensor/convert.h"

#include <immintrin.h>

typedef enum { TO_F32, TO_BF16 } output;

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Nearest even by integers, as lj_bf16_from_float: the low half of each 32 bits; a NaN becomes quiet. */
ALWAYS_INLINE __m256i bf16_words(__m256 values)
{
    __m256i bits = _mm256_castps_si256(values);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
    __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q)));
}

/* Elements [at, at + 16) of the output. */
ALWAYS_INLINE void put16(output to, void *out, size_t at, __m256 first, __m256 second)
{
    if (to == TO_F32) {
        _mm256_storeu_ps((float *)out + at, first);
        _mm256_storeu_ps((float *)out + at + 8, second);
        return;
    }
    __m256i packed = _mm256_packus_epi32(bf16_words(first), bf16_words(second)); /* packs within 128-bit lanes */
    _mm256_storeu_si256((__m256i *)(void *)((uint16_t *)out + at), _mm256_permute4x64_epi64(packed, 0xd8));
}

static inline float half_at(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, 2);
    return lj_half_to_float(bits);
}

/* Eight signed bytes as floats. */
static inline __m256 bytes_to_floats(__m128i bytes)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

ALWAYS_INLINE void put_scaled16(output to, void *out, size_t at, __m128i q, __m256 scale)
{
    put16(to, out, at, _mm256_mul_ps(scale, bytes_to_floats(q)), _mm256_mul_ps(scale, bytes_to_floats(_mm_srli_si128(q, 8))));
}

ALWAYS_INLINE void put_scaled32(output to, void *out, size_t at, __m256i q, float scale)
{
    __m256 s = _mm256_set1_ps(scale);
    put_scaled16(to, out, at, _mm256_castsi256_si128(q), s);
    put_scaled16(to, out, at + 16, _mm256_extracti128_si256(q, 1), s);
}

ALWAYS_INLINE void put_shifted32(output to, void *out, size_t at, __m256i q, float scale, float offset)
{
    __m256 s = _mm256_set1_ps(scale), o = _mm256_set1_ps(offset);
    __m128i halves[2] = {_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1)};
    for (size_t i = 0; i < 2; i++)
        put16(to, out, at + 16 * i, _mm256_add_ps(_mm256_mul_ps(s, bytes_to_floats(halves[i])), o),
              _mm256_add_ps(_mm256_mul_ps(s, bytes_to_floats(_mm_srli_si128(halves[i], 8))), o));
}

/* 16 bytes: low nibbles, then high ones. */
static inline __m256i nibbles(const uint8_t *at)
{
    __m128i both = _mm_loadu_si128((const __m128i *)(const void *)at), mask = _mm_set1_epi8(15);
    return _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(both, 4), mask), _mm_and_si128(both, mask));
}

/* 32 bits as 16 or 0 in 32 bytes. */
static inline __m256i fifth_bits(const uint8_t *at)
{
    int32_t bits;
    memcpy(&bits, at, 4);
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), which), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), _mm256_set1_epi8(16));
}

ALWAYS_INLINE void decode_q4_0(output to, void *out, const uint8_t *block, size_t count)
{
    size_t at = 0;
    for (; count--; block += 18, at += 32) put_scaled32(to, out, at, _mm256_sub_epi8(nibbles(block + 2), _mm256_set1_epi8(8)), half_at(block));
}

ALWAYS_INLINE void decode_q4_1(output to, void *out, const uint8_t *block, size_t count)
{
    size_t at = 0;
    for (; count--; block += 20, at += 32) put_shifted32(to, out, at, nibbles(block + 4), half_at(block), half_at(block + 2));
}

ALWAYS_INLINE void decode_q5_0(output to, void *out, const uint8_t *block, size_t count)
{
    size_t at = 0;
    for (; count--; block += 22, at += 32) {
        __m256i q = _mm256_or_si256(nibbles(block + 6), fifth_bits(block + 2));
        put_scaled32(to, out, at, _mm256_sub_epi8(q, _mm256_set1_epi8(16)), half_at(block));
    }
}

ALWAYS_INLINE void decode_q5_1(output to, void *out, const uint8_t *block, size_t count)
{
    size_t at = 0;
    for (; count--; block += 24, at += 32) {
        __m256i q = _mm256_or_si256(nibbles(block + 8), fifth_bits(block + 4));
        put_shifted32(to, out, at, q, half_at(block), half_at(block + 2));
    }
}

ALWAYS_INLINE void decode_q8_0(output to, void *out, const uint8_t *block, size_t count)
{
    size_t at = 0;
    for (; count--; block += 34, at += 32) put_scaled32(to, out, at, _mm256_loadu_si256((const __m256i *)(const void *)(block + 2)), half_at(block));
}

/* The eight 6-bit scales and minima of a K block (see dequant_plain.c), as bytes. */
static inline void k_scales(const uint8_t *packed, uint8_t scales[8], uint8_t minima[8])
{
    for (int j = 0; j < 4; j++) {
        scales[j] = packed[j] & 63, minima[j] = packed[j + 4] & 63;
        scales[j + 4] = (uint8_t)((packed[j + 8] & 15) | (packed[j] >> 2 & 48));
        minima[j + 4] = (uint8_t)((packed[j + 8] >> 4) | (packed[j + 4] >> 2 & 48));
    }
}

static inline __m256i nibbles32(const uint8_t *at, int group)
{
    __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)at);
    return _mm256_and_si256(group & 1 ? _mm256_srli_epi16(both, 4) : both, _mm256_set1_epi8(15));
}

ALWAYS_INLINE void decode_q4_k(output to, void *out, const uint8_t *block, size_t count)
{
    size_t at = 0;
    for (; count--; block += 144, at += 256) {
        float d = half_at(block), dmin = half_at(block + 2);
        uint8_t scales[8], minima[8];
        k_scales(block + 4, scales, minima);
        for (int j = 0; j < 8; j++)
            put_shifted32(to, out, at + 32 * (size_t)j, nibbles32(block + 16 + 32 * (j / 2), j), d * (float)scales[j], -(dmin * (float)minima[j]));
    }
}

ALWAYS_INLINE void decode_q5_k(output to, void *out, const uint8_t *block, size_t count)
{
    size_t at = 0;
    for (; count--; block += 176, at += 256) {
        float d = half_at(block), dmin = half_at(block + 2);
        uint8_t scales[8], minima[8];
        __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(block + 16));
        k_scales(block + 4, scales, minima);
        for (int j = 0; j < 8; j++) {
            __m256i fifth = _mm256_slli_epi16(_mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi32_si128(j)), _mm256_set1_epi8(1)), 4);
            __m256i q = _mm256_or_si256(nibbles32(block + 48 + 32 * (j / 2), j), fifth);
            put_shifted32(to, out, at + 32 * (size_t)j, q, d * (float)scales[j], -(dmin * (float)minima[j]));
        }
    }
}

ALWAYS_INLINE void decode_q6_k(output to, void *out, const uint8_t *block, size_t count)
{
    size_t at = 0;
    for (; count--; block += 210, at += 256) {
        float d = half_at(block + 208);
        for (int run = 0; run < 8; run++) {
            int half = run / 4, pair = run % 4;
            const int8_t *scales = (const int8_t *)block + 192 + 2 * run;
            __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(block + 128 + 32 * half));
            __m256i top = _mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi32_si128(2 * pair)), _mm256_set1_epi8(3));
            __m256i q = _mm256_or_si256(nibbles32(block + 64 * half + 32 * (pair & 1), pair / 2), _mm256_slli_epi16(top, 4));
            q = _mm256_sub_epi8(q, _mm256_set1_epi8(32));
            put_scaled16(to, out, at + 32 * (size_t)run, _mm256_castsi256_si128(q), _mm256_set1_ps(d * (float)scales[0]));
            put_scaled16(to, out, at + 32 * (size_t)run + 16, _mm256_extracti128_si256(q, 1), _mm256_set1_ps(d * (float)scales[1]));
        }
    }
}

#define DECODERS(name)                                                                                                           \
    static void name##_f32(void *out, const uint8_t *blocks, size_t count) { decode_##name(TO_F32, out, blocks, count); }        \
    static void name##_bf16(void *out, const uint8_t *blocks, size_t count) { decode_##name(TO_BF16, out, blocks, count); }
DECODERS(q4_0)
DECODERS(q4_1)
DECODERS(q5_0)
DECODERS(q5_1)
DECODERS(q8_0)
DECODERS(q4_k)
DECODERS(q5_k)
DECODERS(q6_k)

const lj_decode_fn lj_decode_avx2[LJ_BLOCK_DECODERS] = {
    [LJ_Q4_0] = q4_0_f32, [LJ_Q4_1] = q4_1_f32, [LJ_Q5_0] = q5_0_f32, [LJ_Q5_1] = q5_1_f32,
    [LJ_Q8_0] = q8_0_f32, [LJ_Q4_K] = q4_k_f32, [LJ_Q5_K] = q5_k_f32, [LJ_Q6_K] = q6_k_f32,
};

const lj_decode_fn lj_decode_bf16_avx2[LJ_BLOCK_DECODERS] = {
    [LJ_Q4_0] = q4_0_bf16, [LJ_Q4_1] = q4_1_bf16, [LJ_Q5_0] = q5_0_bf16, [LJ_Q5_1] = q5_1_bf16,
    [LJ_Q8_0] = q8_0_bf16, [LJ_Q4_K] = q4_k_bf16, [LJ_Q5_K] = q5_k_bf16, [LJ_Q6_K] = q6_k_bf16,
};
