/* ljperf eval: perplexity of a text under a model, or how many multiple-choice questions it answers. */
#include "base/clock.h"
#include "base/file.h"
#include "cli/commands.h"
#include "formats/safetensors.h"
#include "infer/session.h"
#include "model/params.h"
#include "train/choices.h"
#include "train/corpus.h"
#include "train/loop.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    lj_model_source source;
    lj_tokenizer *tokenizer;
    lj_param_layout layout;
    lj_corpus corpus;
    lj_rows rows;
    lj_trainer *trainer;
} evaluation;

static lj_status weights_load(const lj_config *config, evaluation *e)
{
    float *master = lj_trainer_master(e->trainer);
    if (!e->source.weights && !lj_config_bool(config, LJ_CFG_random_weights))
        return lj_fail(LJ_ERR_NOT_FOUND, "%s has numbers but no weights; name a folder or file with weights", e->source.name);
    if (e->source.weights)
        LJ_TRY(lj_params_load(&e->layout, e->source.weights, false, 0, LJ_F32, master));
    else
        lj_params_random(&e->layout, (uint64_t)lj_config_int(config, LJ_CFG_seed), LJ_F32, master);
    lj_trainer_refresh(e->trainer);
    return LJ_OK;
}

static lj_status rows_open(const lj_config *config, evaluation *e, const char *data, int64_t seq)
{
    const lj_chat_format *format;
    LJ_TRY(lj_corpus_format(lj_config_string(config, LJ_CFG_chat_format), &format));
    LJ_TRY(lj_corpus_read(data, e->tokenizer, format, &e->corpus));
    return lj_fail_in(lj_rows_init(&e->rows, &e->corpus, 0, e->corpus.token_count, seq), "%s", data);
}

static lj_status evaluation_open(const lj_config *config, evaluation *e)
{
    const char *data = lj_config_string(config, LJ_CFG_data);
    bool questions = *lj_config_string(config, LJ_CFG_choices);
    int64_t seq = lj_config_int(config, LJ_CFG_seq), batch = lj_config_int(config, LJ_CFG_batch);
    lj_dtype dtype;
    LJ_TRY(lj_dtype_find(lj_config_string(config, LJ_CFG_dtype), &dtype));
    LJ_TRY(lj_model_source_open(lj_config_string(config, LJ_CFG_model), &e->source));
    LJ_TRY(lj_model_source_tokenizer(&e->source, lj_config_string(config, LJ_CFG_tokenizer), &e->tokenizer));
    if (!questions) LJ_TRY(rows_open(config, e, data, seq));
    LJ_TRY(lj_layout_init(&e->layout, &e->source.config, lj_model_whole(&e->source.config)));
    lj_trainer_options options = {.dtype = dtype,
                                  .threads = (int)lj_config_int(config, LJ_CFG_threads),
                                  .documents = e->rows.packed,
                                  .evaluate_only = true,
                                  .rows = questions || batch < e->rows.count ? batch : e->rows.count,
                                  .length = seq};
    LJ_TRY(lj_trainer_create(&e->layout, &options, &e->trainer));
    LJ_TRY(lj_trainer_commit(e->trainer));
    return weights_load(config, e);
}

static lj_status result_show(const lj_config *config, const evaluation *e, const lj_eval_metrics *row, double seconds)
{
    const char *path = lj_config_string(config, LJ_CFG_json);
    if (strcmp(path, "-") != 0)
        printf("loss %.5f, perplexity %.4f over %lld tokens in %lld rows (%.0f tokens/s)\n", row->loss, exp(row->loss), (long long)row->tokens,
               (long long)row->rows, (double)row->tokens / seconds);
    if (!*path) return LJ_OK;
    json_t *root = json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:I, s:f}", "schema", "ljperf.eval/1", "model", e->source.name, "data",
                             lj_config_string(config, LJ_CFG_data), "loss", row->loss, "perplexity", exp(row->loss), "tokens",
                             (json_int_t)row->tokens, "rows", (json_int_t)row->rows, "seconds", seconds);
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(root);
    lj_status status = text ? lj_file_write(path, text, strlen(text)) : lj_fail(LJ_ERR_NOMEM, "result of the evaluation");
    free(text);
    return status;
}

static lj_status logits_save(const char *path, const lj_batch *batch, const float *logits, int64_t vocab)
{
    lj_safetensors_writer *writer;
    LJ_TRY(lj_safetensors_writer_create(path, &writer));
    lj_status status = lj_safetensors_writer_tensor(writer, "ids", LJ_I32, 1, &batch->length);
    if (status == LJ_OK) status = lj_safetensors_writer_tensor(writer, "logits", LJ_F32, 2, (int64_t[]){batch->length, vocab});
    if (status == LJ_OK) status = lj_safetensors_writer_write(writer, batch->tokens, (size_t)batch->length * 4);
    if (status == LJ_OK) status = lj_safetensors_writer_write(writer, logits, (size_t)(batch->length * vocab) * 4);
    if (status == LJ_OK) return lj_safetensors_writer_commit(writer);
    lj_safetensors_writer_abort(writer);
    return status;
}

static lj_status logits_write(const char *path, evaluation *e)
{
    lj_batch batch;
    float *logits;
    int64_t vocab = e->source.config.vocab_size;
    LJ_TRY(lj_alloc("logits", (size_t)(e->rows.length * vocab) * 4, (void **)&logits));
    lj_status status = lj_batch_init(&batch, 1, e->rows.length);
    if (status == LJ_OK) {
        lj_rows_fill(&e->rows, 0, 1, &batch);
        status = lj_trainer_logits(e->trainer, &batch, logits);
        if (status == LJ_OK) status = logits_save(path, &batch, logits, vocab);
        lj_batch_release(&batch);
    }
    lj_free(logits);
    return status;
}

static lj_status choices_run(const lj_config *config, evaluation *e, const char *questions)
{
    lj_choices_result r;
    const char *path = lj_config_string(config, LJ_CFG_json);
    LJ_TRY(lj_choices_evaluate(questions, e->tokenizer, e->trainer, lj_config_int(config, LJ_CFG_batch), lj_config_int(config, LJ_CFG_seq), &r));
    double n = (double)r.questions;
    if (strcmp(path, "-") != 0)
        printf("%lld of %lld questions right (%.1f %%), %lld (%.1f %%) by length-normalised scores\n", (long long)r.right, (long long)r.questions,
               100 * (double)r.right / n, (long long)r.right_normalised, 100 * (double)r.right_normalised / n);
    if (!*path) return LJ_OK;
    json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f}", "schema", "ljperf.choices/1", "model", e->source.name, "choices", questions, "questions",
                             (json_int_t)r.questions, "choices_scored", (json_int_t)r.choices, "accuracy", (double)r.right / n, "accuracy_normalised",
                             (double)r.right_normalised / n);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    lj_status status = text ? lj_file_write(path, text, strlen(text)) : lj_fail(LJ_ERR_NOMEM, "result of the evaluation");
    free(text);
    return status;
}

static lj_status evaluation_run(const lj_config *config, evaluation *e)
{
    lj_eval_metrics row;
    const char *logits = lj_config_string(config, LJ_CFG_logits), *questions = lj_config_string(config, LJ_CFG_choices);
    LJ_TRY(evaluation_open(config, e));
    if (*questions) return choices_run(config, e, questions);
    if (*logits) LJ_TRY(logits_write(logits, e));
    double begin = lj_now_s();
    int64_t batch = lj_config_int(config, LJ_CFG_batch);
    LJ_TRY(lj_train_evaluate(e->trainer, &e->rows, batch < e->rows.count ? batch : e->rows.count, &row));
    return result_show(config, e, &row, lj_now_s() - begin);
}

int lj_command_eval(const lj_command_input *input)
{
    evaluation e = {0};
    bool asked = *lj_config_string(input->config, LJ_CFG_data) || *lj_config_string(input->config, LJ_CFG_choices);
    if (!*lj_config_string(input->config, LJ_CFG_model) || !asked) {
        (void)lj_fail(LJ_ERR_INVALID, "give --model DIR or FILE.gguf, and --data FILE with the text or --choices FILE with questions");
        return LJ_EXIT_USAGE;
    }
    lj_status status = evaluation_run(input->config, &e);
    lj_trainer_destroy(e.trainer);
    lj_rows_release(&e.rows);
    lj_corpus_release(&e.corpus);
    lj_layout_release(&e.layout);
    lj_tokenizer_destroy(e.tokenizer);
    lj_model_source_close(&e.source);
    return lj_exit(status);
}
