#include "kernels/peak/peak.h"

#include <immintrin.h>

enum { CHAINS = 12 };

double lj_peak_loop_avx512bf16(int64_t rounds)
{
    __m512 acc[CHAINS];
    __m512bh a = (__m512bh)_mm512_set1_epi32(0x3a003a00), b = a;
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
            __asm__ volatile("" : "+v"(acc[i]));
        }
    }
    __m512 sum = acc[0];
    __asm__ volatile("" : "+v"(sum));
    return (double)rounds * CHAINS * 32 * 2;
}
