/* Plain work over an index range on a few threads: file conversion, loading, tokenising. Not for kernels (those run on the team of
 * runtime/), and never called from inside one. */
#ifndef LJ_BASE_PARALLEL_H
#define LJ_BASE_PARALLEL_H

#include "base/status.h"

#include <stdint.h>

/* Handles item `index`; a failure stops the hand-out of further items. */
typedef lj_status (*lj_parallel_fn)(void *user, size_t index);

/* Calls fn(user, 0 .. count - 1) on up to `threads` threads (0: the processors this process may use), the caller among them. Items are
 * handed out in order, each once. Returns the first failure with its message in the calling thread, after all threads have ended. */
lj_status lj_parallel_for(int threads, size_t count, lj_parallel_fn fn, void *user);

/* Threads that lj_parallel_for would use for many items: `threads`, or the processors this process may use for 0. */
int lj_parallel_threads(int threads);

/* Told about progress from inside library calls: `done` of `total` in the unit of the call (bytes mostly). Called by one thread at a
 * time, any thread, with `done` never falling; the last call has done == total. */
typedef void (*lj_progress_fn)(void *user, uint64_t done, uint64_t total);

/* Counts work of several threads for one lj_progress_fn (NULL: silent). Zero-initialise and set fn, user, total. */
typedef struct {
    lj_progress_fn fn;
    void *user;
    uint64_t total, done;
    int busy;
} lj_progress;
void lj_progress_add(lj_progress *progress, uint64_t amount);

#endif
