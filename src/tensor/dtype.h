/* Element types: one table, and conversions that round to nearest even. Values equal NCCL's ncclDataType_t. */
#ifndef LJ_TENSOR_DTYPE_H
#define LJ_TENSOR_DTYPE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ljperf/dtype.h"

typedef struct {
    const char *name;        /* "bf16": ours, in printed graphs and flags */
    const char *safetensors; /* "BF16" */
    size_t bytes;            /* of one element */
    bool is_float, is_signed;
    int mantissa_bits; /* stored, without the implied one; 0 for integers */
    double max;        /* largest finite value */
} lj_dtype_row;

extern const lj_dtype_row lj_dtype_rows[LJ_DTYPE_COUNT];

static inline size_t lj_dtype_bytes(lj_dtype type)
{
    return lj_dtype_rows[type].bytes;
}
static inline const char *lj_dtype_name(lj_dtype type)
{
    return lj_dtype_rows[type].name;
}
/* "bf16", "BF16", "bfloat16", "float32" ... LJ_ERR_NOT_FOUND with the nearest name. */
lj_status lj_dtype_find(const char *name, lj_dtype *type);

/* Element `index` of an array as double (exact up to 2^53), and the other way round: round to nearest even; integers clamp,
 * NaN becomes 0; fp8 e4m3 saturates to NaN as OCP says (no infinity), e5m2 and fp16 overflow to infinity. The oracle uses these: keep them plain. */
double lj_element_get(lj_dtype type, const void *data, size_t index);
void lj_element_set(lj_dtype type, void *data, size_t index, double value);
/* `value` as it would read back after a store: the rounding of the graph. */
double lj_dtype_round(lj_dtype type, double value);

/* Hot-path conversions of the 16-bit types. */
static inline float lj_bf16_to_float(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}
static inline uint16_t lj_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(value != value ? (bits >> 16 | 0x40) : rounded >> 16);
}
float lj_fp16_to_float(uint16_t bits);
uint16_t lj_fp16_from_float(float value);

#endif
