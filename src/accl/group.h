/* Groups: what a thread calls between ncclGroupStart and ncclGroupEnd waits here and starts together. Outside a group a call is a group of one. */
#ifndef ACCL_GROUP_H
#define ACCL_GROUP_H

#include "accl/task.h"

bool accl_in_group(void);
/* Starts an operation, or keeps it for the group's end. */
ncclResult_t accl_issue(ncclComm_t comm, const accl_call *call, cudaStream_t stream);
/* A set-up function: run now; in a group at its end, beside the others of the group. run gets and frees argument. */
typedef ncclResult_t (*accl_job_fn)(void *argument);
ncclResult_t accl_issue_job(accl_job_fn run, void *argument);
/* Remembers that a call of the open group was refused: its end starts nothing and returns this. */
ncclResult_t accl_group_spoil(ncclResult_t result);
ncclResult_t accl_group_start(void);
ncclResult_t accl_group_end(void);
/* Forgets the group; *seconds: what the cost model says of it. */
ncclResult_t accl_group_simulate(double *seconds);

#endif
