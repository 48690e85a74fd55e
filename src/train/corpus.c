#include "train/corpus.h"

#include "base/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A corpus while it grows. */
typedef struct {
    const lj_tokenizer *tokenizer;
    const char *path;
    lj_ids ids;
    uint8_t *marks;
    size_t mark_count, mark_capacity;
    int64_t *ends;
    size_t end_count, end_capacity;
    bool any_unmarked;
} growing;

static lj_status reserve(void **data, size_t *capacity, size_t need, size_t each)
{
    if (need <= *capacity) return LJ_OK;
    size_t wanted = need + need / 2 + 64, bytes;
    void *grown = lj_mul_size(wanted, each, &bytes) ? realloc(*data, bytes) : NULL;
    if (!grown) return lj_fail(LJ_ERR_NOMEM, "tokens of the data: %zu entries", wanted);
    *data = grown, *capacity = wanted;
    return LJ_OK;
}

/* Gives every id without a mark this one. */
static lj_status mark_rest(growing *g, bool learnt)
{
    LJ_TRY(reserve((void **)&g->marks, &g->mark_capacity, g->ids.count, 1));
    memset(g->marks + g->mark_count, learnt, g->ids.count - g->mark_count);
    g->any_unmarked |= !learnt && g->ids.count > g->mark_count;
    g->mark_count = g->ids.count;
    return LJ_OK;
}

static lj_status document_end(growing *g)
{
    LJ_TRY(reserve((void **)&g->ends, &g->end_capacity, g->end_count + 1, sizeof *g->ends));
    if (g->end_count && g->ends[g->end_count - 1] == (int64_t)g->ids.count) return LJ_OK; /* empty */
    g->ends[g->end_count++] = (int64_t)g->ids.count;
    return LJ_OK;
}

static lj_status encode(growing *g, const char *text, size_t bytes, bool special, bool learnt)
{
    lj_encode_options options = {.add_special = special, .parse_special = false};
    LJ_TRY(lj_tokenizer_encode(g->tokenizer, text, bytes, options, &g->ids));
    return mark_rest(g, learnt);
}

/* The end of a document is learnt, where the model has a token for it. */
static lj_status end_token(growing *g)
{
    int32_t eos = lj_tokenizer_eos(g->tokenizer);
    if (eos >= 0 && (g->ids.count == 0 || g->ids.data[g->ids.count - 1] != eos)) LJ_TRY(lj_ids_add(&g->ids, eos));
    LJ_TRY(mark_rest(g, true));
    return document_end(g);
}

static lj_status text_document(growing *g, const json_t *text)
{
    LJ_TRY(encode(g, json_string_value(text), json_string_length(text), true, true));
    return end_token(g);
}

static lj_status pair_document(growing *g, const json_t *prompt, const json_t *completion)
{
    LJ_TRY(encode(g, json_string_value(prompt), json_string_length(prompt), true, false));
    LJ_TRY(encode(g, json_string_value(completion), json_string_length(completion), false, true));
    return end_token(g);
}

static lj_status record_read(growing *g, const json_t *record)
{
    const json_t *text = json_object_get(record, "text"), *prompt = json_object_get(record, "prompt"),
                 *completion = json_object_get(record, "completion");
    if (json_is_string(text)) return text_document(g, text);
    if (json_is_string(prompt) && json_is_string(completion)) return pair_document(g, prompt, completion);
    return lj_fail(LJ_ERR_FORMAT, "neither \"text\" nor \"prompt\" and \"completion\" as strings");
}

static lj_status line_read(growing *g, const char *line, size_t bytes)
{
    json_error_t error;
    json_t *record = json_loadb(line, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!record) return lj_fail(LJ_ERR_FORMAT, "no JSON: %s", error.text);
    lj_status status = record_read(g, record);
    json_decref(record);
    return status;
}

static bool blank(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!strchr(" \t\r", line[i]) || !line[i]) return false;
    return true;
}

static lj_status jsonl_read(growing *g, const char *data, size_t bytes)
{
    int64_t number = 1;
    for (size_t at = 0; at < bytes; number++) {
        const char *end = memchr(data + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - data) - at : bytes - at;
        if (!blank(data + at, length)) LJ_TRY(lj_fail_in(line_read(g, data + at, length), "%s: line %lld", g->path, (long long)number));
        at += length + 1;
    }
    return LJ_OK;
}

static lj_status txt_read(growing *g, const char *data, size_t bytes)
{
    LJ_TRY(encode(g, data, bytes, true, true));
    return document_end(g);
}

static const struct {
    const char *suffix;
    lj_status (*read)(growing *g, const char *data, size_t bytes);
} kinds[] = {{".jsonl", jsonl_read}, {".ndjson", jsonl_read}, {".txt", txt_read}, {".md", txt_read}, {".text", txt_read}};

static lj_status data_read(growing *g, const char *data, size_t bytes)
{
    const char *dot = strrchr(g->path, '.');
    for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(dot, kinds[i].suffix) == 0) return kinds[i].read(g, data, bytes);
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: the name ends in neither .txt, .md, .text nor .jsonl, .ndjson, so its kind is not known", g->path);
}

static void growing_release(growing *g)
{
    lj_ids_release(&g->ids);
    free(g->marks);
    free(g->ends);
}

lj_status lj_corpus_read(const char *path, const lj_tokenizer *tokenizer, lj_corpus *corpus)
{
    lj_mapped_file file;
    growing g = {.tokenizer = tokenizer, .path = path};
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_status status = data_read(&g, (const char *)file.data, file.bytes);
    lj_mapped_file_release(&file);
    if (status == LJ_OK && g.ids.count == 0) status = lj_fail(LJ_ERR_INVALID, "%s: holds no text", path);
    if (status != LJ_OK) {
        growing_release(&g);
        return status;
    }
    if (!g.any_unmarked) free(g.marks), g.marks = NULL;
    *corpus = (lj_corpus){g.ids.data, g.marks, (int64_t)g.ids.count, g.ends, (int64_t)g.end_count};
    return LJ_OK;
}
