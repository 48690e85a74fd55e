/* All-to-all, gather and scatter are grouped messages; their order decides how well they run. */
#ifndef ACCL_ALL_TO_ALL_PAIRWISE_H
#define ACCL_ALL_TO_ALL_PAIRWISE_H

#include "accl/task.h"

/* Orders the messages among the tasks as a pairwise exchange: all sends before the receives, so that nobody waits for what could be on its way;
 * both by distance from this rank, so that in each step every rank talks to another one. Messages between the same two ranks, and collectives, keep their order. */
void accl_exchange_order(accl_task *tasks, size_t count);

#endif
