/* Steps of the optimizer's program: the norm's sum of squares and AdamW over flat buffers. */
#include "kernels/adamw.h"
#include "runtime/steps.h"

#include <math.h>

static int64_t element_count(const lj_planned_step *step, int input)
{
    int64_t count = 0;
    (void)lj_type_elements(lj_step_type_of(step, input), step->sizes, &count); /* the plan has checked it */
    return count;
}

static lj_status sum_squares_prepare(lj_planned_step *step)
{
    int64_t count;
    LJ_TRY(lj_type_elements(lj_step_type_of(step, 0), step->sizes, &count));
    step->scratch_bytes = (size_t)lj_square_sum_blocks(count) * sizeof(double);
    return LJ_OK;
}

static lj_status sum_squares_run(const lj_planned_step *step, void *scratch)
{
    lj_square_sum_args args = {lj_step_input(step, 0), lj_step_type_of(step, 0)->dtype, element_count(step, 0), scratch};
    step->program->device->launch(step->program->threads, lj_square_sum, &args);
    *(float *)lj_step_output(step, 0) = (float)lj_square_sum_total(args.partial, lj_square_sum_blocks(args.count));
    return LJ_OK;
}

static lj_status adamw_run(const lj_planned_step *step, void *scratch)
{
    const double *f = step->step->node->attributes.f; /* beta1 beta2 eps weight_decay */
    const float *scalars = lj_step_input(step, 4);    /* rate, gradient scale, corrections */
    lj_adamw_range range = {0, element_count(step, 0), f[3]};
    (void)scratch;
    lj_adamw_args args = {
        .count = range.end,
        .master = lj_step_output(step, 0),
        .m = lj_step_output(step, 1),
        .v = lj_step_output(step, 2),
        .grad = lj_step_input(step, 3),
        .grad_type = lj_step_type_of(step, 3)->dtype,
        .ranges = &range,
        .range_count = 1,
        .grad_scale = &scalars[1],
        .lr = scalars[0],
        .beta1 = f[0],
        .beta2 = f[1],
        .eps = f[2],
        .correction1 = scalars[2],
        .correction2 = scalars[3],
    };
    step->program->device->launch(step->program->threads, lj_adamw_update, &args);
    return LJ_OK;
}

const lj_step_type lj_step_sum_squares = {"library", sum_squares_prepare, sum_squares_run, NULL};
const lj_step_type lj_step_adamw = {"library", NULL, adamw_run, NULL};
