/* Matrix products through the provider table of src/kernels/gemm. */
#include "kernels/gemm/gemm.h"
#include "runtime/steps.h"

static lj_status gemm_prepare(lj_planned_step *step)
{
    const lj_node *node = step->step->node;
    const lj_type *a = lj_step_type_of(step, 0), *out = lj_type_get(step->program->graph, node->output);
    int r = a->rank;
    lj_gemm_desc desc = LJ_GEMM_DESC_INIT;
    desc.a_type = desc.b_type = a->dtype, desc.c_type = out->dtype;
    desc.trans_a = node->attributes.i[0] != 0, desc.trans_b = node->attributes.i[1] != 0;
    desc.m = lj_dim_eval(out->dim[r - 2], step->sizes), desc.n = lj_dim_eval(out->dim[r - 1], step->sizes);
    desc.k = lj_step_dim(step, 0, desc.trans_a ? r - 2 : r - 1);
    for (int i = 0; i < r - 2; i++) desc.batch *= lj_dim_eval(out->dim[i], step->sizes);
    desc.accumulate = node->input_count > 2 && node->inputs[2];
    lj_gemm *gemm;
    LJ_TRY(lj_gemm_create(&desc, step->program->threads, &gemm));
    lj_count_primitive();
    step->handle = gemm;
    step->scratch_bytes = lj_gemm_scratch_bytes(gemm);
    return LJ_OK;
}

static lj_status gemm_run(const lj_planned_step *step, void *scratch)
{
    return lj_gemm_run(step->handle, lj_step_input(step, 0), lj_step_input(step, 1), lj_step_output(step, 0), scratch);
}

static void gemm_release(lj_planned_step *step)
{
    lj_gemm_destroy(step->handle);
}

const lj_step_type lj_step_gemm = {"gemm", gemm_prepare, gemm_run, gemm_release};
