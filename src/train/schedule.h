/* Learning rates by step. Steps count from 0; `total` steps are planned. */
#ifndef LJ_TRAIN_SCHEDULE_H
#define LJ_TRAIN_SCHEDULE_H

#include "base/status.h"

#include <stdint.h>

typedef enum {
    LJ_SCHEDULE_CONSTANT,   /* peak after the warm-up */
    LJ_SCHEDULE_COSINE,     /* half a cosine from peak to floor */
    LJ_SCHEDULE_LINEAR,     /* straight to floor */
    LJ_SCHEDULE_WSD,        /* warm-up, stable, then straight to floor over the last decay_fraction */
    LJ_SCHEDULE_DS_LOG,     /* DeepSpeed's WarmupLR / WarmupDecayLR with warmup_type log */
    LJ_SCHEDULE_DS_LINEAR,  /* the same with warmup_type linear */
    LJ_SCHEDULE_COUNT
} lj_schedule_kind;

typedef struct {
    lj_schedule_kind kind;
    double peak, floor;      /* floor: where decay ends; the first value of the DeepSpeed ones */
    int64_t warmup, total;   /* DeepSpeed: total 0 = no decay (WarmupLR) */
    double decay_fraction;   /* wsd: share of total; 0 = 0.2 */
} lj_schedule;

/* Our own warm up by (step + 1) / warmup, so that the first step trains; DeepSpeed's follow its formulas, whose first step has the floor. */
double lj_schedule_at(const lj_schedule *schedule, int64_t step);
const char *lj_schedule_name(lj_schedule_kind kind); /* "cosine" */
lj_status lj_schedule_find(const char *name, lj_schedule_kind *kind);

#endif
