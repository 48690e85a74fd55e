/* The training loop: steps, evaluation, checkpoints, stopping. */
#ifndef LJ_TRAIN_LOOP_H
#define LJ_TRAIN_LOOP_H

#include "train/checkpoint.h"
#include "train/metrics.h"
#include "train/rows.h"
#include "train/schedule.h"
#include "train/tensorboard.h"

typedef struct lj_train_loop lj_train_loop;

/* What a run consists of. Everything belongs to the caller and outlives the run. */
struct lj_train_loop {
    lj_trainer *trainer;
    const lj_recipe *recipe;
    lj_schedule schedule;
    const lj_rows *rows, *eval_rows; /* eval_rows may be NULL */
    lj_tokenizer_origin tokenizer;
    lj_train_state state;
    int64_t last_step;               /* the run ends after this step */
    bool tensorboard;                /* write event files too */
    int64_t stop_after;              /* leave after this step as if terminated; 0 = no */
    /* Reports; each may be NULL. */
    void (*on_step)(void *user, const lj_train_loop *loop, const lj_step_metrics *row);
    void (*on_eval)(void *user, const lj_train_loop *loop, const lj_eval_metrics *row);
    void (*on_save)(void *user, const lj_train_loop *loop, const char *path);
    void *user;
    bool stopped;                    /* out: ended before last_step because it was asked to */
    double first_loss, last_loss;    /* out */
    lj_eval_metrics eval_first, eval_last; /* out; rows 0: not evaluated */
};

/* Runs to last_step, a request to stop (lj_train_request_stop, stop_after), NaN or a loss jump (LJ_ERR_INVALID; OUT/stopped/ then holds
 * the batch and statistics of every tensor). Saves at the end in every case but failure. */
lj_status lj_train_loop_run(lj_train_loop *loop);
/* Mean loss over the rows, every one counted once; the last batch may be smaller. */
lj_status lj_train_evaluate(lj_trainer *trainer, const lj_rows *rows, int64_t batch, lj_eval_metrics *result);

/* Asks the running loop to finish its step and leave. Safe in a signal handler. */
void lj_train_request_stop(void);
bool lj_train_stop_requested(void);

#endif
