/* Composites: their decomposition in a graph of its own, interpreted. */
#include "ref/run.h"

/* Operands become inputs of `graph`; then the definition is appended. */
static lj_status define(lj_graph *graph, const lj_ref_op *op, lj_value *inputs, lj_value *outputs)
{
    LJ_TRY(lj_graph_like(graph, op->graph));
    for (int j = 0; j < op->node->input_count; j++) {
        char name[32];
        snprintf(name, sizeof name, "operand %d", j);
        inputs[j] = op->inputs[j] ? lj_input(graph, name, *lj_type_get(op->graph, op->node->inputs[j]), LJ_ROLE_DATA) : 0;
    }
    LJ_TRY(lj_graph_status(graph));
    LJ_TRY(lj_decompose(graph, op->node, inputs, outputs));
    LJ_TRY(lj_graph_status(graph));
    for (int k = 0; k < op->node->output_count; k++) {
        const lj_type *declared = lj_type_get(op->graph, op->node->output + (lj_value)k);
        if (!outputs[k] || !lj_type_equal(lj_type_get(graph, outputs[k]), declared))
            return lj_fail(LJ_ERR_INVALID, "result %d of the definition has another type than its row gives", k);
    }
    return LJ_OK;
}

/* Operands are copied in, results moved out: a result may be an operand as it stands. */
static lj_status interpret(lj_ref_frame *frame, const lj_ref_op *op, const lj_value *inputs, const lj_value *outputs)
{
    for (int j = 0; j < op->node->input_count; j++)
        if (inputs[j]) LJ_TRY(lj_ref_tensor_copy(&frame->tensors[inputs[j]], op->inputs[j]));
    for (int k = 0; k < op->node->output_count; k++) lj_ref_frame_keep(frame, outputs[k]);
    lj_ref_mode mode = op->mode;
    mode.inside = true;
    LJ_TRY(lj_ref_frames_run(frame, 1, op->sizes, mode));
    for (int k = 0; k < op->node->output_count; k++)
        memcpy(op->outputs[k].cells, frame->tensors[outputs[k]].cells, (size_t)op->outputs[k].count * sizeof(lj_ref_cell));
    return LJ_OK;
}

lj_status lj_ref_composite(const lj_ref_op *op)
{
    lj_value inputs[16], outputs[LJ_MAX_OUTPUTS] = {0};
    lj_ref_frame frame = {.graph = NULL};
    lj_graph *graph;
    LJ_TRY(lj_graph_create(&graph));
    lj_status status = define(graph, op, inputs, outputs);
    if (status == LJ_OK) status = lj_ref_frame_init(&frame, graph);
    if (status == LJ_OK) status = interpret(&frame, op, inputs, outputs);
    lj_ref_frame_release(&frame);
    lj_graph_destroy(graph);
    return lj_fail_in(status, "%s", lj_node_describe(op->graph, op->node));
}
