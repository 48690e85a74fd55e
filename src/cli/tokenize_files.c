/* tokenize --out: documents to Megatron's files, with a progress line. */
#include "base/clock.h"
#include "cli/commands.h"
#include "cli/text_input.h"
#include "text/tokenize_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    double begun, shown;
    bool line; /* a progress line stands on the terminal */
} display;

/* Four times a second on a terminal, each ten seconds elsewhere. */
static void show(void *user, uint64_t done, uint64_t total)
{
    display *d = user;
    double now = lj_now_s();
    bool terminal = isatty(STDERR_FILENO);
    if (now - d->shown < (terminal ? 0.25 : 10) && done < total) return;
    if (done == total && !d->line && !terminal) return;
    d->shown = now, d->line = terminal;
    double rate = (double)done / (now - d->begun + 1e-9);
    fprintf(stderr, "%s%5.1f %%  %.1f of %.1f MB, %.1f MB/s%s", terminal ? "\r" : "", total ? 100.0 * (double)done / (double)total : 100,
            (double)done / 1e6, (double)total / 1e6, rate / 1e6, terminal && done < total ? "  " : "\n");
}

static void print_result(const char *prefix, const lj_tokenize_result *r, double seconds)
{
    printf("%s.bin, %s.idx: %" PRIu64 " documents, %" PRIu64 " tokens from %" PRIu64 " files, %.1f MB in %.1f s (%.1f MB/s)", prefix, prefix, r->documents,
           r->tokens, r->files, (double)r->bytes / 1e6, seconds, (double)r->bytes / 1e6 / (seconds + 1e-9));
    if (r->resumed) printf(", %" PRIu64 " of %" PRIu64 " parts from an earlier run", r->resumed, r->parts);
    if (r->passed) printf(", %" PRIu64 " files of other kinds passed over", r->passed);
    printf("\n");
}

static lj_status report(const lj_config *config, const lj_tokenize_result *r, const lj_tokenizer *tokenizer, double seconds)
{
    const char *json = lj_config_string(config, LJ_CFG_json);
    lj_text text;
    if (strcmp(json, "-") != 0) print_result(lj_config_string(config, LJ_CFG_out), r, seconds);
    if (!*json) return LJ_OK;
    lj_text_init(&text);
    lj_text_add(&text,
                "{\"schema\": \"ljperf.tokenize/1\", \"documents\": %" PRIu64 ", \"tokens\": %" PRIu64 ", \"files\": %" PRIu64 ", \"bytes\": %" PRIu64
                ", \"seconds\": %.3f, \"parts\": %" PRIu64 ", \"resumed_parts\": %" PRIu64 ", \"passed_files\": %" PRIu64 ", \"vocabulary\": %zu}\n",
                r->documents, r->tokens, r->files, r->bytes, seconds, r->parts, r->resumed, r->passed, lj_tokenizer_size(tokenizer));
    lj_status status = lj_text_status(&text);
    if (status == LJ_OK) status = lj_file_write(json, text.data, text.length);
    lj_text_release(&text);
    return status;
}

lj_status lj_tokenize_to_files(const lj_command_input *input)
{
    const lj_config *config = input->config;
    const char *format = lj_config_string(config, LJ_CFG_chat_format);
    lj_tokenizer *tokenizer;
    lj_tokenize_result result;
    display d = {.begun = lj_now_s(), .shown = lj_now_s()};
    lj_tokenize_job job = {.paths = input->arguments,
                           .path_count = input->argument_count,
                           .prefix = lj_config_string(config, LJ_CFG_out),
                           .threads = (int)lj_config_int(config, LJ_CFG_threads),
                           .progress = lj_config_bool(config, LJ_CFG_quiet) ? NULL : show,
                           .user = &d};
    if (*format) LJ_TRY(lj_chat_format_find(format, &job.encoder.format));
    LJ_TRY(lj_command_tokenizer(config, &tokenizer));
    job.encoder.tokenizer = tokenizer, job.encoder.end_token = lj_config_bool(config, LJ_CFG_end_token);
    lj_status status = lj_tokenize_files(&job, &result);
    if (status == LJ_OK) status = report(config, &result, tokenizer, lj_now_s() - d.begun);
    lj_tokenizer_destroy(tokenizer);
    return status;
}
