/* Which layers to recompute so that a training step fits a number of bytes at the least added time.
 *
 * A candidate is a level for each layer (passes/recompute.h). Its peak is planned exactly, as the run would plan it; its time is the
 * work it adds over what this machine was measured to do. Layers of one model are alike, so candidates are "the first k layers at one
 * level, the rest at another": for each pair of levels the smallest k that fits is found by bisection, and of those the fastest is taken. */
#ifndef LJ_TRAIN_RECOMPUTE_CHOICE_H
#define LJ_TRAIN_RECOMPUTE_CHOICE_H

#include "passes/recompute.h"
#include "train/trainer.h"

/* What this machine does, for a model's shapes. */
typedef struct {
    double gemm_flops, library_flops; /* a second */
    double bandwidth;                 /* bytes a second */
} lj_machine_rates;

/* One candidate, planned. */
typedef struct {
    char text[LJ_RECOMPUTE_MAX_LAYERS + 16]; /* as lj_program_options.recompute */
    int level, rest, layers;                 /* the first `layers` at `level`, the others at `rest` */
    lj_trainer_bytes bytes;
    double step_s, slowdown; /* predicted; slowdown 0.1 = a step takes 10 % longer than with everything kept */
} lj_recompute_candidate;

/* About half a second: a product, attention, and the triad, at the options' rows x length. */
lj_status lj_machine_rates_measure(const lj_param_layout *layout, const lj_trainer_options *options, lj_machine_rates *rates);

/* Fills bytes and times of a candidate whose `text` is set. `kept_s` is the step's time with everything kept (0: this is that one). */
lj_status lj_recompute_evaluate(const lj_param_layout *layout, const lj_trainer_options *options, const lj_machine_rates *rates, double kept_s,
                                lj_recompute_candidate *candidate);

/* The fastest candidate whose peak is at most `limit` bytes. LJ_ERR_NOMEM: not even the smallest fits; then *best is that smallest one, and
 * the message has both numbers. */
lj_status lj_recompute_choose(const lj_param_layout *layout, const lj_trainer_options *options, const lj_machine_rates *rates, uint64_t limit,
                              lj_recompute_candidate *best);

/* Where options->recompute is "auto": measures, chooses for `limit` bytes (0: what is free now, less a tenth), says so in one log line, and points
 * options->recompute at candidate->text, which must live as long as the trainer. Any other choice is left as it is. */
lj_status lj_recompute_resolve(const lj_param_layout *layout, lj_trainer_options *options, uint64_t limit, lj_recompute_candidate *candidate);

/* Words of a candidate: "nothing", "cheap in 12 layers, full in 18". */
const char *lj_recompute_describe(const lj_recompute_candidate *candidate, int layers, char *buffer, size_t capacity);

#endif
