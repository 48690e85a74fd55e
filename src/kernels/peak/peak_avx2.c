#include "kernels/peak/peak.h"

#include <immintrin.h>

enum { CHAINS = 12 };

double lj_peak_loop_avx2(int64_t rounds)
{
    __m256 acc[CHAINS], a = _mm256_set1_ps(1e-3f), b = _mm256_set1_ps(0.5f);
    for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            acc[i] = _mm256_fmadd_ps(a, b, acc[i]);
            __asm__ volatile("" : "+x"(acc[i])); /* keeps every product */
        }
    }
    __m256 sum = acc[0];
    __asm__ volatile("" : "+x"(sum));
    return (double)rounds * CHAINS * 8 * 2;
}
