/* Runs a planned program: resolves buffers, then goes through the flat list of steps. */
#include "runtime/program.h"

#include "base/clock.h"

#include <string.h>

static lj_status binding_find(lj_program *program, const char *name, lj_binding **out)
{
    const char *names[256];
    size_t count = 0;
    for (size_t i = 0; i < program->binding_count; i++) {
        if (strcmp(program->bindings[i].name, name) == 0) return *out = &program->bindings[i], LJ_OK;
        if (count < 256) names[count++] = program->bindings[i].name;
    }
    const char *near = lj_nearest_name(name, names, count);
    return lj_fail(LJ_ERR_NOT_FOUND, "%s: no input or output '%s'%s%s%s", program->name, name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

lj_status lj_program_bind(lj_program *program, const char *name, void *data)
{
    lj_binding *binding;
    LJ_TRY(binding_find(program, name, &binding));
    binding->data = data;
    return LJ_OK;
}

lj_status lj_program_bytes(lj_program *program, const char *name, const lj_size *sizes, size_t count, size_t *bytes)
{
    int64_t values[LJ_MAX_SYMBOLS] = {0};
    lj_binding *binding;
    LJ_TRY(binding_find(program, name, &binding));
    LJ_TRY(lj_program_sizes(program, sizes, count, values));
    return lj_type_bytes(lj_type_get(program->graph, binding->value), values, bytes);
}

static lj_status workspace_reserve(lj_program *program, const lj_plan *plan)
{
    if (plan->workspace_bytes <= program->workspace_bytes) return LJ_OK;
    void *fresh;
    program->device->free(program->workspace); /* first: the old and the new need not fit together */
    program->workspace = NULL, program->workspace_bytes = 0;
    LJ_TRY(program->device->alloc(program->workspace_name, plan->workspace_bytes, &fresh));
    program->workspace = fresh, program->workspace_bytes = plan->workspace_bytes;
    return LJ_OK;
}

lj_status lj_program_commit(lj_program *program, const lj_size *sizes, size_t count)
{
    int64_t values[LJ_MAX_SYMBOLS] = {0};
    lj_plan *plan;
    LJ_TRY(lj_program_sizes(program, sizes, count, values));
    LJ_TRY(lj_plan_get(program, values, &plan));
    return workspace_reserve(program, plan);
}

/* A pointer for each buffer; an unbound one that has bytes is the caller's mistake. */
static lj_status pointers_resolve(lj_program *program, const lj_plan *plan)
{
    for (size_t b = 0; b < program->buffer_count; b++) {
        const lj_buffer *buffer = &program->buffers[b];
        if (buffer->kind == LJ_BUFFER_WORKSPACE) {
            program->pointers[b] = (char *)program->workspace + plan->buffers[b].offset;
            continue;
        }
        const lj_binding *binding = &program->bindings[buffer->bound];
        size_t bytes;
        LJ_TRY(lj_type_bytes(lj_type_get(program->graph, buffer->value), plan->sizes, &bytes));
        if (!binding->data && bytes && buffer->first != UINT32_MAX)
            return lj_fail(LJ_ERR_INVALID, "%s: %s '%s' (%zu bytes) is not bound; call lj_program_bind", program->name,
                           binding->is_output ? "output" : "input", binding->name, bytes);
        program->pointers[b] = binding->data;
    }
    return LJ_OK;
}

/* Operations and bytes of one step at its sizes. */
static void step_work(const lj_program *program, const lj_step *step, const int64_t *sizes, double *flops, double *bytes)
{
    size_t part;
    *flops = *bytes = 0;
    if (!step->unit) {
        if (lj_type_bytes(lj_type_get(program->graph, step->copy_value), sizes, &part) == LJ_OK) *bytes = 2 * (double)part;
        return;
    }
    if (!step->kernel) {
        *flops = lj_node_flops(program->graph, step->node, sizes);
        *bytes = lj_node_bytes(program->graph, step->node, sizes);
        return;
    }
    const lj_graph *kernel = step->unit->kernel;
    for (size_t n = 0; n < kernel->node_count; n++) *flops += lj_node_flops(kernel, &kernel->nodes[n], sizes);
    for (uint32_t k = 0; k < step->unit->input_count + step->unit->output_count; k++) {
        lj_value v = k < step->unit->input_count ? step->unit->inputs[k] : step->unit->outputs[k - step->unit->input_count];
        if (lj_type_bytes(lj_type_get(program->graph, v), sizes, &part) == LJ_OK) *bytes += (double)part;
    }
}

lj_status lj_program_count(lj_program *program, const lj_size *sizes, size_t count, lj_program_work *work)
{
    int64_t values[LJ_MAX_SYMBOLS] = {0};
    LJ_TRY(lj_program_sizes(program, sizes, count, values));
    lj_program_work sum = {0};
    for (size_t i = 0; i < program->step_count; i++) {
        const lj_step *step = &program->steps[i];
        double flops, bytes;
        step_work(program, step, values, &flops, &bytes);
        bool gemm = step->unit && !step->kernel && step->node->op == LJ_OP_matmul, kernel = !step->unit || step->kernel;
        *(gemm ? &sum.gemm_flops : &sum.library_flops) += kernel ? 0 : flops;
        sum.total_bytes += bytes;
        if (kernel) sum.kernel_bytes += bytes;
    }
    *work = sum;
    return LJ_OK;
}

static void step_trace(const lj_program *program, const lj_planned_step *step, double seconds)
{
    double flops, bytes;
    step_work(program, step->step, step->sizes, &flops, &bytes);
    const char *name = step->step->node ? lj_node_describe(program->graph, step->step->node) : "copy";
    program->trace(program->trace_user, step->step->type->kind, name, seconds, flops, bytes);
}

static lj_status steps_run(lj_program *program, lj_plan *plan)
{
    for (size_t i = 0; i < program->step_count; i++) {
        const lj_planned_step *step = &plan->steps[i];
        double start = program->trace ? lj_now_s() : 0;
        lj_status status = step->step->type->run(step, (char *)program->workspace + step->scratch_offset);
        if (status != LJ_OK) return lj_fail_in(status, "%s: %s", program->name, step->step->node ? lj_node_describe(program->graph, step->step->node) : "copy");
        if (program->trace) step_trace(program, step, lj_now_s() - start);
    }
    return LJ_OK;
}

lj_status lj_program_run(lj_program *program, const lj_size *sizes, size_t count)
{
    int64_t values[LJ_MAX_SYMBOLS] = {0};
    lj_plan *plan;
    LJ_TRY(lj_program_sizes(program, sizes, count, values));
    LJ_TRY(lj_plan_get(program, values, &plan));
    LJ_TRY(workspace_reserve(program, plan));
    LJ_TRY(pointers_resolve(program, plan));
    return steps_run(program, plan);
}

void lj_program_trace(lj_program *program, lj_trace_fn fn, void *user)
{
    program->trace = fn, program->trace_user = user;
}
