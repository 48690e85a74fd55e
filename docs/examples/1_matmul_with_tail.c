/* Example 1: a matrix product with a fused tail, y = tanh(x w + b), over a symbolic number of rows.
 *
 * Build: gcc -std=c17 -Iinclude docs/examples/1_matmul_with_tail.c -Lbuild -lljperf -lm */
#include "ljperf/graph.h"
#include "ljperf/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { INNER = 48, OUT = 32, MOST_ROWS = 100 };

static void check(lj_status status, const char *what)
{
    if (status == LJ_OK) return;
    fprintf(stderr, "%s: %s\n", what, lj_error_message());
    exit(1);
}

int main(void)
{
    static float x[MOST_ROWS * INNER], w[INNER * OUT], b[OUT], y[MOST_ROWS * OUT];
    for (int i = 0; i < MOST_ROWS * INNER; i++) x[i] = (float)sin(i);
    for (int i = 0; i < INNER * OUT; i++) w[i] = (float)cos(i) / 8;
    for (int i = 0; i < OUT; i++) b[i] = (float)i / OUT;

    /* describe: sizes that change are symbols */
    lj_graph *graph;
    check(lj_graph_create(&graph), "graph");
    lj_dim rows = lj_dim_symbol(graph, "N");
    lj_value xv = lj_input(graph, "x", lj_type_dims(LJ_F32, 2, (lj_dim[]){rows, lj_dim_const(INNER)}), LJ_ROLE_DATA);
    lj_value wv = lj_input(graph, "w", lj_type_of(LJ_F32, 2, (int64_t[]){INNER, OUT}), LJ_ROLE_DATA);
    lj_value bv = lj_input(graph, "b", lj_type_of(LJ_F32, 1, (int64_t[]){OUT}), LJ_ROLE_DATA);
    lj_value yv = lj_tanh(graph, lj_add(graph, lj_matmul(graph, xv, wv, 0, 0, LJ_F32, 0), bv));
    check(lj_graph_output(graph, "y", yv), "output");

    /* compile once, run at any number of rows */
    lj_program *program;
    check(lj_program_compile(graph, NULL, &program), "compile");
    check(lj_program_bind(program, "x", x), "bind");
    check(lj_program_bind(program, "w", w), "bind");
    check(lj_program_bind(program, "b", b), "bind");
    check(lj_program_bind(program, "y", y), "bind");

    double worst = 0;
    for (int n = MOST_ROWS; n >= 1; n -= 33) {
        lj_plan_info plan;
        check(lj_program_plan(program, &(lj_size){"N", n}, 1, &plan), "plan");
        check(lj_program_run(program, &(lj_size){"N", n}, 1), "run");
        for (int i = 0; i < n; i++)
            for (int j = 0; j < OUT; j++) {
                double sum = 0;
                for (int k = 0; k < INNER; k++) sum += (double)x[i * INNER + k] * (double)w[k * OUT + j];
                double error = fabs(tanh(sum + (double)b[j]) - (double)y[i * OUT + j]);
                if (error > worst) worst = error;
            }
        printf("%3d rows: %zu steps, workspace %zu bytes, y[0] = %.6f\n", n, plan.step_count, plan.workspace_bytes, (double)y[0]);
    }
    printf("largest error against double: %.1e\n", worst);
    lj_program_destroy(program);
    lj_graph_destroy(graph);
    return worst < 1e-5 ? 0 : 1;
}
