/* Frequencies by scaling type, from the papers named at each, with transformers' choices where those leave room. */
#include "model/rope.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925;

static double plain_frequency(double base, int64_t pair, int64_t head_dim)
{
    return 1.0 / pow(base, 2.0 * (double)pair / (double)head_dim);
}

/* Llama 3.1: long waves slowed by factor, short ones kept, a linear blend between. */
static double llama3_frequency(const lj_rope_scaling *s, double frequency)
{
    double old = (double)s->original_max_position_embeddings, wavelength = two_pi / frequency;
    if (wavelength < old / s->high_freq_factor) return frequency;
    if (wavelength > old / s->low_freq_factor) return frequency / s->factor;
    double smooth = (old / wavelength - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

/* The pair that turns `turns` times over the original length. */
static double yarn_pair(const lj_model_config *c, double turns)
{
    double length = (double)c->rope_scaling.original_max_position_embeddings;
    return (double)c->head_dim * log(length / (turns * two_pi)) / (2 * log(c->rope_theta));
}

/* YaRN (Peng et al. 2023): interpolated above beta_slow's pair, kept below beta_fast's, a ramp between. */
static double yarn_frequency(const lj_model_config *c, int64_t pair, double frequency)
{
    const lj_rope_scaling *s = &c->rope_scaling;
    double low = fmax(floor(yarn_pair(c, s->beta_fast)), 0), high = fmin(ceil(yarn_pair(c, s->beta_slow)), (double)c->head_dim - 1);
    if (low == high) high += 0.001;
    double ramp = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    return frequency / s->factor * ramp + frequency * (1 - ramp);
}

/* Base of the dynamic NTK scaling at a sequence length beyond the trained one. */
static double dynamic_base(const lj_model_config *c, int64_t length)
{
    double trained = (double)c->rope_scaling.original_max_position_embeddings, dim = (double)c->head_dim, factor = c->rope_scaling.factor;
    if ((double)length <= trained || dim <= 2) return c->rope_theta;
    return c->rope_theta * pow(factor * (double)length / trained - (factor - 1), dim / (dim - 2));
}

static double frequency_at(const lj_model_config *c, int64_t pair, int64_t length)
{
    double plain = plain_frequency(c->rope_theta, pair, c->head_dim);
    switch (c->rope_scaling.type) {
    case LJ_ROPE_LINEAR: return plain / c->rope_scaling.factor;
    case LJ_ROPE_DYNAMIC: return plain_frequency(dynamic_base(c, length), pair, c->head_dim);
    case LJ_ROPE_YARN: return yarn_frequency(c, pair, plain);
    case LJ_ROPE_LLAMA3: return llama3_frequency(&c->rope_scaling, plain);
    default: return plain;
    }
}

static double table_scale(const lj_rope_scaling *s)
{
    if (s->type != LJ_ROPE_YARN) return 1;
    return s->attention_factor > 0 ? s->attention_factor : 0.1 * log(s->factor) + 1;
}

void lj_rope_tables(const lj_model_config *config, int64_t positions, float *cosines, float *sines)
{
    int64_t dim = config->head_dim, half = dim / 2;
    float scale = (float)table_scale(&config->rope_scaling);
    for (int64_t pair = 0; pair < half; pair++) {
        float frequency = (float)frequency_at(config, pair, positions);
        for (int64_t p = 0; p < positions; p++) {
            float angle = (float)p * frequency;
            float c = cosf(angle) * scale, s = sinf(angle) * scale;
            cosines[p * dim + pair] = cosines[p * dim + half + pair] = c;
            sines[p * dim + pair] = sines[p * dim + half + pair] = s;
        }
    }
}
