/* ljperf tokenize and detokenize: text to ids and back; with --out, whole data sets to Megatron's .bin and .idx. */
#include "base/file.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/text_input.h"
#include "text/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_BYTES = 1 << 16, LONGEST_ID = 12 };

lj_status lj_command_tokenizer(const lj_config *config, lj_tokenizer **out)
{
    bool own = lj_config_is_set(config, LJ_CFG_tokenizer);
    const char *from = lj_config_string(config, own ? LJ_CFG_tokenizer : LJ_CFG_model);
    if (!*from) return lj_fail(LJ_ERR_INVALID, "whose tokenizer? name it: --model DIR|FILE.gguf or --tokenizer FILE");
    return lj_tokenizer_create(from, out);
}

lj_status lj_text_input_init(lj_text_input *input, const char *path)
{
    *input = (lj_text_input){0};
    lj_text_init(&input->own);
    if (strcmp(path, "-") != 0) {
        LJ_TRY(lj_mapped_file_init(&input->file, path));
        input->data = (const char *)input->file.data, input->bytes = input->file.bytes;
        return LJ_OK;
    }
    char block[1 << 14];
    for (size_t n; (n = fread(block, 1, sizeof block, stdin)) > 0;) lj_text_add_bytes(&input->own, block, n);
    if (ferror(stdin)) return lj_fail_errno("read", "standard input");
    input->data = input->own.data ? input->own.data : "", input->bytes = input->own.length;
    return lj_text_status(&input->own);
}

void lj_text_input_release(lj_text_input *input)
{
    lj_mapped_file_release(&input->file);
    lj_text_release(&input->own);
}

static lj_status flush(const char *data, size_t bytes)
{
    if (bytes && fwrite(data, 1, bytes, stdout) != bytes) return lj_fail_errno("write", "standard output");
    return LJ_OK;
}

/* Ids separated by spaces, a line end behind them. */
static lj_status print_ids(const lj_ids *ids)
{
    char out[OUT_BYTES];
    size_t used = 0;
    for (size_t i = 0; i < ids->count; i++) {
        if (used > sizeof out - LONGEST_ID - 1) {
            LJ_TRY(flush(out, used));
            used = 0;
        }
        used += (size_t)snprintf(out + used, LONGEST_ID + 1, i ? " %d" : "%d", ids->data[i]);
    }
    out[used++] = '\n';
    LJ_TRY(flush(out, used));
    return fflush(stdout) == 0 ? LJ_OK : lj_fail_errno("write", "standard output");
}

static lj_status tokenize_ids(const lj_config *config, const char *path)
{
    lj_tokenizer *tokenizer;
    lj_text_input input;
    lj_ids ids = {0};
    bool special = lj_config_bool(config, LJ_CFG_special);
    lj_encode_options options = {.add_special = special, .parse_special = special};
    LJ_TRY(lj_command_tokenizer(config, &tokenizer));
    lj_status status = lj_text_input_init(&input, path);
    if (status == LJ_OK) status = lj_fail_in(lj_tokenizer_encode(tokenizer, input.data, input.bytes, options, &ids), "%s", path);
    if (status == LJ_OK) status = print_ids(&ids);
    lj_text_input_release(&input);
    lj_ids_release(&ids);
    lj_tokenizer_destroy(tokenizer);
    return status;
}

int lj_command_tokenize(const lj_command_input *input)
{
    bool to_files = lj_config_is_set(input->config, LJ_CFG_out);
    if (input->argument_count == 0) return lj_fail(LJ_ERR_INVALID, "what shall be tokenized? name a FILE (- is standard input)"), LJ_EXIT_USAGE;
    if (to_files) return lj_exit(lj_tokenize_to_files(input));
    if (!lj_config_bool(input->config, LJ_CFG_ids))
        return lj_fail(LJ_ERR_INVALID, "--ids prints the ids of FILE; --out PREFIX writes PREFIX.bin and PREFIX.idx"), LJ_EXIT_USAGE;
    if (input->argument_count != 1) return lj_fail(LJ_ERR_INVALID, "--ids takes one FILE, not %zu", input->argument_count), LJ_EXIT_USAGE;
    return lj_exit(tokenize_ids(input->config, input->arguments[0]));
}

/* Reads ids separated by white space. */
static lj_status parse_ids(const lj_text_input *input, lj_ids *ids)
{
    char word[LONGEST_ID + 1];
    for (size_t at = 0, length; at < input->bytes; at += length) {
        length = 1;
        if (strchr(" \t\r\n", input->data[at]) && input->data[at]) continue;
        while (at + length < input->bytes && !strchr(" \t\r\n", input->data[at + length])) length++;
        snprintf(word, sizeof word, "%.*s", (int)(length < LONGEST_ID ? length : LONGEST_ID), input->data + at);
        char *end;
        errno = 0;
        long id = strtol(word, &end, 10);
        if (end == word || *end || length >= LONGEST_ID || errno || id < 0 || id > INT32_MAX)
            return lj_fail(LJ_ERR_FORMAT, "byte %zu: '%s' is no token id", at, word);
        LJ_TRY(lj_ids_add(ids, (int32_t)id));
    }
    return LJ_OK;
}

static lj_status detokenize(const lj_config *config, const char *path)
{
    lj_tokenizer *tokenizer;
    lj_text_input input;
    lj_ids ids = {0};
    lj_text text;
    LJ_TRY(lj_command_tokenizer(config, &tokenizer));
    lj_text_init(&text);
    lj_status status = lj_text_input_init(&input, path);
    if (status == LJ_OK) status = lj_fail_in(parse_ids(&input, &ids), "%s", path);
    if (status == LJ_OK) status = lj_tokenizer_decode(tokenizer, ids.data, ids.count, !lj_config_bool(config, LJ_CFG_special), &text);
    if (status == LJ_OK) status = flush(text.data, text.length);
    if (status == LJ_OK && fflush(stdout) != 0) status = lj_fail_errno("write", "standard output");
    lj_text_release(&text);
    lj_text_input_release(&input);
    lj_ids_release(&ids);
    lj_tokenizer_destroy(tokenizer);
    return status;
}

int lj_command_detokenize(const lj_command_input *input)
{
    if (input->argument_count > 1) return lj_fail(LJ_ERR_INVALID, "takes one FILE of ids, not %zu", input->argument_count), LJ_EXIT_USAGE;
    return lj_exit(detokenize(input->config, input->argument_count ? input->arguments[0] : "-"));
}
