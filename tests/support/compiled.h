/* Running compiled programs under judgement: sentinels, the reference node by node, bits between modes, bytes against the plan. */
#ifndef LJ_TESTS_COMPILED_H
#define LJ_TESTS_COMPILED_H

#include "support/differential.h"

#include "ljperf/program.h"

typedef struct {
    int threads;
    bool eager;
    const char *disable; /* passes */
} test_mode;

/* Passes that round once where the graph rounds twice, or let a library's kernel do what the graph spells out: without them a
 * fused program must give the bits of an eager one. */
extern const char test_rounding_passes[];

lj_status test_compile(const lj_graph *graph, const test_mode *mode, lj_program **program);

/* Binds copies of `inputs` and fresh outputs, runs, and checks sentinels, the plan, and that the workspace is exactly what was
 * predicted. *states (may be NULL) receives the inputs as they are after the run. The caller releases both. */
bool test_program_run(lj_program *program, const lj_graph *graph, const int64_t *sizes, const test_buffers *inputs, test_buffers *outputs,
                      test_buffers *states, test_verdict *verdict);

/* Everything about one sheet at some sizes:
 *   eager with every value exposed: each node against the reference, within its row's tolerance;
 *   eager and fused, without the rounding passes: the same bits as that;
 *   all passes: within what the rows' tolerances can add up to, and the same bits when run again. */
typedef struct {
    const test_sheet *sheet;
    lj_graph *exposed;
    int least_threads, most_threads;
    int repeats; /* further runs that must give the same bits */
    lj_program *programs[16];
    int program_count;
} test_subject;

lj_status test_subject_init(test_subject *subject, const test_sheet *sheet, int least_threads, int most_threads);
void test_subject_release(test_subject *subject);
bool test_subject_judge(test_subject *subject, const int64_t *sizes, uint64_t seed, test_verdict *verdict);

#endif
