/* The steps of attention with bf16 probabilities, for engines that multiply bf16 pairs. */
#include <immintrin.h>
#include <stdint.h>

#include "kernels/vec.h"

#define STEP_PAIRS 1

LJ_INLINE void pair_store(uint16_t *at, vec even, vec odd)
{
    static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    _mm512_storeu_si512(at, _mm512_permutexvar_epi16(_mm512_loadu_si512(order), both));
}

/* Adds the products of 32 bf16 of two rows, pairwise. */
LJ_INLINE vec pair_dot(const uint16_t *a, const uint16_t *b, vec sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_loadu_si512(a), (__m512bh)_mm512_loadu_si512(b));
}

#include "kernels/attention/steps_body.h"

const lj_attention_steps lj_attention_avx512bf16 = {true, softmax, multiply, gradient, transpose, convert, dot_rows, decode};
