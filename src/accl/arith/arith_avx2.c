/* Reduction kernels for AVX2 with F16C. */
#include "tensor/dtype.h"

#include <immintrin.h>

static void widen_f16(float *dst, const void *src, size_t n)
{
    const char *s = src;
    for (; n >= 8; n -= 8, s += 16, dst += 8) _mm256_storeu_ps(dst, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)s)));
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, s + 2 * i, 2);
        dst[i] = _cvtsh_ss(bits);
    }
}

static void narrow_f16(void *dst, const float *src, size_t n)
{
    char *d = dst;
    for (; n >= 8; n -= 8, d += 16, src += 8)
        _mm_storeu_si128((__m128i *)(void *)d, _mm256_cvtps_ph(_mm256_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT));
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = (uint16_t)_cvtss_sh(src[i], _MM_FROUND_TO_NEAREST_INT);
        memcpy(d + 2 * i, &bits, 2);
    }
}

static void stream_copy(void *dst, const void *src, size_t bytes)
{
    size_t head = (size_t)(-(uintptr_t)dst & 31);
    if (head > bytes) head = bytes;
    memcpy(dst, src, head);
    char *d = (char *)dst + head;
    const char *s = (const char *)src + head;
    for (bytes -= head; bytes >= 32; bytes -= 32, d += 32, s += 32)
        _mm256_stream_si256((__m256i *)(void *)d, _mm256_loadu_si256((const __m256i *)(const void *)s));
    memcpy(d, s, bytes);
}

#define ACCL_TABLE accl_kernels_avx2
#include "accl/arith/arith_body.h"
