#include "kernels/peak/peak.h"

#include <immintrin.h>

enum { CHAINS = 12 };

double lj_peak_loop_avx512(int64_t rounds)
{
    __m512 acc[CHAINS], a = _mm512_set1_ps(1e-3f), b = _mm512_set1_ps(0.5f);
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            acc[i] = _mm512_fmadd_ps(a, b, acc[i]);
            __asm__ volatile("" : "+v"(acc[i])); /* keeps every product */
        }
    }
    __m512 sum = acc[0];
    __asm__ volatile("" : "+v"(sum));
    return (double)rounds * CHAINS * 16 * 2;
}
