/* Parallel regions through libgomp's entry points (stable ABI since GCC 4.9), which work from any compiler. */
#include "kernels/team.h"

#include <assert.h>
#include <stddef.h>

void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
void GOMP_barrier(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);

typedef struct {
    lj_team_fn fn;
    void *arg;
} region;

static void region_enter(void *data)
{
    const region *r = data;
    r->fn(r->arg, omp_get_thread_num(), omp_get_num_threads());
}

void lj_team_run(int threads, lj_team_fn fn, void *arg)
{
    assert(threads >= 1);
    region r = {fn, arg};
    GOMP_parallel(region_enter, &r, (unsigned)threads, 0);
}

void lj_team_barrier(void)
{
    GOMP_barrier();
}

void lj_team_match(int threads)
{
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
}
