#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>

const lj_dtype_row lj_dtype_rows[LJ_DTYPE_COUNT] = {
    [LJ_I8] = {"i8", "I8", 1, false, true, 0, 127},
    [LJ_U8] = {"u8", "U8", 1, false, false, 0, 255},
    [LJ_I32] = {"i32", "I32", 4, false, true, 0, 2147483647.0},
    [LJ_U32] = {"u32", "U32", 4, false, false, 0, 4294967295.0},
    [LJ_I64] = {"i64", "I64", 8, false, true, 0, 9223372036854775807.0},
    [LJ_U64] = {"u64", "U64", 8, false, false, 0, 18446744073709551615.0},
    [LJ_F16] = {"f16", "F16", 2, true, true, 10, 65504.0},
    [LJ_F32] = {"f32", "F32", 4, true, true, 23, 3.4028234663852886e38},
    [LJ_F64] = {"f64", "F64", 8, true, true, 52, 1.7976931348623157e308},
    [LJ_BF16] = {"bf16", "BF16", 2, true, true, 7, 3.3895313892515355e38},
    [LJ_F8E4M3] = {"f8e4m3", "F8_E4M3", 1, true, true, 3, 448.0},
    [LJ_F8E5M2] = {"f8e5m2", "F8_E5M2", 1, true, true, 2, 57344.0},
    [LJ_BOOL] = {"bool", "BOOL", 1, false, false, 0, 1},
};

typedef struct {
    const char *name;
    lj_dtype type;
} dtype_alias;

static const dtype_alias aliases[] = {
    {"fp16", LJ_F16},    {"float16", LJ_F16}, {"half", LJ_F16},     {"fp32", LJ_F32},          {"float32", LJ_F32},
    {"float", LJ_F32},   {"fp64", LJ_F64},    {"float64", LJ_F64},  {"double", LJ_F64},        {"bfloat16", LJ_BF16},
    {"int8", LJ_I8},     {"uint8", LJ_U8},    {"int32", LJ_I32},    {"uint32", LJ_U32},        {"int64", LJ_I64},
    {"uint64", LJ_U64},  {"fp8", LJ_F8E4M3},  {"fp8_e4m3", LJ_F8E4M3}, {"fp8_e5m2", LJ_F8E5M2},
    {"float8_e4m3fn", LJ_F8E4M3}, {"float8_e5m2", LJ_F8E5M2},
};

lj_status lj_dtype_find(const char *name, lj_dtype *type)
{
    const char *names[LJ_DTYPE_COUNT];
    for (int i = 0; i < LJ_DTYPE_COUNT; i++) {
        names[i] = lj_dtype_rows[i].name;
        if (strcmp(name, names[i]) != 0 && strcmp(name, lj_dtype_rows[i].safetensors) != 0) continue;
        *type = (lj_dtype)i;
        return LJ_OK;
    }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strcmp(name, aliases[i].name) != 0) continue;
        *type = aliases[i].type;
        return LJ_OK;
    }
    const char *near = lj_nearest_name(name, names, LJ_DTYPE_COUNT);
    return lj_fail(LJ_ERR_NOT_FOUND, "no element type '%s'%s%s%s", name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Small binary floats: sign, `exponent_bits`, `mantissa_bits`. */
typedef struct {
    int exponent_bits, mantissa_bits;
    bool has_infinity; /* e4m3 has none: all-ones exponent is a number except for an all-ones mantissa */
} float_layout;

static double small_float_decode(float_layout layout, uint32_t bits)
{
    int m = layout.mantissa_bits, bias = (1 << (layout.exponent_bits - 1)) - 1, top = (1 << layout.exponent_bits) - 1;
    uint32_t mantissa = bits & ((1u << m) - 1);
    int exponent = (int)(bits >> m) & top;
    double sign = bits >> (m + layout.exponent_bits) & 1 ? -1.0 : 1.0;
    if (exponent == top && layout.has_infinity) return mantissa ? NAN : sign * INFINITY;
    if (exponent == top && mantissa == (1u << m) - 1) return NAN;
    if (exponent == 0) return sign * ldexp((double)mantissa, 1 - bias - m);
    return sign * ldexp((double)(mantissa | 1u << m), exponent - bias - m);
}

/* Round to nearest even on the grid of the layout; overflow to infinity, or to NaN where there is none. */
static uint32_t small_float_encode(float_layout layout, double value)
{
    int m = layout.mantissa_bits, bias = (1 << (layout.exponent_bits - 1)) - 1, top = (1 << layout.exponent_bits) - 1;
    uint32_t sign = signbit(value) ? 1u << (m + layout.exponent_bits) : 0, mask = (1u << m) - 1;
    uint32_t nan = (uint32_t)top << m | mask, infinity = layout.has_infinity ? (uint32_t)top << m : nan;
    if (isnan(value)) return sign | (layout.has_infinity ? (uint32_t)top << m | 1u << (m - 1) : nan);
    double magnitude = fabs(value);
    if (isinf(magnitude)) return sign | infinity;
    if (magnitude == 0) return sign;
    int exponent = ilogb(magnitude), lowest = 1 - bias;
    int scale = (exponent < lowest ? lowest : exponent) - m;
    double steps = nearbyint(ldexp(magnitude, -scale)); /* the default rounding mode is to nearest even */
    uint64_t count = (uint64_t)steps;
    if (exponent < lowest) return sign | (uint32_t)count; /* a carry into the exponent field is the right bits */
    uint64_t code = ((uint64_t)(exponent - lowest) << m) + count; /* count has the implied one, which is exponent 1 */
    return sign | (code >= infinity ? infinity : (uint32_t)code);
}

static const float_layout fp16_layout = {5, 10, true}, bf16_layout = {8, 7, true}, e4m3_layout = {4, 3, false},
                          e5m2_layout = {5, 2, true};

#define LOAD(type, as) (((const as *)data)[index])

double lj_element_get(lj_dtype type, const void *data, size_t index)
{
    switch (type) {
    case LJ_I8: return LOAD(type, int8_t);
    case LJ_U8: return LOAD(type, uint8_t);
    case LJ_I32: return LOAD(type, int32_t);
    case LJ_U32: return LOAD(type, uint32_t);
    case LJ_I64: return (double)LOAD(type, int64_t);
    case LJ_U64: return (double)LOAD(type, uint64_t);
    case LJ_F16: return small_float_decode(fp16_layout, LOAD(type, uint16_t));
    case LJ_F32: return (double)LOAD(type, float);
    case LJ_F64: return LOAD(type, double);
    case LJ_BF16: return small_float_decode(bf16_layout, LOAD(type, uint16_t));
    case LJ_F8E4M3: return small_float_decode(e4m3_layout, LOAD(type, uint8_t));
    case LJ_F8E5M2: return small_float_decode(e5m2_layout, LOAD(type, uint8_t));
    case LJ_BOOL: return LOAD(type, uint8_t) != 0;
    case LJ_DTYPE_COUNT: break;
    }
    return NAN;
}

/* Nearest even whole number inside [low, high]. */
static double clamp_whole(double value, double low, double high)
{
    if (isnan(value)) return 0;
    double whole = nearbyint(value);
    return whole < low ? low : whole > high ? high : whole;
}

static int64_t to_i64(double value)
{
    double whole = isnan(value) ? 0 : nearbyint(value);
    return whole >= 9223372036854775808.0 ? INT64_MAX : whole <= -9223372036854775808.0 ? INT64_MIN : (int64_t)whole;
}

static uint64_t to_u64(double value)
{
    double whole = isnan(value) ? 0 : nearbyint(value);
    return whole >= 18446744073709551616.0 ? UINT64_MAX : whole <= 0 ? 0 : (uint64_t)whole;
}

#define STORE(as, value) (((as *)data)[index] = (as)(value))

void lj_element_set(lj_dtype type, void *data, size_t index, double value)
{
    switch (type) {
    case LJ_I8: STORE(int8_t, clamp_whole(value, -128, 127)); break;
    case LJ_U8: STORE(uint8_t, clamp_whole(value, 0, 255)); break;
    case LJ_I32: STORE(int32_t, clamp_whole(value, -2147483648.0, 2147483647.0)); break;
    case LJ_U32: STORE(uint32_t, clamp_whole(value, 0, 4294967295.0)); break;
    case LJ_I64: STORE(int64_t, to_i64(value)); break;
    case LJ_U64: STORE(uint64_t, to_u64(value)); break;
    case LJ_F16: STORE(uint16_t, small_float_encode(fp16_layout, value)); break;
    case LJ_F32: STORE(float, value); break;
    case LJ_F64: STORE(double, value); break;
    case LJ_BF16: STORE(uint16_t, small_float_encode(bf16_layout, value)); break;
    case LJ_F8E4M3: STORE(uint8_t, small_float_encode(e4m3_layout, value)); break;
    case LJ_F8E5M2: STORE(uint8_t, small_float_encode(e5m2_layout, value)); break;
    case LJ_BOOL: STORE(uint8_t, value != 0); break;
    case LJ_DTYPE_COUNT: break;
    }
}

double lj_dtype_round(lj_dtype type, double value)
{
    uint64_t store = 0;
    lj_element_set(type, &store, 0, value);
    return lj_element_get(type, &store, 0);
}

float lj_fp16_to_float(uint16_t bits)
{
    return (float)small_float_decode(fp16_layout, bits);
}

uint16_t lj_fp16_from_float(float value)
{
    return (uint16_t)small_float_encode(fp16_layout, (double)value);
}
