/* What the environment says, read when a communicator or an id is made. NCCL's names where NCCL has them. */
#ifndef ACCL_SETTINGS_H
#define ACCL_SETTINGS_H

#include "base/status.h"

#include <stdbool.h>

typedef struct {
    double timeout_s;   /* ACCL_TIMEOUT, default 600 */
    bool check;         /* ACCL_CHECK: compare all ranks' arguments before data moves */
    bool rank_order;    /* ACCL_REDUCE_ORDER=rank */
    int spin;           /* ACCL_SPIN: 1 always spin, 0 never, -1 (unset) by ranks and processors */
    bool no_cma;        /* ACCL_CMA=0: behave as if the system forbade reading other processes' memory */
} accl_settings;

/* LJ_ERR_INVALID names variable and value. */
lj_status accl_settings_read(accl_settings *settings);

#endif
