/* The kinds of library steps, a file each (step_*.c). */
#ifndef LJ_RUNTIME_STEPS_H
#define LJ_RUNTIME_STEPS_H

#include "runtime/program.h"

extern const lj_step_type lj_step_gemm, lj_step_attention, lj_step_attention_grad, lj_step_head, lj_step_scatter_add, lj_step_update_rows,
    lj_step_sum_squares, lj_step_adamw, lj_step_call, lj_step_collective;

/* Operand and result pointers of a library step in the run at hand. */
static inline void *lj_step_input(const lj_planned_step *step, int index)
{
    return index < (int)step->step->unit->input_count ? lj_value_pointer(step->program, step->step->unit->inputs[index]) : NULL;
}
static inline void *lj_step_output(const lj_planned_step *step, int index)
{
    return lj_value_pointer(step->program, step->step->unit->outputs[index]);
}

#endif
