/* The kernels of one instruction set, written once and compiled in arith_generic.c, arith_avx2.c and arith_avx512.c, which define
 * ACCL_TABLE (the table's name) and the conversions of fp16 before they include this. Plain loops that the compiler turns into vector code. */
#include "accl/arith/arith.h"

#include <math.h>

/* User buffers need not be aligned to their elements. */
#define LOOSE(type, name) typedef type name __attribute__((aligned(1), may_alias))
LOOSE(int8_t, loose_i8);
LOOSE(uint8_t, loose_u8);
LOOSE(int32_t, loose_i32);
LOOSE(uint32_t, loose_u32);
LOOSE(int64_t, loose_i64);
LOOSE(uint64_t, loose_u64);
LOOSE(float, loose_f32);
LOOSE(double, loose_f64);
LOOSE(uint16_t, loose_u16);

/* The destination is a source or apart from it, never shifted against it: vectorising needs no check at run time. */
#define NO_OVERLAP _Pragma("GCC ivdep")

/* `through` is the type arithmetic is done in: unsigned for integers, so that wrapping is defined. */
#define COMBINE(name, type, through, expression)                                                                                 \
    static void name(void *dst, const void *left, const void *right, size_t n)                                                   \
    {                                                                                                                            \
        loose_##type *d = dst;                                                                                                   \
        const loose_##type *l = left, *r = right;                                                                                \
        NO_OVERLAP for (size_t i = 0; i < n; i++) {                                                                              \
            through a = (through)l[i], b = (through)r[i];                                                                        \
            d[i] = (loose_##type)(expression);                                                                                   \
        }                                                                                                                        \
    }
#define SCALE(type, through, whole)                                                                                              \
    static void multiply_##type(void *dst, const void *src, uint64_t bits, size_t n)                                             \
    {                                                                                                                            \
        loose_##type *d = dst;                                                                                                   \
        const loose_##type *s = src;                                                                                             \
        whole factor;                                                                                                            \
        memcpy(&factor, &bits, sizeof factor);                                                                                   \
        NO_OVERLAP for (size_t i = 0; i < n; i++) d[i] = (loose_##type)((through)s[i] * (through)factor);                        \
    }                                                                                                                            \
    static void divide_##type(void *dst, const void *src, uint32_t by, size_t n)                                                 \
    {                                                                                                                            \
        loose_##type *d = dst;                                                                                                   \
        const loose_##type *s = src;                                                                                             \
        NO_OVERLAP for (size_t i = 0; i < n; i++) d[i] = DIVIDE_##type(s[i], by);                                                \
    }
#define DIVIDE_i8(x, by) ((int8_t)((int64_t)(x) / (int64_t)(by)))
#define DIVIDE_u8(x, by) ((uint8_t)((x) / (by)))
#define DIVIDE_i32(x, by) ((int32_t)((int64_t)(x) / (int64_t)(by)))
#define DIVIDE_u32(x, by) ((x) / (by))
#define DIVIDE_i64(x, by) ((x) / (int64_t)(by))
#define DIVIDE_u64(x, by) ((x) / (by))
#define DIVIDE_f32(x, by) ((x) / (float)(by))
#define DIVIDE_f64(x, by) ((x) / (double)(by))
#define INTEGER(type, whole, wrap)                                                                                               \
    COMBINE(sum_##type, type, wrap, a + b)                                                                                       \
    COMBINE(prod_##type, type, wrap, a *b)                                                                                       \
    COMBINE(max_##type, type, whole, a > b ? a : b)                                                                              \
    COMBINE(min_##type, type, whole, a < b ? a : b)                                                                              \
    SCALE(type, wrap, whole)
/* Where one operand is not a number, max and min give the other, as fmax and NCCL do. */
#define FLOATING(type, whole)                                                                                                    \
    COMBINE(sum_##type, type, whole, a + b)                                                                                      \
    COMBINE(prod_##type, type, whole, a *b)                                                                                      \
    COMBINE(max_##type, type, whole, (a > b) | (b != b) ? a : b)                                                                 \
    COMBINE(min_##type, type, whole, (a < b) | (b != b) ? a : b)                                                                 \
    SCALE(type, whole, whole)

INTEGER(i8, int8_t, uint32_t)
INTEGER(u8, uint8_t, uint32_t)
INTEGER(i32, int32_t, uint32_t)
INTEGER(u32, uint32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t)
INTEGER(u64, uint64_t, uint64_t)
FLOATING(f32, float)
FLOATING(f64, double)

static void widen_bf16(float *dst, const void *src, size_t n)
{
    const loose_u16 *s = src;
    NO_OVERLAP for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)s[i] << 16;
        memcpy(dst + i, &bits, 4);
    }
}

static void narrow_bf16(void *dst, const float *src, size_t n)
{
    loose_u16 *d = dst;
    NO_OVERLAP for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, src + i, 4);
        uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
        d[i] = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
    }
}

/* fp8, `exponent` and `mantissa` bits wide, by moving the fields into an fp32 whose exponent is then corrected by one multiplication
 * (which also makes subnormals right). e4m3 has no infinity: only 0x7f and 0xff are special. */
static inline float small_widen(uint8_t code, int mantissa, int bias, bool infinity)
{
    uint32_t magnitude = (uint32_t)(code & 0x7f) << (23 - mantissa), sign = (uint32_t)(code & 0x80) << 24, rebias, bits;
    float value, factor;
    rebias = (uint32_t)(127 + 127 - bias) << 23; /* 2^(127 - bias) */
    memcpy(&factor, &rebias, 4);
    memcpy(&value, &magnitude, 4);
    value *= factor;
    memcpy(&bits, &value, 4);
    uint32_t top = infinity ? 0x7c : 0x7f;
    uint32_t special = (code & 0x7f) == top && infinity ? 0x7f800000u : 0x7fc00000u;
    bits = ((uint32_t)(code & 0x7f) >= top ? special : bits) | sign;
    memcpy(&value, &bits, 4);
    return value;
}

/* Round to nearest even onto the fp8 grid. Normal results: integer rounding of the fp32 bits; subnormal ones: adding a number whose
 * last bit is the grid's step does the rounding. */
static inline uint8_t small_narrow(float value, int mantissa, int bias, uint32_t highest, uint32_t over)
{
    uint32_t bits, sign, shift = (uint32_t)(23 - mantissa), low, magic_bits;
    memcpy(&bits, &value, 4);
    sign = bits >> 24 & 0x80;
    bits &= 0x7fffffff;
    uint32_t normal = (bits + ((1u << (shift - 1)) - 1) + (bits >> shift & 1)) >> shift;
    normal -= (uint32_t)(127 - bias) << mantissa;
    magic_bits = (uint32_t)(127 - bias + 1 + (23 - mantissa)) << 23;
    float magic, magnitude, sum;
    memcpy(&magic, &magic_bits, 4);
    memcpy(&magnitude, &bits, 4);
    sum = magnitude + magic;
    memcpy(&low, &sum, 4);
    uint32_t subnormal = low - magic_bits;
    uint32_t code = bits < (uint32_t)(127 - bias + 1) << 23 ? subnormal : normal;
    code = bits >= 0x7f800000u || code > highest ? over : code;
    return (uint8_t)((bits > 0x7f800000u ? 0x7f : code) | sign);
}

#define SMALL(name, mantissa, bias, infinity, highest, over, nan_code)                                                           \
    static void widen_##name(float *dst, const void *src, size_t n)                                                              \
    {                                                                                                                            \
        const loose_u8 *s = src;                                                                                                 \
        NO_OVERLAP for (size_t i = 0; i < n; i++) dst[i] = small_widen(s[i], mantissa, bias, infinity);                          \
    }                                                                                                                            \
    static void narrow_##name(void *dst, const float *src, size_t n)                                                             \
    {                                                                                                                            \
        loose_u8 *d = dst;                                                                                                       \
        NO_OVERLAP for (size_t i = 0; i < n; i++) {                                                                              \
            uint8_t code = small_narrow(src[i], mantissa, bias, highest, over);                                                  \
            d[i] = src[i] != src[i] ? (uint8_t)((code & 0x80) | (nan_code)) : code;                                              \
        }                                                                                                                        \
    }
SMALL(e4m3, 3, 7, false, 0x7e, 0x7f, 0x7f)
SMALL(e5m2, 2, 15, true, 0x7b, 0x7c, 0x7e)

#define OPS(type) {sum_##type, prod_##type, max_##type, min_##type}
#define EACH(name) {name##_i8, name##_u8, name##_i32, name##_u32, name##_i64, name##_u64, name##_f32, name##_f64}
const accl_kernels ACCL_TABLE = {
    .combine = {OPS(i8), OPS(u8), OPS(i32), OPS(u32), OPS(i64), OPS(u64), OPS(f32), OPS(f64)},
    .multiply = EACH(multiply),
    .divide = EACH(divide),
    .widen = {widen_f16, widen_bf16, widen_e4m3, widen_e5m2},
    .narrow = {narrow_f16, narrow_bf16, narrow_e4m3, narrow_e5m2},
    .stream = stream_copy,
};
