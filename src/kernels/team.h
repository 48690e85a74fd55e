/* The team of threads. This is the only place that opens parallel regions; it calls libgomp's own entry points, so that code
 * built by gcc and by clang shares one pool of threads with oneDNN (which also runs on libgomp).
 *
 * Every kernel of the project has the form fn(arg, thread, threads) and splits its work by these two numbers, so its result
 * never depends on scheduling. oneDNN is called from the master thread outside any region. */
#ifndef LJ_KERNELS_TEAM_H
#define LJ_KERNELS_TEAM_H

#include <stdint.h>

typedef void (*lj_team_fn)(void *arg, int thread, int threads);

/* Runs fn on `threads` (>= 1) threads, this one being thread 0, and returns when all have. The number that fn is told is the
 * number that runs (inside a foreign parallel region that is 1). Two user threads may each run a team at the same time. */
void lj_team_run(int threads, lj_team_fn fn, void *arg);

/* Waits for every thread of the region; every thread of it must call. Callable from inside fn only. */
void lj_team_barrier(void);

/* Makes libgomp's default for this user thread, which oneDNN takes, equal to `threads`. Cheap. */
void lj_team_match(int threads);

/* Half-open share of [0, count) for this thread: contiguous, sizes differ by at most one. */
static inline void lj_team_share(int64_t count, int thread, int threads, int64_t *begin, int64_t *end)
{
    *begin = count * thread / threads;
    *end = count * (thread + 1) / threads;
}

#endif
