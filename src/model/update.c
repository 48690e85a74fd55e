/* The `update` graph: global norm over the flat gradients, clip, AdamW by groups, compute copy. */
#include "model/graphs.h"

#include <stdio.h>

typedef struct {
    const char *name;
    int64_t elements;
    double weight_decay;
} group_row;

static lj_value flat_input(lj_graph *g, const char *what, const group_row *group, lj_dtype dtype, lj_role role)
{
    char name[48];
    snprintf(name, sizeof name, "%s.%s", what, group->name);
    return lj_input(g, name, lj_type_of(dtype, 1, &group->elements), role);
}

static lj_value vector1(lj_graph *g, lj_value scalar)
{
    return lj_reshape(g, scalar, 1, (lj_dim[]){lj_dim_const(1)});
}

/* {lr, clip, c1, c2} and the norm -> {lr, min(1, clip / (norm + 1e-6)), c1, c2}; the 1e-6 is PyTorch's clip_grad_norm_. */
static lj_value scalars_build(lj_graph *g, lj_value hyper, lj_value norm)
{
    int64_t one_size = 1;
    lj_type one = lj_type_of(LJ_F32, 1, &one_size);
    lj_value room = lj_add(g, vector1(g, norm), lj_const(g, one, 1e-6));
    lj_value scale = lj_min(g, lj_div(g, lj_slice(g, hyper, 0, 1, 1), room), lj_const(g, one, 1));
    lj_value parts[] = {lj_slice(g, hyper, 0, 0, 1), scale, lj_slice(g, hyper, 0, 2, 2)};
    return lj_concat(g, parts, 3, 0);
}

static lj_status group_update(lj_graph *g, const group_row *group, lj_dtype dtype, const lj_adamw_options *adamw, lj_value gradient,
                              lj_value scalars)
{
    lj_value old[] = {flat_input(g, "master", group, LJ_F32, LJ_ROLE_STATE), flat_input(g, "m", group, LJ_F32, LJ_ROLE_STATE),
                      flat_input(g, "v", group, LJ_F32, LJ_ROLE_STATE)};
    lj_adamw_options options = *adamw;
    options.weight_decay = group->weight_decay;
    lj_value new[3] = {0};
    LJ_TRY(lj_adamw(g, old[0], old[1], old[2], gradient, scalars, &options, new));
    for (int i = 0; i < 3; i++) LJ_TRY(lj_graph_assign(g, old[i], new[i]));
    if (dtype == LJ_F32) return LJ_OK;
    return lj_graph_assign(g, flat_input(g, "compute", group, dtype, LJ_ROLE_STATE), lj_cast(g, new[0], dtype));
}

static lj_status update_build(lj_graph *g, const group_row *groups, int count, lj_dtype dtype, const lj_adamw_options *adamw)
{
    int64_t four = 4;
    lj_value hyper = lj_input(g, "hyper", lj_type_of(LJ_F32, 1, &four), LJ_ROLE_DATA), gradients[2] = {0}, squares = 0;
    for (int i = 0; i < count; i++) {
        gradients[i] = flat_input(g, "grad", &groups[i], LJ_F32, LJ_ROLE_DATA);
        lj_value part = lj_sum_squares(g, gradients[i]);
        squares = squares ? lj_add(g, squares, part) : part;
    }
    lj_value norm = lj_sqrt(g, squares), scalars = scalars_build(g, hyper, norm);
    LJ_TRY(lj_graph_output(g, "norm", norm));
    for (int i = 0; i < count; i++) LJ_TRY(group_update(g, &groups[i], dtype, adamw, gradients[i], scalars));
    return lj_graph_status(g);
}

lj_status lj_model_graph_update(const lj_param_layout *layout, lj_dtype dtype, const lj_adamw_options *adamw, lj_graph **graph)
{
    group_row groups[2];
    int count = 0;
    int64_t rest = layout->total_elements - layout->decay_elements;
    if (layout->decay_elements) groups[count++] = (group_row){"decay", layout->decay_elements, adamw->weight_decay};
    if (rest) groups[count++] = (group_row){"rest", rest, 0};
    lj_graph *g;
    LJ_TRY(lj_graph_create(&g));
    lj_status status = update_build(g, groups, count, dtype, adamw);
    if (status == LJ_OK)
        *graph = g;
    else
        lj_graph_destroy(g);
    return status;
}
