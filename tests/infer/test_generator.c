/* Decoding with the KV cache gives the logits that the whole sequence gives at once, however the prompt is cut. */
#include "support/testing.h"

#include "formats/safetensors.h"
#include "formats/weights.h"
#include "infer/generator.h"
#include "model/params.h"

#include <math.h>

enum { LENGTH = 16 };

static const char *const models[] = {"llama3", "smollm2", "mistral", "qwen3"};

static void model_check(const char *name, int64_t chunk, int64_t step)
{
    char folder[512], path[600];
    lj_weights *weights;
    lj_safetensors *expected;
    lj_param_layout layout;
    void *flat;
    lj_generator *generator;
    snprintf(folder, sizeof folder, "%s/model/%s", LJ_TEST_DATA, name);
    snprintf(path, sizeof path, "%s/expected.safetensors", folder);
    assert_ok(lj_weights_open(folder, &weights));
    assert_ok(lj_layout_init(&layout, lj_weights_config(weights), lj_model_whole(lj_weights_config(weights))));
    assert_ok(lj_alloc("weights", (size_t)layout.total_elements * 4, &flat));
    assert_ok(lj_params_load(&layout, weights, false, 0, LJ_F32, flat));
    assert_ok(lj_safetensors_open(path, &expected));
    const int32_t *tokens = (const int32_t *)lj_safetensors_find(expected, "tokens")->data;
    const float *want = (const float *)lj_safetensors_find(expected, "logits")->data, *logits;
    lj_generator_options options = {.dtype = LJ_F32, .threads = 1, .context = LENGTH + 3, .chunk = chunk};
    assert_ok(lj_generator_create(&layout, flat, &options, &generator));
    for (int round = 0; round < 2; round++) {
        for (int64_t at = 0; at < LENGTH; at += step) {
            int64_t n = LENGTH - at < step ? LENGTH - at : step;
            assert_ok(lj_generator_feed(generator, tokens + at, n, &logits));
            for (int64_t v = 0; v < layout.config.vocab_size; v++) {
                double difference = fabs((double)logits[v] - want[(at + n - 1) * layout.config.vocab_size + v]);
                if (!(difference <= 1e-4)) fail_msg("%s: logit %lld after token %lld differs by %g", name, (long long)v, (long long)(at + n), difference);
            }
        }
        lj_generator_rewind(generator, 0);
    }
    int32_t many[LENGTH + 4] = {0};
    assert_fails(lj_generator_feed(generator, many, LENGTH + 4, &logits), LJ_ERR_LIMIT, "do not fit the context of 19");
    assert_fails(lj_generator_feed(generator, many, 0, &logits), LJ_ERR_INVALID, "no token");
    lj_generator_destroy(generator);
    lj_safetensors_close(expected);
    lj_weights_close(weights);
    lj_free(flat);
    lj_layout_release(&layout);
}

static void cache_gives_the_logits_of_the_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) model_check(models[i], 0, 5);
    model_check("llama3", 3, 16);
    model_check("llama3", 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cache_gives_the_logits_of_the_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
