/* Each composite and its spelling in primitives are the same graph after the passes; near misses are left alone. */
#include "support/testing.h"

#include "ir/ir.h"
#include "passes/passes.h"

typedef struct {
    const char *name;
    lj_dtype dtype;
    /* Builds the composite (or its definition when primitive) over fresh inputs. */
    lj_value (*build)(lj_graph *g, lj_dtype dtype, bool primitive);
} pattern_case;

static lj_value decomposed(lj_graph *g, lj_op op, lj_attributes attributes, lj_value *in, int count, bool primitive)
{
    lj_value out[LJ_MAX_OUTPUTS];
    if (!primitive) return lj_node_append(g, op, in, count, &attributes, NULL, 0);
    lj_node node = {.op = op, .attributes = attributes, .inputs = in, .input_count = (uint16_t)count, .name = "", .file = ""};
    assert_ok(lj_decompose(g, &node, in, out));
    return out[0];
}

static lj_value input(lj_graph *g, const char *name, lj_dtype dtype, int rank, const int64_t *sizes)
{
    return lj_input(g, name, lj_type_of(dtype, rank, sizes), LJ_ROLE_DATA);
}

static lj_value norm_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    lj_value in[2] = {input(g, "x", dtype, 2, (int64_t[]){6, 16}), input(g, "w", dtype, 1, (int64_t[]){16})};
    return decomposed(g, LJ_OP_rms_norm, (lj_attributes){.f = {1e-5}}, in, 2, primitive);
}

static lj_value norm_divided_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    lj_value x = input(g, "x", dtype, 2, (int64_t[]){6, 16}), w = input(g, "w", dtype, 1, (int64_t[]){16});
    if (!primitive) return lj_rms_norm(g, x, w, 1e-6);
    lj_type scalar = {.dtype = LJ_F32};
    lj_value f = lj_cast(g, x, LJ_F32), mean = lj_div(g, lj_sum(g, lj_mul(g, f, f), 1), lj_const(g, scalar, 16));
    return lj_cast(g, lj_mul(g, lj_cast(g, w, LJ_F32), lj_mul(g, lj_rsqrt(g, lj_add(g, lj_const(g, scalar, 1e-6), mean)), f)), dtype);
}

static lj_value swiglu_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    lj_value in[2] = {input(g, "gate", dtype, 2, (int64_t[]){6, 16}), input(g, "up", dtype, 2, (int64_t[]){6, 16})};
    return decomposed(g, LJ_OP_swiglu, (lj_attributes){0}, in, 2, primitive);
}

static lj_value silu_divided_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    lj_value gate = input(g, "gate", dtype, 2, (int64_t[]){6, 16}), up = input(g, "up", dtype, 2, (int64_t[]){6, 16});
    if (!primitive) return lj_swiglu(g, gate, up);
    lj_value one = lj_const(g, (lj_type){.dtype = LJ_F32}, 1), f = lj_cast(g, gate, LJ_F32);
    return lj_cast(g, lj_mul(g, lj_cast(g, up, LJ_F32), lj_div(g, f, lj_add(g, lj_exp(g, lj_neg(g, f)), one))), dtype);
}

static lj_value rotary_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    lj_value in[4] = {input(g, "x", dtype, 4, (int64_t[]){2, 5, 3, 8}), input(g, "cos", LJ_F32, 2, (int64_t[]){32, 8}),
                      input(g, "sin", LJ_F32, 2, (int64_t[]){32, 8}), input(g, "p", LJ_I32, 2, (int64_t[]){2, 5})};
    return decomposed(g, LJ_OP_rotary, (lj_attributes){0}, in, 4, primitive);
}

static lj_value attention_with(lj_graph *g, lj_dtype dtype, bool primitive, int64_t causal, int64_t window, bool starts, int64_t keys, int64_t kv_heads)
{
    lj_value in[4] = {input(g, "q", dtype, 4, (int64_t[]){2, 5, 4, 8}), input(g, "k", dtype, 4, (int64_t[]){2, keys, kv_heads, 8}),
                      input(g, "v", dtype, 4, (int64_t[]){2, keys, kv_heads, 8}), input(g, "starts", LJ_I32, 2, (int64_t[]){2, 5})};
    return decomposed(g, LJ_OP_attention, (lj_attributes){.i = {causal, window}, .f = {0.25}}, in, starts ? 4 : 3, primitive);
}

static lj_value attention_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    return attention_with(g, dtype, primitive, 1, 0, false, 5, 2);
}
static lj_value attention_window_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    return attention_with(g, dtype, primitive, 1, 3, true, 5, 4);
}
static lj_value attention_cross_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    return attention_with(g, dtype, primitive, 0, 0, false, 9, 1);
}

static lj_value head_case(lj_graph *g, lj_dtype dtype, bool primitive)
{
    lj_value in[3] = {input(g, "x", dtype, 2, (int64_t[]){6, 16}), input(g, "w", dtype, 2, (int64_t[]){50, 16}), input(g, "t", LJ_I32, 1, (int64_t[]){6})};
    return decomposed(g, LJ_OP_head_loss, (lj_attributes){0}, in, 3, primitive);
}

static const pattern_case cases[] = {
    {"rms_norm f32", LJ_F32, norm_case},           {"rms_norm bf16", LJ_BF16, norm_case},
    {"rms_norm f64", LJ_F64, norm_case},           {"rms_norm divided", LJ_F32, norm_divided_case},
    {"rms_norm divided bf16", LJ_BF16, norm_divided_case}, {"swiglu f32", LJ_F32, swiglu_case},
    {"swiglu bf16", LJ_BF16, swiglu_case},         {"silu divided", LJ_BF16, silu_divided_case},
    {"rotary f32", LJ_F32, rotary_case},           {"rotary bf16", LJ_BF16, rotary_case},
    {"attention f32", LJ_F32, attention_case},     {"attention bf16", LJ_BF16, attention_case},
    {"attention window", LJ_F32, attention_window_case}, {"attention cross", LJ_F32, attention_cross_case},
    {"head f32", LJ_F32, head_case},               {"head bf16", LJ_BF16, head_case},
};

/* Text of the matched and cleaned graph, without source lines. */
static char *matched_text(const pattern_case *c, bool primitive)
{
    lj_graph *g;
    char *text;
    assert_ok(lj_graph_create(&g));
    assert_ok(lj_graph_output(g, "y", c->build(g, c->dtype, primitive)));
    lj_pass_context context = {0};
    assert_ok(lj_pass_match(&g, &context));
    assert_ok(lj_pass_fold(&g, &context));
    assert_ok(lj_pass_cse(&g, &context));
    assert_ok(lj_pass_dce(&g, &context));
    assert_ok(lj_graph_verify(g));
    assert_ok(lj_graph_print(g, &text));
    lj_graph_destroy(g);
    return text;
}

static void both_forms_are_one_graph(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *composite = matched_text(&cases[i], false), *primitive = matched_text(&cases[i], true);
        if (strcmp(composite, primitive) != 0) fail_msg("%s:\n%s\n--- from primitives:\n%s", cases[i].name, composite, primitive);
        lj_text_free(composite);
        lj_text_free(primitive);
    }
}

/* One wrong number, one wrong operand: not the pattern, not lifted. */
static void near_misses_stay(void **state)
{
    (void)state;
    for (int miss = 0; miss < 2; miss++) {
        lj_graph *g;
        assert_ok(lj_graph_create(&g));
        lj_value x = input(g, "x", LJ_F32, 2, (int64_t[]){6, 16}), w = input(g, "w", LJ_F32, 1, (int64_t[]){16});
        lj_type scalar = {.dtype = LJ_F32};
        lj_value y = miss == 1 ? lj_exp(g, x) : x, mean = lj_div(g, lj_sum(g, lj_mul(g, x, y), 1), lj_const(g, scalar, miss == 0 ? 15 : 16));
        assert_ok(lj_graph_output(g, "y", lj_mul(g, lj_mul(g, x, lj_rsqrt(g, lj_add(g, mean, lj_const(g, scalar, 1e-6)))), w)));
        assert_ok(lj_pass_match(&g, &(lj_pass_context){0}));
        for (size_t n = 0; n < g->node_count; n++) assert_int_not_equal(g->nodes[n].op, LJ_OP_rms_norm);
        lj_graph_destroy(g);
    }
}

/* Differentiating primitives gives the composite's own gradient. */
static void gradients_are_lifted(void **state)
{
    (void)state;
    lj_graph *g;
    lj_value gradient;
    int found = 0;
    assert_ok(lj_graph_create(&g));
    lj_value y = swiglu_case(g, LJ_F32, true), gate = lj_graph_find(g, "gate");
    assert_ok(lj_graph_differentiate(g, lj_sum_all(g, y), &gate, 1, &gradient));
    for (size_t n = 0; n < g->node_count; n++) found += g->nodes[n].op == LJ_OP_swiglu_grad;
    assert_int_equal(found, 1);
    lj_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_forms_are_one_graph), cmocka_unit_test(near_misses_stay), cmocka_unit_test(gradients_are_lifted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
