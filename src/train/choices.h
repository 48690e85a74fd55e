/* Multiple choice: which of several continuations a model finds likeliest.
 *
 * A .jsonl of {"prompt": TEXT, "choices": [TEXT, ...], "answer": INDEX}. A choice's score is the sum of the log probabilities of its
 * tokens after the prompt; `normalised` divides by their number. Prompt and choice are encoded apart, so that a choice's tokens do not
 * depend on what stands before; a choice that is a word of its own begins with its space. */
#ifndef LJ_TRAIN_CHOICES_H
#define LJ_TRAIN_CHOICES_H

#include "text/tokenizer.h"
#include "train/trainer.h"

typedef struct {
    int64_t questions, choices;
    int64_t right, right_normalised; /* questions whose answer has the best score */
} lj_choices_result;

/* `batch` choices at a time, each at most `length` tokens with its prompt (LJ_ERR_LIMIT names the line; both are the trainer's options).
 * Errors name file and line. */
lj_status lj_choices_evaluate(const char *path, const lj_tokenizer *tokenizer, lj_trainer *trainer, int64_t batch, int64_t length,
                              lj_choices_result *result);

#endif
