/* Lifts patterns of primitives to the composites that they spell out. */
#include "ir/match.h"

#include "passes/passes.h"

static lj_status lift(lj_rewrite *rewrite, const lj_node *node, const lj_match *match)
{
    lj_value inputs[LJ_MATCH_INPUTS];
    for (int i = 0; i < match->input_count; i++) inputs[i] = rewrite->map[match->inputs[i]];
    lj_graph_at(rewrite->to, node->file, node->line);
    lj_value first = lj_node_append(rewrite->to, match->op, inputs, match->input_count, &match->attributes, NULL, 0);
    if (!first) return lj_graph_status(rewrite->to);
    lj_producer(rewrite->to, first)->name = lj_arena_strdup(&rewrite->to->arena, node->name);
    if (!lj_producer(rewrite->to, first)->name) return lj_fail(LJ_ERR_NOMEM, "match");
    rewrite->map[node->output] = first;
    return LJ_OK;
}

lj_status lj_pass_match(lj_graph **graph, const lj_pass_context *context)
{
    (void)context;
    const lj_graph *from = *graph;
    lj_rewrite rewrite;
    LJ_TRY(lj_rewrite_begin(&rewrite, from));
    lj_status status = LJ_OK;
    for (size_t n = 0; n < from->node_count && status == LJ_OK; n++) {
        lj_match match;
        const lj_node *node = &from->nodes[n];
        status = lj_match_root(from, node->output, &match) ? lift(&rewrite, node, &match) : lj_rewrite_copy(&rewrite, node);
    }
    return lj_rewrite_end(&rewrite, graph, status);
}
