/* From a recipe to a loop that is ready to run: model, tokenizer, data, trainer, schedule, checkpoint. */
#ifndef LJ_TRAIN_SETUP_H
#define LJ_TRAIN_SETUP_H

#include "model/source.h"
#include "text/tokenizer.h"
#include "train/loop.h"
#include "train/recompute_choice.h"

typedef struct {
    lj_recipe recipe;
    lj_model_source source;
    lj_tokenizer *tokenizer;
    lj_param_layout layout;
    lj_corpus corpus, eval_corpus;
    lj_rows rows, eval_rows;
    lj_trainer *trainer;
    lj_train_loop loop;
    lj_trainer_bytes bytes;
    lj_recompute_candidate recompute; /* what --recompute auto chose */
    uint64_t limit_bytes; /* memory that may be used; 0 = what is free now */
} lj_train_setup;

/* Opens everything in the order in which it may fail cheaply: recipe, model's numbers, tokenizer, data, memory, weights. `limit_bytes`: memory that may be used, for
 * --recompute auto and as a bound (0: what is free). With `resume`
 * the newest checkpoint in recipe->out is loaded; without it a folder that already holds one is refused. lj_train_setup_close also after
 * a failure. */
lj_status lj_train_setup_open(const lj_recipe *recipe, bool resume, uint64_t limit_bytes, lj_train_setup *setup);
void lj_train_setup_close(lj_train_setup *setup);

#endif
