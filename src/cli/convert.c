/* ljperf convert: any model that can be read here -> a Hugging Face folder. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "formats/model_folder.h"
#include "formats/model_write.h"
#include "formats/weights.h"
#include "text/gguf_save.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Files of a model folder that are neither weights nor config.json; carried over byte for byte where they are. */
static const char *const companions[] = {
    "tokenizer.json",     "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",         "chat_template.jinja", "chat_template.json", "generation_config.json",
};

static lj_status companion_copy(const char *from_folder, const char *to_folder, const char *name)
{
    char from[PATH_MAX], to[PATH_MAX];
    lj_mapped_file file;
    snprintf(from, sizeof from, "%s/%s", from_folder, name);
    if (!lj_path_exists(from)) return LJ_OK;
    LJ_TRY(lj_model_folder_file(from_folder, name, from, sizeof from));
    snprintf(to, sizeof to, "%s/%s", to_folder, name);
    LJ_TRY(lj_mapped_file_init(&file, from));
    lj_status status = lj_file_write(to, file.data, file.bytes);
    lj_mapped_file_release(&file);
    return status;
}

static lj_status companions_copy(const char *from_folder, const char *to_folder)
{
    for (size_t i = 0; *from_folder && i < sizeof companions / sizeof *companions; i++) LJ_TRY(companion_copy(from_folder, to_folder, companions[i]));
    return LJ_OK;
}

static lj_status stored_rows(void *user, const lj_model_weight *weight, int64_t row, int64_t rows, lj_dtype to, void *out)
{
    const lj_weights *weights = user;
    return lj_weights_read(weights, lj_weights_find(weights, weight->name), row, rows, to, out);
}

/* What the file has and the model does not take is said, not dropped in silence. */
static void unused_log(const lj_weights_report *report)
{
    for (const char *at = report->text.data; at && *at;) {
        size_t length = strcspn(at, "\n");
        if (strncmp(at, "unused: ", 8) == 0) lj_log(LJ_LOG_WARN, "%.*s: is not part of the model and is left out", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

static lj_dtype chosen_dtype(const lj_config *config, const lj_model_config *model)
{
    lj_dtype dtype = model->dtype;
    if (lj_config_is_set(config, LJ_CFG_save_dtype)) (void)lj_dtype_find(lj_config_string(config, LJ_CFG_save_dtype), &dtype); /* a checked choice */
    return dtype == LJ_F32 || dtype == LJ_F16 ? dtype : LJ_BF16;
}

static lj_status weights_convert(const lj_command_input *input, const lj_weights *weights, const char *target)
{
    lj_weights_report report = {0};
    lj_progress_bar bar;
    const lj_model_config *model = lj_weights_config(weights);
    lj_status status = lj_weights_check_model(weights, model, false, &report);
    if (status != LJ_OK && report.text.data) fprintf(stderr, "%s", report.text.data);
    if (status == LJ_OK) unused_log(&report);
    lj_weights_report_release(&report);
    if (status != LJ_OK) return status;
    lj_progress_bar_begin(&bar, "convert", lj_config_bool(input->config, LJ_CFG_quiet));
    lj_model_write_options options = {.dtype = chosen_dtype(input->config, model),
                                      .max_shard_bytes = lj_config_size(input->config, LJ_CFG_shard_size),
                                      .threads = (int)lj_config_int(input->config, LJ_CFG_threads),
                                      .overwrite = lj_config_bool(input->config, LJ_CFG_overwrite),
                                      .progress = lj_progress_bar_update,
                                      .user = &bar};
    status = lj_model_folder_write(target, model, &options, stored_rows, (void *)weights);
    lj_progress_bar_end(&bar);
    return status;
}

/* The weights are of use without a tokenizer, so one that has no Hugging Face form is a warning (an error under --strict). */
static lj_status gguf_tokenizer_save(const lj_gguf *gguf, const char *target)
{
    lj_status status = lj_gguf_find(gguf, "tokenizer.ggml.model") ? lj_gguf_tokenizer_save(gguf, target)
                                                                  : lj_fail(LJ_ERR_UNSUPPORTED, "the file has no tokenizer");
    if (status != LJ_ERR_UNSUPPORTED) return status;
    char reason[512];
    snprintf(reason, sizeof reason, "%s", lj_error_message());
    return lj_fallback("convert.tokenizer", reason, "put the model's own tokenizer.json into the folder");
}

static lj_status convert(const lj_command_input *input, const char *source, const char *target)
{
    lj_weights *weights;
    char size[32];
    double start = lj_now_s();
    LJ_TRY(lj_weights_open(source, &weights));
    lj_status status = lj_weights_config(weights) ? weights_convert(input, weights, target)
                                                  : lj_fail(LJ_ERR_NOT_FOUND, "%s: no config.json beside the weights; it says what model they are", source);
    if (status == LJ_OK) status = companions_copy(lj_weights_folder(weights), target);
    if (status == LJ_OK && lj_weights_gguf(weights)) status = gguf_tokenizer_save(lj_weights_gguf(weights), target);
    if (status == LJ_OK) {
        double bytes = (double)lj_model_parameter_count(lj_weights_config(weights)) * (double)lj_dtype_bytes(chosen_dtype(input->config, lj_weights_config(weights)));
        lj_log(LJ_LOG_INFO, "%s: %s of %s weights in %.1f s", target, lj_size_format(bytes, size, sizeof size),
               lj_dtype_name(chosen_dtype(input->config, lj_weights_config(weights))), lj_now_s() - start);
    }
    lj_weights_close(weights);
    return status;
}

int lj_command_convert(const lj_command_input *input)
{
    if (input->argument_count != 2) {
        lj_fail(LJ_ERR_INVALID, "convert needs a model and a target folder, %zu arguments given", input->argument_count);
        return LJ_EXIT_USAGE;
    }
    return lj_exit(convert(input, input->arguments[0], input->arguments[1]));
}
