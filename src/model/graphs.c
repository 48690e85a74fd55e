/* What each graph adds to the forward pass: losses, gradients, caches' logits. */
#include "model/graphs.h"

#include "model/forward.h"

#include <stdio.h>

static lj_value row_input(lj_forward *f, const char *name, lj_dtype dtype)
{
    return lj_input(f->graph, name, lj_type_dims(dtype, 1, &f->rows), LJ_ROLE_DATA);
}

static lj_value losses_build(lj_forward *f)
{
    lj_value targets = row_input(f, "targets", LJ_I32);
    return lj_head_loss(f->graph, lj_forward_final_norm(f, f->x), lj_forward_head(f), targets);
}

/* The scalar that is differentiated. Without a head it is the product with the gradient from above, whose own gradient is just that. */
static lj_value objective_build(lj_forward *f)
{
    lj_graph *g = f->graph;
    if (f->layout->part.head) {
        lj_value loss = lj_sum_all(g, lj_mul(g, losses_build(f), row_input(f, "weights", LJ_F32)));
        (void)lj_graph_output(g, "loss", loss);
        return loss;
    }
    lj_dim dims[] = {f->rows, lj_dim_const(f->layout->config.hidden_size)};
    lj_value dx = lj_input(g, "dx", lj_type_dims(f->options->dtype, 2, dims), LJ_ROLE_DATA);
    return lj_sum_all(g, lj_mul(g, f->x, dx));
}

static void gradient_store(lj_forward *f, size_t index, lj_value gradient)
{
    const lj_param *p = &f->layout->params[index];
    char name[96];
    snprintf(name, sizeof name, "grad.%s", p->name);
    lj_value state = lj_input(f->graph, name, lj_type_of(LJ_F32, p->rank, p->shape), LJ_ROLE_STATE);
    (void)lj_graph_assign(f->graph, state, f->options->first ? gradient : lj_add(f->graph, state, gradient));
}

static lj_status gradients_build(lj_forward *f, lj_value objective)
{
    const lj_param_layout *layout = f->layout;
    size_t count = layout->param_count, wanted = count + (f->x_input != 0);
    lj_value *with = lj_arena_alloc(&f->arena, 2 * wanted * sizeof *with);
    if (!with) return LJ_ERR_NOMEM;
    lj_value *gradients = with + wanted;
    for (size_t i = 0; i < count; i++) with[i] = f->params[i];
    if (f->x_input) with[count] = f->x_input;
    LJ_TRY(lj_graph_differentiate(f->graph, objective, with, wanted, gradients));
    for (size_t i = 0; i < count; i++) gradient_store(f, i, gradients[i]);
    if (f->x_input) (void)lj_graph_output(f->graph, "dx_out", gradients[count]);
    return LJ_OK;
}

lj_status lj_model_graph_micro(const lj_param_layout *layout, const lj_model_graph_options *options, lj_graph **graph)
{
    lj_forward f;
    LJ_TRY(lj_forward_begin(&f, layout, options));
    lj_forward_layers(&f, false);
    return lj_forward_end(&f, gradients_build(&f, objective_build(&f)), graph);
}

lj_status lj_model_graph_eval(const lj_param_layout *layout, const lj_model_graph_options *options, lj_graph **graph)
{
    lj_forward f;
    LJ_TRY(lj_forward_begin(&f, layout, options));
    lj_forward_layers(&f, false);
    return lj_forward_end(&f, lj_graph_output(f.graph, "losses", losses_build(&f)), graph);
}

lj_status lj_model_graph_logits(const lj_param_layout *layout, const lj_model_graph_options *options, lj_graph **graph)
{
    lj_forward f;
    LJ_TRY(lj_forward_begin(&f, layout, options));
    lj_forward_layers(&f, false);
    lj_value logits = lj_matmul(f.graph, lj_forward_final_norm(&f, f.x), lj_forward_head(&f), 0, 1, LJ_F32, 0);
    return lj_forward_end(&f, lj_graph_output(f.graph, "logits", logits), graph);
}

lj_status lj_model_graph_decode(const lj_param_layout *layout, const lj_model_graph_options *options, lj_graph **graph)
{
    lj_forward f;
    LJ_TRY(lj_forward_begin(&f, layout, options));
    lj_forward_layers(&f, true);
    lj_value last = lj_input(f.graph, "last", lj_type_dims(LJ_I32, 1, &f.b), LJ_ROLE_DATA);
    lj_value x = lj_forward_final_norm(&f, lj_gather(f.graph, f.x, last));
    lj_value logits = lj_matmul(f.graph, x, lj_forward_head(&f), 0, 1, LJ_F32, 0);
    return lj_forward_end(&f, lj_graph_output(f.graph, "logits", logits), graph);
}
