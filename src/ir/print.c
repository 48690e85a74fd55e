/* Text form of a graph. parse.c reads exactly this.
 *
 *   ljgraph 1
 *   symbols B T
 *   gradients f32
 *   %1 = input() {role=1} : bf16[4*B,576] "embed" @ "model.c":40
 *   %2 = rms_norm(%1, %3) {eps=1e-05} : bf16[..], f32[..] "layers.0" @ ...
 *   output "loss" %9
 *   assign %3 %8                                                                                                              */
#include "ir/ir.h"
#include "ir/attributes.h"

#include <string.h>

static void print_attributes(lj_text *out, const lj_graph *graph, const lj_node *node)
{
    lj_attribute_slot slots[LJ_MAX_ATTRIBUTES];
    int count = lj_attribute_slots(node->op, slots);
    const char *separator = " {";
    for (int i = 0; i < count; i++) {
        lj_text_add(out, "%s%.*s=", separator, slots[i].name_length, slots[i].name);
        separator = ", ";
        switch (slots[i].kind) {
        case 'i': lj_text_add(out, "%lld", (long long)node->attributes.i[slots[i].index]); break;
        case 'f': lj_text_add(out, "%.17g", node->attributes.f[slots[i].index]); break;
        case 's': lj_text_add(out, "\"%s\"", node->attributes.s); break;
        default:
            for (int d = 0; d < lj_type_get(graph, node->output)->rank; d++)
                lj_text_add(out, d ? " %lld" : "%lld", (long long)node->attributes.i[d]);
        }
    }
    if (count) lj_text_add(out, "}");
}

static void print_node(lj_text *out, const lj_graph *graph, const lj_node *node)
{
    lj_text_add(out, "%%%u = %s(", node->output, lj_op_rows[node->op].name);
    for (int i = 0; i < node->input_count; i++) lj_text_add(out, node->inputs[i] ? "%s%%%u" : "%s_", i ? ", " : "", node->inputs[i]);
    lj_text_add(out, ")");
    print_attributes(out, graph, node);
    for (int k = 0; k < node->output_count; k++) {
        lj_text_add(out, k ? ", " : " : ");
        lj_type_print(out, graph, lj_type_get(graph, node->output + (lj_value)k));
    }
    if (*node->name) lj_text_add(out, " \"%s\"", node->name);
    if (*node->file && !strpbrk(node->file, "\"\n") && strlen(node->file) <= LJ_MAX_NAME)
        lj_text_add(out, " @ \"%s\":%d", node->file, node->line);
    lj_text_add(out, "\n");
}

lj_status lj_graph_print(const lj_graph *graph, char **text)
{
    lj_text out;
    lj_text_init(&out);
    lj_text_add(&out, "ljgraph 1\nsymbols");
    for (int i = 0; i < graph->symbol_count; i++) lj_text_add(&out, " %s", graph->symbols[i]);
    lj_text_add(&out, "\ngradients %s\n", lj_dtype_name(graph->gradient_dtype));
    for (size_t n = 0; n < graph->node_count; n++)
        if (!graph->nodes[n].dead) print_node(&out, graph, &graph->nodes[n]);
    for (size_t i = 0; i < graph->result_count; i++) {
        const lj_result *result = &graph->results[i];
        if (result->state)
            lj_text_add(&out, "assign %%%u %%%u\n", result->state, result->value);
        else
            lj_text_add(&out, "output \"%s\" %%%u\n", result->name, result->value);
    }
    lj_status status = lj_text_status(&out);
    if (status == LJ_OK)
        *text = out.data;
    else
        lj_text_release(&out);
    return status;
}

void lj_text_free(char *text)
{
    lj_free(text);
}
