#include "train/trainer.h"

#include "base/machine.h"
#include "model/graphs.h"
#include "model/params.h"
#include "model/rope.h"
#include "tensor/convert.h"

#include <math.h>
#include <string.h>

struct lj_trainer {
    const lj_param_layout *layout;
    lj_trainer_options options;
    float *master, *m, *v, *gradients;
    void *compute;     /* the master itself in f32 */
    float *cosines, *sines, *losses;
    void *stream;      /* parts: x, dx and dx_out, whichever the part has, zero */
    float loss, norm, hyper[4];
    lj_program *micro, *update, *eval;
};

static size_t flat_bytes(const lj_param_layout *layout, lj_dtype dtype)
{
    return (size_t)layout->total_elements * lj_dtype_bytes(dtype);
}

static size_t table_bytes(const lj_trainer *t)
{
    return (size_t)t->options.length * (size_t)t->layout->config.head_dim * 4;
}

/* x, dx and dx_out of a part. */
static size_t stream_bytes(const lj_trainer *t)
{
    size_t one = (size_t)(t->options.rows * t->options.length * t->layout->config.hidden_size) * lj_dtype_bytes(t->options.dtype);
    one = (one + 63) / 64 * 64;
    return one * (2 * !t->layout->part.embedding + !t->layout->part.head);
}

static bool has_update(const lj_trainer *t)
{
    return !t->options.evaluate_only && !t->options.micro_only;
}

/* In f32 the master is what is computed with. */
static bool has_master(const lj_trainer *t)
{
    return !t->options.micro_only || t->options.dtype == LJ_F32;
}

static lj_status buffers_create(lj_trainer *t)
{
    size_t wide = flat_bytes(t->layout, LJ_F32);
    if (has_master(t)) LJ_TRY(lj_alloc("weights (f32 master)", wide, (void **)&t->master));
    if (has_update(t)) LJ_TRY(lj_alloc_zero("first moments", wide, (void **)&t->m));
    if (has_update(t)) LJ_TRY(lj_alloc_zero("second moments", wide, (void **)&t->v));
    if (!t->options.evaluate_only) LJ_TRY(lj_alloc_zero("gradients", wide, (void **)&t->gradients));
    t->compute = t->master;
    if (t->options.dtype != LJ_F32) LJ_TRY(lj_alloc("weights (compute copy)", flat_bytes(t->layout, t->options.dtype), &t->compute));
    LJ_TRY(lj_alloc("rotary tables", table_bytes(t), (void **)&t->cosines));
    LJ_TRY(lj_alloc("rotary tables", table_bytes(t), (void **)&t->sines));
    LJ_TRY(lj_alloc("losses", (size_t)(t->options.rows * t->options.length) * 4, (void **)&t->losses));
    if (stream_bytes(t)) LJ_TRY(lj_alloc_zero("part's stream", stream_bytes(t), &t->stream));
    lj_rope_tables(&t->layout->config, t->options.length, t->cosines, t->sines);
    return LJ_OK;
}

/* Bytes that are held whatever the programs need. */
static lj_trainer_bytes bytes_fixed(const lj_trainer *t)
{
    size_t wide = flat_bytes(t->layout, LJ_F32);
    lj_trainer_bytes bytes = {.master = has_master(t) ? wide : 0,
                              .moments = has_update(t) ? 2 * wide : 0,
                              .gradients = t->options.evaluate_only ? 0 : wide,
                              .compute = t->options.dtype == LJ_F32 ? 0 : flat_bytes(t->layout, t->options.dtype)};
    bytes.data = 2 * table_bytes(t) + (size_t)(t->options.rows * t->options.length) * 4 + stream_bytes(t) +
                 lj_batch_bytes(t->options.rows, t->options.length);
    bytes.peak = bytes.master + bytes.moments + bytes.gradients + bytes.compute + bytes.data;
    return bytes;
}

void lj_trainer_destroy(lj_trainer *trainer)
{
    if (!trainer) return;
    lj_program *programs[] = {trainer->micro, trainer->update, trainer->eval};
    for (int i = 0; i < 3; i++)
        if (programs[i]) lj_program_destroy(programs[i]);
    void *buffers[] = {trainer->master,  trainer->m,     trainer->v,      trainer->gradients, trainer->compute == trainer->master ? NULL : trainer->compute,
                       trainer->cosines, trainer->sines, trainer->losses, trainer->stream,    trainer};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) lj_free(buffers[i]);
}

float *lj_trainer_master(lj_trainer *trainer)
{
    return trainer->master;
}
float *lj_trainer_m(lj_trainer *trainer)
{
    return trainer->m;
}
float *lj_trainer_v(lj_trainer *trainer)
{
    return trainer->v;
}
float *lj_trainer_gradients(lj_trainer *trainer)
{
    return trainer->gradients;
}
const lj_param_layout *lj_trainer_layout(const lj_trainer *trainer)
{
    return trainer->layout;
}
lj_program *lj_trainer_micro_program(lj_trainer *trainer)
{
    return trainer->micro;
}
lj_program *lj_trainer_update_program(lj_trainer *trainer)
{
    return trainer->update;
}

void lj_trainer_refresh(lj_trainer *trainer)
{
    if (trainer->compute != trainer->master)
        lj_convert(trainer->options.dtype, trainer->compute, LJ_F32, trainer->master, (size_t)trainer->layout->total_elements);
}

static lj_status compile(lj_trainer *t, const char *name, lj_graph *graph, lj_program **program)
{
    lj_program_options options = {.threads = t->options.threads, .eager = t->options.eager, .disable = t->options.disable, .recompute = t->options.recompute, .name = name};
    lj_status status = lj_program_compile(graph, &options, program);
    lj_graph_destroy(graph);
    return lj_fail_in(status, "%s", name);
}

static lj_status bind_if(lj_program *program, bool present, const char *name, const void *data)
{
    return present ? lj_program_bind(program, name, (void *)data) : LJ_OK;
}

/* Inputs that a forward graph has whatever the batch. */
static lj_status bind_fixed(lj_trainer *t, lj_program *program)
{
    lj_model_part part = t->layout->part;
    size_t one = stream_bytes(t) / (size_t)(stream_bytes(t) ? 2 * !part.embedding + !part.head : 1);
    char *stream = t->stream;
    LJ_TRY(lj_params_bind(program, t->layout, "", t->options.dtype, t->compute));
    LJ_TRY(bind_if(program, part.layers > 0, "cosines", t->cosines));
    LJ_TRY(bind_if(program, part.layers > 0, "sines", t->sines));
    LJ_TRY(bind_if(program, !part.embedding, "x", stream));
    LJ_TRY(bind_if(program, !part.embedding && program == t->micro, "dx_out", stream + one));
    return bind_if(program, !part.head && program == t->micro, "dx", stream + one * (part.embedding ? 0 : 2));
}

static lj_status micro_compile(lj_trainer *t)
{
    lj_model_graph_options options = {t->options.dtype, t->options.documents, .first = !t->options.accumulate};
    lj_graph *graph;
    LJ_TRY(lj_model_graph_micro(t->layout, &options, &graph));
    return compile(t, "micro", graph, &t->micro);
}

static lj_status micro_bind(lj_trainer *t)
{
    LJ_TRY(bind_fixed(t, t->micro));
    LJ_TRY(lj_params_bind(t->micro, t->layout, "grad.", LJ_F32, t->gradients));
    return bind_if(t->micro, t->layout->part.head, "loss", &t->loss);
}

static lj_status eval_compile(lj_trainer *t)
{
    lj_model_graph_options options = {t->options.dtype, t->options.documents, false};
    lj_graph *graph;
    LJ_TRY(lj_model_graph_eval(t->layout, &options, &graph));
    return compile(t, "eval", graph, &t->eval);
}

static lj_status eval_bind(lj_trainer *t)
{
    LJ_TRY(bind_fixed(t, t->eval));
    return lj_program_bind(t->eval, "losses", t->losses);
}

static lj_status update_bind_group(lj_trainer *t, const char *group, int64_t offset)
{
    struct {
        const char *what;
        void *data;
    } rows[] = {{"master", t->master + offset}, {"m", t->m + offset}, {"v", t->v + offset}, {"grad", t->gradients + offset},
                {"compute", (uint16_t *)t->compute + offset}};
    for (int i = 0; i < 4 + (t->options.dtype != LJ_F32); i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.%s", rows[i].what, group);
        LJ_TRY(lj_program_bind(t->update, name, rows[i].data));
    }
    return LJ_OK;
}

static lj_status update_compile(lj_trainer *t)
{
    lj_graph *graph;
    LJ_TRY(lj_model_graph_update(t->layout, t->options.dtype, &t->options.adamw, &graph));
    return compile(t, "update", graph, &t->update);
}

static lj_status update_bind(lj_trainer *t)
{
    const lj_param_layout *layout = t->layout;
    if (layout->decay_elements) LJ_TRY(update_bind_group(t, "decay", 0));
    if (layout->total_elements > layout->decay_elements) LJ_TRY(update_bind_group(t, "rest", layout->decay_elements));
    LJ_TRY(lj_program_bind(t->update, "hyper", t->hyper));
    return lj_program_bind(t->update, "norm", &t->norm);
}

static lj_status bind_batch(const lj_trainer *t, lj_program *program, const lj_batch *batch)
{
    lj_model_part part = t->layout->part;
    LJ_TRY(bind_if(program, part.embedding, "tokens", batch->tokens));
    LJ_TRY(bind_if(program, part.layers > 0, "positions", batch->positions));
    LJ_TRY(bind_if(program, part.layers > 0 && t->options.documents, "starts", batch->starts));
    LJ_TRY(bind_if(program, part.head, "targets", batch->targets));
    return bind_if(program, part.head && program == t->micro, "weights", batch->weights);
}

/* Symbols of a forward graph: P is there only with layers. */
static size_t sizes_of(const lj_trainer *t, int64_t rows, int64_t length, lj_size *sizes)
{
    sizes[0] = (lj_size){"B", rows}, sizes[1] = (lj_size){"T", length}, sizes[2] = (lj_size){"P", t->options.length};
    return t->layout->part.layers ? 3 : 2;
}

static lj_status batch_check(const lj_trainer *t, const lj_batch *batch)
{
    if (batch->length <= t->options.length && batch->rows <= t->options.rows) return LJ_OK;
    return lj_fail(LJ_ERR_LIMIT, "micro-batch of %lld x %lld; the trainer was made for %lld x %lld", (long long)batch->rows, (long long)batch->length,
                   (long long)t->options.rows, (long long)t->options.length);
}

lj_status lj_trainer_micro(lj_trainer *trainer, const lj_batch *batch, bool first, double *loss)
{
    lj_size sizes[3];
    LJ_TRY(batch_check(trainer, batch));
    if (!first && !trainer->options.accumulate)
        return lj_fail(LJ_ERR_INVALID, "a second micro-batch in a step; make the trainer with `accumulate`");
    if (first && trainer->options.accumulate) memset(trainer->gradients, 0, flat_bytes(trainer->layout, LJ_F32));
    LJ_TRY(bind_batch(trainer, trainer->micro, batch));
    LJ_TRY(lj_program_run(trainer->micro, sizes, sizes_of(trainer, batch->rows, batch->length, sizes)));
    *loss = trainer->layout->part.head ? trainer->loss : 0;
    return LJ_OK;
}

lj_status lj_trainer_update(lj_trainer *trainer, int64_t step, double learning_rate, double clip, double *norm)
{
    const lj_adamw_options *adamw = &trainer->options.adamw;
    trainer->hyper[0] = (float)learning_rate;
    trainer->hyper[1] = clip > 0 ? (float)clip : INFINITY;
    trainer->hyper[2] = (float)(1 - pow(adamw->beta1, (double)step));
    trainer->hyper[3] = (float)(1 - pow(adamw->beta2, (double)step));
    LJ_TRY(lj_program_run(trainer->update, NULL, 0));
    *norm = trainer->norm;
    return LJ_OK;
}

lj_status lj_trainer_eval(lj_trainer *trainer, const lj_batch *batch, const float **losses)
{
    lj_size sizes[3];
    LJ_TRY(batch_check(trainer, batch));
    if (!trainer->eval) {
        LJ_TRY(eval_compile(trainer));
        LJ_TRY(eval_bind(trainer));
    }
    LJ_TRY(bind_batch(trainer, trainer->eval, batch));
    LJ_TRY(lj_program_run(trainer->eval, sizes, sizes_of(trainer, batch->rows, batch->length, sizes)));
    *losses = trainer->losses;
    return LJ_OK;
}

static lj_status logits_run(lj_trainer *t, lj_program *program, const lj_batch *batch, float *logits)
{
    lj_size sizes[3];
    LJ_TRY(bind_fixed(t, program));
    LJ_TRY(lj_program_bind(program, "tokens", batch->tokens));
    LJ_TRY(lj_program_bind(program, "positions", batch->positions));
    LJ_TRY(bind_if(program, t->options.documents, "starts", batch->starts));
    LJ_TRY(lj_program_bind(program, "logits", logits));
    return lj_program_run(program, sizes, sizes_of(t, batch->rows, batch->length, sizes));
}

lj_status lj_trainer_logits(lj_trainer *trainer, const lj_batch *batch, float *logits)
{
    lj_model_graph_options options = {trainer->options.dtype, trainer->options.documents, false};
    lj_program *program = NULL;
    lj_graph *graph;
    LJ_TRY(batch_check(trainer, batch));
    LJ_TRY(lj_model_graph_logits(trainer->layout, &options, &graph));
    LJ_TRY(compile(trainer, "logits", graph, &program));
    lj_status status = logits_run(trainer, program, batch, logits);
    lj_program_destroy(program);
    return status;
}

static lj_status workspace_add(lj_program *program, const lj_size *sizes, size_t count, size_t *total)
{
    lj_plan_info info;
    LJ_TRY(lj_program_plan(program, sizes, count, &info));
    *total += info.workspace_bytes;
    return LJ_OK;
}

lj_status lj_trainer_create(const lj_param_layout *layout, const lj_trainer_options *options, lj_trainer **trainer)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("trainer", sizeof(lj_trainer), &memory));
    lj_trainer *t = memory;
    t->layout = layout, t->options = *options;
    lj_status status = options->evaluate_only ? eval_compile(t) : micro_compile(t);
    if (status == LJ_OK && has_update(t)) status = update_compile(t);
    if (status == LJ_OK)
        *trainer = t;
    else
        lj_trainer_destroy(t);
    return status;
}

lj_status lj_trainer_plan(lj_trainer *trainer, lj_trainer_bytes *bytes)
{
    lj_size sizes[3];
    lj_trainer_bytes result = bytes_fixed(trainer);
    size_t count = sizes_of(trainer, trainer->options.rows, trainer->options.length, sizes);
    if (trainer->options.evaluate_only) LJ_TRY(workspace_add(trainer->eval, sizes, count, &result.workspace));
    if (trainer->micro) LJ_TRY(workspace_add(trainer->micro, sizes, count, &result.workspace));
    if (trainer->update) LJ_TRY(workspace_add(trainer->update, NULL, 0, &result.workspace));
    result.peak += result.workspace;
    *bytes = result;
    return LJ_OK;
}

static lj_status memory_check(lj_trainer *t)
{
    lj_trainer_bytes bytes;
    char need[32], room[32], fixed[32];
    LJ_TRY(lj_trainer_plan(t, &bytes));
    uint64_t have = lj_memory_available();
    if (!have || bytes.peak <= have) return LJ_OK;
    return lj_fail(LJ_ERR_NOMEM, "training needs %s (%s of it activations), %s are free; a smaller --batch or --seq, or fewer layers, would fit",
                   lj_size_format((double)bytes.peak, need, sizeof need), lj_size_format((double)bytes.workspace, fixed, sizeof fixed),
                   lj_size_format((double)have, room, sizeof room));
}

lj_status lj_trainer_commit(lj_trainer *trainer)
{
    lj_size sizes[3];
    size_t count = sizes_of(trainer, trainer->options.rows, trainer->options.length, sizes);
    LJ_TRY(memory_check(trainer));
    LJ_TRY(buffers_create(trainer));
    if (trainer->eval) LJ_TRY(eval_bind(trainer));
    if (trainer->eval) LJ_TRY(lj_program_commit(trainer->eval, sizes, count));
    if (trainer->micro) LJ_TRY(micro_bind(trainer));
    if (trainer->micro) LJ_TRY(lj_program_commit(trainer->micro, sizes, count));
    if (trainer->update) LJ_TRY(update_bind(trainer));
    return trainer->update ? lj_program_commit(trainer->update, NULL, 0) : LJ_OK;
}

void lj_trainer_fill(lj_trainer *trainer, uint64_t seed, bool speed_only)
{
    void (*fill)(const lj_param_layout *, uint64_t, lj_dtype, void *) = speed_only ? lj_params_fill : lj_params_random;
    if (trainer->master) fill(trainer->layout, seed, LJ_F32, trainer->master);
    if (trainer->master)
        lj_trainer_refresh(trainer);
    else
        fill(trainer->layout, seed, trainer->options.dtype, trainer->compute);
}
