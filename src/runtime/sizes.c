/* Plans: from sizes to offsets. Library steps get ready (their scratch is part of the plan), buffers get places; nothing of the
 * workspace is allocated here. The last plans are kept. */
#include "runtime/program.h"

#include <string.h>

static lj_status symbol_index(const lj_program *program, const char *name, int *index)
{
    for (int i = 0; i < program->graph->symbol_count; i++)
        if (strcmp(program->graph->symbols[i], name) == 0) return *index = i, LJ_OK;
    const char *near = lj_nearest_name(name, program->graph->symbols, (size_t)program->graph->symbol_count);
    return lj_fail(LJ_ERR_NOT_FOUND, "%s: no size symbol '%s'%s%s%s", program->name, name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

lj_status lj_program_sizes(const lj_program *program, const lj_size *sizes, size_t count, int64_t *out)
{
    bool given[LJ_MAX_SYMBOLS] = {false};
    for (size_t i = 0; i < count; i++) {
        int index = 0;
        LJ_TRY(symbol_index(program, sizes[i].symbol, &index));
        if (sizes[i].size < 0) return lj_fail(LJ_ERR_INVALID, "%s: size %s = %lld is negative", program->name, sizes[i].symbol, (long long)sizes[i].size);
        out[index] = sizes[i].size;
        given[index] = true;
    }
    for (int i = 0; i < program->graph->symbol_count; i++)
        if (!given[i]) return lj_fail(LJ_ERR_INVALID, "%s: the size of symbol %s is not given", program->name, program->graph->symbols[i]);
    return LJ_OK;
}

void lj_plan_destroy(lj_plan *plan)
{
    if (!plan) return;
    const lj_program *program = plan->steps ? plan->steps[0].program : NULL;
    for (size_t i = 0; program && i < program->step_count; i++)
        if (plan->steps[i].step && plan->steps[i].step->type->release && plan->steps[i].handle) plan->steps[i].step->type->release(&plan->steps[i]);
    lj_free(plan->steps);
    lj_free(plan->buffers);
    lj_free(plan);
}

static lj_status plan_alloc(lj_program *program, const int64_t *sizes, lj_plan **out)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("plan", sizeof(lj_plan), &memory));
    lj_plan *plan = memory;
    memcpy(plan->sizes, sizes, sizeof plan->sizes);
    lj_status status = lj_alloc_zero("plan", (program->step_count + 1) * sizeof(lj_planned_step), &memory);
    if (status == LJ_OK) {
        plan->steps = memory;
        plan->steps[0].program = program;
        status = lj_alloc_zero("plan", (program->buffer_count + program->step_count + 1) * sizeof(lj_plan_buffer), &memory);
    }
    if (status == LJ_OK)
        plan->buffers = memory;
    else
        lj_plan_destroy(plan);
    if (status == LJ_OK) *out = plan;
    return status;
}

static lj_status steps_prepare(lj_program *program, lj_plan *plan)
{
    for (size_t i = 0; i < program->step_count; i++) {
        lj_planned_step *step = &plan->steps[i];
        const lj_step *of = &program->steps[i];
        *step = (lj_planned_step){.step = of, .program = program, .sizes = plan->sizes};
        if (!of->type->prepare) continue;
        lj_status status = of->type->prepare(step);
        if (status != LJ_OK) return lj_fail_in(status, "%s", lj_node_describe(program->graph, of->node));
        if (step->scratch_bytes > plan->scratch_bytes) plan->scratch_bytes = step->scratch_bytes;
    }
    return LJ_OK;
}

static lj_status buffers_describe(const lj_program *program, lj_plan *plan)
{
    for (size_t b = 0; b < program->buffer_count; b++) {
        const lj_buffer *buffer = &program->buffers[b];
        size_t bytes;
        LJ_TRY(lj_type_bytes(lj_type_get(program->graph, buffer->value), plan->sizes, &bytes));
        if (buffer->kind == LJ_BUFFER_BOUND) {
            bool output = program->bindings[buffer->bound].is_output;
            *(output ? &plan->info.output_bytes : &plan->info.input_bytes) += bytes;
        } else if (buffer->first != UINT32_MAX) {
            plan->buffers[b] = (lj_plan_buffer){bytes, buffer->first, buffer->last, 0};
        }
    }
    for (uint32_t i = 0; i < program->step_count; i++)
        plan->buffers[program->buffer_count + i] = (lj_plan_buffer){plan->steps[i].scratch_bytes, i, i, 0};
    return LJ_OK;
}

static lj_status plan_fill(lj_program *program, lj_plan *plan)
{
    size_t all = program->buffer_count + program->step_count;
    uint32_t peak_step;
    LJ_TRY(steps_prepare(program, plan));
    LJ_TRY(buffers_describe(program, plan));
    LJ_TRY(lj_plan_offsets(plan->buffers, all, &plan->workspace_bytes));
    for (size_t i = 0; i < program->step_count; i++) plan->steps[i].scratch_offset = plan->buffers[program->buffer_count + i].offset;
    lj_plan_live_peak(plan->buffers, all, (uint32_t)program->step_count, &peak_step);
    plan->info.workspace_bytes = plan->workspace_bytes;
    plan->info.scratch_bytes = plan->scratch_bytes;
    plan->info.peak_bytes = plan->workspace_bytes + plan->info.input_bytes + plan->info.output_bytes;
    plan->info.step_count = program->step_count;
    plan->info.peak_step = peak_step;
    return LJ_OK;
}

/* Room for one more: the plan not used for longest goes. */
static void plan_evict(lj_program *program)
{
    size_t oldest = 0;
    for (size_t i = 1; i < program->plan_count; i++)
        if (program->plans[i]->last_used < program->plans[oldest]->last_used) oldest = i;
    lj_plan_destroy(program->plans[oldest]);
    program->plans[oldest] = program->plans[--program->plan_count];
}

lj_status lj_plan_get(lj_program *program, const int64_t *sizes, lj_plan **out)
{
    for (size_t i = 0; i < program->plan_count; i++) {
        lj_plan *plan = program->plans[i];
        if (memcmp(plan->sizes, sizes, sizeof plan->sizes) != 0) continue;
        plan->last_used = ++program->clock;
        *out = plan;
        return LJ_OK;
    }
    lj_plan *plan;
    LJ_TRY(plan_alloc(program, sizes, &plan));
    lj_status status = plan_fill(program, plan);
    if (status != LJ_OK) {
        lj_plan_destroy(plan);
        return status;
    }
    if (program->plan_count == LJ_MAX_PLANS) plan_evict(program);
    plan->last_used = ++program->clock;
    program->plans[program->plan_count++] = plan;
    *out = plan;
    return LJ_OK;
}

lj_status lj_program_plan(lj_program *program, const lj_size *sizes, size_t count, lj_plan_info *info)
{
    int64_t values[LJ_MAX_SYMBOLS] = {0};
    lj_plan *plan;
    LJ_TRY(lj_program_sizes(program, sizes, count, values));
    LJ_TRY(lj_plan_get(program, values, &plan));
    *info = plan->info;
    return LJ_OK;
}
