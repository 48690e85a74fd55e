/* Reduction kernels for AVX-512 (F, BW, VL, DQ). */
#include "tensor/dtype.h"

#include <immintrin.h>

static void widen_f16(float *dst, const void *src, size_t n)
{
    const char *s = src;
    for (; n >= 16; n -= 16, s += 32, dst += 16) _mm512_storeu_ps(dst, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)s)));
    __mmask16 rest = (__mmask16)((1u << n) - 1);
    if (n) _mm512_mask_storeu_ps(dst, rest, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(rest, s)));
}

static void narrow_f16(void *dst, const float *src, size_t n)
{
    char *d = dst;
    for (; n >= 16; n -= 16, d += 32, src += 16)
        _mm256_storeu_si256((__m256i *)(void *)d, _mm512_cvtps_ph(_mm512_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT));
    __mmask16 rest = (__mmask16)((1u << n) - 1);
    if (n) _mm256_mask_storeu_epi16(d, rest, _mm512_cvtps_ph(_mm512_maskz_loadu_ps(rest, src), _MM_FROUND_TO_NEAREST_INT));
}

static void stream_copy(void *dst, const void *src, size_t bytes)
{
    size_t head = (size_t)(-(uintptr_t)dst & 63);
    if (head > bytes) head = bytes;
    memcpy(dst, src, head);
    char *d = (char *)dst + head;
    const char *s = (const char *)src + head;
    for (bytes -= head; bytes >= 64; bytes -= 64, d += 64, s += 64) _mm512_stream_si512((__m512i *)(void *)d, _mm512_loadu_si512(s));
    memcpy(d, s, bytes);
}

#define ACCL_TABLE accl_kernels_avx512
#include "accl/arith/arith_body.h"
