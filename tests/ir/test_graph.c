#include "support/testing.h"

#include "ir/ir.h"

/* A little of everything: symbols, composites, gradients, results, a call. */
static int copy_call(void *user, const lj_tensor *in, int in_count, const lj_tensor *out, int out_count)
{
    (void)user, (void)in, (void)in_count, (void)out, (void)out_count;
    return 0;
}

static lj_graph *sample_graph(void)
{
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    lj_dim b = lj_dim_symbol(g, "B"), t = lj_dim_symbol(g, "T"), n = lj_dim_mul(b, t), c = lj_dim_const(8);
    lj_value x = lj_input(g, "x", lj_type_dims(LJ_BF16, 2, (lj_dim[]){n, c}), LJ_ROLE_DATA);
    lj_value w = lj_input(g, "w", lj_type_of(LJ_BF16, 2, (int64_t[]){24, 8}), LJ_ROLE_PARAM);
    lj_value norm = lj_input(g, "norm", lj_type_of(LJ_BF16, 1, (int64_t[]){8}), LJ_ROLE_PARAM);
    lj_value grad = lj_input(g, "w.grad", lj_type_of(LJ_F32, 2, (int64_t[]){24, 8}), LJ_ROLE_STATE);
    lj_graph_scope_push(g, "layers.%d", 0);
    lj_value qkv = lj_linear(g, lj_rms_norm(g, x, norm, 1e-5), w);
    lj_value heads = lj_reshape(g, qkv, 4, (lj_dim[]){b, t, lj_dim_const(6), lj_dim_const(4)});
    lj_value out = lj_attention(g, lj_slice(g, heads, 2, 0, 2), lj_slice(g, heads, 2, 2, 2), lj_slice(g, heads, 2, 4, 2), &(lj_attention_options){.causal = 1});
    lj_value called;
    lj_type type = lj_value_type(g, out);
    assert_ok(lj_call(g, &(lj_call_row){"copy", copy_call, copy_call, NULL}, &out, 1, &type, 1, &called));
    lj_graph_scope_pop(g);
    lj_value loss = lj_sum_all(g, lj_cast(g, lj_mul(g, called, called), LJ_F32)), grads[2];
    assert_ok(lj_graph_differentiate(g, loss, (lj_value[]){w, norm}, 2, grads));
    assert_ok(lj_graph_output(g, "loss", loss));
    assert_ok(lj_graph_assign(g, grad, lj_add(g, grad, grads[0])));
    assert_ok(lj_graph_output(g, "norm.grad", grads[1]));
    return g;
}

static void text_form_reads_back(void **state)
{
    (void)state;
    lj_graph *g = sample_graph(), *again;
    char *text, *second;
    assert_ok(lj_graph_verify(g));
    assert_ok(lj_graph_print(g, &text));
    assert_ok(lj_graph_parse(text, &again));
    assert_ok(lj_graph_verify(again));
    assert_ok(lj_graph_print(again, &second));
    assert_string_equal(text, second);
    lj_text_free(text);
    lj_text_free(second);
    lj_graph_destroy(g);
    lj_graph_destroy(again);
}

static void parameters_get_the_gradient_dtype(void **state)
{
    (void)state;
    lj_graph *g = sample_graph();
    lj_type type = lj_value_type(g, lj_graph_find(g, "norm.grad"));
    assert_int_equal(type.dtype, LJ_F32);
    lj_graph_destroy(g);
}

static void builder_errors_stick(void **state)
{
    (void)state;
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    lj_value a = lj_input(g, "a", lj_type_of(LJ_F32, 2, (int64_t[]){2, 3}), LJ_ROLE_DATA);
    lj_value b = lj_input(g, "b", lj_type_of(LJ_F32, 2, (int64_t[]){2, 4}), LJ_ROLE_DATA);
    assert_int_equal(lj_exp(g, lj_add(g, a, b)), 0);
    assert_fails(lj_graph_status(g), LJ_ERR_INVALID, "broadcast");
    lj_graph_destroy(g);
}

/* Each composite's definition infers the very types that the composite has. */
static void definitions_have_the_composites_types(void **state)
{
    (void)state;
    lj_graph *g = sample_graph(), *d;
    assert_ok(lj_graph_create(&d));
    assert_ok(lj_graph_like(d, g));
    for (size_t n = 0; n < g->node_count; n++) {
        const lj_node *node = &g->nodes[n];
        if (lj_op_rows[node->op].class != LJ_CLASS_COMPOSITE) continue;
        lj_value in[8] = {0}, out[LJ_MAX_OUTPUTS];
        char name[32];
        for (int i = 0; i < node->input_count; i++) {
            snprintf(name, sizeof name, "n%zu.%d", n, i);
            if (node->inputs[i]) in[i] = lj_input(d, name, lj_value_type(g, node->inputs[i]), LJ_ROLE_DATA);
        }
        assert_ok(lj_decompose(d, node, in, out));
        for (int k = 0; k < node->output_count; k++)
            assert_true(lj_type_equal(lj_type_get(d, out[k]), lj_type_get(g, node->output + (lj_value)k)));
    }
    assert_ok(lj_graph_verify(d));
    lj_graph_destroy(g);
    lj_graph_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_form_reads_back), cmocka_unit_test(parameters_get_the_gradient_dtype),
                                       cmocka_unit_test(builder_errors_stick), cmocka_unit_test(definitions_have_the_composites_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
