/* Attention steps: operands may be slices of a fused qkv buffer, read in place by strides. */
#include "kernels/attention.h"
#include "runtime/steps.h"

/* Operand as the kernel sees it; follows a slice of the heads' axis. */
static lj_attention_view view_of(const lj_planned_step *step, int input)
{
    const lj_program *program = step->program;
    int64_t head;
    lj_value v = step->step->unit->inputs[input], base = lj_attention_operand(program->graph, v, &head);
    const lj_type *type = lj_type_get(program->graph, base);
    int64_t rows = lj_dim_eval(type->dim[1], step->sizes), heads = type->dim[2].factor, width = type->dim[3].factor;
    char *data = lj_value_pointer(program, base);
    size_t skip = (size_t)(head * width) * lj_dtype_bytes(type->dtype);
    return lj_attention_dense(data ? data + skip : NULL, rows, heads, width);
}

static lj_attention_view output_of(const lj_planned_step *step, int output)
{
    const lj_type *type = lj_type_get(step->program->graph, step->step->unit->outputs[output]);
    return lj_attention_dense(lj_step_output(step, output), lj_dim_eval(type->dim[1], step->sizes), type->dim[2].factor, type->dim[3].factor);
}

static lj_attention_desc desc_of(const lj_planned_step *step)
{
    const lj_node *node = step->step->node;
    const lj_type *q = lj_step_type_of(step, 0), *k = lj_step_type_of(step, 1);
    return (lj_attention_desc){
        .type = q->dtype,
        .batch = lj_step_dim(step, 0, 0),
        .q_len = lj_step_dim(step, 0, 1),
        .kv_len = lj_step_dim(step, 1, 1),
        .heads = q->dim[2].factor,
        .kv_heads = k->dim[2].factor,
        .head_dim = q->dim[3].factor,
        .q_start = -1,
        .window = node->attributes.i[1],
        .scale = (float)node->attributes.f[0],
        .causal = node->attributes.i[0] != 0,
    };
}

/* The kernel takes how many keys an entry has; the op says where its queries start. Kept in front of the kernel's scratch. */
static size_t lens_bytes(const lj_planned_step *step, int q_start)
{
    bool causal = step->step->node->attributes.i[0] != 0; /* else every key is seen, wherever the queries start */
    bool given = causal && q_start < (int)step->step->unit->input_count && step->step->unit->inputs[q_start];
    return given ? ((size_t)lj_step_dim(step, 0, 0) * sizeof(int32_t) + 63) & ~(size_t)63 : 0;
}

static lj_status lens_fill(const lj_planned_step *step, int q_start, const lj_attention_desc *desc, int32_t *lens)
{
    const int32_t *starts = lj_step_input(step, q_start);
    for (int64_t b = 0; b < desc->batch; b++) {
        int64_t keys = (int64_t)starts[b] + desc->q_len;
        if (starts[b] < 0 || keys > desc->kv_len)
            return lj_fail(LJ_ERR_INVALID, "q_start[%lld] = %d with %lld queries does not fit %lld keys", (long long)b, starts[b], (long long)desc->q_len,
                           (long long)desc->kv_len);
        lens[b] = (int32_t)keys;
    }
    return LJ_OK;
}

static lj_status forward_prepare(lj_planned_step *step)
{
    lj_attention_desc desc = desc_of(step);
    LJ_TRY(lj_attention_check(&desc));
    step->scratch_bytes = lens_bytes(step, 4) + lj_attention_forward_scratch(&desc, step->program->threads);
    return LJ_OK;
}

static lj_status forward_run(const lj_planned_step *step, void *scratch)
{
    size_t lens = lens_bytes(step, 4);
    lj_attention_forward_args args = {.desc = desc_of(step), .q = view_of(step, 0), .k = view_of(step, 1), .v = view_of(step, 2)};
    args.out = output_of(step, 0), args.lse = lj_step_output(step, 1);
    args.first_key = lj_step_input(step, 3);
    args.scratch = (char *)scratch + lens;
    if (lens) {
        LJ_TRY(lens_fill(step, 4, &args.desc, scratch));
        args.kv_lens = scratch;
    }
    step->program->device->launch(step->program->threads, lj_attention_forward, &args);
    return LJ_OK;
}

static lj_status backward_prepare(lj_planned_step *step)
{
    lj_attention_desc desc = desc_of(step);
    LJ_TRY(lj_attention_check(&desc));
    step->scratch_bytes = lens_bytes(step, 7) + lj_attention_backward_scratch(&desc, step->program->threads);
    return LJ_OK;
}

static lj_status backward_run(const lj_planned_step *step, void *scratch)
{
    size_t lens = lens_bytes(step, 7);
    lj_attention_backward_args args = {.desc = desc_of(step), .q = view_of(step, 0), .k = view_of(step, 1), .v = view_of(step, 2)};
    args.out = view_of(step, 3), args.lse = lj_step_input(step, 4), args.dout = view_of(step, 5);
    args.dq = output_of(step, 0), args.dk = output_of(step, 1), args.dv = output_of(step, 2);
    args.first_key = lj_step_input(step, 6);
    args.scratch = (char *)scratch + lens;
    if (lens) {
        LJ_TRY(lens_fill(step, 7, &args.desc, scratch));
        args.kv_lens = scratch;
    }
    step->program->device->launch(step->program->threads, lj_attention_backward, &args);
    return LJ_OK;
}

const lj_step_type lj_step_attention = {"library", forward_prepare, forward_run, NULL};
const lj_step_type lj_step_attention_grad = {"library", backward_prepare, backward_run, NULL};
