#include "train/loop.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "train/postmortem.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

static volatile sig_atomic_t stop_requested;

void lj_train_request_stop(void)
{
    stop_requested = 1;
}

bool lj_train_stop_requested(void)
{
    return stop_requested != 0;
}

/* What the run needs beside the caller's things. */
typedef struct {
    lj_train_loop *loop;
    lj_batch *batches; /* accum of them */
    lj_metrics metrics;
    lj_tensorboard board;
    int64_t saved_step;
} run_state;

static void run_release(run_state *run)
{
    for (int64_t i = 0; run->batches && i < run->loop->recipe->accum; i++) lj_batch_release(&run->batches[i]);
    free(run->batches);
    lj_metrics_close(&run->metrics);
    lj_tensorboard_close(&run->board);
}

static lj_status run_init(run_state *run, lj_train_loop *loop)
{
    const lj_recipe *r = loop->recipe;
    *run = (run_state){.loop = loop, .saved_step = -1};
    run->batches = calloc((size_t)r->accum, sizeof *run->batches);
    if (!run->batches) return lj_fail(LJ_ERR_NOMEM, "%lld micro-batches", (long long)r->accum);
    for (int64_t i = 0; i < r->accum; i++) LJ_TRY(lj_batch_init(&run->batches[i], r->batch, r->seq));
    LJ_TRY(lj_folder_create(r->out, 0755));
    LJ_TRY(lj_metrics_open(&run->metrics, r->out, loop->state.step));
    return loop->tensorboard ? lj_tensorboard_open(&run->board, r->out) : LJ_OK;
}

typedef struct {
    const char *tag;
    double value;
} scalar;

static lj_status scalars_write(run_state *run, int64_t step, const scalar *scalars, size_t count)
{
    for (size_t i = 0; run->board.file && i < count; i++) LJ_TRY(lj_tensorboard_scalar(&run->board, scalars[i].tag, step, scalars[i].value));
    return LJ_OK;
}

static lj_status step_record(run_state *run, const lj_step_metrics *row)
{
    const scalar scalars[] = {{"train/loss", row->loss}, {"train/lr", row->lr}, {"train/grad_norm", row->grad_norm}, {"train/tokens_per_s", row->tokens_per_s}};
    LJ_TRY(lj_metrics_step(&run->metrics, row));
    return scalars_write(run, row->step, scalars, sizeof scalars / sizeof *scalars);
}

static lj_status eval_record(run_state *run, const lj_eval_metrics *row)
{
    const scalar scalars[] = {{"eval/loss", row->loss}, {"eval/perplexity", exp(row->loss)}};
    LJ_TRY(lj_metrics_eval(&run->metrics, row));
    return scalars_write(run, row->step, scalars, sizeof scalars / sizeof *scalars);
}

lj_status lj_train_evaluate(lj_trainer *trainer, const lj_rows *rows, int64_t batch, lj_eval_metrics *result)
{
    lj_batch one;
    LJ_TRY(lj_batch_init(&one, batch, rows->length));
    lj_status status = LJ_OK;
    double total = 0;
    int64_t tokens = 0;
    for (int64_t at = 0; at < rows->count && status == LJ_OK; at += batch) {
        const float *losses;
        lj_rows_fill(rows, at, rows->count - at < batch ? rows->count - at : batch, &one);
        status = lj_trainer_eval(trainer, &one, &losses);
        for (int64_t i = 0; status == LJ_OK && i < one.rows * one.length; i++) total += losses[i];
        tokens += lj_batch_target_count(&one);
    }
    lj_batch_release(&one);
    *result = (lj_eval_metrics){.tokens = tokens, .rows = rows->count, .loss = tokens ? total / (double)tokens : 0};
    return status;
}

static lj_status evaluate(run_state *run)
{
    lj_train_loop *loop = run->loop;
    lj_eval_metrics row;
    if (!loop->eval_rows) return LJ_OK;
    LJ_TRY(lj_train_evaluate(loop->trainer, loop->eval_rows, loop->recipe->batch, &row));
    row.step = loop->state.step;
    if (!loop->eval_first.rows) loop->eval_first = row;
    loop->eval_last = row;
    if (loop->on_eval) loop->on_eval(loop->user, loop, &row);
    return eval_record(run, &row);
}

static lj_status save(run_state *run)
{
    lj_train_loop *loop = run->loop;
    char *path;
    if (run->saved_step == loop->state.step) return LJ_OK;
    LJ_TRY(lj_checkpoint_save(loop->trainer, &loop->state, loop->recipe, &loop->tokenizer, &path));
    run->saved_step = loop->state.step;
    if (loop->on_save) loop->on_save(loop->user, loop, path);
    free(path);
    return lj_checkpoint_prune(loop->recipe->out, loop->recipe->keep);
}

/* Fills the micro-batches of a step and weighs their tokens by the step's total. */
static int64_t step_fill(run_state *run)
{
    const lj_recipe *r = run->loop->recipe;
    int64_t total = 0;
    for (int64_t i = 0; i < r->accum; i++) {
        lj_rows_fill(run->loop->rows, run->loop->state.position + i * r->batch, r->batch, &run->batches[i]);
        total += lj_batch_target_count(&run->batches[i]);
    }
    for (int64_t i = 0; i < r->accum; i++) lj_batch_weigh(&run->batches[i], total);
    return total;
}

static lj_status loss_check(run_state *run, double loss)
{
    lj_train_loop *loop = run->loop;
    double mean = loop->state.loss_mean, jump = loop->recipe->max_loss_jump;
    bool jumped = jump > 0 && mean > 0 && loss > jump * mean;
    if (isfinite(loss) && !jumped) return LJ_OK;
    LJ_TRY(lj_postmortem_write(loop->recipe->out, loop->trainer, run->batches, loop->recipe->accum, &loop->state));
    if (jumped)
        return lj_fail(LJ_ERR_INVALID, "loss %g at step %lld is more than %g times its running mean %g; batch and tensors are described in %s/stopped",
                       loss, (long long)loop->state.step + 1, jump, mean, loop->recipe->out);
    return lj_fail(LJ_ERR_INVALID, "loss is %g at step %lld; batch and tensors are described in %s/stopped; a lower --lr often helps", loss,
                   (long long)loop->state.step + 1, loop->recipe->out);
}

static lj_status norm_check(run_state *run, double norm)
{
    lj_train_loop *loop = run->loop;
    if (isfinite(norm)) return LJ_OK;
    LJ_TRY(lj_postmortem_write(loop->recipe->out, loop->trainer, run->batches, loop->recipe->accum, &loop->state));
    return lj_fail(LJ_ERR_INVALID, "gradient norm is %g at step %lld; batch and tensors are described in %s/stopped", norm,
                   (long long)loop->state.step + 1, loop->recipe->out);
}

static lj_status step_run(run_state *run)
{
    lj_train_loop *loop = run->loop;
    const lj_recipe *r = loop->recipe;
    double begin = lj_now_s(), loss = 0, norm = 0, lr = lj_schedule_at(&loop->schedule, loop->state.step);
    int64_t targets = step_fill(run);
    for (int64_t i = 0; i < r->accum; i++) {
        double part;
        LJ_TRY(lj_trainer_micro(loop->trainer, &run->batches[i], i == 0, &part));
        loss += part;
    }
    LJ_TRY(loss_check(run, loss));
    LJ_TRY(lj_trainer_update(loop->trainer, loop->state.step + 1, lr, r->clip, &norm));
    LJ_TRY(norm_check(run, norm));
    double seconds = lj_now_s() - begin;
    loop->state.step++, loop->state.position += r->accum * r->batch, loop->state.tokens += targets;
    loop->state.loss_mean = loop->state.loss_mean > 0 ? 0.95 * loop->state.loss_mean + 0.05 * loss : loss;
    loop->last_loss = loss;
    lj_step_metrics row = {loop->state.step, loop->state.tokens, loss, lr, norm, seconds, (double)(r->accum * r->batch * r->seq) / seconds};
    if (loop->on_step) loop->on_step(loop->user, loop, &row);
    return step_record(run, &row);
}

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

static lj_status steps_run(run_state *run)
{
    lj_train_loop *loop = run->loop;
    bool first = true;
    while (loop->state.step < loop->last_step && !loop->stopped) {
        LJ_TRY(step_run(run));
        if (first) loop->first_loss = loop->last_loss, first = false;
        loop->stopped = lj_train_stop_requested() || (loop->stop_after > 0 && loop->state.step >= loop->stop_after);
        bool last = loop->state.step >= loop->last_step;
        if (!last && !loop->stopped && due(loop->recipe->eval_every, loop->state.step)) LJ_TRY(evaluate(run));
        if (!last && !loop->stopped && due(loop->recipe->save_every, loop->state.step)) LJ_TRY(save(run));
    }
    return LJ_OK;
}

static lj_status run_all(run_state *run)
{
    if (run->loop->state.step == 0) LJ_TRY(evaluate(run));
    LJ_TRY(steps_run(run));
    if (!run->loop->stopped) LJ_TRY(evaluate(run));
    return save(run);
}

lj_status lj_train_loop_run(lj_train_loop *loop)
{
    run_state run;
    lj_status status = run_init(&run, loop);
    if (status == LJ_OK) status = run_all(&run);
    run_release(&run);
    return status;
}
