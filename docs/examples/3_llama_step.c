/* Example 3: a whole training step of a two-layer Llama with a `call` node, a graph break, between the layers.
 *
 * The opaque function stands where a framework would lose the graph: here it only measures the size of the residual stream and
 * passes it on. The step before and after it is still planned and fused as one program.
 *
 * Build: gcc -std=c17 -Iinclude docs/examples/3_llama_step.c -Lbuild -lljperf -lm */
#include "ljperf/graph.h"
#include "ljperf/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, LENGTH = 16, VOCAB = 96, WIDTH = 64, HEADS = 4, KV_HEADS = 2, HEAD = WIDTH / HEADS, FFN = 128, LAYERS = 2, STEPS = 30 };
enum { MAX_PARAMETERS = 32 };

static void check(lj_status status, const char *what)
{
    if (status == LJ_OK) return;
    fprintf(stderr, "%s: %s\n", what, lj_error_message());
    exit(1);
}

/* -- the graph break: forward and its gradient -------------------------------------------------------------------------------- */

static double stream_size;

static size_t element_count(const lj_tensor *tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->dim[i];
    return count;
}

static int measure(void *user, const lj_tensor *in, int in_count, const lj_tensor *out, int out_count)
{
    (void)user;
    if (in_count != 1 || out_count != 1) return 1;
    size_t count = element_count(in);
    const float *x = in->data;
    stream_size = 0;
    for (size_t i = 0; i < count; i++) stream_size += (double)x[i] * (double)x[i];
    stream_size = sqrt(stream_size / (double)count);
    memcpy(out->data, x, count * sizeof *x);
    return 0;
}

/* Inputs: x, y, dy; output: dx. The function passes its input on, so dx = dy. */
static int measure_backward(void *user, const lj_tensor *in, int in_count, const lj_tensor *out, int out_count)
{
    (void)user;
    if (in_count != 3 || out_count != 1) return 1;
    memcpy(out->data, in[2].data, element_count(out) * sizeof(float));
    return 0;
}

/* -- parameters ----------------------------------------------------------------------------------------------------------------- */

typedef struct {
    char name[32];
    lj_value value;
    float *data;
    size_t count;
} parameter;

static parameter parameters[MAX_PARAMETERS];
static int parameter_count;

/* State, so that the step can write the new value over the old. Small pseudo-random start; norms start at 1. */
static lj_value add_parameter(lj_graph *graph, const char *name, int layer, int rank, int64_t rows, int64_t columns)
{
    parameter *p = &parameters[parameter_count++];
    snprintf(p->name, sizeof p->name, layer < 0 ? "%s" : "%s.%d", name, layer);
    p->count = (size_t)(rows * columns);
    p->data = malloc(p->count * sizeof *p->data);
    for (size_t i = 0; p->data && i < p->count; i++) p->data[i] = rank == 1 ? 1 : 0.05f * (float)sin(12.9898 * (double)i + 3.7 * parameter_count);
    p->value = lj_input(graph, p->name, rank == 1 ? lj_type_of(LJ_F32, 1, &rows) : lj_type_of(LJ_F32, 2, (int64_t[]){rows, columns}), LJ_ROLE_STATE);
    return p->value;
}

/* -- the model ------------------------------------------------------------------------------------------------------------------ */

typedef struct {
    lj_graph *graph;
    lj_dim b, t;
    lj_value cosines, sines, positions;
} model;

static lj_value attention(model *m, lj_value x, int layer)
{
    lj_graph *g = m->graph;
    lj_value qkv = lj_linear(g, x, add_parameter(g, "qkv", layer, 2, (HEADS + 2 * KV_HEADS) * HEAD, WIDTH));
    qkv = lj_reshape(g, qkv, 4, (lj_dim[]){m->b, m->t, lj_dim_const(HEADS + 2 * KV_HEADS), lj_dim_const(HEAD)});
    lj_value q = lj_rotary(g, lj_slice(g, qkv, 2, 0, HEADS), m->cosines, m->sines, m->positions);
    lj_value k = lj_rotary(g, lj_slice(g, qkv, 2, HEADS, KV_HEADS), m->cosines, m->sines, m->positions);
    lj_value v = lj_slice(g, qkv, 2, HEADS + KV_HEADS, KV_HEADS);
    lj_value out = lj_attention(g, q, k, v, &(lj_attention_options){.causal = 1});
    out = lj_reshape(g, out, 2, (lj_dim[]){lj_dim_mul(m->b, m->t), lj_dim_const(WIDTH)});
    return lj_linear(g, out, add_parameter(g, "out", layer, 2, WIDTH, WIDTH));
}

static lj_value feed_forward(model *m, lj_value x, int layer)
{
    lj_graph *g = m->graph;
    lj_value both = lj_linear(g, x, add_parameter(g, "gate_up", layer, 2, 2 * FFN, WIDTH));
    lj_value hidden = lj_swiglu(g, lj_slice(g, both, 1, 0, FFN), lj_slice(g, both, 1, FFN, FFN));
    return lj_linear(g, hidden, add_parameter(g, "down", layer, 2, WIDTH, FFN));
}

static lj_value layer_build(model *m, lj_value x, int layer)
{
    lj_graph *g = m->graph;
    x = lj_add(g, x, attention(m, lj_rms_norm(g, x, add_parameter(g, "norm1", layer, 1, WIDTH, 1), 1e-5), layer));
    return lj_add(g, x, feed_forward(m, lj_rms_norm(g, x, add_parameter(g, "norm2", layer, 1, WIDTH, 1), 1e-5), layer));
}

/* The mean loss of the batch. */
static lj_value model_build(model *m)
{
    static const lj_call_row row = {"measure", measure, measure_backward, NULL};
    lj_graph *g = m->graph;
    lj_dim rows = lj_dim_mul(m->b, m->t);
    lj_value ids = lj_input(g, "ids", lj_type_dims(LJ_I32, 1, &rows), LJ_ROLE_DATA);
    lj_value targets = lj_input(g, "targets", lj_type_dims(LJ_I32, 1, &rows), LJ_ROLE_DATA);
    lj_value embedding = add_parameter(g, "embedding", -1, 2, VOCAB, WIDTH);
    lj_value x = lj_gather(g, embedding, ids);
    for (int layer = 0; layer < LAYERS; layer++) {
        x = layer_build(m, x, layer);
        lj_type type = lj_value_type(g, x);
        if (layer == 0) check(lj_call(g, &row, &x, 1, &type, 1, &x), "call");
    }
    x = lj_rms_norm(g, x, add_parameter(g, "norm", -1, 1, WIDTH, 1), 1e-5);
    lj_value losses = lj_head_loss(g, x, embedding, targets);
    return lj_mul(g, lj_sum_all(g, losses), lj_const(g, (lj_type){.dtype = LJ_F32}, 1.0 / (BATCH * LENGTH)));
}

int main(void)
{
    static float cosines[LENGTH * HEAD], sines[LENGTH * HEAD], loss, first_loss;
    static int32_t positions[BATCH * LENGTH], ids[BATCH * LENGTH], targets[BATCH * LENGTH];
    for (int i = 0; i < LENGTH * HEAD; i++) {
        double angle = (i / HEAD) * pow(10000, -2.0 * ((i % HEAD) % (HEAD / 2)) / HEAD);
        cosines[i] = (float)cos(angle), sines[i] = (float)sin(angle);
    }
    for (int i = 0; i < BATCH * LENGTH; i++) positions[i] = i % LENGTH, ids[i] = i * 7 % VOCAB, targets[i] = (i + 1) * 7 % VOCAB;

    model m = {0};
    check(lj_graph_create(&m.graph), "graph");
    lj_graph *g = m.graph;
    m.b = lj_dim_symbol(g, "B"), m.t = lj_dim_symbol(g, "T");
    lj_type table = lj_type_of(LJ_F32, 2, (int64_t[]){LENGTH, HEAD});
    m.cosines = lj_input(g, "cosines", table, LJ_ROLE_DATA), m.sines = lj_input(g, "sines", table, LJ_ROLE_DATA);
    m.positions = lj_input(g, "positions", lj_type_dims(LJ_I32, 2, (lj_dim[]){m.b, m.t}), LJ_ROLE_DATA);
    lj_value mean = model_build(&m), with[MAX_PARAMETERS], gradients[MAX_PARAMETERS];
    check(lj_graph_output(g, "loss", mean), "output");
    for (int i = 0; i < parameter_count; i++) with[i] = parameters[i].value;
    check(lj_graph_differentiate(g, mean, with, (size_t)parameter_count, gradients), "differentiate");
    lj_value rate = lj_const(g, (lj_type){.dtype = LJ_F32}, 0.2);
    for (int i = 0; i < parameter_count; i++) check(lj_graph_assign(g, with[i], lj_sub(g, with[i], lj_mul(g, gradients[i], rate))), "assign");

    lj_program *program;
    const lj_size sizes[] = {{"B", BATCH}, {"T", LENGTH}};
    lj_plan_info plan;
    check(lj_program_compile(g, NULL, &program), "compile");
    check(lj_program_plan(program, sizes, 2, &plan), "plan");
    printf("%zu steps, workspace %zu bytes, known before anything runs\n", plan.step_count, plan.workspace_bytes);
    const struct {
        const char *name;
        void *data;
    } bound[] = {{"ids", ids}, {"targets", targets}, {"positions", positions}, {"cosines", cosines}, {"sines", sines}, {"loss", &loss}};
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++) check(lj_program_bind(program, bound[i].name, bound[i].data), "bind");
    for (int i = 0; i < parameter_count; i++) check(lj_program_bind(program, parameters[i].name, parameters[i].data), "bind");
    for (int step = 0; step < STEPS; step++) {
        check(lj_program_run(program, sizes, 2), "run");
        if (step == 0) first_loss = loss;
        if (step % 10 == 0 || step == STEPS - 1) printf("step %2d: loss %.4f, stream after layer 0 %.4f\n", step, (double)loss, stream_size);
    }
    lj_program_destroy(program);
    lj_graph_destroy(g);
    for (int i = 0; i < parameter_count; i++) free(parameters[i].data);
    return loss < 0.7f * first_loss ? 0 : 1;
}
