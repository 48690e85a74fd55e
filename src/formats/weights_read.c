/* Rows of a stored tensor into the caller's buffer. */
#include "formats/weights_list.h"

#include "formats/gguf_config.h"
#include "tensor/convert.h"

void lj_weights_use(lj_weight *weight)
{
    __atomic_store_n(&weight->used, 1, __ATOMIC_RELAXED);
}

static lj_status type_check(const lj_weight *w, lj_dtype to)
{
    if (w->blocks && !w->blocks->readable)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: tensor '%s' is stored as %s, which is not read here; quantise the model as Q4_K, Q5_K, Q6_K or Q8_0", w->file,
                       w->stored_name, w->type_name);
    bool from_float = w->blocks || lj_dtype_rows[w->dtype].is_float, to_float = lj_dtype_rows[to].is_float;
    if (from_float && to_float) return LJ_OK;
    if (!w->blocks && w->dtype == to) return LJ_OK;
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: tensor '%s' is stored as %s and cannot be read as %s; is it packed by another tool?", w->file, w->stored_name,
                   w->type_name, lj_dtype_name(to));
}

static lj_status range_check(const lj_weight *w, int64_t row, int64_t rows)
{
    if (row < 0 || rows < 0 || row > w->rows || rows > w->rows - row)
        return lj_fail(LJ_ERR_INVALID, "%s: tensor '%s' has %lld rows, %lld .. %lld asked for", w->file, w->name, (long long)w->rows, (long long)row,
                       (long long)(row + rows));
    if (!w->blocks || w->columns % w->blocks->block_elements == 0) return LJ_OK;
    if (row * w->columns % w->blocks->block_elements == 0 && rows * w->columns % w->blocks->block_elements == 0) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s: tensor '%s': elements %lld .. +%lld cut a block of %u", w->file, w->name, (long long)(row * w->columns),
                   (long long)(rows * w->columns), w->blocks->block_elements);
}

/* `elements` from `first` on, both at block bounds. */
static void run_read(const lj_weight *w, int64_t first, int64_t elements, lj_dtype to, void *out)
{
    if (!w->blocks) {
        lj_convert(to, out, w->dtype, w->data + (uint64_t)first * lj_dtype_bytes(w->dtype), (size_t)elements);
        return;
    }
    const uint8_t *at = w->data + (uint64_t)first / w->blocks->block_elements * w->blocks->block_bytes;
    lj_dequantise(w->blocks, to, out, at, (size_t)elements / w->blocks->block_elements);
}

lj_status lj_weights_read(const lj_weights *weights, lj_weight *weight, int64_t row, int64_t rows, lj_dtype to, void *out)
{
    (void)weights;
    LJ_TRY(type_check(weight, to));
    LJ_TRY(range_check(weight, row, rows));
    lj_weights_use(weight);
    if (weight->rotary_head_dim == 0) {
        run_read(weight, row * weight->columns, rows * weight->columns, to, out);
        return LJ_OK;
    }
    size_t row_bytes = (size_t)weight->columns * lj_dtype_bytes(to);
    for (int64_t i = 0; i < rows; i++)
        run_read(weight, lj_gguf_rotary_row(row + i, weight->rotary_head_dim) * weight->columns, weight->columns, to, (char *)out + (size_t)i * row_bytes);
    return LJ_OK;
}
