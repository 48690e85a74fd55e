/* Where a step's time goes: steps of the same work (layers apart) added up, each held against its own limit.
 *
 * A step's limit is the larger of flops / gemm_peak and bytes / bandwidth, both measured here. The sum of the limits is what the
 * whole step would take if each kernel ran at its own. */
#ifndef LJ_TRAIN_PROFILE_H
#define LJ_TRAIN_PROFILE_H

#include "base/text.h"

enum { LJ_PROFILE_ROWS = 1024, LJ_PROFILE_SHOWN = 20 };

typedef struct {
    char kind[16], name[112]; /* layer numbers taken out: one row for all layers */
    uint64_t calls;
    double seconds, flops, bytes;
} lj_profile_row;

typedef struct {
    lj_profile_row rows[LJ_PROFILE_ROWS];
    size_t count;
    double gemm_peak_flops, bandwidth; /* set before printing */
} lj_profile;

/* An lj_trace_fn (ljperf/program.h); user is the lj_profile. */
void lj_profile_add(void *user, const char *kind, const char *name, double seconds, double flops, double bytes);
/* The costliest rows, the rest in one line, the total and the total of the limits. */
void lj_profile_print(lj_profile *profile, lj_text *out);

#endif
