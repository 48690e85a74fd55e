/* Reduction kernels of the baseline: SSE2 on x86-64, plain C elsewhere. */
#include "tensor/dtype.h"

#include <stddef.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static void widen_f16(float *dst, const void *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)src + 2 * i, 2);
        dst[i] = lj_fp16_to_float(bits);
    }
}

static void narrow_f16(void *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = lj_fp16_from_float(src[i]);
        memcpy((char *)dst + 2 * i, &bits, 2);
    }
}

static void stream_copy(void *dst, const void *src, size_t bytes)
{
#if defined(__SSE2__)
    size_t head = (size_t)(-(uintptr_t)dst & 15);
    if (head > bytes) head = bytes;
    memcpy(dst, src, head);
    char *d = (char *)dst + head;
    const char *s = (const char *)src + head;
    for (bytes -= head; bytes >= 16; bytes -= 16, d += 16, s += 16)
        _mm_stream_si128((__m128i *)(void *)d, _mm_loadu_si128((const __m128i *)(const void *)s));
    memcpy(d, s, bytes);
#else
    memcpy(dst, src, bytes);
#endif
}

#define ACCL_TABLE accl_kernels_generic
#include "accl/arith/arith_body.h"
