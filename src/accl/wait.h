/* Waiting: spin when this rank has a processor to itself, give it away when ranks are many, sleep when nothing comes for long. And while it waits: who is
 * dead, who gave up, and whether time is up. */
#ifndef ACCL_WAIT_H
#define ACCL_WAIT_H

#include "accl/task.h"

void accl_futex_wake(_Atomic uint32_t *word);

/* Drives tasks until all are finished; the first failure, or ncclSuccess. beside: it runs on a stream's thread beside the caller's work, so
 * it sleeps early. The tasks may belong to any communicators of this process. */
ncclResult_t accl_run(accl_task *tasks, size_t count, bool beside);
/* The same for tasks that lie apart. */
ncclResult_t accl_run_list(accl_task **tasks, size_t count, bool beside);
/* Whether something ended this wait: an abort, an error of this or another rank, a death, the time-out. Fails the task then. */
bool accl_wait_health(accl_task *task, double waited_s, bool look_at_processes);

static inline void accl_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

#endif
