/* The table of library steps, and the two steps that have no op: generated kernels and copies. */
#include "runtime/steps.h"

#include <stdatomic.h>

static const lj_step_type *const step_types[LJ_OP_COUNT] = {
    [LJ_OP_matmul] = &lj_step_gemm,
    [LJ_OP_attention] = &lj_step_attention,
    [LJ_OP_attention_grad] = &lj_step_attention_grad,
    [LJ_OP_head_loss] = &lj_step_head,
    [LJ_OP_head_loss_grad] = &lj_step_head,
    [LJ_OP_head_loss_train] = &lj_step_head,
    [LJ_OP_scatter_add] = &lj_step_scatter_add,
    [LJ_OP_update_rows] = &lj_step_update_rows,
    [LJ_OP_sum_squares] = &lj_step_sum_squares,
    [LJ_OP_adamw] = &lj_step_adamw,
    [LJ_OP_call] = &lj_step_call,
    [LJ_OP_all_gather] = &lj_step_collective,
    [LJ_OP_reduce_scatter] = &lj_step_collective,
    [LJ_OP_all_reduce] = &lj_step_collective,
    [LJ_OP_all_to_all] = &lj_step_collective,
    [LJ_OP_send] = &lj_step_collective,
    [LJ_OP_recv] = &lj_step_collective,
};

const lj_step_type *lj_step_type_find(lj_op op)
{
    return step_types[op];
}

int lj_in_place_operand(const lj_node *node, int output)
{
    switch (node->op) {
    case LJ_OP_matmul: return node->input_count > 2 && node->inputs[2] ? 2 : -1;
    case LJ_OP_scatter_add:
    case LJ_OP_update_rows: return 0;
    case LJ_OP_head_loss_grad: return output == 1 && node->input_count == 6 ? 5 : -1;
    case LJ_OP_head_loss_train: return output == 3 && node->input_count == 5 ? 4 : -1;
    case LJ_OP_adamw: return output;
    default: return -1;
    }
}

/* -- generated kernels -------------------------------------------------------------------------------------------------------- */

typedef struct {
    lj_kernel_fn fn;
    void **buffers;
    const int64_t *sizes;
    _Atomic int error;
} kernel_call;

static void kernel_share(void *arg, int thread, int threads)
{
    kernel_call *call = arg;
    int error = call->fn(call->buffers, call->sizes, thread, threads);
    if (error) atomic_store(&call->error, error);
}

static lj_status kernel_prepare(lj_planned_step *step)
{
    int64_t bytes = lj_dim_eval(step->step->kernel->scratch_bytes, step->sizes);
    if (bytes < 0) return lj_fail(LJ_ERR_LIMIT, "kernel scratch overflows 64 bits");
    step->scratch_bytes = (size_t)bytes;
    return LJ_OK;
}

static lj_status kernel_call_run(const lj_planned_step *step, void **buffers, void *scratch)
{
    const lj_unit *unit = step->step->unit;
    const lj_program *program = step->program;
    const lj_kernel *kernel = step->step->kernel;
    uint32_t n = 0;
    for (uint32_t k = 0; k < unit->input_count; k++) buffers[n++] = lj_value_pointer(program, unit->inputs[k]);
    for (uint32_t k = 0; k < unit->output_count; k++) buffers[n++] = lj_value_pointer(program, unit->outputs[k]);
    buffers[n] = scratch;
    kernel_call call = {kernel->run, buffers, step->sizes, 0};
    program->device->launch(program->threads, kernel_share, &call);
    if (kernel->finish) {
        call.fn = kernel->finish;
        program->device->launch(program->threads, kernel_share, &call);
    }
    int error = atomic_load(&call.error);
    return error ? lj_fail(LJ_ERR_INVALID, "an id is outside its table") : LJ_OK;
}

static lj_status kernel_run(const lj_planned_step *step, void *scratch)
{
    const lj_unit *unit = step->step->unit;
    void *few[64], *many;
    size_t count = unit->input_count + unit->output_count + 1;
    if (count <= 64) return kernel_call_run(step, few, scratch);
    LJ_TRY(lj_alloc("kernel arguments", count * sizeof(void *), &many));
    lj_status status = kernel_call_run(step, many, scratch);
    lj_free(many);
    return status;
}

const lj_step_type lj_step_kernel = {"kernel", kernel_prepare, kernel_run, NULL};

/* -- copies --------------------------------------------------------------------------------------------------------------------- */

static lj_status copy_run(const lj_planned_step *step, void *scratch)
{
    const lj_program *program = step->program;
    size_t bytes;
    (void)scratch;
    LJ_TRY(lj_type_bytes(lj_type_get(program->graph, step->step->copy_value), step->sizes, &bytes));
    program->device->copy(program->pointers[step->step->copy_to], program->pointers[step->step->copy_from], bytes, program->threads);
    return LJ_OK;
}

const lj_step_type lj_step_copy = {"copy", NULL, copy_run, NULL};
