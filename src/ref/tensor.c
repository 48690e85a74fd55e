/* Tensors of the reference: creation, buffers in and out, rounding, index arithmetic. */
#include "ref/tensor.h"

#include <math.h>

lj_status lj_ref_tensor_init(lj_ref_tensor *tensor, const lj_type *type, const int64_t *sizes)
{
    lj_ref_tensor made = {.dtype = type->dtype, .rank = type->rank};
    size_t bytes;
    LJ_TRY(lj_type_elements(type, sizes, &made.count));
    for (int i = 0; i < type->rank; i++) made.dim[i] = lj_dim_eval(type->dim[i], sizes);
    if (!lj_mul_size((size_t)made.count, sizeof(lj_ref_cell), &bytes))
        return lj_fail(LJ_ERR_LIMIT, "reference: %lld elements overflow the address space", (long long)made.count);
    void *cells;
    LJ_TRY(lj_alloc_zero("reference", bytes, &cells));
    made.cells = cells;
    *tensor = made;
    return LJ_OK;
}

void lj_ref_tensor_release(lj_ref_tensor *tensor)
{
    lj_free(tensor->cells);
    *tensor = (lj_ref_tensor){.rank = 0};
}

lj_status lj_ref_tensor_copy(lj_ref_tensor *to, const lj_ref_tensor *from)
{
    void *cells;
    LJ_TRY(lj_alloc("reference", (size_t)from->count * sizeof(lj_ref_cell), &cells));
    memcpy(cells, from->cells, (size_t)from->count * sizeof(lj_ref_cell));
    *to = *from;
    to->cells = cells;
    return LJ_OK;
}

/* 64-bit integers do not fit a double: they are read as they are. */
static int64_t integer_get(lj_dtype dtype, const void *data, int64_t at)
{
    if (dtype == LJ_I64 || dtype == LJ_U64) return ((const int64_t *)data)[at];
    return (int64_t)lj_element_get(dtype, data, (size_t)at);
}

static void integer_set(lj_dtype dtype, void *data, int64_t at, int64_t value)
{
    if (dtype == LJ_I64 || dtype == LJ_U64)
        ((int64_t *)data)[at] = value;
    else
        lj_element_set(dtype, data, (size_t)at, (double)value);
}

void lj_ref_tensor_load(lj_ref_tensor *tensor, const void *data, bool exact)
{
    lj_dtype dtype = exact && lj_ref_is_float(tensor) ? LJ_F64 : tensor->dtype;
    for (int64_t at = 0; at < tensor->count; at++) {
        if (lj_ref_is_float(tensor))
            tensor->cells[at].f = lj_element_get(dtype, data, (size_t)at);
        else
            tensor->cells[at].i = integer_get(dtype, data, at);
    }
}

void lj_ref_tensor_store(const lj_ref_tensor *tensor, void *data, bool exact)
{
    lj_dtype dtype = exact && lj_ref_is_float(tensor) ? LJ_F64 : tensor->dtype;
    for (int64_t at = 0; at < tensor->count; at++) {
        if (lj_ref_is_float(tensor))
            lj_element_set(dtype, data, (size_t)at, tensor->cells[at].f);
        else
            integer_set(dtype, data, at, tensor->cells[at].i);
    }
}

/* Integers wrap: only the low bits stay, read with the dtype's sign. */
static int64_t integer_wrap(lj_dtype dtype, int64_t value)
{
    switch (dtype) {
    case LJ_I8: return (int8_t)(uint8_t)value;
    case LJ_U8: return (uint8_t)value;
    case LJ_I32: return (int32_t)(uint32_t)value;
    case LJ_U32: return (uint32_t)value;
    case LJ_BOOL: return value != 0;
    default: return value;
    }
}

lj_ref_cell lj_ref_cell_round(lj_dtype dtype, lj_ref_cell cell, bool exact)
{
    if (!lj_dtype_rows[dtype].is_float) return (lj_ref_cell){.i = integer_wrap(dtype, cell.i)};
    return exact ? cell : (lj_ref_cell){.f = lj_dtype_round(dtype, cell.f)};
}

void lj_ref_tensor_round(lj_ref_tensor *tensor, bool exact)
{
    for (int64_t at = 0; at < tensor->count; at++)
        tensor->cells[at] = lj_ref_cell_round(tensor->dtype, tensor->cells[at], exact);
}

double lj_ref_cell_number(lj_dtype dtype, lj_ref_cell cell)
{
    if (lj_dtype_rows[dtype].is_float) return cell.f;
    return dtype == LJ_U64 ? (double)(uint64_t)cell.i : (double)cell.i;
}

bool lj_ref_cell_less(lj_dtype dtype, lj_ref_cell a, lj_ref_cell b)
{
    if (lj_dtype_rows[dtype].is_float) return a.f < b.f;
    return dtype == LJ_U64 ? (uint64_t)a.i < (uint64_t)b.i : a.i < b.i;
}

void lj_ref_unravel(const lj_ref_tensor *tensor, int64_t position, int64_t *index)
{
    for (int d = tensor->rank - 1; d >= 0; d--) {
        index[d] = position % tensor->dim[d];
        position /= tensor->dim[d];
    }
}

int64_t lj_ref_ravel(const lj_ref_tensor *tensor, const int64_t *index)
{
    int64_t position = 0;
    for (int d = 0; d < tensor->rank; d++) position = position * tensor->dim[d] + index[d];
    return position;
}

int64_t lj_ref_extent(const lj_ref_tensor *tensor, int from, int to)
{
    int64_t product = 1;
    for (int d = from; d < to; d++) product *= tensor->dim[d];
    return product;
}
