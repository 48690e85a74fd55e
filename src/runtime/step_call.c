/* Opaque calls, and collectives of one rank. */
#include "runtime/steps.h"

#include <string.h>

static lj_tensor tensor_of(const lj_planned_step *step, lj_value value)
{
    const lj_type *type = lj_type_get(step->program->graph, value);
    lj_tensor tensor = {.dtype = type->dtype, .rank = type->rank, .data = lj_value_pointer(step->program, value)};
    for (int i = 0; i < type->rank; i++) tensor.dim[i] = lj_dim_eval(type->dim[i], step->sizes);
    return tensor;
}

static const lj_call_row *row_find(const lj_planned_step *step)
{
    const lj_graph *graph = step->program->graph;
    for (size_t i = 0; i < graph->call_count; i++)
        if (strcmp(graph->calls[i].name, step->step->node->attributes.s) == 0) return &graph->calls[i];
    return NULL;
}

static lj_status call_prepare(lj_planned_step *step)
{
    const lj_call_row *row = row_find(step);
    if (row && row->forward) return LJ_OK;
    return lj_fail(LJ_ERR_NOT_FOUND, "call '%s' has no function; give it with lj_graph_call_bind before compiling", step->step->node->attributes.s);
}

static lj_status call_run(const lj_planned_step *step, void *scratch)
{
    const lj_unit *unit = step->step->unit;
    const lj_call_row *row = row_find(step);
    lj_tensor inputs[192], outputs[64];
    (void)scratch;
    for (uint32_t i = 0; i < unit->input_count; i++) inputs[i] = tensor_of(step, unit->inputs[i]);
    for (uint32_t k = 0; k < unit->output_count; k++) outputs[k] = tensor_of(step, unit->outputs[k]);
    int code = row->forward(row->user, inputs, (int)unit->input_count, outputs, (int)unit->output_count);
    return code ? lj_fail(LJ_ERR_INVALID, "call '%s' returned %d", row->name, code) : LJ_OK;
}

/* One rank: every collective is a copy. More need a communicator, which a program does not have. */
static lj_status collective_prepare(lj_planned_step *step)
{
    const lj_node *node = step->step->node;
    bool alone = node->op != LJ_OP_send && node->op != LJ_OP_recv && node->attributes.i[0] == 1;
    if (alone) return LJ_OK;
    return lj_fail(LJ_ERR_UNSUPPORTED, "a program of one rank cannot talk to others; compile the graph for 1 rank");
}

static lj_status collective_run(const lj_planned_step *step, void *scratch)
{
    size_t bytes;
    (void)scratch;
    LJ_TRY(lj_type_bytes(lj_step_type_of(step, 0), step->sizes, &bytes));
    step->program->device->copy(lj_step_output(step, 0), lj_step_input(step, 0), bytes, step->program->threads);
    return LJ_OK;
}

const lj_step_type lj_step_call = {"call", call_prepare, call_run, NULL};
const lj_step_type lj_step_collective = {"collective", collective_prepare, collective_run, NULL};
