/* Drops what no result needs. Inputs stay: they are the program's interface. */
#include "passes/passes.h"

static void mark(const lj_graph *graph, bool *live)
{
    for (size_t i = 0; i < graph->result_count; i++) live[graph->values[graph->results[i].value].node] = true;
    for (size_t n = graph->node_count; n-- > 0;) {
        const lj_node *node = &graph->nodes[n];
        if (node->op == LJ_OP_input || node->op == LJ_OP_send) live[n] = true;
        for (int i = 0; live[n] && i < node->input_count; i++)
            if (node->inputs[i]) live[graph->values[node->inputs[i]].node] = true;
    }
}

lj_status lj_pass_dce(lj_graph **graph, const lj_pass_context *context)
{
    (void)context;
    void *memory;
    lj_rewrite rewrite;
    const lj_graph *from = *graph;
    LJ_TRY(lj_alloc_zero("passes", from->node_count + 1, &memory));
    bool *live = memory;
    mark(from, live);
    lj_status status = lj_rewrite_begin(&rewrite, from);
    if (status == LJ_OK) {
        for (size_t n = 0; n < from->node_count && status == LJ_OK; n++)
            if (live[n]) status = lj_rewrite_copy(&rewrite, &from->nodes[n]);
        status = lj_rewrite_end(&rewrite, graph, status);
    }
    lj_free(memory);
    return status;
}
