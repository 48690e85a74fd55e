/* Block decoders to bf16 with AVX-512, the load path of quantised models. A group of 4- or 5-bit numbers has at most 32 different values:
 * they are computed once, rounded to bf16, and looked up (vpermw); the same bits as decoding to floats and rounding. */
#include "formats/dequant_blocks.h"
#include "tensor/convert.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE float half_at(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, 2);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

/* Sixteen floats to bf16, nearest even, NaN quiet: lj_bf16_from_float. */
ALWAYS_INLINE __m256i to_bf16(__m512 values)
{
    __m512i bits = _mm512_castps_si512(values), top = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, top, _mm512_set1_epi32(0x40)));
}

/* Whole numbers from `first` on as floats. */
ALWAYS_INLINE __m512 ramp(int first)
{
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_cvtepi32_ps(_mm512_add_epi32(steps, _mm512_set1_epi32(first)));
}

/* scale x (first + i), and scale x (first + i) + offset, for the 16 values of a nibble. */
ALWAYS_INLINE __m512i table16_scaled(float scale, int first)
{
    return _mm512_castsi256_si512(to_bf16(_mm512_mul_ps(_mm512_set1_ps(scale), ramp(first))));
}

ALWAYS_INLINE __m256i half_table(float scale, float offset, int first)
{
    return to_bf16(_mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(scale), ramp(first)), _mm512_set1_ps(offset)));
}

ALWAYS_INLINE __m512i join(__m256i low, __m256i high)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* 32 indices as bytes -> 32 table entries stored. */
ALWAYS_INLINE void put_looked_up(uint16_t *out, __m256i indices, __m512i table)
{
    _mm512_storeu_si512(out, _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(indices), table));
}

ALWAYS_INLINE __m256i load32(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* 16 bytes: low nibbles, then high ones. */
ALWAYS_INLINE __m256i nibbles(const uint8_t *at)
{
    __m128i both = _mm_loadu_si128((const __m128i *)(const void *)at), mask = _mm_set1_epi8(15);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_and_si128(both, mask)), _mm_and_si128(_mm_srli_epi16(both, 4), mask), 1);
}

/* Adds 16 to the bytes whose bit is set. */
ALWAYS_INLINE __m256i add_fifth(__m256i low, const uint8_t *bits_at)
{
    uint32_t bits;
    memcpy(&bits, bits_at, 4);
    return _mm256_mask_add_epi8(low, bits, low, _mm256_set1_epi8(16));
}

static void decode_q4_0(void *to, const uint8_t *block, size_t count)
{
    uint16_t *out = to;
    for (; count--; block += 18, out += 32) put_looked_up(out, nibbles(block + 2), table16_scaled(half_at(block), -8));
}

static void decode_q4_1(void *to, const uint8_t *block, size_t count)
{
    uint16_t *out = to;
    for (; count--; block += 20, out += 32)
        put_looked_up(out, nibbles(block + 4), _mm512_castsi256_si512(half_table(half_at(block), half_at(block + 2), 0)));
}

static void decode_q5_0(void *to, const uint8_t *block, size_t count)
{
    uint16_t *out = to;
    for (; count--; block += 22, out += 32) {
        __m512 d = _mm512_set1_ps(half_at(block));
        __m512i table = join(to_bf16(_mm512_mul_ps(d, ramp(-16))), to_bf16(_mm512_mul_ps(d, ramp(0))));
        put_looked_up(out, add_fifth(nibbles(block + 6), block + 2), table);
    }
}

static void decode_q5_1(void *to, const uint8_t *block, size_t count)
{
    uint16_t *out = to;
    for (; count--; block += 24, out += 32) {
        float d = half_at(block), m = half_at(block + 2);
        put_looked_up(out, add_fifth(nibbles(block + 8), block + 4), join(half_table(d, m, 0), half_table(d, m, 16)));
    }
}

/* Sixteen signed bytes x scale, as bf16. */
ALWAYS_INLINE __m256i scaled16(__m128i q, float scale)
{
    return to_bf16(_mm512_mul_ps(_mm512_set1_ps(scale), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q))));
}

static void decode_q8_0(void *to, const uint8_t *block, size_t count)
{
    uint16_t *out = to;
    for (; count--; block += 34, out += 32) {
        float d = half_at(block);
        __m256i q = load32(block + 2);
        _mm512_storeu_si512(out, join(scaled16(_mm256_castsi256_si128(q), d), scaled16(_mm256_extracti128_si256(q, 1), d)));
    }
}

/* The eight 6-bit scales and minima of a K block (see dequant_plain.c). */
ALWAYS_INLINE void k_scales(const uint8_t *packed, uint8_t scales[8], uint8_t minima[8])
{
    for (int j = 0; j < 4; j++) {
        scales[j] = packed[j] & 63, minima[j] = packed[j + 4] & 63;
        scales[j + 4] = (uint8_t)((packed[j + 8] & 15) | (packed[j] >> 2 & 48));
        minima[j + 4] = (uint8_t)((packed[j + 8] >> 4) | (packed[j + 4] >> 2 & 48));
    }
}

ALWAYS_INLINE __m256i nibbles32(const uint8_t *at, int group)
{
    __m256i both = load32(at);
    return _mm256_and_si256(group & 1 ? _mm256_srli_epi16(both, 4) : both, _mm256_set1_epi8(15));
}

static void decode_q4_k(void *to, const uint8_t *block, size_t count)
{
    uint16_t *out = to;
    for (; count--; block += 144, out += 256) {
        float d = half_at(block), dmin = half_at(block + 2);
        uint8_t scales[8], minima[8];
        k_scales(block + 4, scales, minima);
        for (int j = 0; j < 8; j++) {
            __m256i table = half_table(d * (float)scales[j], -(dmin * (float)minima[j]), 0);
            put_looked_up(out + 32 * j, nibbles32(block + 16 + 32 * (j / 2), j), _mm512_castsi256_si512(table));
        }
    }
}

static void decode_q5_k(void *to, const uint8_t *block, size_t count)
{
    uint16_t *out = to;
    for (; count--; block += 176, out += 256) {
        float d = half_at(block), dmin = half_at(block + 2);
        uint8_t scales[8], minima[8];
        __m256i high = load32(block + 16);
        k_scales(block + 4, scales, minima);
        for (int j = 0; j < 8; j++) {
            float scale = d * (float)scales[j], offset = -(dmin * (float)minima[j]);
            __m256i low = nibbles32(block + 48 + 32 * (j / 2), j);
            __mmask32 fifth = _mm256_test_epi8_mask(high, _mm256_set1_epi8((char)(1 << j)));
            put_looked_up(out + 32 * j, _mm256_mask_add_epi8(low, fifth, low, _mm256_set1_epi8(16)),
                          join(half_table(scale, offset, 0), half_table(scale, offset, 16)));
        }
    }
}

static void decode_q6_k(void *to, const uint8_t *block, size_t count)
{
    uint16_t *out = to;
    for (; count--; block += 210, out += 256) {
        float d = half_at(block + 208);
        for (int run = 0; run < 8; run++) {
            int half = run / 4, pair = run % 4;
            const int8_t *scales = (const int8_t *)block + 192 + 2 * run;
            __m256i top = _mm256_and_si256(_mm256_srl_epi16(load32(block + 128 + 32 * half), _mm_cvtsi32_si128(2 * pair)), _mm256_set1_epi8(3));
            __m256i q = _mm256_or_si256(nibbles32(block + 64 * half + 32 * (pair & 1), pair / 2), _mm256_slli_epi16(top, 4));
            q = _mm256_sub_epi8(q, _mm256_set1_epi8(32));
            _mm512_storeu_si512(out + 32 * run, join(scaled16(_mm256_castsi256_si128(q), d * (float)scales[0]),
                                                     scaled16(_mm256_extracti128_si256(q, 1), d * (float)scales[1])));
        }
    }
}

const lj_decode_fn lj_decode_bf16_avx512[LJ_BLOCK_DECODERS] = {
    [LJ_Q4_0] = decode_q4_0, [LJ_Q4_1] = decode_q4_1, [LJ_Q5_0] = decode_q5_0, [LJ_Q5_1] = decode_q5_1,
    [LJ_Q8_0] = decode_q8_0, [LJ_Q4_K] = decode_q4_k, [LJ_Q5_K] = decode_q5_k, [LJ_Q6_K] = decode_q6_k,
};
