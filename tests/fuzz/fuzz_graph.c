/* Text of a graph from anywhere: parsed, verified, printed, parsed again, and (when small) differentiated and interpreted. */
#include "ir/ir.h"
#include "ref/ref.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good) abort();
}

/* What parses must verify, and print to a text that parses to the same text. */
static void round_trip(const lj_graph *graph)
{
    char *text, *second;
    lj_graph *again;
    check(lj_graph_verify(graph) == LJ_OK);
    check(lj_graph_print(graph, &text) == LJ_OK);
    check(lj_graph_parse(text, &again) == LJ_OK);
    check(lj_graph_print(again, &second) == LJ_OK);
    check(strcmp(text, second) == 0);
    lj_text_free(text);
    lj_text_free(second);
    lj_graph_destroy(again);
}

static bool small(const lj_graph *graph, const int64_t *sizes)
{
    int64_t total = 0;
    for (size_t v = 1; v < graph->value_count; v++) {
        int64_t count;
        if (lj_type_elements(lj_type_get(graph, (lj_value)v), sizes, &count) != LJ_OK || count > 256) return false;
        total += count;
    }
    for (size_t n = 0; n < graph->node_count; n++)
        if (lj_op_rows[graph->nodes[n].op].class == LJ_CLASS_COMPOSITE) return false; /* their definitions may be large */
    return total < 4096;
}

static void interpret(const lj_graph *graph, const int64_t *sizes)
{
    static double zeros[256];
    lj_ref_binding *inputs = calloc(graph->node_count + 1, sizeof *inputs);
    size_t count = 0;
    for (size_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == LJ_OP_input) inputs[count++] = (lj_ref_binding){graph->nodes[n].name, zeros};
    memset(zeros, 0, sizeof zeros);
    lj_ref_run(graph, sizes, inputs, count, NULL, 0, NULL);
    free(inputs);
}

static void differentiate(lj_graph *graph)
{
    lj_value last = (lj_value)(graph->value_count - 1), gradient, with = 0;
    for (lj_value v = 1; v < graph->value_count && !with; v++)
        if (lj_is(graph, v, LJ_OP_input) && lj_dtype_rows[lj_type_get(graph, v)->dtype].is_float) with = v;
    if (!last || !with || !lj_dtype_rows[lj_type_get(graph, last)->dtype].is_float) return;
    lj_value loss = lj_sum_all(graph, last);
    if (lj_graph_differentiate(graph, loss, &with, 1, &gradient) == LJ_OK) check(lj_graph_verify(graph) == LJ_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t sizes[LJ_MAX_SYMBOLS] = {2, 3, 1, 0};
    char *text = malloc(size + 1);
    lj_graph *graph;
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    if (lj_graph_parse(text, &graph) == LJ_OK) {
        round_trip(graph);
        if (small(graph, sizes)) interpret(graph, sizes);
        differentiate(graph);
        lj_graph_destroy(graph);
    }
    free(text);
    return 0;
}
