/* Recomputing changes memory and time, never a bit: gradients of a small model under every choice equal those of keeping all. */
#include "support/testing.h"

#include "formats/hf_config.h"
#include "ljperf/program.h"
#include "model/graphs.h"
#include "model/params.h"
#include "passes/recompute.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERS = 5, ROWS = 2, LENGTH = 24, HEAD = 16 };

static lj_param_layout layout_make(void)
{
    lj_model_config c = {0};
    lj_param_layout layout;
    static const char text[] = "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":61,\"hidden_size\":64,\"intermediate_size\":96,"
                   "\"num_hidden_layers\":5,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"rms_norm_eps\":1e-5,\"rope_theta\":10000,"
                   "\"max_position_embeddings\":64,\"tie_word_embeddings\":true,\"hidden_act\":\"silu\"}";
    assert_ok(lj_hf_config_parse("test", text, strlen(text), &c));
    assert_ok(lj_layout_init(&layout, &c, lj_model_whole(&c)));
    return layout;
}

/* Gradients and loss under one choice; the workspace's bytes in *workspace. */
static float *gradients_of(const lj_param_layout *layout, lj_dtype dtype, const char *recompute, int eager, float *loss, size_t *workspace)
{
    static float cosines[LENGTH * HEAD], sines[LENGTH * HEAD], weights[ROWS * LENGTH];
    static int32_t tokens[ROWS * LENGTH], targets[ROWS * LENGTH], positions[ROWS * LENGTH];
    size_t bytes = (size_t)layout->total_elements * 4;
    float *gradients = calloc(1, bytes);
    void *params = calloc(1, bytes);
    lj_graph *graph;
    lj_program *program;
    lj_plan_info info;
    lj_size sizes[] = {{"B", ROWS}, {"T", LENGTH}, {"P", LENGTH}};
    for (int i = 0; i < ROWS * LENGTH; i++) tokens[i] = i * 7 % 61, targets[i] = i % 9 ? i * 5 % 61 : -100, positions[i] = i % LENGTH, weights[i] = 0.03f;
    for (int i = 0; i < LENGTH * HEAD; i++) cosines[i] = (float)cos(i * 0.1), sines[i] = (float)sin(i * 0.1);
    lj_params_random(layout, 3, dtype, params);
    assert_ok(lj_model_graph_micro(layout, &(lj_model_graph_options){.dtype = dtype, .first = true}, &graph));
    lj_program_options options = {.recompute = recompute, .threads = 2, .eager = eager};
    assert_ok(lj_program_compile(graph, &options, &program));
    assert_ok(lj_program_plan(program, sizes, 3, &info));
    *workspace = info.workspace_bytes;
    assert_ok(lj_params_bind(program, layout, "", dtype, params));
    assert_ok(lj_params_bind(program, layout, "grad.", LJ_F32, gradients));
    const struct {
        const char *name;
        void *data;
    } bound[] = {{"tokens", tokens}, {"targets", targets}, {"positions", positions}, {"weights", weights}, {"cosines", cosines}, {"sines", sines}, {"loss", loss}};
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) assert_ok(lj_program_bind(program, bound[i].name, bound[i].data));
    assert_ok(lj_program_run(program, sizes, 3));
    lj_program_destroy(program);
    lj_graph_destroy(graph);
    free(params);
    return gradients;
}

static void no_choice_changes_a_bit(void **state)
{
    (void)state;
    static const char *const choices[] = {"cheap", "attention", "full", "layers:2", "layers:0", "list:1,4", "groups:2", "groups:3", "groups:5", "levels:01230"};
    lj_param_layout layout = layout_make();
    for (int variant = 0; variant < 3; variant++) {
        lj_dtype dtype = variant == 1 ? LJ_F32 : LJ_BF16;
        float loss, again;
        size_t kept, bytes;
        float *truth = gradients_of(&layout, dtype, "none", variant == 2, &loss, &kept);
        for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
            float *gradients = gradients_of(&layout, dtype, choices[i], variant == 2, &again, &bytes);
            if (memcmp(&loss, &again, 4) != 0) fail_msg("%s: the loss differs", choices[i]);
            if (memcmp(truth, gradients, (size_t)layout.total_elements * 4) != 0) fail_msg("%s, variant %d: a gradient differs", choices[i], variant);
            if (bytes > kept) fail_msg("%s takes more memory than keeping all: %zu > %zu", choices[i], bytes, kept);
            free(gradients);
        }
        free(truth);
    }
    lj_layout_release(&layout);
}

static void wrong_choices_are_named(void **state)
{
    (void)state;
    lj_recompute r;
    assert_ok(lj_recompute_parse("groups:7", 24, &r));
    assert_int_equal(r.group, 7);
    assert_fails(lj_recompute_parse("chaep", 4, &r), LJ_ERR_INVALID, "did you mean cheap");
    assert_fails(lj_recompute_parse("layers:5", 4, &r), LJ_ERR_INVALID, "0 .. 4");
    assert_fails(lj_recompute_parse("list:1,4", 4, &r), LJ_ERR_INVALID, "0 .. 3");
    assert_fails(lj_recompute_parse("levels:012", 4, &r), LJ_ERR_INVALID, "3 levels for 4 layers");
    assert_fails(lj_recompute_parse("groups:0", 4, &r), LJ_ERR_INVALID, "1 .. 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_choice_changes_a_bit), cmocka_unit_test(wrong_choices_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
