#include "support/execute.h"

#include "ir/ir.h"
#include "ref/ref.h"

#include <stdlib.h>
#include <string.h>

static bool is_output(const lj_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->result_count; i++)
        if (graph->results[i].name && strcmp(graph->results[i].name, name) == 0) return true;
    return false;
}

static lj_status reference_run(const lj_graph *graph, const lj_size *sizes, size_t size_count, const test_binding *bindings, size_t count)
{
    int64_t values[LJ_MAX_SYMBOLS] = {0};
    for (int i = 0; i < graph->symbol_count; i++)
        for (size_t k = 0; k < size_count; k++)
            if (strcmp(graph->symbols[i], sizes[k].symbol) == 0) values[i] = sizes[k].size;
    lj_ref_binding *inputs = calloc(count + 1, sizeof *inputs), *outputs = calloc(count + 1, sizeof *outputs);
    size_t input_count = 0, output_count = 0;
    for (size_t i = 0; i < count; i++) {
        lj_ref_binding binding = {bindings[i].name, bindings[i].data};
        if (is_output(graph, binding.name))
            outputs[output_count++] = binding;
        else
            inputs[input_count++] = binding;
    }
    lj_status status = lj_ref_run(graph, values, inputs, input_count, outputs, output_count, NULL);
    free(inputs);
    free(outputs);
    return status;
}

static lj_status compiled_run(const lj_graph *graph, const lj_size *sizes, size_t size_count, const test_binding *bindings, size_t count)
{
    lj_program *program;
    lj_program_options options = {.threads = 2, .name = "test"};
    LJ_TRY(lj_program_compile(graph, &options, &program));
    lj_status status = LJ_OK;
    for (size_t i = 0; i < count && status == LJ_OK; i++) status = lj_program_bind(program, bindings[i].name, bindings[i].data);
    if (status == LJ_OK) status = lj_program_run(program, sizes, size_count);
    lj_program_destroy(program);
    return status;
}

lj_status test_execute(const lj_graph *graph, test_backend backend, const lj_size *sizes, size_t size_count, const test_binding *bindings,
                       size_t count)
{
    return (backend == TEST_COMPILED ? compiled_run : reference_run)(graph, sizes, size_count, bindings, count);
}
