#include "support/alone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *buffer_of(const test_buffers *buffers, const char *name)
{
    const test_buffer *buffer = test_buffers_find(buffers, name);
    return buffer ? buffer->data : NULL;
}

static int run_on(const lj_kernel *kernel, const int64_t *sizes, int threads, void **buffers, int count)
{
    void *scratch = NULL;
    int64_t bytes = lj_dim_eval(kernel->scratch_bytes, sizes);
    if (posix_memalign(&scratch, 64, (size_t)bytes + 64) != 0) return -1;
    memset(scratch, 0x5b, (size_t)bytes + 64);
    buffers[count] = scratch;
    int code = 0;
    for (int t = 0; t < threads && !code; t++) code = kernel->run(buffers, sizes, t, threads);
    for (int t = 0; kernel->finish && t < threads && !code; t++) code = kernel->finish(buffers, sizes, t, threads);
    for (int64_t i = bytes; i < bytes + 64 && !code; i++)
        if (((unsigned char *)scratch)[i] != 0x5b) code = -2; /* written outside */
    free(scratch);
    return code;
}

int test_kernel_run(const lj_kernel *kernel, const lj_graph *graph, const int64_t *sizes, int threads, const test_buffers *inputs,
                    const test_buffers *outputs)
{
    void **buffers = calloc((size_t)kernel->input_count + (size_t)kernel->result_count + 1, sizeof *buffers);
    int count = 0;
    if (!buffers) return -1;
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == LJ_OP_input) buffers[count++] = buffer_of(inputs, graph->nodes[i].name);
    for (size_t r = 0; r < graph->result_count; r++) {
        const lj_result *result = &graph->results[r];
        buffers[count++] = result->state ? buffer_of(inputs, lj_producer(graph, result->state)->name) : buffer_of(outputs, result->name);
    }
    int code = run_on(kernel, sizes, threads, buffers, count);
    free(buffers);
    return code;
}

static lj_status one_node(const lj_graph *graph, const lj_node *node, lj_graph **out)
{
    lj_graph *to;
    lj_value *map = calloc(graph->value_count, sizeof *map);
    if (!map) return LJ_ERR_NOMEM;
    LJ_TRY(lj_graph_create(&to));
    lj_status status = lj_graph_like(to, graph);
    for (int j = 0; j < node->input_count; j++) {
        char name[32];
        lj_value value = node->inputs[j];
        if (!value || map[value]) continue;
        snprintf(name, sizeof name, "v%u", value);
        map[value] = lj_input(to, name, *lj_type_get(graph, value), LJ_ROLE_DATA);
    }
    lj_rewrite rewrite = {graph, to, map};
    if (status == LJ_OK) status = lj_rewrite_copy(&rewrite, node);
    if (status == LJ_OK) status = lj_graph_output(to, "result", map[node->output]);
    free(map);
    if (status != LJ_OK)
        lj_graph_destroy(to);
    else
        *out = to;
    return status;
}

lj_status test_alone_init(test_alone *alone, const lj_graph *graph)
{
    *alone = (test_alone){.graphs = calloc(graph->node_count + 1, sizeof *alone->graphs),
                          .kernels = calloc(graph->node_count + 1, sizeof *alone->kernels),
                          .nodes = calloc(graph->node_count + 1, sizeof *alone->nodes)};
    for (size_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].op == LJ_OP_input) continue;
        LJ_TRY(one_node(graph, &graph->nodes[i], &alone->graphs[alone->count]));
        alone->nodes[alone->count++] = (uint32_t)i;
    }
    return LJ_OK;
}

lj_status test_alone_build(test_alone *alone)
{
    return lj_kernels_build((const lj_graph *const *)alone->graphs, alone->count, alone->kernels);
}

void test_alone_release(test_alone *alone)
{
    for (size_t i = 0; i < alone->count; i++) {
        lj_graph_destroy(alone->graphs[i]);
        lj_kernel_destroy(alone->kernels[i]);
    }
    free(alone->graphs), free(alone->kernels), free(alone->nodes);
}

static void *value_buffer(const lj_graph *exposed, lj_value value, const test_buffers *inputs, const test_buffers *values)
{
    char name[32];
    const lj_node *node = lj_producer(exposed, value);
    if (node->op == LJ_OP_input) return buffer_of(inputs, node->name);
    snprintf(name, sizeof name, "v%u", value);
    return buffer_of(values, name);
}

int test_alone_run(const test_alone *alone, const lj_graph *exposed, const int64_t *sizes, int threads, const test_buffers *inputs,
                   const test_buffers *values)
{
    for (size_t i = 0; i < alone->count; i++) {
        const lj_node *node = &exposed->nodes[alone->nodes[i]];
        void **buffers = calloc((size_t)node->input_count + 3, sizeof *buffers);
        int count = 0;
        if (!buffers) return -1;
        for (int j = 0; j < node->input_count; j++) {
            bool seen = false;
            for (int k = 0; k < j; k++) seen |= node->inputs[k] == node->inputs[j];
            if (!seen) buffers[count++] = value_buffer(exposed, node->inputs[j], inputs, values);
        }
        buffers[count++] = value_buffer(exposed, node->output, inputs, values);
        int code = run_on(alone->kernels[i], sizes, threads, buffers, count);
        free(buffers);
        if (code) return code;
    }
    return 0;
}
