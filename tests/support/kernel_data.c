#include "support/kernel_data.h"

#include "support/testing.h"

#include "base/machine.h"

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GUARD = 256, SENTINEL = 0xa5 };

guarded guarded_create(lj_dtype type, size_t count)
{
    guarded g = {.type = type, .count = count};
    size_t bytes = count * lj_dtype_bytes(type);
    g.base = malloc(bytes + 2 * GUARD + 64);
    assert_non_null(g.base);
    memset(g.base, SENTINEL, bytes + 2 * GUARD + 64);
    g.data = (char *)g.base + GUARD + (64 - ((uintptr_t)g.base + GUARD) % 64);
    return g;
}

void guarded_fill(guarded *g, uint64_t *seed, double scale)
{
    for (size_t i = 0; i < g->count; i++) lj_element_set(g->type, g->data, i, test_random_normal(seed) * scale);
}

void guarded_check(const guarded *g, const char *what)
{
    const unsigned char *front = (const unsigned char *)g->data - GUARD, *back = (const unsigned char *)g->data + g->count * lj_dtype_bytes(g->type);
    for (int i = 0; i < GUARD; i++)
        if (front[i] != SENTINEL || back[i] != SENTINEL) fail_msg("%s: wrote %s its buffer", what, front[i] != SENTINEL ? "before" : "past");
}

void guarded_destroy(guarded *g)
{
    free(g->base);
    g->base = g->data = NULL;
}

double guarded_get(const guarded *g, size_t index)
{
    return lj_element_get(g->type, g->data, index);
}

void assert_near(const char *what, double got, double want, double tolerance, size_t index)
{
    if (isnan(want) ? isnan(got) : fabs(got - want) <= tolerance || got == want) return;
    fail_msg("%s: element %zu is %.9g, reference %.9g, tolerance %.3g", what, index, got, want, tolerance);
}

int run_for_every_isa(char **argv)
{
    int failed = 0;
    if (getenv("LJPERF_ISA")) return -1;
    for (int isa = 0; isa <= (int)lj_machine_get()->isa; isa++) {
        int code = 0;
        pid_t child = fork();
        if (child == 0) {
            setenv("LJPERF_ISA", lj_isa_name((lj_isa)isa), 1);
            fprintf(stderr, "[ %s ]\n", lj_isa_name((lj_isa)isa));
            execv("/proc/self/exe", argv);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &code, 0) != child || code != 0) failed++;
    }
    return failed;
}
