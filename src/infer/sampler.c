#include "infer/sampler.h"

#include "base/memory.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    float logit;
    int32_t id;
} candidate;

struct lj_sampler {
    lj_sampler_options options;
    int64_t vocab, draws;
    float *scores;          /* [vocab] after the penalty */
    candidate *candidates;  /* [vocab] */
    double *shares;         /* [vocab] probabilities of the candidates */
};

static lj_status options_check(const lj_sampler_options *o)
{
    if (!(o->temperature >= 0)) return lj_fail(LJ_ERR_INVALID, "temperature %g is below 0", o->temperature);
    if (o->top_k < 0) return lj_fail(LJ_ERR_INVALID, "top-k %lld is below 0", (long long)o->top_k);
    if (!(o->top_p > 0 && o->top_p <= 1)) return lj_fail(LJ_ERR_INVALID, "top-p %g is outside (0, 1]", o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1)) return lj_fail(LJ_ERR_INVALID, "min-p %g is outside 0 .. 1", o->min_p);
    if (!(o->repetition_penalty > 0)) return lj_fail(LJ_ERR_INVALID, "repetition penalty %g is not above 0", o->repetition_penalty);
    return LJ_OK;
}

lj_status lj_sampler_create(const lj_sampler_options *options, int64_t vocab, lj_sampler **sampler)
{
    LJ_TRY(options_check(options));
    void *memory;
    size_t n = (size_t)vocab;
    LJ_TRY(lj_alloc_zero("sampler", sizeof(lj_sampler), &memory));
    lj_sampler *s = memory;
    *s = (lj_sampler){.options = *options, .vocab = vocab};
    lj_status status = lj_alloc("sampler", n * sizeof *s->scores, (void **)&s->scores);
    if (status == LJ_OK) status = lj_alloc("sampler", n * sizeof *s->candidates, (void **)&s->candidates);
    if (status == LJ_OK) status = lj_alloc("sampler", n * sizeof *s->shares, (void **)&s->shares);
    if (status == LJ_OK)
        *sampler = s;
    else
        lj_sampler_destroy(s);
    return status;
}

void lj_sampler_destroy(lj_sampler *sampler)
{
    if (!sampler) return;
    lj_free(sampler->scores);
    lj_free(sampler->candidates);
    lj_free(sampler->shares);
    lj_free(sampler);
}

/* Once for each different token of the history, however often it stands there. */
static void penalise(lj_sampler *s, const float *logits, const int32_t *history, int64_t count)
{
    double penalty = s->options.repetition_penalty;
    for (int64_t i = 0; i < count; i++) {
        if (history[i] < 0 || history[i] >= s->vocab) continue;
        float logit = logits[history[i]];
        s->scores[history[i]] = (float)(logit > 0 ? logit / penalty : logit * penalty);
    }
}

static int32_t likeliest(const float *scores, int64_t vocab)
{
    int64_t best = -1;
    for (int64_t i = 0; i < vocab; i++)
        if (!isnan(scores[i]) && (best < 0 || scores[i] > scores[best])) best = i;
    return (int32_t)best;
}

static int likelier_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Those within 40 of the best: the rest weighs less than e^-40 each. */
static int64_t candidates_take(lj_sampler *s, float best)
{
    int64_t count = 0;
    double reach = 40 * s->options.temperature;
    for (int64_t i = 0; i < s->vocab; i++)
        if (s->scores[i] >= best - reach) s->candidates[count++] = (candidate){s->scores[i], (int32_t)i};
    qsort(s->candidates, (size_t)count, sizeof *s->candidates, likelier_first);
    return s->options.top_k > 0 && count > s->options.top_k ? s->options.top_k : count;
}

/* Probabilities of the first `count`, then how many of them top-p and min-p leave. */
static int64_t candidates_cut(lj_sampler *s, int64_t count)
{
    double total = 0, reached = 0;
    for (int64_t i = 0; i < count; i++)
        total += s->shares[i] = exp(((double)s->candidates[i].logit - s->candidates[0].logit) / s->options.temperature);
    int64_t kept = 0;
    while (kept < count && (kept == 0 || reached < s->options.top_p * total) && s->shares[kept] >= s->options.min_p * s->shares[0])
        reached += s->shares[kept++];
    return kept;
}

/* splitmix64's finaliser over (seed, draw). */
static double uniform(uint64_t seed, int64_t draw)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)draw + 1;
    for (int round = 0; round < 2; round++) {
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return (double)(x >> 11) * 0x1p-53;
}

static int32_t draw(lj_sampler *s, int64_t kept)
{
    double total = 0, at = 0;
    for (int64_t i = 0; i < kept; i++) total += s->shares[i];
    double wanted = uniform(s->options.seed, s->draws++) * total;
    for (int64_t i = 0; i < kept; i++)
        if ((at += s->shares[i]) > wanted) return s->candidates[i].id;
    return s->candidates[kept - 1].id;
}

lj_status lj_sampler_pick(lj_sampler *sampler, const float *logits, const int32_t *history, int64_t history_count, int32_t *id)
{
    memcpy(sampler->scores, logits, (size_t)sampler->vocab * sizeof *logits);
    if (sampler->options.repetition_penalty != 1) penalise(sampler, logits, history, history_count);
    int32_t best = likeliest(sampler->scores, sampler->vocab);
    if (best < 0 || !isfinite(sampler->scores[best])) return lj_fail(LJ_ERR_INVALID, "no logit is finite; are the weights whole?");
    if (sampler->options.temperature > 0) best = draw(sampler, candidates_cut(sampler, candidates_take(sampler, sampler->scores[best])));
    *id = best;
    return LJ_OK;
}
