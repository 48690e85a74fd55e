/* Sizes and types: symbolic dims, their values, their text. */
#include "ir/ir.h"

#include <string.h>

lj_dim lj_dim_const(int64_t size)
{
    return (lj_dim){.factor = size};
}

lj_dim lj_dim_mul(lj_dim a, lj_dim b)
{
    lj_dim out = {0};
    if (__builtin_mul_overflow(a.factor, b.factor, &out.factor)) out.factor = -1; /* refused where the type is used */
    if (out.factor == 0) return out;
    for (int i = 0; i < LJ_MAX_SYMBOLS; i++) out.power[i] = (uint8_t)(a.power[i] + b.power[i]);
    return out;
}

int lj_dim_equal(lj_dim a, lj_dim b)
{
    return a.factor == b.factor && memcmp(a.power, b.power, sizeof a.power) == 0;
}

bool lj_dim_is_const(lj_dim dim, int64_t size)
{
    return lj_dim_equal(dim, lj_dim_const(size));
}

int64_t lj_dim_eval(lj_dim dim, const int64_t *sizes)
{
    int64_t value = dim.factor;
    for (int i = 0; i < LJ_MAX_SYMBOLS; i++)
        for (int p = 0; p < dim.power[i]; p++)
            if (__builtin_mul_overflow(value, sizes[i], &value)) return -1;
    return value;
}

lj_type lj_type_of(lj_dtype dtype, int rank, const int64_t *sizes)
{
    lj_type type = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank && i < LJ_MAX_RANK; i++) type.dim[i] = lj_dim_const(sizes[i]);
    return type;
}

lj_type lj_type_dims(lj_dtype dtype, int rank, const lj_dim *dims)
{
    lj_type type = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank && i < LJ_MAX_RANK; i++) type.dim[i] = dims[i];
    return type;
}

bool lj_type_same_shape(const lj_type *a, const lj_type *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!lj_dim_equal(a->dim[i], b->dim[i])) return false;
    return true;
}

bool lj_type_equal(const lj_type *a, const lj_type *b)
{
    return a->dtype == b->dtype && lj_type_same_shape(a, b);
}

lj_dim lj_type_elements_dim(const lj_type *type)
{
    lj_dim product = lj_dim_const(1);
    for (int i = 0; i < type->rank; i++) product = lj_dim_mul(product, type->dim[i]);
    return product;
}

lj_status lj_type_elements(const lj_type *type, const int64_t *sizes, int64_t *elements)
{
    int64_t product = 1;
    bool zero = false, overflow = false;
    for (int i = 0; i < type->rank; i++) {
        int64_t size = lj_dim_eval(type->dim[i], sizes);
        if (size < 0) return lj_fail(LJ_ERR_LIMIT, "dim %d of a tensor is negative or overflows 64 bits", i);
        zero |= size == 0;
        overflow |= __builtin_mul_overflow(product, size, &product);
    }
    if (overflow && !zero) return lj_fail(LJ_ERR_LIMIT, "a tensor's element count overflows 64 bits");
    *elements = zero ? 0 : product;
    return LJ_OK;
}

lj_status lj_type_bytes(const lj_type *type, const int64_t *sizes, size_t *bytes)
{
    int64_t elements;
    LJ_TRY(lj_type_elements(type, sizes, &elements));
    if (!lj_mul_size((size_t)elements, lj_dtype_bytes(type->dtype), bytes) || *bytes > (size_t)INT64_MAX / 2)
        return lj_fail(LJ_ERR_LIMIT, "a tensor of %lld %s elements is larger than 64-bit sizes", (long long)elements, lj_dtype_name(type->dtype));
    return LJ_OK;
}

void lj_dim_print(lj_text *out, const lj_graph *graph, lj_dim dim)
{
    bool symbolic = false;
    for (int i = 0; i < LJ_MAX_SYMBOLS; i++) symbolic |= dim.power[i] != 0;
    if (!symbolic || dim.factor != 1) lj_text_add(out, symbolic ? "%lld*" : "%lld", (long long)dim.factor);
    const char *separator = "";
    for (int i = 0; i < LJ_MAX_SYMBOLS; i++)
        for (int p = 0; p < dim.power[i]; p++) {
            lj_text_add(out, "%s%s", separator, i < graph->symbol_count ? graph->symbols[i] : "?");
            separator = "*";
        }
}

void lj_type_print(lj_text *out, const lj_graph *graph, const lj_type *type)
{
    lj_text_add(out, "%s[", lj_dtype_name(type->dtype));
    for (int i = 0; i < type->rank; i++) {
        lj_text_add(out, i ? "," : "");
        lj_dim_print(out, graph, type->dim[i]);
    }
    lj_text_add(out, "]");
}
