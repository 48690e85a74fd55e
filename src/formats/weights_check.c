/* What the model wants against what the file has, before anything is allocated for it. */
#include "formats/weights_list.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

static const char *shape_text(const int64_t *shape, int rank, char *buffer, size_t capacity)
{
    size_t used = (size_t)snprintf(buffer, capacity, "[");
    for (int i = 0; i < rank && used < capacity; i++) used += (size_t)snprintf(buffer + used, capacity - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (used < capacity) snprintf(buffer + used, capacity - used, "]");
    return buffer;
}

static bool same_shape(const lj_weight *have, const lj_weight_want *want)
{
    if (have->rank != want->rank) return false;
    for (int i = 0; i < want->rank; i++)
        if (have->shape[i] != want->shape[i]) return false;
    return true;
}

/* Keeps the worst finding as the error, worded once: a wrong shape beats a missing tensor, a broken tie both. */
typedef struct {
    lj_status status;
    bool tied_wrong;
    char text[1024];
} verdict;

static void want_check(const lj_weights *w, const lj_weight_want *want, bool allow_missing, lj_weights_report *report, verdict *worst)
{
    char need[96], have[160];
    const lj_weight *found = lj_weights_find(w, want->name);
    shape_text(want->shape, want->rank, need, sizeof need);
    if (!found) {
        report->missing++;
        lj_text_add(&report->text, "missing: %s %s\n", want->name, need);
        if (allow_missing || worst->status != LJ_OK) return;
        worst->status = LJ_ERR_NOT_FOUND;
        snprintf(worst->text, sizeof worst->text, "tensor '%s' %s is missing", want->name, need);
        return;
    }
    report->found++;
    if (same_shape(found, want)) return;
    shape_text(found->shape, found->rank, have, sizeof have);
    report->misshapen++;
    lj_text_add(&report->text, "misshapen: %s have %s need %s\n", want->name, have, need);
    if (worst->status == LJ_ERR_INVALID || worst->tied_wrong) return;
    worst->status = LJ_ERR_INVALID;
    snprintf(worst->text, sizeof worst->text, "tensor '%s' has shape %s, the model needs %s", want->name, have, need);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Tensors that no want leads to. A tied pair of which one is wanted counts as wanted whole. */
static lj_status unused_list(const lj_weights *w, const lj_weight_want *wants, size_t count, lj_weights_report *report)
{
    void *memory;
    LJ_TRY(lj_alloc("weights check", (count + 1) * sizeof(char *), &memory));
    const char **names = memory;
    for (size_t i = 0; i < count; i++) names[i] = wants[i].name;
    qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < w->count; i++) {
        const lj_weight *item = &w->items[i];
        bool twin = w->has_config && w->config.tie_word_embeddings && strcmp(item->name, LJ_HEAD_NAME) == 0;
        const char *name = twin ? LJ_EMBEDDING_NAME : item->name;
        char shape[160];
        if (count && bsearch(&name, names, count, sizeof *names, by_text)) continue;
        report->unused++;
        lj_text_add(&report->text, "unused: %s %s %s\n", item->name, item->type_name, shape_text(item->shape, item->rank, shape, sizeof shape));
    }
    lj_free(memory);
    return lj_text_status(&report->text);
}

/* With a tied head one of the two names must be there; when both are, they must agree. */
static lj_status tied_check(const lj_weights *w)
{
    if (!w->has_config || !w->config.tie_word_embeddings) return LJ_OK;
    const lj_weight *embedding = lj_weights_find_stored(w, LJ_EMBEDDING_NAME), *head = lj_weights_find_stored(w, LJ_HEAD_NAME);
    if (!embedding && !head)
        return lj_fail(LJ_ERR_NOT_FOUND, "%s: the head is tied to the embedding and neither '%s' nor '%s' is there", w->path, LJ_EMBEDDING_NAME, LJ_HEAD_NAME);
    if (!embedding || !head) return LJ_OK;
    if (embedding->bytes == head->bytes && embedding->dtype == head->dtype && memcmp(embedding->data, head->data, head->bytes) == 0) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s: tie_word_embeddings is true but '%s' and '%s' differ; set tie_word_embeddings to false in config.json to use both", w->path,
                   LJ_EMBEDDING_NAME, LJ_HEAD_NAME);
}

static void missing_log(const lj_weights_report *report)
{
    const char *at = report->text.data;
    while (at && (at = strstr(at, "missing: "))) {
        int length = (int)strcspn(at, "\n");
        lj_log(LJ_LOG_WARN, "%.*s: will be initialised, not loaded", length, at);
        at += length;
    }
}

lj_status lj_weights_check(const lj_weights *weights, const lj_weight_want *wants, size_t count, bool allow_missing, lj_weights_report *report)
{
    lj_weights_report found = {.wanted = count};
    verdict worst = {.status = tied_check(weights)};
    worst.tied_wrong = worst.status != LJ_OK;
    if (worst.tied_wrong) snprintf(worst.text, sizeof worst.text, "%s", lj_error_message());
    for (size_t i = 0; i < count; i++) want_check(weights, &wants[i], allow_missing, &found, &worst);
    lj_status status = unused_list(weights, wants, count, &found);
    if (status != LJ_OK) {
        lj_weights_report_release(&found);
        return status;
    }
    if (allow_missing && worst.status == LJ_OK) missing_log(&found);
    *report = found;
    if (worst.status == LJ_OK) return LJ_OK;
    if (worst.tied_wrong) return lj_fail(worst.status, "%s", worst.text);
    return lj_fail(worst.status, "%s: %s (%zu missing, %zu of another shape, of %zu wanted)", weights->path, worst.text, found.missing, found.misshapen, count);
}

lj_status lj_weights_check_model(const lj_weights *weights, const lj_model_config *config, bool allow_missing, lj_weights_report *report)
{
    size_t count = lj_model_weight_count(config);
    void *memory;
    LJ_TRY(lj_alloc("weights check", count * (sizeof(lj_weight_want) + sizeof(lj_model_weight)), &memory));
    lj_weight_want *wants = memory;
    lj_model_weight *named = (lj_model_weight *)(void *)(wants + count);
    for (size_t i = 0; i < count; i++) {
        lj_model_weight_get(config, i, &named[i]);
        wants[i] = (lj_weight_want){named[i].name, named[i].rank, {named[i].shape[0], named[i].shape[1]}};
    }
    lj_status status = lj_weights_check(weights, wants, count, allow_missing, report);
    lj_free(memory);
    return status;
}

void lj_weights_report_release(lj_weights_report *report)
{
    lj_text_release(&report->text);
    *report = (lj_weights_report){0};
}
