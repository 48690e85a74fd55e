/* Reductions and the matrix product, accumulated in double or wider. */
#include "ref/tensor.h"

#include <math.h>

/* The line of elements that one result of a reduction stands for. */
typedef struct {
    const lj_ref_cell *cells;
    int64_t count, stride;
    lj_dtype dtype;
} line;

typedef lj_ref_cell (*line_fn)(line along);

static lj_status reduce(const lj_ref_op *op, line_fn fn)
{
    const lj_ref_tensor *x = op->inputs[0];
    lj_ref_tensor *out = &op->outputs[0];
    int axis = (int)op->node->attributes.i[0];
    int64_t inner = lj_ref_extent(x, axis + 1, x->rank), count = x->dim[axis];
    for (int64_t at = 0; at < out->count; at++) {
        int64_t first = at / inner * inner * count + at % inner;
        out->cells[at] = fn((line){x->cells + first, count, inner, x->dtype});
    }
    return LJ_OK;
}

/* Floats in long double, so that the oracle is the better one for f64 too. */
static lj_ref_cell line_sum(line along)
{
    bool is_float = lj_dtype_rows[along.dtype].is_float;
    long double sum = 0;
    uint64_t whole = 0;
    for (int64_t i = 0; i < along.count; i++) {
        lj_ref_cell term = along.cells[i * along.stride];
        if (is_float)
            sum += (long double)term.f;
        else
            whole += (uint64_t)term.i;
    }
    return is_float ? (lj_ref_cell){.f = (double)sum} : (lj_ref_cell){.i = (int64_t)whole};
}

static lj_ref_cell least(lj_dtype dtype)
{
    const lj_dtype_row *row = &lj_dtype_rows[dtype];
    if (row->is_float) return (lj_ref_cell){.f = -INFINITY};
    if (!row->is_signed) return (lj_ref_cell){.i = 0};
    return (lj_ref_cell){.i = dtype == LJ_I64 ? INT64_MIN : -(int64_t)row->max - 1};
}

/* Position of the first largest; the first NaN counts as largest. */
static int64_t line_first_largest(line along)
{
    int64_t best = 0;
    bool is_float = lj_dtype_rows[along.dtype].is_float;
    for (int64_t i = 0; i < along.count; i++) {
        lj_ref_cell value = along.cells[i * along.stride];
        if (is_float && isnan(value.f)) return i;
        if (lj_ref_cell_less(along.dtype, along.cells[best * along.stride], value)) best = i;
    }
    return best;
}

static lj_ref_cell line_maximum(line along)
{
    return along.count ? along.cells[line_first_largest(along) * along.stride] : least(along.dtype);
}

static lj_ref_cell line_argmax(line along)
{
    return (lj_ref_cell){.i = line_first_largest(along)};
}

lj_status lj_ref_sum(const lj_ref_op *op) { return reduce(op, line_sum); }
lj_status lj_ref_maximum(const lj_ref_op *op) { return reduce(op, line_maximum); }
lj_status lj_ref_argmax(const lj_ref_op *op) { return reduce(op, line_argmax); }

/* Row-major [rows, columns] as stored, read transposed or not. */
typedef struct {
    const lj_ref_cell *cells;
    int64_t rows, columns; /* as the product sees them */
    bool transposed;
} matrix;

static matrix matrix_of(const lj_ref_tensor *tensor, bool transposed, int64_t batch)
{
    int64_t rows = tensor->dim[tensor->rank - 2], columns = tensor->dim[tensor->rank - 1];
    matrix m = {tensor->cells + batch * rows * columns, rows, columns, transposed};
    if (transposed) m.rows = columns, m.columns = rows;
    return m;
}

static double matrix_at(matrix m, int64_t row, int64_t column)
{
    return m.cells[m.transposed ? column * m.rows + row : row * m.columns + column].f;
}

static double row_times_column(matrix a, matrix b, int64_t row, int64_t column)
{
    long double sum = 0;
    for (int64_t k = 0; k < a.columns; k++) sum += (long double)matrix_at(a, row, k) * (long double)matrix_at(b, k, column);
    return (double)sum;
}

lj_status lj_ref_matmul(const lj_ref_op *op)
{
    const lj_ref_tensor *c = op->node->input_count > 2 ? op->inputs[2] : NULL;
    lj_ref_tensor *out = &op->outputs[0];
    int64_t rows = out->dim[out->rank - 2], columns = out->dim[out->rank - 1];
    for (int64_t at = 0; at < out->count; at++) {
        int64_t batch = at / (rows * columns), row = at / columns % rows, column = at % columns;
        matrix a = matrix_of(op->inputs[0], op->node->attributes.i[0] != 0, batch);
        matrix b = matrix_of(op->inputs[1], op->node->attributes.i[1] != 0, batch);
        out->cells[at].f = row_times_column(a, b, row, column) + (c ? c->cells[at].f : 0);
    }
    return LJ_OK;
}
