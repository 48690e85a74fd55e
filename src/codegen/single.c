/* Kernels of one node whose work is no loop nest over independent elements: argmax, scatter_add, update_rows. */
#include "codegen/lower.h"
#include "codegen/nest.h"

typedef struct {
    lj_op op;
    lj_kernel_form form;
} form_row;

static const form_row form_rows[] = {
    {LJ_OP_argmax, LJ_KERNEL_ARGMAX}, {LJ_OP_scatter_add, LJ_KERNEL_SCATTER_ADD}, {LJ_OP_update_rows, LJ_KERNEL_UPDATE_ROWS}};

static const lj_node *only_node(const lj_graph *graph)
{
    const lj_node *node = lj_producer(graph, graph->results[0].value);
    if (graph->result_count != 1) return NULL;
    for (int i = 0; i < node->input_count; i++)
        if (!lj_is(graph, node->inputs[i], LJ_OP_input)) return NULL;
    return node;
}

lj_status lj_lower_single(lj_lowered *lowered, const int *input_buffer, bool *taken)
{
    const lj_graph *graph = lowered->graph;
    const lj_node *node = only_node(graph);
    *taken = false;
    for (size_t i = 0; node && i < sizeof form_rows / sizeof *form_rows; i++) {
        if (node->op != form_rows[i].op) continue;
        for (int j = 0; j < node->input_count; j++) {
            lowered->single_types[j] = *lj_type_get(graph, node->inputs[j]);
            lowered->single_buffer[j] = input_buffer[node->inputs[j]];
        }
        lowered->single_types[node->input_count] = *lj_type_get(graph, node->output);
        lowered->single_buffer[node->input_count] = lowered->input_count;
        lowered->single_axis = node->attributes.i[0];
        lowered->form = form_rows[i].form;
        int same = lowered->buffers[lowered->input_count].same_as;
        if (same >= 0 && (lowered->form == LJ_KERNEL_ARGMAX || same != lowered->single_buffer[0]))
            return lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: %s can only be done in place over its first operand", lj_op_rows[node->op].name);
        *taken = true;
    }
    return LJ_OK;
}
