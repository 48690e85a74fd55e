/* The head with its loss: forward, gradient, or both in one sweep. */
#include "kernels/head_loss.h"
#include "runtime/steps.h"

#include <string.h>

static lj_status head_prepare(lj_planned_step *step)
{
    lj_head_loss_desc desc = {
        .type = lj_step_type_of(step, 0)->dtype,
        .rows = lj_step_dim(step, 0, 0),
        .channels = lj_step_dim(step, 0, 1),
        .vocab = lj_step_dim(step, 1, 0),
        .gradient = step->step->node->op != LJ_OP_head_loss,
    };
    lj_head_loss_handle *handle;
    LJ_TRY(lj_head_loss_create(&desc, step->program->threads, &handle));
    lj_count_primitive();
    step->handle = handle;
    step->scratch_bytes = lj_head_loss_scratch(handle);
    return LJ_OK;
}

typedef struct {
    char *data;
    size_t bytes;
} clear_args;

static void clear_share(void *arg, int thread, int threads)
{
    const clear_args *clear = arg;
    int64_t begin, end;
    lj_team_share((int64_t)clear->bytes, thread, threads, &begin, &end);
    memset(clear->data + begin, 0, (size_t)(end - begin));
}

/* dw is added to: without an addend it starts from zero. */
static lj_status dw_start(const lj_planned_step *step, int output, bool has_addend)
{
    clear_args clear = {.data = lj_step_output(step, output)};
    if (has_addend) return LJ_OK;
    LJ_TRY(lj_type_bytes(lj_type_get(step->program->graph, step->step->unit->outputs[output]), step->sizes, &clear.bytes));
    step->program->device->launch(step->program->threads, clear_share, &clear);
    return LJ_OK;
}

static lj_status head_run(const lj_planned_step *step, void *scratch)
{
    const lj_node *node = step->step->node;
    lj_head_loss_args args = {.x = lj_step_input(step, 0), .w = lj_step_input(step, 1), .target = lj_step_input(step, 2), .scratch = scratch};
    int gradient = node->op == LJ_OP_head_loss_grad ? 0 : 2; /* first gradient output */
    if (node->op != LJ_OP_head_loss_grad) args.loss = lj_step_output(step, 0), args.lse = lj_step_output(step, 1);
    if (node->op != LJ_OP_head_loss) {
        args.scale = lj_step_input(step, node->op == LJ_OP_head_loss_grad ? 4 : 3);
        args.dx = lj_step_output(step, gradient), args.dw = lj_step_output(step, gradient + 1);
        LJ_TRY(dw_start(step, gradient + 1, lj_in_place_operand(node, gradient + 1) >= 0));
    }
    return lj_head_loss_run(step->handle, &args);
}

static void head_release(lj_planned_step *step)
{
    lj_head_loss_destroy(step->handle);
}

const lj_step_type lj_step_head = {"library", head_prepare, head_run, head_release};
