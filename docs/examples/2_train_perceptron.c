/* Example 2: train a two-layer perceptron on f(x) = sin(3x) with plain gradient descent, the whole step one program.
 *
 * Build: gcc -std=c17 -Iinclude docs/examples/2_train_perceptron.c -Lbuild -lljperf -lm */
#include "ljperf/graph.h"
#include "ljperf/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 128, HIDDEN = 32, STEPS = 3000 };

static void check(lj_status status, const char *what)
{
    if (status == LJ_OK) return;
    fprintf(stderr, "%s: %s\n", what, lj_error_message());
    exit(1);
}

/* A parameter that is also state: the program writes its new value over the old one. */
typedef struct {
    const char *name;
    int64_t sizes[2];
    int rank;
    float data[HIDDEN];
    lj_value value;
} parameter;

int main(void)
{
    static float x[SAMPLES], target[SAMPLES], loss;
    static parameter parameters[] = {{"w1", {1, HIDDEN}, 2, {0}, 0}, {"b1", {HIDDEN}, 1, {0}, 0}, {"w2", {HIDDEN, 1}, 2, {0}, 0}, {"b2", {1}, 1, {0}, 0}};
    enum { COUNT = sizeof parameters / sizeof *parameters };
    for (int i = 0; i < SAMPLES; i++) x[i] = 2.0f * (float)i / SAMPLES - 1, target[i] = (float)sin(3 * (double)x[i]);
    for (int i = 0; i < HIDDEN; i++) {
        parameters[0].data[i] = 3 * (float)sin(12.9898 * (i + 1));
        parameters[1].data[i] = (float)cos(78.233 * (i + 1));
        parameters[2].data[i] = 0.3f * (float)sin(37.719 * (i + 1));
    }

    lj_graph *graph;
    check(lj_graph_create(&graph), "graph");
    lj_value xv = lj_input(graph, "x", lj_type_of(LJ_F32, 2, (int64_t[]){SAMPLES, 1}), LJ_ROLE_DATA);
    lj_value tv = lj_input(graph, "target", lj_type_of(LJ_F32, 2, (int64_t[]){SAMPLES, 1}), LJ_ROLE_DATA);
    lj_value with[COUNT], gradients[COUNT];
    for (int i = 0; i < COUNT; i++) {
        parameter *p = &parameters[i];
        with[i] = p->value = lj_input(graph, p->name, lj_type_of(LJ_F32, p->rank, p->sizes), LJ_ROLE_STATE);
    }
    lj_value hidden = lj_tanh(graph, lj_add(graph, lj_matmul(graph, xv, with[0], 0, 0, LJ_F32, 0), with[1]));
    lj_value y = lj_add(graph, lj_matmul(graph, hidden, with[2], 0, 0, LJ_F32, 0), with[3]);
    lj_value error = lj_sub(graph, y, tv);
    lj_value mean = lj_mul(graph, lj_sum_all(graph, lj_mul(graph, error, error)), lj_const(graph, (lj_type){.dtype = LJ_F32}, 1.0 / SAMPLES));
    check(lj_graph_output(graph, "loss", mean), "output");

    /* differentiate, then let each parameter take its step */
    check(lj_graph_differentiate(graph, mean, with, COUNT, gradients), "differentiate");
    lj_value rate = lj_const(graph, (lj_type){.dtype = LJ_F32}, 0.05);
    for (int i = 0; i < COUNT; i++)
        check(lj_graph_assign(graph, with[i], lj_sub(graph, with[i], lj_mul(graph, gradients[i], rate))), "assign");

    lj_program *program;
    check(lj_program_compile(graph, NULL, &program), "compile");
    check(lj_program_bind(program, "x", x), "bind");
    check(lj_program_bind(program, "target", target), "bind");
    check(lj_program_bind(program, "loss", &loss), "bind");
    for (int i = 0; i < COUNT; i++) check(lj_program_bind(program, parameters[i].name, parameters[i].data), "bind");
    for (int step = 0; step < STEPS; step++) {
        check(lj_program_run(program, NULL, 0), "run");
        if (step % 1000 == 0) printf("step %4d: loss %.5f\n", step, (double)loss);
    }
    printf("step %4d: loss %.5f\n", STEPS, (double)loss);
    lj_program_destroy(program);
    lj_graph_destroy(graph);
    return loss < 0.01f ? 0 : 1;
}
