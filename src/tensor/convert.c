/* Whole-array conversions: plain loops, the choice of faster ones, and the general pair. */
#include "tensor/convert.h"

#include "base/machine.h"
#include "tensor/convert_loops.h"

static inline float load_f32(const uint8_t *at)
{
    float value;
    memcpy(&value, at, 4);
    return value;
}

static inline uint16_t load_16(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, 2);
    return bits;
}

static void f32_to_bf16(void *to, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) ((uint16_t *)to)[i] = lj_bf16_from_float(load_f32(from + 4 * i));
}

static void f32_to_f16(void *to, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) ((uint16_t *)to)[i] = lj_half_from_float(load_f32(from + 4 * i));
}

static void bf16_to_f32(void *to, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) ((float *)to)[i] = lj_bf16_to_float(load_16(from + 2 * i));
}

static void bf16_to_f16(void *to, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) ((uint16_t *)to)[i] = lj_half_from_float(lj_bf16_to_float(load_16(from + 2 * i)));
}

static void f16_to_f32(void *to, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) ((float *)to)[i] = lj_half_to_float(load_16(from + 2 * i));
}

static void f16_to_bf16(void *to, const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) ((uint16_t *)to)[i] = lj_bf16_from_float(lj_half_to_float(load_16(from + 2 * i)));
}

/* Any pair, an element at a time through an aligned copy. */
static void through_double(lj_dtype to_type, void *to, lj_dtype from_type, const uint8_t *from, size_t count)
{
    size_t step = lj_dtype_bytes(from_type);
    for (size_t i = 0; i < count; i++) {
        uint64_t aligned;
        memcpy(&aligned, from + step * i, step);
        lj_element_set(to_type, to, i, lj_element_get(from_type, &aligned, 0));
    }
}

const lj_convert_fn lj_convert_plain[LJ_CONVERT_PAIRS] = {
    [LJ_F32_BF16] = f32_to_bf16, [LJ_F32_F16] = f32_to_f16, [LJ_BF16_F32] = bf16_to_f32,
    [LJ_BF16_F16] = bf16_to_f16, [LJ_F16_F32] = f16_to_f32, [LJ_F16_BF16] = f16_to_bf16,
};

static const struct {
    lj_dtype from, to;
} pairs[LJ_CONVERT_PAIRS] = {
    [LJ_F32_BF16] = {LJ_F32, LJ_BF16}, [LJ_F32_F16] = {LJ_F32, LJ_F16}, [LJ_BF16_F32] = {LJ_BF16, LJ_F32},
    [LJ_BF16_F16] = {LJ_BF16, LJ_F16}, [LJ_F16_F32] = {LJ_F16, LJ_F32}, [LJ_F16_BF16] = {LJ_F16, LJ_BF16},
};

void lj_convert(lj_dtype to_type, void *to, lj_dtype from_type, const void *from, size_t count)
{
    if (to_type == from_type) {
        if (count) memcpy(to, from, count * lj_dtype_bytes(to_type));
        return;
    }
    const lj_convert_fn *fast = lj_machine_get()->isa >= LJ_ISA_AVX2 ? lj_convert_avx2 : lj_convert_plain;
    for (size_t i = 0; i < LJ_CONVERT_PAIRS; i++)
        if (pairs[i].to == to_type && pairs[i].from == from_type) {
            fast[i](to, from, count);
            return;
        }
    through_double(to_type, to, from_type, from, count);
}
