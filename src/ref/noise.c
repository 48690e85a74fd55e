/* Nudges: what an implementation within its row's tolerance might have given instead. */
#include "ref/run.h"

#include <math.h>

static double random_sign(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)(int64_t)(z ^ z >> 31) * 0x1p-63; /* -1 .. 1 */
}

/* Relative size of one unit of the last place. */
static double unit(lj_dtype dtype)
{
    return ldexp(1, -lj_dtype_rows[dtype].mantissa_bits);
}

static double largest(const lj_ref_tensor *tensor)
{
    double most = 0;
    for (int64_t at = 0; at < tensor->count; at++)
        if (isfinite(tensor->cells[at].f)) most = fmax(most, fabs(tensor->cells[at].f));
    return most;
}

/* Sums nearly cancel: their errors are of the size of the terms, for which the largest operand (or product) stands. */
static double sum_scale(const lj_node *node, const lj_ref_tensor *const *inputs)
{
    double scale = 0;
    if (node->op == LJ_OP_matmul) return largest(inputs[0]) * largest(inputs[1]);
    for (int j = 0; j < node->input_count; j++)
        if (inputs[j] && lj_ref_is_float(inputs[j])) scale = fmax(scale, largest(inputs[j]));
    return scale;
}

static bool computes(lj_op_class class)
{
    return class != LJ_CLASS_LEAF && class != LJ_CLASS_VIEW && class != LJ_CLASS_MOVE && class != LJ_CLASS_COMPOSITE;
}

/* Units of the last place that this result may move: the row's tolerance, one where the result is a 16-bit rounding of something
 * wider, and at least one for everything that a composite computes inside. */
static double allowed_units(const lj_node *node, const lj_ref_tensor *output, bool inside)
{
    double tolerance = lj_op_rows[node->op].tolerance;
    if (lj_dtype_bytes(output->dtype) == 2 && tolerance > 1 && node->op != LJ_OP_scatter_add) tolerance = 1;
    return inside && tolerance == 0 && computes(lj_op_rows[node->op].class) ? 1 : tolerance;
}

void lj_ref_nudge(const lj_node *node, const lj_ref_tensor *const *inputs, lj_ref_tensor *output, lj_ref_mode mode)
{
    lj_op_class class = lj_op_rows[node->op].class;
    double units = lj_ref_is_float(output) ? allowed_units(node, output, mode.inside) : 0;
    if (units == 0 || class == LJ_CLASS_COMPOSITE) return; /* composites were nudged inside */
    bool sums = class == LJ_CLASS_REDUCE || class == LJ_CLASS_MATMUL || node->op == LJ_OP_scatter_add;
    double floor = sums ? sum_scale(node, inputs) * unit(output->dtype == LJ_F64 ? LJ_F64 : LJ_F32) * units : 0;
    for (int64_t at = 0; at < output->count; at++) {
        double *value = &output->cells[at].f;
        *value += random_sign(mode.noise) * (fabs(*value) * unit(output->dtype) * units + floor);
        *value = lj_dtype_round(output->dtype, *value);
    }
}
