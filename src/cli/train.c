/* ljperf train: trains or fine-tunes from files; without --data it is the benchmark, and says so. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/deepspeed.h"
#include "train/setup.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    bool terminal, quiet;
    double begin_s;
    int64_t begin_step;
    char path[4096]; /* of the newest checkpoint */
} progress;

/* First signal: finish the step and save. Second: leave at once; what was being written stays invisible. */
static void on_signal(int number)
{
    if (lj_train_stop_requested()) _exit(128 + number);
    lj_train_request_stop();
    static const char line[] = "\nljperf train: finishing this step, then saving; a second signal leaves at once\n";
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
}

static void signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void duration(double seconds, char *out, size_t capacity)
{
    long s = (long)seconds;
    if (s >= 3600)
        snprintf(out, capacity, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else
        snprintf(out, capacity, "%ldm%02lds", s / 60, s % 60);
}

static void on_step(void *user, const lj_train_loop *loop, const lj_step_metrics *row)
{
    progress *p = user;
    char eta[32], memory[32];
    if (p->quiet) return;
    double done = (double)(row->step - p->begin_step), left = (double)(loop->last_step - row->step);
    duration((lj_now_s() - p->begin_s) / done * left, eta, sizeof eta);
    fprintf(stderr, "%sstep %lld/%lld  loss %.4f  lr %.3g  grad norm %.3f  %.0f tokens/s  %s  left %s%s", p->terminal ? "\r\033[K" : "",
            (long long)row->step, (long long)loop->last_step, row->loss, row->lr, row->grad_norm, row->tokens_per_s,
            lj_size_format((double)lj_memory_peak(), memory, sizeof memory), eta, p->terminal ? "" : "\n");
}

static void on_eval(void *user, const lj_train_loop *loop, const lj_eval_metrics *row)
{
    progress *p = user;
    (void)loop;
    if (!p->quiet)
        fprintf(stderr, "%sheld-out after step %lld: loss %.4f, perplexity %.2f over %lld tokens\n", p->terminal ? "\r\033[K" : "",
                (long long)row->step, row->loss, exp(row->loss), (long long)row->tokens);
    p->begin_s = lj_now_s(), p->begin_step = row->step;
}

static void on_save(void *user, const lj_train_loop *loop, const char *path)
{
    progress *p = user;
    (void)loop;
    snprintf(p->path, sizeof p->path, "%s", path);
    if (!p->quiet) fprintf(stderr, "%ssaved %s\n", p->terminal ? "\r\033[K" : "", path);
}

static void opening_words(const lj_train_setup *s)
{
    char parameters[32], memory[32];
    lj_log(LJ_LOG_INFO, "%s: %s parameters, %s, %s; %lld training rows of %lld tokens%s, %lld held out; memory planned %s", s->source.name,
           lj_si_format((double)s->layout.parameter_count, parameters, sizeof parameters), s->recipe.dtype, lj_tokenizer_describe(s->tokenizer),
           (long long)s->rows.count, (long long)s->rows.length, s->rows.packed ? " (packed documents)" : "", (long long)s->eval_rows.count,
           lj_size_format((double)s->bytes.peak, memory, sizeof memory));
    if (s->rows.unused_tokens)
        lj_log(LJ_LOG_INFO, "note: %lld tokens at the data's end are shorter than a row and not trained on", (long long)s->rows.unused_tokens);
    if (!s->recipe.shuffle) lj_log(LJ_LOG_INFO, "note: rows are read in file order (--no-shuffle)");
}

static void eval_json(json_t *root, const char *name, const lj_eval_metrics *row)
{
    if (!row->rows) return;
    json_object_set_new(root, name, json_pack("{s:I, s:f, s:f, s:I, s:I}", "step", (json_int_t)row->step, "loss", row->loss, "perplexity",
                                              exp(row->loss), "tokens", (json_int_t)row->tokens, "rows", (json_int_t)row->rows));
}

static lj_status result_write(const lj_train_setup *s, const progress *p, const char *path)
{
    const lj_train_loop *loop = &s->loop;
    if (!*path) return LJ_OK;
    json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:b, s:f, s:f, s:I, s:I, s:I, s:s, s:o}", "schema", "ljperf.train/1", "version", LJ_VERSION, "model",
                             s->source.name, "step", (json_int_t)loop->state.step, "stopped", loop->stopped, "loss_first", loop->first_loss,
                             "loss_last", loop->last_loss, "tokens", (json_int_t)loop->state.tokens, "predicted_peak_bytes",
                             (json_int_t)s->bytes.peak, "measured_peak_bytes", (json_int_t)lj_memory_peak(), "checkpoint", p->path, "recipe",
                             lj_recipe_to_json(&s->recipe));
    if (root) eval_json(root, "eval_first", &loop->eval_first), eval_json(root, "eval_last", &loop->eval_last);
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    lj_status status = text ? lj_file_write(path, text, strlen(text)) : lj_fail(LJ_ERR_NOMEM, "result of the run");
    free(text);
    return status;
}

static void closing_words(const lj_train_setup *s, const progress *p, const lj_config *config)
{
    const lj_train_loop *loop = &s->loop;
    bool json_out = strcmp(lj_config_string(config, LJ_CFG_json), "-") == 0;
    FILE *out = json_out ? stderr : stdout;
    if (loop->stopped)
        fprintf(out, "stopped after step %lld of %lld; go on with the same command and --resume\n", (long long)loop->state.step, (long long)loop->last_step);
    else
        fprintf(out, "trained to step %lld: loss %.4f\n", (long long)loop->state.step, loop->last_loss);
    if (loop->eval_first.rows && loop->eval_last.step != loop->eval_first.step)
        fprintf(out, "held-out perplexity %.2f before, %.2f after\n", exp(loop->eval_first.loss), exp(loop->eval_last.loss));
    fprintf(out, "model: %s\n", p->path);
}

static lj_status train_run(const lj_config *config, lj_train_setup *s)
{
    lj_recipe recipe;
    progress p = {.terminal = isatty(STDERR_FILENO) != 0, .quiet = lj_config_bool(config, LJ_CFG_quiet)};
    lj_recipe_from_config(config, &recipe);
    LJ_TRY(lj_train_setup_open(&recipe, lj_config_bool(config, LJ_CFG_resume), lj_config_size(config, LJ_CFG_memory), s));
    opening_words(s);
    signals_catch();
    s->loop.stop_after = lj_config_int(config, LJ_CFG_stop_after);
    s->loop.tensorboard = lj_config_bool(config, LJ_CFG_tensorboard);
    s->loop.on_step = on_step, s->loop.on_eval = on_eval, s->loop.on_save = on_save, s->loop.user = &p;
    p.begin_s = lj_now_s(), p.begin_step = s->loop.state.step;
    LJ_TRY(lj_train_loop_run(&s->loop));
    closing_words(s, &p, config);
    return result_write(s, &p, lj_config_string(config, LJ_CFG_json));
}

int lj_command_train(const lj_command_input *input)
{
    lj_train_setup setup = {0};
    lj_config *config = (lj_config *)input->config; /* defaults of a DeepSpeed file are laid under the flags */
    if (!*lj_config_string(config, LJ_CFG_model)) {
        (void)lj_fail(LJ_ERR_INVALID, "which model? give --model DIR, FILE.gguf or PRESET (ljperf models lists them)");
        return LJ_EXIT_USAGE;
    }
    if (!*lj_config_string(config, LJ_CFG_data)) {
        lj_log(LJ_LOG_INFO, "no --data: running the benchmark's synthetic work; nothing is learnt or saved");
        return lj_command_benchmark(input);
    }
    lj_status status = lj_deepspeed_settings(config);
    if (status == LJ_OK) status = train_run(config, &setup);
    lj_train_setup_close(&setup);
    return lj_exit(status);
}
