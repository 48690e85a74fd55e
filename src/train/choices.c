#include "train/choices.h"

#include "base/file.h"

#include <jansson.h>

#include <math.h>
#include <string.h>

enum { MAX_CHOICES = 64 };

typedef struct {
    const lj_tokenizer *tokenizer;
    lj_trainer *trainer;
    lj_batch batch;
    int64_t capacity, length; /* rows of the batch, tokens of a row */
    lj_choices_result result;
} examiner;

typedef struct {
    double sum;
    int64_t tokens;
} score;

/* Puts prompt and choice into a row; the tokens of the choice are its targets. */
static lj_status row_fill(examiner *e, int64_t row, const json_t *prompt, const json_t *choice, int64_t *tokens)
{
    lj_ids ids = {0};
    lj_status status = lj_tokenizer_encode(e->tokenizer, json_string_value(prompt), json_string_length(prompt), (lj_encode_options){.add_special = true}, &ids);
    int64_t begin = (int64_t)ids.count;
    if (status == LJ_OK)
        status = lj_tokenizer_encode(e->tokenizer, json_string_value(choice), json_string_length(choice), (lj_encode_options){0}, &ids);
    int64_t count = (int64_t)ids.count;
    if (status == LJ_OK && begin == 0) status = lj_fail(LJ_ERR_FORMAT, "the prompt is empty");
    if (status == LJ_OK && count == begin) status = lj_fail(LJ_ERR_FORMAT, "a choice is empty");
    if (status == LJ_OK && count > e->length)
        status = lj_fail(LJ_ERR_LIMIT, "prompt and choice have %lld tokens, a row holds %lld; use a larger --seq", (long long)count, (long long)e->length);
    for (int64_t i = 0; status == LJ_OK && i < e->length; i++) {
        int64_t cell = row * e->length + i;
        e->batch.tokens[cell] = i < count ? ids.data[i] : 0;
        e->batch.targets[cell] = i + 1 >= begin && i + 1 < count ? ids.data[i + 1] : -1;
    }
    *tokens = count - begin;
    lj_ids_release(&ids);
    return status;
}

/* Scores of choices [first, first + rows). */
static lj_status rows_score(examiner *e, const json_t *prompt, const json_t *choices, size_t first, int64_t rows, score *scores)
{
    const float *losses;
    for (int64_t r = 0; r < rows; r++) LJ_TRY(row_fill(e, r, prompt, json_array_get(choices, first + (size_t)r), &scores[first + (size_t)r].tokens));
    e->batch.rows = rows;
    LJ_TRY(lj_trainer_eval(e->trainer, &e->batch, &losses));
    for (int64_t r = 0; r < rows; r++) {
        scores[first + (size_t)r].sum = 0;
        for (int64_t i = 0; i < e->length; i++) scores[first + (size_t)r].sum -= losses[r * e->length + i];
    }
    return LJ_OK;
}

static int64_t best(const score *scores, size_t count, bool normalised)
{
    size_t at = 0;
    for (size_t i = 1; i < count; i++) {
        double a = normalised ? scores[i].sum / (double)scores[i].tokens : scores[i].sum;
        double b = normalised ? scores[at].sum / (double)scores[at].tokens : scores[at].sum;
        if (a > b) at = i;
    }
    return (int64_t)at;
}

static lj_status record_check(const json_t *prompt, const json_t *choices, const json_t *answer)
{
    size_t count = json_array_size(choices);
    if (!json_is_string(prompt)) return lj_fail(LJ_ERR_FORMAT, "\"prompt\" must be text");
    if (count < 2 || count > MAX_CHOICES) return lj_fail(LJ_ERR_FORMAT, "\"choices\" must be a list of 2 to %d texts, it has %zu", MAX_CHOICES, count);
    for (size_t i = 0; i < count; i++)
        if (!json_is_string(json_array_get(choices, i))) return lj_fail(LJ_ERR_FORMAT, "choice %zu is no text", i);
    if (!json_is_integer(answer) || json_integer_value(answer) < 0 || json_integer_value(answer) >= (json_int_t)count)
        return lj_fail(LJ_ERR_FORMAT, "\"answer\" must be the number of a choice, 0 .. %zu", count - 1);
    return LJ_OK;
}

static lj_status record_judge(examiner *e, const json_t *record)
{
    const json_t *prompt = json_object_get(record, "prompt"), *choices = json_object_get(record, "choices"), *answer = json_object_get(record, "answer");
    score scores[MAX_CHOICES];
    LJ_TRY(record_check(prompt, choices, answer));
    size_t count = json_array_size(choices);
    for (size_t first = 0; first < count; first += (size_t)e->capacity) {
        int64_t rows = (int64_t)(count - first) < e->capacity ? (int64_t)(count - first) : e->capacity;
        LJ_TRY(rows_score(e, prompt, choices, first, rows, scores));
    }
    e->result.questions++, e->result.choices += (int64_t)count;
    e->result.right += best(scores, count, false) == json_integer_value(answer);
    e->result.right_normalised += best(scores, count, true) == json_integer_value(answer);
    return LJ_OK;
}

static lj_status lines_judge(examiner *e, const char *path, const char *data, size_t bytes)
{
    size_t number = 1;
    for (size_t at = 0; at < bytes; number++) {
        const char *end = memchr(data + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - data) - at : bytes - at;
        json_error_t error;
        json_t *record = length ? json_loadb(data + at, length, JSON_REJECT_DUPLICATES, &error) : NULL;
        lj_status status = record ? record_judge(e, record) : length ? lj_fail(LJ_ERR_FORMAT, "%s", error.text) : LJ_OK;
        json_decref(record);
        LJ_TRY(lj_fail_in(status, "%s: line %zu", path, number));
        at += length + 1;
    }
    return e->result.questions ? LJ_OK : lj_fail(LJ_ERR_INVALID, "%s: holds no question", path);
}

lj_status lj_choices_evaluate(const char *path, const lj_tokenizer *tokenizer, lj_trainer *trainer, int64_t batch, int64_t length,
                              lj_choices_result *result)
{
    examiner e = {.tokenizer = tokenizer, .trainer = trainer, .capacity = batch, .length = length};
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_status status = lj_batch_init(&e.batch, batch, length);
    if (status == LJ_OK) status = lines_judge(&e, path, (const char *)file.data, file.bytes);
    lj_batch_release(&e.batch);
    lj_mapped_file_release(&file);
    if (status == LJ_OK) *result = e.result;
    return status;
}
