/* Opaque calls: operands and results as buffers in their dtypes (doubles when exact), then the function itself. */
#include "ref/tensor.h"

typedef struct {
    lj_tensor *tensors; /* inputs, then outputs */
    int input_count, output_count;
} call_buffers;

static void buffers_release(call_buffers *buffers)
{
    if (!buffers->tensors) return;
    for (int i = 0; i < buffers->input_count + buffers->output_count; i++) lj_free(buffers->tensors[i].data);
    lj_free(buffers->tensors);
}

static lj_status buffer_make(lj_tensor *out, const lj_ref_tensor *tensor, bool exact)
{
    lj_tensor made = {.dtype = exact && lj_ref_is_float(tensor) ? LJ_F64 : tensor->dtype, .rank = tensor->rank};
    for (int d = 0; d < tensor->rank; d++) made.dim[d] = tensor->dim[d];
    LJ_TRY(lj_alloc_zero("reference", (size_t)tensor->count * lj_dtype_bytes(made.dtype), &made.data));
    *out = made;
    return LJ_OK;
}

static lj_status buffers_make(call_buffers *buffers, const lj_ref_op *op)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("reference", (size_t)(buffers->input_count + buffers->output_count) * sizeof(lj_tensor), &memory));
    buffers->tensors = memory;
    for (int j = 0; j < buffers->input_count; j++) {
        LJ_TRY(buffer_make(&buffers->tensors[j], op->inputs[j], op->mode.exact));
        lj_ref_tensor_store(op->inputs[j], buffers->tensors[j].data, op->mode.exact);
    }
    for (int k = 0; k < buffers->output_count; k++)
        LJ_TRY(buffer_make(&buffers->tensors[buffers->input_count + k], &op->outputs[k], op->mode.exact));
    return LJ_OK;
}

static const lj_call_row *row_find(const lj_ref_op *op)
{
    for (size_t i = 0; i < op->graph->call_count; i++)
        if (strcmp(op->graph->calls[i].name, op->node->attributes.s) == 0) return &op->graph->calls[i];
    return NULL;
}

static lj_status call_run(const lj_ref_op *op, const lj_call_row *row, call_buffers *buffers)
{
    LJ_TRY(buffers_make(buffers, op));
    const lj_tensor *outputs = buffers->tensors + buffers->input_count;
    int code = row->forward(row->user, buffers->tensors, buffers->input_count, outputs, buffers->output_count);
    if (code != 0) return lj_fail(LJ_ERR_INVALID, "%s: the function returned %d", lj_node_describe(op->graph, op->node), code);
    for (int k = 0; k < buffers->output_count; k++) lj_ref_tensor_load(&op->outputs[k], outputs[k].data, op->mode.exact);
    return LJ_OK;
}

lj_status lj_ref_call(const lj_ref_op *op)
{
    const lj_call_row *row = row_find(op);
    call_buffers buffers = {NULL, op->node->input_count, op->node->output_count};
    if (!row || !row->forward)
        return lj_fail(LJ_ERR_NOT_FOUND, "%s: no function '%s': give it with lj_graph_call_bind", lj_node_describe(op->graph, op->node),
                       op->node->attributes.s);
    lj_status status = call_run(op, row, &buffers);
    buffers_release(&buffers);
    return status;
}
