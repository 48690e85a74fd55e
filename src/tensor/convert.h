/* Arrays from one element type to another, fast: what weight loading and saving need. Rounds to nearest even, as dtype.h. */
#ifndef LJ_TENSOR_CONVERT_H
#define LJ_TENSOR_CONVERT_H

#include "tensor/dtype.h"

/* IEEE half to float by bits alone: exact for every code; a NaN keeps its payload and becomes quiet, as the hardware does it. */
static inline float lj_half_to_float(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16, bits;
    if (magnitude >= 0x0f800000) { /* infinity and NaN */
        bits = magnitude | 0x7f800000 | (magnitude > 0x0f800000 ? 0x00400000u : 0);
    } else if (magnitude >= 0x00800000) {
        bits = magnitude + ((127u - 15u) << 23);
    } else { /* zero and subnormals: the mantissa counts steps of 2^-24 */
        float value = (float)(half & 0x7fff) * 0x1p-24f;
        memcpy(&bits, &value, 4);
    }
    bits |= sign;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

/* Float to IEEE half, nearest even; overflow gives infinity, a NaN keeps its top bits and becomes quiet. */
static inline uint16_t lj_half_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x1ff));
    if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and up round to infinity */
    if (bits >= 0x38800000) return (uint16_t)(sign | ((bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13));
    float magnitude, steps;
    memcpy(&magnitude, &bits, 4);
    steps = magnitude + 0.5f; /* ulp of [0.5, 1) is 2^-24: the addition rounds to whole steps */
    uint32_t rounded;
    memcpy(&rounded, &steps, 4);
    return (uint16_t)(sign | (rounded - 0x3f000000));
}

/* Writes `count` elements of `from_type` at `from` as `to_type` at `to`. The arrays must not overlap unless the types are equal
 * (then a plain copy of distinct arrays). `from` needs no alignment, `to` that of its type. Any thread. Every pair of types is
 * allowed; pairs of f32, bf16 and f16 are fast, the rest go through double. */
void lj_convert(lj_dtype to_type, void *to, lj_dtype from_type, const void *from, size_t count);

#endif
