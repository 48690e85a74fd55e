/* ljperf data show: what a data set holds. */
#include "cli/commands.h"
#include "cli/text_input.h"
#include "formats/megatron.h"
#include "formats/model_folder.h"
#include "text/document_encode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BINS = 33, SAMPLE_TOKENS = 400, BAR = 40 };

/* Everything that is counted. */
typedef struct {
    uint64_t files, documents, tokens, learnt, empty;
    uint64_t bins[BINS]; /* documents with 2^(i-1) <= length < 2^i; bin 0: empty */
    uint64_t *lengths;
    size_t length_count, length_capacity;
} counts;

typedef struct {
    const lj_config *config;
    lj_tokenizer *tokenizer; /* NULL: ids are printed */
    lj_document_encoder encoder;
    counts counts;
    lj_text samples;
    int64_t samples_left;
    lj_ids ids;
    lj_text learnt;
} view;

static lj_status count_document(counts *c, uint64_t length, uint64_t learnt)
{
    if (c->length_count == c->length_capacity) {
        void *grown;
        size_t capacity = 2 * c->length_capacity + 1024;
        LJ_TRY(lj_alloc("cli.lengths", capacity * sizeof *c->lengths, &grown));
        if (c->length_count) memcpy(grown, c->lengths, c->length_count * sizeof *c->lengths);
        lj_free(c->lengths);
        c->lengths = grown, c->length_capacity = capacity;
    }
    c->lengths[c->length_count++] = length;
    int bin = 0;
    while (bin + 1 < BINS && length >> bin) bin++;
    c->bins[bin]++, c->documents++, c->tokens += length, c->learnt += learnt, c->empty += length == 0;
    return LJ_OK;
}

/* A stretch of tokens with one mark: learnt ones green on a terminal, in brackets elsewhere. */
static lj_status add_stretch(view *v, const int32_t *ids, size_t count, bool learnt)
{
    bool colour = isatty(STDOUT_FILENO);
    lj_text_add(&v->samples, "%s", !learnt ? "" : colour ? "\x1b[32m" : "[[");
    if (v->tokenizer)
        LJ_TRY(lj_tokenizer_decode(v->tokenizer, ids, count, false, &v->samples));
    else
        for (size_t i = 0; i < count; i++) lj_text_add(&v->samples, "%d ", ids[i]);
    lj_text_add(&v->samples, "%s", !learnt ? "" : colour ? "\x1b[0m" : "]]");
    return LJ_OK;
}

static lj_status add_sample(view *v, const int32_t *ids, const char *learnt, size_t count, bool marked)
{
    if (v->samples_left <= 0) return LJ_OK;
    v->samples_left--;
    lj_text_add(&v->samples, "\n--- document %" PRIu64 ", %zu tokens\n", v->counts.documents - 1, count);
    size_t shown = count < SAMPLE_TOKENS ? count : SAMPLE_TOKENS;
    for (size_t at = 0, end; at < shown; at = end) {
        for (end = at + 1; end < shown && (!marked || learnt[end] == learnt[at]);) end++;
        LJ_TRY(add_stretch(v, ids + at, end - at, marked && learnt[at]));
    }
    lj_text_add(&v->samples, shown < count ? " ... (%zu more tokens)\n" : "\n", count - shown);
    return lj_text_status(&v->samples);
}

static lj_status text_document(void *user, const lj_document *document)
{
    view *v = user;
    uint64_t learnt = 0;
    v->ids.count = 0, v->learnt.length = 0;
    LJ_TRY(lj_document_encode(&v->encoder, document, &v->ids, &v->learnt));
    for (size_t i = 0; i < v->learnt.length; i++) learnt += v->learnt.data[i] != 0;
    LJ_TRY(count_document(&v->counts, v->ids.count, learnt));
    return add_sample(v, v->ids.data, v->learnt.data, v->ids.count, document->kind != LJ_DOCUMENT_TEXT);
}

static lj_status text_view(view *v, const char *const *paths, size_t count)
{
    lj_arena arena;
    lj_document_file *files;
    size_t file_count, passed;
    if (!v->tokenizer) return lj_fail(LJ_ERR_INVALID, "text is counted in a model's tokens: name it with --model DIR|FILE.gguf or --tokenizer FILE");
    lj_arena_init(&arena, "cli.data");
    lj_status status = lj_document_files(paths, count, &arena, &files, &file_count, &passed);
    for (size_t i = 0; status == LJ_OK && i < file_count; i++) status = lj_documents_read(&files[i], 0, 0, text_document, v);
    if (status == LJ_OK) v->counts.files = file_count;
    lj_arena_release(&arena);
    return status;
}

static lj_status megatron_document(view *v, const lj_megatron *set, uint64_t document)
{
    uint64_t first = lj_megatron_document(set, document), last = lj_megatron_document(set, document + 1), length = 0;
    v->ids.count = 0;
    for (uint64_t s = first; s < last; s++) {
        uint64_t n = lj_megatron_length(set, s);
        length += n;
        if (v->samples_left <= 0) continue;
        LJ_TRY(lj_ids_reserve(&v->ids, n));
        LJ_TRY(lj_megatron_read(set, s, 0, n, v->ids.data + v->ids.count));
        v->ids.count += n;
    }
    LJ_TRY(count_document(&v->counts, length, length));
    return add_sample(v, v->ids.data, NULL, v->ids.count, false);
}

static lj_status megatron_view(view *v, const char *prefix)
{
    lj_megatron *set;
    LJ_TRY(lj_megatron_open(prefix, &set));
    lj_text_add(&v->samples, "\n%s: %s tokens, %" PRIu64 " sequences%s\n", prefix, lj_megatron_type_name(set->type), set->sequence_count,
                set->modes ? ", with modes" : "");
    lj_status status = LJ_OK;
    for (uint64_t d = 0; d < set->document_count && status == LJ_OK; d++) status = megatron_document(v, set, d);
    v->counts.files = 2;
    lj_megatron_close(set);
    return status;
}

static bool is_megatron(const char *path)
{
    char idx[4096];
    size_t length = strlen(path);
    if (length > 4 && (strcmp(path + length - 4, ".idx") == 0 || strcmp(path + length - 4, ".bin") == 0)) return true;
    return snprintf(idx, sizeof idx, "%s.idx", path) < (int)sizeof idx && lj_path_exists(idx) && !lj_path_exists(path);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t quantile(const counts *c, double share)
{
    return c->length_count ? c->lengths[(size_t)(share * (double)(c->length_count - 1) + 0.5)] : 0;
}

static void print_histogram(const counts *c)
{
    uint64_t most = 1;
    for (int i = 0; i < BINS; i++)
        if (c->bins[i] > most) most = c->bins[i];
    for (int i = 0; i < BINS; i++) {
        if (!c->bins[i]) continue;
        uint64_t low = i ? (uint64_t)1 << (i - 1) : 0;
        int bar = (int)((double)BAR * (double)c->bins[i] / (double)most + 0.5);
        printf("  %10" PRIu64 " ..%10" PRIu64 " %10" PRIu64 " %.*s\n", low, i ? 2 * low - 1 : 0, c->bins[i], bar ? bar : 1,
               "########################################");
    }
}

static lj_status json_write(const view *v, const char *path)
{
    const counts *c = &v->counts;
    lj_text text;
    lj_text_init(&text);
    lj_text_add(&text,
                "{\"schema\": \"ljperf.data/1\", \"documents\": %" PRIu64 ", \"tokens\": %" PRIu64 ", \"learnt_tokens\": %" PRIu64 ", \"empty_documents\": %" PRIu64
                ", \"length\": {\"min\": %" PRIu64 ", \"median\": %" PRIu64 ", \"p95\": %" PRIu64 ", \"max\": %" PRIu64 "}, \"histogram\": [",
                c->documents, c->tokens, c->learnt, c->empty, quantile(c, 0), quantile(c, 0.5), quantile(c, 0.95), quantile(c, 1));
    for (int i = 0, any = 0; i < BINS; i++)
        if (c->bins[i])
            lj_text_add(&text, "%s{\"from\": %" PRIu64 ", \"documents\": %" PRIu64 "}", any++ ? ", " : "", i ? (uint64_t)1 << (i - 1) : 0, c->bins[i]);
    lj_text_add(&text, "]}\n");
    lj_status status = lj_text_status(&text);
    if (status == LJ_OK) status = lj_file_write(path, text.data, text.length);
    lj_text_release(&text);
    return status;
}

static void print_counts(const view *v)
{
    const counts *c = &v->counts;
    printf("%" PRIu64 " documents, %" PRIu64 " tokens, %" PRIu64 " of them learnt", c->documents, c->tokens, c->learnt);
    if (c->empty) printf(", %" PRIu64 " empty documents", c->empty);
    printf("\nlength: %" PRIu64 " .. %" PRIu64 ", median %" PRIu64 ", 95 %% under %" PRIu64 "\n", quantile(c, 0), quantile(c, 1), quantile(c, 0.5),
           quantile(c, 0.95));
    print_histogram(c);
    if (v->samples.length) fwrite(v->samples.data, 1, v->samples.length, stdout);
}

static lj_status print_view(view *v)
{
    counts *c = &v->counts;
    const char *json = lj_config_string(v->config, LJ_CFG_json);
    if (c->length_count) qsort(c->lengths, c->length_count, sizeof *c->lengths, by_value);
    if (strcmp(json, "-") != 0) print_counts(v);
    if (fflush(stdout) != 0) return lj_fail_errno("write", "standard output");
    return *json ? json_write(v, json) : LJ_OK;
}

static lj_status show(const lj_command_input *input)
{
    const lj_config *config = input->config;
    view v = {.config = config, .samples_left = lj_config_int(config, LJ_CFG_samples)};
    const char *format = lj_config_string(config, LJ_CFG_chat_format), *first = input->arguments[1];
    if (*format) LJ_TRY(lj_chat_format_find(format, &v.encoder.format));
    if (lj_config_is_set(config, LJ_CFG_model) || lj_config_is_set(config, LJ_CFG_tokenizer)) LJ_TRY(lj_command_tokenizer(config, &v.tokenizer));
    v.encoder.tokenizer = v.tokenizer, v.encoder.end_token = lj_config_bool(config, LJ_CFG_end_token);
    lj_status status = is_megatron(first) ? megatron_view(&v, first) : text_view(&v, input->arguments + 1, input->argument_count - 1);
    if (status == LJ_OK) status = print_view(&v);
    lj_free(v.counts.lengths);
    lj_text_release(&v.samples);
    lj_text_release(&v.learnt);
    lj_ids_release(&v.ids);
    lj_tokenizer_destroy(v.tokenizer);
    return status;
}

int lj_command_data(const lj_command_input *input)
{
    if (input->argument_count < 2 || strcmp(input->arguments[0], "show") != 0)
        return lj_fail(LJ_ERR_INVALID, "what about which data? ljperf data show FILE..."), LJ_EXIT_USAGE;
    return lj_exit(show(input));
}
