/* Small models of every family against what PyTorch and transformers made of them (tools/make_model_fixtures.py): logits, loss,
 * each gradient by its Hugging Face name, losses of ten AdamW steps; on the reference interpreter and compiled. */
#include "support/testing.h"

#include "formats/safetensors.h"
#include "model/graphs.h"
#include "model/params.h"
#include "model/rope.h"
#include "support/execute.h"
#include "tensor/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 2, LENGTH = 16, CELLS = ROWS * LENGTH, STEPS = 10, MAX_BINDINGS = 160 };

static const char *const models[] = {"llama2", "llama3", "llama3.1", "smollm2", "mistral", "qwen2", "qwen2.5-yarn", "qwen3", "gelu-linear", "packed"};
enum { MODELS = sizeof models / sizeof *models };

typedef struct {
    const char *name;
    lj_dtype dtype;
    test_backend backend;
    lj_param_layout layout;
    lj_safetensors *expected;
    float *master, *m, *v, *gradients;
    void *compute;
    float *cosines, *sines;
    int32_t positions[CELLS];
    float weights[CELLS], loss;
    test_binding bindings[MAX_BINDINGS];
    size_t bound;
    char names[MAX_BINDINGS][96];
} fixture;

static const void *data_of(const fixture *f, const char *name)
{
    const lj_safetensors_tensor *tensor = lj_safetensors_find(f->expected, name);
    if (!tensor) fail_msg("%s lacks %s", f->name, name);
    return tensor->data;
}

static bool packed(const fixture *f)
{
    return lj_safetensors_find(f->expected, "starts") != NULL;
}

static float *zeros(int64_t elements)
{
    void *out;
    assert_ok(lj_alloc_zero("test", (size_t)elements * 4, &out));
    return out;
}

static void fixture_open(fixture *f, const char *name, lj_dtype dtype, test_backend backend)
{
    *f = (fixture){.name = name, .dtype = dtype, .backend = backend};
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s/model/%s", LJ_TEST_DATA, name);
    snprintf(path, sizeof path, "%s/expected.safetensors", folder);
    lj_weights *weights;
    assert_ok(lj_weights_open(folder, &weights));
    const lj_model_config *config = lj_weights_config(weights);
    assert_ok(lj_layout_init(&f->layout, config, lj_model_whole(config)));
    int64_t total = f->layout.total_elements, table = LENGTH * config->head_dim;
    f->master = zeros(total), f->m = zeros(total), f->v = zeros(total), f->gradients = zeros(total);
    f->compute = dtype == LJ_F32 ? f->master : zeros(total);
    assert_ok(lj_params_load(&f->layout, weights, false, 0, LJ_F32, f->master));
    lj_weights_close(weights);
    if (dtype != LJ_F32) lj_convert(dtype, f->compute, LJ_F32, f->master, (size_t)total);
    f->cosines = zeros(table), f->sines = zeros(table);
    lj_rope_tables(&f->layout.config, LENGTH, f->cosines, f->sines);
    assert_ok(lj_safetensors_open(path, &f->expected));
    for (int i = 0; i < CELLS; i++) f->positions[i] = packed(f) ? ((const int32_t *)data_of(f, "positions"))[i] : i % LENGTH;
}

static void fixture_close(fixture *f)
{
    lj_safetensors_close(f->expected);
    if (f->compute != f->master) lj_free(f->compute);
    void *buffers[] = {f->master, f->m, f->v, f->gradients, f->cosines, f->sines};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) lj_free(buffers[i]);
    lj_layout_release(&f->layout);
}

static void bind(fixture *f, const char *prefix, const char *name, const void *data)
{
    assert_true(f->bound < MAX_BINDINGS);
    snprintf(f->names[f->bound], sizeof f->names[0], "%s%s", prefix, name);
    f->bindings[f->bound] = (test_binding){f->names[f->bound], (void *)data};
    f->bound++;
}

static void bind_params(fixture *f, const char *prefix, lj_dtype dtype, void *flat)
{
    for (size_t i = 0; i < f->layout.param_count; i++) {
        const lj_param *p = &f->layout.params[i];
        bind(f, prefix, p->name, (char *)flat + (size_t)p->offset * lj_dtype_bytes(dtype));
    }
}

static void bind_forward(fixture *f, int step)
{
    f->bound = 0;
    bind_params(f, "", f->dtype, f->compute);
    bind(f, "", "tokens", (const int32_t *)data_of(f, "tokens") + step * CELLS);
    bind(f, "", "positions", f->positions);
    bind(f, "", "cosines", f->cosines);
    bind(f, "", "sines", f->sines);
    if (packed(f)) bind(f, "", "starts", data_of(f, "starts"));
}

static lj_model_graph_options graph_options(const fixture *f, bool first)
{
    return (lj_model_graph_options){f->dtype, packed(f), first};
}

static void execute(fixture *f, lj_graph *graph)
{
    const lj_size sizes[] = {{"B", ROWS}, {"T", LENGTH}, {"P", LENGTH}};
    assert_ok(lj_graph_verify(graph));
    assert_ok(test_execute(graph, f->backend, sizes, 3, f->bindings, f->bound));
    lj_graph_destroy(graph);
}

static double relative_l2(const float *got, const float *want, int64_t count)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    return sqrt(difference / (size > 0 ? size : 1));
}

static void logits_check(fixture *f)
{
    int64_t vocab = f->layout.config.vocab_size, count = CELLS * vocab;
    float *logits = zeros(count);
    const float *want = data_of(f, "logits"), *bf16 = data_of(f, "bf16_error");
    lj_model_graph_options options = graph_options(f, false);
    lj_graph *graph;
    assert_ok(lj_model_graph_logits(&f->layout, &options, &graph));
    bind_forward(f, 0);
    bind(f, "", "logits", logits);
    execute(f, graph);
    double worst = 0;
    for (int64_t i = 0; i < count; i++) worst = fmax(worst, fabs((double)logits[i] - want[i]));
    if (f->dtype == LJ_F32 && !(worst <= 1e-4)) fail_msg("%s: logits differ by %g, allowed 1e-4", f->name, worst);
    double relative = relative_l2(logits, want, count);
    if (f->dtype == LJ_BF16 && !(relative <= 1.25 * bf16[0]))
        fail_msg("%s: bf16 logits relative L2 %g, PyTorch's own %g", f->name, relative, (double)bf16[0]);
    lj_free(logits);
}

/* One forward and backward of a step's tokens; the loss as the mean over the targets. */
static double micro_run(fixture *f, int step)
{
    const int32_t *targets = (const int32_t *)data_of(f, "targets") + step * CELLS;
    int count = 0;
    for (int i = 0; i < CELLS; i++) count += targets[i] >= 0;
    for (int i = 0; i < CELLS; i++) f->weights[i] = targets[i] >= 0 ? 1.0f / (float)count : 0;
    lj_model_graph_options options = graph_options(f, true);
    lj_graph *graph;
    assert_ok(lj_model_graph_micro(&f->layout, &options, &graph));
    bind_forward(f, step);
    bind(f, "", "targets", targets);
    bind(f, "", "weights", f->weights);
    bind(f, "", "loss", &f->loss);
    bind_params(f, "grad.", LJ_F32, f->gradients);
    execute(f, graph);
    return f->loss;
}

static void gradients_check(fixture *f)
{
    const float *bf16 = data_of(f, "bf16_error"), want_loss = *(const float *)data_of(f, "loss");
    double loss = micro_run(f, 0), difference = 0, size = 0;
    double allowed = f->dtype == LJ_F32 ? 1e-5 * want_loss : fmax(1.25 * bf16[2], 3e-3);
    if (!(fabs(loss - want_loss) <= allowed)) fail_msg("%s: loss %.7g, expected %.7g within %g", f->name, loss, (double)want_loss, allowed);
    for (size_t i = 0; i < f->layout.slot_count; i++) {
        const lj_weight_slot *slot = &f->layout.slots[i];
        char name[160];
        snprintf(name, sizeof name, "grad.%s", slot->weight.name);
        const float *got = f->gradients + lj_slot_offset(&f->layout, slot), *want = data_of(f, name);
        double relative = relative_l2(got, want, slot->count), norm2 = 0;
        for (int64_t k = 0; k < slot->count; k++) norm2 += (double)want[k] * want[k];
        difference += relative * relative * norm2, size += norm2;
        if (f->dtype == LJ_F32 && !(relative <= 1e-5)) fail_msg("%s: %s differs by relative L2 %g, allowed 1e-5", f->name, name, relative);
    }
    double all = sqrt(difference / size);
    if (f->dtype == LJ_BF16 && !(all <= 1.25 * bf16[1])) fail_msg("%s: bf16 gradients relative L2 %g, PyTorch's own %g", f->name, all, (double)bf16[1]);
}

static void update_run(fixture *f, int step)
{
    const lj_adamw_options adamw = {0.9, 0.95, 1e-8, 0.1};
    float hyper[] = {1e-3f, 1.0f, (float)(1 - pow(0.9, step)), (float)(1 - pow(0.95, step))}, norm;
    int64_t rest = f->layout.decay_elements;
    lj_graph *graph;
    assert_ok(lj_model_graph_update(&f->layout, f->dtype, &adamw, &graph));
    f->bound = 0;
    for (int g = 0; g < 2; g++) {
        const char *group = g ? "rest" : "decay";
        int64_t at = g ? rest : 0;
        bind(f, "master.", group, f->master + at);
        bind(f, "m.", group, f->m + at);
        bind(f, "v.", group, f->v + at);
        bind(f, "grad.", group, f->gradients + at);
        if (f->dtype != LJ_F32) bind(f, "compute.", group, (uint16_t *)f->compute + at);
    }
    bind(f, "", "hyper", hyper);
    bind(f, "", "norm", &norm);
    assert_ok(lj_graph_verify(graph));
    assert_ok(test_execute(graph, f->backend, NULL, 0, f->bindings, f->bound));
    lj_graph_destroy(graph);
    assert_true(norm > 0 && isfinite(norm));
}

static void training_check(fixture *f)
{
    const float *want = data_of(f, "losses");
    for (int step = 0; step < STEPS; step++) {
        double loss = micro_run(f, step), allowed = f->dtype == LJ_F32 ? 1e-5 * want[step] : 1e-2 * want[step];
        if (!(fabs(loss - want[step]) <= allowed))
            fail_msg("%s: loss %.8g before step %d, expected %.8g within %g", f->name, loss, step + 1, (double)want[step], allowed);
        update_run(f, step + 1);
    }
}

static void all_models(void (*check)(fixture *), lj_dtype dtype, test_backend backend)
{
    for (int i = 0; i < MODELS; i++) {
        fixture f;
        fixture_open(&f, models[i], dtype, backend);
        check(&f);
        fixture_close(&f);
    }
}

#define CASE(name, check, dtype, backend)                                                                                         \
    static void name(void **state)                                                                                                \
    {                                                                                                                             \
        (void)state;                                                                                                              \
        all_models(check, dtype, backend);                                                                                        \
    }
CASE(logits_f32_reference, logits_check, LJ_F32, TEST_REFERENCE)
CASE(logits_bf16_reference, logits_check, LJ_BF16, TEST_REFERENCE)
CASE(gradients_f32_reference, gradients_check, LJ_F32, TEST_REFERENCE)
CASE(gradients_bf16_reference, gradients_check, LJ_BF16, TEST_REFERENCE)
CASE(training_f32_reference, training_check, LJ_F32, TEST_REFERENCE)
CASE(logits_f32_compiled, logits_check, LJ_F32, TEST_COMPILED)
CASE(logits_bf16_compiled, logits_check, LJ_BF16, TEST_COMPILED)
CASE(gradients_f32_compiled, gradients_check, LJ_F32, TEST_COMPILED)
CASE(gradients_bf16_compiled, gradients_check, LJ_BF16, TEST_COMPILED)
CASE(training_f32_compiled, training_check, LJ_F32, TEST_COMPILED)

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_f32_reference), cmocka_unit_test(logits_bf16_reference),
                                       cmocka_unit_test(gradients_f32_reference), cmocka_unit_test(gradients_bf16_reference),
                                       cmocka_unit_test(training_f32_reference),
                                       cmocka_unit_test(logits_f32_compiled),    cmocka_unit_test(logits_bf16_compiled),
                                       cmocka_unit_test(gradients_f32_compiled), cmocka_unit_test(gradients_bf16_compiled),
                                       cmocka_unit_test(training_f32_compiled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
