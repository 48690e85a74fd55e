#include "support/testing.h"

#include "infer/sampler.h"

#include <math.h>

enum { VOCAB = 8, DRAWS = 20000 };

/* Probabilities 1/2, 1/4, ... in the order of ids. */
static void halves(float *logits)
{
    for (int i = 0; i < VOCAB; i++) logits[i] = (float)(-i * log(2));
}

static void shares(const lj_sampler_options *options, const float *logits, const int32_t *history, int64_t count, double *out)
{
    lj_sampler *sampler;
    assert_ok(lj_sampler_create(options, VOCAB, &sampler));
    for (int i = 0; i < VOCAB; i++) out[i] = 0;
    for (int n = 0; n < DRAWS; n++) {
        int32_t id;
        assert_ok(lj_sampler_pick(sampler, logits, history, count, &id));
        out[id] += 1.0 / DRAWS;
    }
    lj_sampler_destroy(sampler);
}

static void near(const double *got, const double *want)
{
    for (int i = 0; i < VOCAB; i++)
        if (fabs(got[i] - want[i]) > 0.015) fail_msg("share of %d is %g, expected %g", i, got[i], want[i]);
}

static void draws_follow_the_probabilities(void **state)
{
    (void)state;
    float logits[VOCAB];
    double got[VOCAB], sum = 255.0 / 128;
    halves(logits);
    lj_sampler_options o = LJ_SAMPLER_OPTIONS_INIT;
    shares(&o, logits, NULL, 0, got);
    near(got, (double[]){1 / sum, 0.5 / sum, 0.25 / sum, 0.125 / sum, 0.0625 / sum, 0.03125 / sum, 0.015625 / sum, 0.0078125 / sum});
    o.temperature = 0.5;
    shares(&o, logits, NULL, 0, got);
    near(got, (double[]){0.75, 0.1875, 0.046875, 0.0117, 0.003, 0, 0, 0});
    o.temperature = 0;
    shares(&o, logits, NULL, 0, got);
    near(got, (double[]){1, 0, 0, 0, 0, 0, 0, 0});
}

static void cuts_leave_the_likeliest(void **state)
{
    (void)state;
    float logits[VOCAB];
    double got[VOCAB];
    halves(logits);
    lj_sampler_options o = LJ_SAMPLER_OPTIONS_INIT;
    o.top_k = 2;
    shares(&o, logits, NULL, 0, got);
    near(got, (double[]){2.0 / 3, 1.0 / 3, 0, 0, 0, 0, 0, 0});
    o.top_k = 0, o.top_p = 0.7; /* 0.502 alone is not enough, 0.753 is */
    shares(&o, logits, NULL, 0, got);
    near(got, (double[]){2.0 / 3, 1.0 / 3, 0, 0, 0, 0, 0, 0});
    o.top_p = 1, o.min_p = 0.24;
    shares(&o, logits, NULL, 0, got);
    near(got, (double[]){4.0 / 7, 2.0 / 7, 1.0 / 7, 0, 0, 0, 0, 0});
}

static void repetition_is_penalised_once(void **state)
{
    (void)state;
    float logits[VOCAB] = {2, 1.5f, -1, -2, -3, -4, -5, -6};
    int32_t history[] = {0, 0, 0, 99, -1};
    double got[VOCAB];
    lj_sampler_options o = LJ_SAMPLER_OPTIONS_INIT;
    o.temperature = 0, o.repetition_penalty = 1.5;
    shares(&o, logits, history, 5, got); /* 2 / 1.5 < 1.5 */
    near(got, (double[]){0, 1, 0, 0, 0, 0, 0, 0});
}

static void seeds_repeat(void **state)
{
    (void)state;
    float logits[VOCAB];
    halves(logits);
    lj_sampler_options o = LJ_SAMPLER_OPTIONS_INIT;
    int32_t ids[3][64];
    for (int run = 0; run < 3; run++) {
        lj_sampler *sampler;
        o.seed = run == 2 ? 6 : 5;
        assert_ok(lj_sampler_create(&o, VOCAB, &sampler));
        for (int n = 0; n < 64; n++) assert_ok(lj_sampler_pick(sampler, logits, NULL, 0, &ids[run][n]));
        lj_sampler_destroy(sampler);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    assert_memory_not_equal(ids[0], ids[2], sizeof ids[0]);
}

static void wrong_options_and_logits_are_refused(void **state)
{
    (void)state;
    lj_sampler *sampler;
    lj_sampler_options o = LJ_SAMPLER_OPTIONS_INIT;
    o.top_p = 0;
    assert_fails(lj_sampler_create(&o, VOCAB, &sampler), LJ_ERR_INVALID, "top-p 0 is outside");
    o = (lj_sampler_options)LJ_SAMPLER_OPTIONS_INIT;
    o.temperature = NAN;
    assert_fails(lj_sampler_create(&o, VOCAB, &sampler), LJ_ERR_INVALID, "temperature");
    o = (lj_sampler_options)LJ_SAMPLER_OPTIONS_INIT;
    assert_ok(lj_sampler_create(&o, VOCAB, &sampler));
    float logits[VOCAB];
    int32_t id = -7;
    for (int i = 0; i < VOCAB; i++) logits[i] = NAN;
    assert_fails(lj_sampler_pick(sampler, logits, NULL, 0, &id), LJ_ERR_INVALID, "no logit is finite");
    assert_int_equal(id, -7);
    lj_sampler_destroy(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(draws_follow_the_probabilities), cmocka_unit_test(cuts_leave_the_likeliest),
                                       cmocka_unit_test(repetition_is_penalised_once), cmocka_unit_test(seeds_repeat),
                                       cmocka_unit_test(wrong_options_and_logits_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
