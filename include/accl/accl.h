/* ACCL beyond NCCL: host streams and events, and what a communicator knows about its ranks.
 *
 * A host stream runs what is queued on it in order, on a thread of its own, beside its caller: hand it to the collectives
 * as their cudaStream_t, queue compute or go on in the caller, and wait with acclStreamSynchronize or an event. Its thread
 * sleeps when it has nothing to do and sleeps soon when it waits for another rank. */
#ifndef ACCL_H
#define ACCL_H

#include "accl/nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct acclEvent *acclEvent_t;

/* Creates a stream and its thread. Any thread. ncclSystemError when the thread cannot start. */
ACCL_EXPORT ncclResult_t acclStreamCreate(cudaStream_t *stream);
/* Waits for what is queued, ends the thread, frees. */
ACCL_EXPORT ncclResult_t acclStreamDestroy(cudaStream_t stream);
/* Waits for what is queued now. Returns the first failure of an operation of this stream since the last call, or ncclSuccess. */
ACCL_EXPORT ncclResult_t acclStreamSynchronize(cudaStream_t stream);
/* ncclSuccess when nothing is queued or running, else ncclInProgress. */
ACCL_EXPORT ncclResult_t acclStreamQuery(cudaStream_t stream);
/* Queues a function of the caller's; it must not call into this stream. */
ACCL_EXPORT ncclResult_t acclStreamCall(cudaStream_t stream, void (*function)(void *argument), void *argument);
/* What is queued on the stream after this waits until the event's last record before this call is reached. */
ACCL_EXPORT ncclResult_t acclStreamWaitEvent(cudaStream_t stream, acclEvent_t event);

ACCL_EXPORT ncclResult_t acclEventCreate(acclEvent_t *event);
/* No record of it may be pending. */
ACCL_EXPORT ncclResult_t acclEventDestroy(acclEvent_t event);
/* Marks a point of the stream (NULL: now). */
ACCL_EXPORT ncclResult_t acclEventRecord(acclEvent_t event, cudaStream_t stream);
/* Waits for the last record; at once when there was none. */
ACCL_EXPORT ncclResult_t acclEventSynchronize(acclEvent_t event);
/* ncclSuccess when reached, else ncclInProgress. */
ACCL_EXPORT ncclResult_t acclEventQuery(acclEvent_t event);

/* Text about a communicator, one line a rank: last operation (sequence number, name, count, type), whether it is
 * done, whether its process lives; then the lagging ranks. Written to buffer (capacity bytes, always terminated). Any thread, also while an
 * operation hangs. ncclInvalidArgument when the buffer is too small: the text is cut. */
ACCL_EXPORT ncclResult_t acclCommStatus(ncclComm_t comm, char *buffer, size_t capacity);
/* The same as numbers: last[rank] = sequence number of the rank's last started collective (0: none yet), and *lagging = the rank
 * that is furthest behind (-1: all level). `last` holds one entry a rank. */
ACCL_EXPORT ncclResult_t acclCommProgress(ncclComm_t comm, unsigned long long *last, int *lagging);

/* The algorithm that the last collective of this communicator took, "flat/staged" and the like. Static storage. */
ACCL_EXPORT const char *acclCommAlgorithm(ncclComm_t comm);
/* Engine behind the communicator: "host" or "vendor". Static storage. */
ACCL_EXPORT const char *acclCommEngine(ncclComm_t comm);

#ifdef __cplusplus
}
#endif
#endif
