#include "train/schedule.h"

#include <math.h>
#include <string.h>

static const char *const names[LJ_SCHEDULE_COUNT] = {"constant", "cosine", "linear", "wsd", "warmup_decay_log", "warmup_decay_linear"};

const char *lj_schedule_name(lj_schedule_kind kind)
{
    return names[kind];
}

lj_status lj_schedule_find(const char *name, lj_schedule_kind *kind)
{
    for (int i = 0; i < LJ_SCHEDULE_COUNT; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *kind = (lj_schedule_kind)i;
        return LJ_OK;
    }
    return lj_fail(LJ_ERR_NOT_FOUND, "no schedule '%s'; known are constant, cosine, linear, wsd", name);
}

/* Share of the decay that is done, 0 .. 1, when it runs from step `from` to the end. */
static double decayed(const lj_schedule *s, int64_t step, int64_t from)
{
    if (s->total <= from) return step >= s->total ? 1 : 0;
    double share = (double)(step - from) / (double)(s->total - from);
    return fmin(fmax(share, 0), 1);
}

static int64_t wsd_begin(const lj_schedule *s)
{
    double fraction = s->decay_fraction > 0 ? s->decay_fraction : 0.2;
    int64_t from = s->total - (int64_t)(fraction * (double)s->total);
    return from > s->warmup ? from : s->warmup;
}

/* DeepSpeed calls its scheduler after each step, with a counter that is -1 during the first one. */
static double deepspeed_at(const lj_schedule *s, int64_t counter)
{
    double gamma = 1;
    if (counter < 0)
        gamma = 0;
    else if (counter < s->warmup)
        gamma = s->kind == LJ_SCHEDULE_DS_LOG ? log((double)counter + 1) / log((double)(s->warmup > 2 ? s->warmup : 2))
                                              : (double)counter / (double)s->warmup;
    else if (s->total > 0)
        gamma = fmax(0, (double)(s->total - counter) / fmax(1, (double)(s->total - s->warmup)));
    return s->floor + (s->peak - s->floor) * gamma;
}

double lj_schedule_at(const lj_schedule *schedule, int64_t step)
{
    const lj_schedule *s = schedule;
    if (s->kind >= LJ_SCHEDULE_DS_LOG) return deepspeed_at(s, step - 1);
    if (step < s->warmup) return s->peak * (double)(step + 1) / (double)s->warmup;
    double range = s->peak - s->floor;
    switch (s->kind) {
    case LJ_SCHEDULE_COSINE: return s->floor + range * 0.5 * (1 + cos(3.14159265358979323846 * decayed(s, step, s->warmup)));
    case LJ_SCHEDULE_LINEAR: return s->peak - range * decayed(s, step, s->warmup);
    case LJ_SCHEDULE_WSD: return s->peak - range * decayed(s, step, wsd_begin(s));
    default: return s->peak;
    }
}
