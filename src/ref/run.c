/* The reference's public face: buffers in, frames run, buffers out. */
#include "ref/run.h"

static const lj_ref_binding *binding_find(const lj_ref_binding *bindings, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(bindings[i].name, name) == 0) return &bindings[i];
    return NULL;
}

static lj_status inputs_load(lj_ref_frame *frame, const lj_ref_member *member, const int64_t *sizes, bool exact)
{
    for (size_t n = 0; n < member->graph->node_count; n++) {
        const lj_node *node = &member->graph->nodes[n];
        if (node->dead || node->op != LJ_OP_input) continue;
        const lj_ref_binding *binding = binding_find(member->inputs, member->input_count, node->name);
        if (!binding)
            return lj_fail(LJ_ERR_NOT_FOUND, "reference: no buffer for input '%s': bind it by that name", node->name);
        lj_ref_tensor *tensor = &frame->tensors[node->output];
        LJ_TRY(lj_ref_tensor_init(tensor, lj_type_get(member->graph, node->output), sizes));
        lj_ref_tensor_load(tensor, binding->data, exact);
    }
    return LJ_OK;
}

static lj_status outputs_check(const lj_ref_member *member)
{
    for (size_t i = 0; i < member->output_count; i++) {
        bool known = false;
        for (size_t r = 0; r < member->graph->result_count; r++)
            known |= !member->graph->results[r].state && strcmp(member->graph->results[r].name, member->outputs[i].name) == 0;
        if (!known) return lj_fail(LJ_ERR_NOT_FOUND, "reference: the graph has no output '%s'", member->outputs[i].name);
    }
    return LJ_OK;
}

/* All tensors are in hand, so that nothing here can fail. */
static void results_store(const lj_ref_frame *frame, const lj_ref_member *member, bool exact)
{
    for (size_t r = 0; r < member->graph->result_count; r++) {
        const lj_result *result = &member->graph->results[r];
        const lj_ref_binding *binding =
            result->state ? binding_find(member->inputs, member->input_count, lj_producer(member->graph, result->state)->name)
                          : binding_find(member->outputs, member->output_count, result->name);
        if (binding) lj_ref_tensor_store(&frame->tensors[result->value], binding->data, exact);
    }
}

lj_status lj_ref_run_members(const lj_ref_member *members, int count, const int64_t *sizes, const lj_ref_options *options)
{
    uint64_t noise = options ? options->noise : 0;
    lj_ref_mode mode = {options && options->exact, false, noise ? &noise : NULL};
    bool exact = mode.exact;
    void *memory;
    LJ_TRY(lj_alloc_zero("reference", (size_t)count * sizeof(lj_ref_frame), &memory));
    lj_ref_frame *frames = memory;
    lj_status status = LJ_OK;
    for (int rank = 0; rank < count && status == LJ_OK; rank++) {
        status = outputs_check(&members[rank]);
        if (status == LJ_OK) status = lj_ref_frame_init(&frames[rank], members[rank].graph);
        if (status == LJ_OK) status = inputs_load(&frames[rank], &members[rank], sizes, exact);
    }
    if (status == LJ_OK) status = lj_ref_frames_run(frames, count, sizes, mode);
    for (int rank = 0; rank < count; rank++) {
        if (status == LJ_OK) results_store(&frames[rank], &members[rank], exact);
        lj_ref_frame_release(&frames[rank]);
    }
    lj_free(memory);
    return status;
}

lj_status lj_ref_run(const lj_graph *graph, const int64_t *sizes, const lj_ref_binding *inputs, size_t input_count,
                     const lj_ref_binding *outputs, size_t output_count, const lj_ref_options *options)
{
    lj_ref_member member = {graph, inputs, input_count, outputs, output_count};
    return lj_ref_run_members(&member, 1, sizes, options);
}

/* -- one node -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    lj_ref_tensor *operands, *results; /* `operand_count` and the node's output_count */
    const lj_ref_tensor **inputs;      /* into operands; NULL where the operand is none */
    int operand_count, result_count;
} node_tensors;

static void node_tensors_release(node_tensors *t)
{
    if (t->operands) lj_ref_outputs_release(t->operands, t->operand_count);
    if (t->results) lj_ref_outputs_release(t->results, t->result_count);
    lj_free(t->operands);
    lj_free(t->results);
    lj_free((void *)t->inputs);
}

static lj_status node_tensors_load(node_tensors *t, const lj_graph *graph, const lj_node *node, const int64_t *sizes,
                                   const void *const *data, bool exact)
{
    void *operands, *results, *inputs;
    LJ_TRY(lj_alloc_zero("reference", node->input_count * sizeof(lj_ref_tensor), &operands));
    t->operands = operands, t->operand_count = node->input_count;
    LJ_TRY(lj_alloc_zero("reference", node->output_count * sizeof(lj_ref_tensor), &results));
    t->results = results, t->result_count = node->output_count;
    LJ_TRY(lj_alloc_zero("reference", node->input_count * sizeof(lj_ref_tensor *), &inputs));
    t->inputs = inputs;
    for (int j = 0; j < node->input_count; j++) {
        if (!node->inputs[j]) continue;
        LJ_TRY(lj_ref_tensor_init(&t->operands[j], lj_type_get(graph, node->inputs[j]), sizes));
        lj_ref_tensor_load(&t->operands[j], data[j], exact);
        t->inputs[j] = &t->operands[j];
    }
    return LJ_OK;
}

/* A collective of one rank, or a node that needs no other. */
static lj_status node_alone(node_tensors *t, const lj_graph *graph, const lj_node *node, const int64_t *sizes, bool exact)
{
    const lj_ref_row *row = &lj_ref_rows[node->op];
    if (row->run) return lj_ref_node_run(graph, node, sizes, (lj_ref_mode){exact, false, NULL}, t->inputs, t->results);
    if (!row->exchange || node->attributes.i[0] != 1)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s needs other ranks: use lj_ref_run_members", lj_node_describe(graph, node));
    LJ_TRY(lj_ref_outputs_init(graph, node, sizes, t->results));
    row->exchange(&(lj_ref_exchange){1, t->inputs, (lj_ref_tensor *const[]){t->results}});
    lj_ref_tensor_round(t->results, exact);
    return LJ_OK;
}

lj_status lj_ref_node(const lj_graph *graph, const lj_node *node, const int64_t *sizes, const void *const *inputs,
                      void *const *outputs, const lj_ref_options *options)
{
    bool exact = options && options->exact;
    node_tensors t = {.operand_count = 0};
    lj_status status = node_tensors_load(&t, graph, node, sizes, inputs, exact);
    if (status == LJ_OK) status = node_alone(&t, graph, node, sizes, exact);
    for (int k = 0; k < node->output_count && status == LJ_OK; k++)
        if (outputs[k]) lj_ref_tensor_store(&t.results[k], outputs[k], exact);
    node_tensors_release(&t);
    return status;
}
