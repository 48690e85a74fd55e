/* Random weights. Counter based, so that any order and any number of threads gives the same numbers. */
#include "model/params.h"

#include "base/machine.h"
#include "kernels/team.h"

#include <math.h>
#include <string.h>

typedef double (*draw_fn)(uint64_t key, int64_t index);

/* splitmix64's finaliser (Steele et al. 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t bits_at(uint64_t key, int64_t index)
{
    return mix(key + ((uint64_t)index + 1) * 0x9e3779b97f4a7c15u);
}

/* Box and Muller 1958 on two 32-bit uniforms of one hash; the angle's half turns give one normal an index. */
static double draw_normal(uint64_t key, int64_t index)
{
    uint64_t bits = bits_at(key, index);
    float u = ((float)(bits >> 40) + 1) * 0x1p-24f, angle = (float)(bits & 0xffffff) * (6.2831853f * 0x1p-24f);
    return sqrtf(-2 * logf(u)) * cosf(angle);
}

/* Uniform with mean 0 and deviation 1. */
static double draw_uniform(uint64_t key, int64_t index)
{
    return ((double)(bits_at(key, index) >> 40) * 0x1p-24 - 0.5) * 3.4641016151377544;
}

static uint64_t name_key(uint64_t seed, const char *name)
{
    uint64_t key = mix(seed + 0x9e3779b97f4a7c15u);
    for (; *name; name++) key = mix(key ^ (uint64_t)(unsigned char)*name);
    return key;
}

static void store(lj_dtype dtype, void *flat, int64_t index, float value)
{
    if (dtype == LJ_F32)
        ((float *)flat)[index] = value;
    else
        ((uint16_t *)flat)[index] = lj_bf16_from_float(value);
}

typedef struct {
    lj_dtype dtype;
    void *flat;
    int64_t offset, count;
    uint64_t key;
    double scale, constant; /* element = constant + scale x draw; draw NULL: the constant */
    draw_fn draw;
} fill_job;

static void fill_share(void *arg, int thread, int threads)
{
    const fill_job *job = arg;
    int64_t begin, end;
    lj_team_share(job->count, thread, threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        store(job->dtype, job->flat, job->offset + i, (float)(job->constant + (job->draw ? job->scale * job->draw(job->key, i) : 0)));
}

static void slot_fill(const lj_param_layout *layout, const lj_weight_slot *slot, uint64_t seed, draw_fn draw, lj_dtype dtype, void *flat)
{
    lj_weight_role role = slot->weight.role;
    bool fixed = role == LJ_WEIGHT_NORM || role == LJ_WEIGHT_BIAS;
    fill_job job = {.dtype = dtype,
                    .flat = flat,
                    .offset = lj_slot_offset(layout, slot),
                    .count = slot->count,
                    .key = name_key(seed, slot->weight.name),
                    .scale = layout->config.initializer_range,
                    .constant = role == LJ_WEIGHT_NORM,
                    .draw = fixed ? NULL : draw};
    lj_team_run(lj_machine_get()->cores, fill_share, &job);
}

void lj_params_begin(const lj_param_layout *layout, lj_dtype dtype, void *flat)
{
    memset(flat, 0, (size_t)layout->total_elements * lj_dtype_bytes(dtype));
}

void lj_params_random_slot(const lj_param_layout *layout, const lj_weight_slot *slot, uint64_t seed, lj_dtype dtype, void *flat)
{
    slot_fill(layout, slot, seed, draw_normal, dtype, flat);
}

static void all_fill(const lj_param_layout *layout, uint64_t seed, draw_fn draw, lj_dtype dtype, void *flat)
{
    lj_params_begin(layout, dtype, flat);
    for (size_t i = 0; i < layout->slot_count; i++) slot_fill(layout, &layout->slots[i], seed, draw, dtype, flat);
}

void lj_params_random(const lj_param_layout *layout, uint64_t seed, lj_dtype dtype, void *flat)
{
    all_fill(layout, seed, draw_normal, dtype, flat);
}

void lj_params_fill(const lj_param_layout *layout, uint64_t seed, lj_dtype dtype, void *flat)
{
    all_fill(layout, seed, draw_uniform, dtype, flat);
}
