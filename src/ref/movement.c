/* Views and movement: results are picked element by element from operands. */
#include "ref/tensor.h"

lj_status lj_ref_reshape(const lj_ref_op *op)
{
    lj_ref_tensor *out = &op->outputs[0];
    memcpy(out->cells, op->inputs[0]->cells, (size_t)out->count * sizeof(lj_ref_cell));
    return LJ_OK;
}

lj_status lj_ref_transpose(const lj_ref_op *op)
{
    const lj_ref_tensor *x = op->inputs[0];
    lj_ref_tensor *out = &op->outputs[0];
    for (int64_t at = 0; at < out->count; at++) {
        int64_t index[LJ_MAX_RANK], from[LJ_MAX_RANK];
        lj_ref_unravel(out, at, index);
        for (int d = 0; d < out->rank; d++) from[op->node->attributes.i[d]] = index[d];
        out->cells[at] = x->cells[lj_ref_ravel(x, from)];
    }
    return LJ_OK;
}

lj_status lj_ref_broadcast(const lj_ref_op *op)
{
    const lj_ref_tensor *x = op->inputs[0];
    lj_ref_tensor *out = &op->outputs[0];
    for (int64_t at = 0; at < out->count; at++) {
        int64_t index[LJ_MAX_RANK];
        lj_ref_unravel(out, at, index);
        for (int d = 0; d < out->rank; d++)
            if (x->dim[d] == 1) index[d] = 0;
        out->cells[at] = x->cells[lj_ref_ravel(x, index)];
    }
    return LJ_OK;
}

lj_status lj_ref_slice(const lj_ref_op *op)
{
    const lj_ref_tensor *x = op->inputs[0];
    lj_ref_tensor *out = &op->outputs[0];
    for (int64_t at = 0; at < out->count; at++) {
        int64_t index[LJ_MAX_RANK];
        lj_ref_unravel(out, at, index);
        index[op->node->attributes.i[0]] += op->node->attributes.i[1];
        out->cells[at] = x->cells[lj_ref_ravel(x, index)];
    }
    return LJ_OK;
}

/* Puts `part` into `out` with its first element at `start` along `axis`. */
static void paste(lj_ref_tensor *out, const lj_ref_tensor *part, int axis, int64_t start)
{
    for (int64_t at = 0; at < part->count; at++) {
        int64_t index[LJ_MAX_RANK];
        lj_ref_unravel(part, at, index);
        index[axis] += start;
        out->cells[lj_ref_ravel(out, index)] = part->cells[at];
    }
}

lj_status lj_ref_pad(const lj_ref_op *op)
{
    paste(&op->outputs[0], op->inputs[0], (int)op->node->attributes.i[0], op->node->attributes.i[1]);
    return LJ_OK;
}

lj_status lj_ref_concat(const lj_ref_op *op)
{
    int axis = (int)op->node->attributes.i[0];
    int64_t start = 0;
    for (int j = 0; j < op->node->input_count; j++) {
        paste(&op->outputs[0], op->inputs[j], axis, start);
        start += op->inputs[j]->dim[axis];
    }
    return LJ_OK;
}

static lj_status check_id(const lj_ref_op *op, int64_t id, int64_t rows)
{
    if (id >= 0 && id < rows) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s: id %lld is outside the table's rows 0..%lld", lj_node_describe(op->graph, op->node),
                   (long long)id, (long long)rows - 1);
}

lj_status lj_ref_gather(const lj_ref_op *op)
{
    const lj_ref_tensor *table = op->inputs[0], *ids = op->inputs[1];
    lj_ref_tensor *out = &op->outputs[0];
    int64_t width = lj_ref_extent(table, 1, table->rank);
    for (int64_t row = 0; row < ids->count; row++) {
        int64_t id = ids->cells[row].i;
        LJ_TRY(check_id(op, id, table->dim[0]));
        for (int64_t c = 0; c < width; c++) out->cells[row * width + c] = table->cells[id * width + c];
    }
    return LJ_OK;
}

lj_status lj_ref_scatter_add(const lj_ref_op *op)
{
    const lj_ref_tensor *base = op->inputs[0], *ids = op->inputs[1], *updates = op->inputs[2];
    lj_ref_tensor *out = &op->outputs[0];
    int64_t width = lj_ref_extent(base, 1, base->rank);
    memcpy(out->cells, base->cells, (size_t)out->count * sizeof(lj_ref_cell));
    for (int64_t row = 0; row < ids->count; row++) {
        int64_t id = ids->cells[row].i;
        LJ_TRY(check_id(op, id, base->dim[0]));
        for (int64_t c = 0; c < width; c++) {
            lj_ref_cell *sum = &out->cells[id * width + c], term = updates->cells[row * width + c];
            if (lj_ref_is_float(out))
                sum->f += term.f;
            else
                sum->i = (int64_t)((uint64_t)sum->i + (uint64_t)term.i);
        }
    }
    return LJ_OK;
}

lj_status lj_ref_update_rows(const lj_ref_op *op)
{
    const lj_ref_tensor *x = op->inputs[0], *update = op->inputs[1], *start = op->inputs[2];
    lj_ref_tensor *out = &op->outputs[0];
    int64_t width = lj_ref_extent(x, 2, x->rank), rows = update->dim[1];
    memcpy(out->cells, x->cells, (size_t)out->count * sizeof(lj_ref_cell));
    for (int64_t b = 0; b < x->dim[0]; b++) {
        int64_t first = start->cells[b].i;
        if (first < 0 || first > x->dim[1] - rows)
            return lj_fail(LJ_ERR_INVALID, "%s: rows %lld..%lld are outside the %lld rows there are",
                           lj_node_describe(op->graph, op->node), (long long)first, (long long)(first + rows - 1),
                           (long long)x->dim[1]);
        memcpy(out->cells + (b * x->dim[1] + first) * width, update->cells + b * rows * width,
               (size_t)(rows * width) * sizeof(lj_ref_cell));
    }
    return LJ_OK;
}
