/* Host streams: a thread that runs what is queued, in order. accl.h has the public face. */
#ifndef ACCL_STREAM_H
#define ACCL_STREAM_H

#include "accl/accl.h"
#include "accl/task.h"

/* The stream behind a public handle; NULL for the handles that mean the caller (NULL, CUDA's legacy and per-thread handles 1 and 2).
 * ncclInvalidArgument for anything else that is not a live stream of acclStreamCreate. */
ncclResult_t accl_stream_of(cudaStream_t handle, accl_stream **out);
ncclResult_t accl_stream_begin(accl_stream **out);
/* Waits for the queue, ends the thread, frees. */
void accl_stream_end(accl_stream *stream);
/* Queues tasks that run together; takes the array over. */
ncclResult_t accl_stream_submit(accl_stream *stream, accl_task *tasks, size_t count);

#endif
