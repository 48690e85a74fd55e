#include "train/corpus.h"

#include "base/log.h"
#include "text/document_encode.h"

#include <stdlib.h>
#include <string.h>

/* A corpus while it grows. */
typedef struct {
    lj_document_encoder encoder;
    lj_ids ids;
    lj_text learnt;
    int64_t *ends;
    size_t end_count, end_capacity;
} growing;

static lj_status document_end(growing *g)
{
    if (g->end_count && g->ends[g->end_count - 1] == (int64_t)g->ids.count) return LJ_OK; /* an empty one */
    if (g->end_count == g->end_capacity) {
        size_t wanted = 2 * g->end_capacity + 64, bytes;
        int64_t *grown = lj_mul_size(wanted, sizeof *grown, &bytes) ? realloc(g->ends, bytes) : NULL;
        if (!grown) return lj_fail(LJ_ERR_NOMEM, "borders of %zu documents", wanted);
        g->ends = grown, g->end_capacity = wanted;
    }
    g->ends[g->end_count++] = (int64_t)g->ids.count;
    return LJ_OK;
}

static lj_status document_add(void *user, const lj_document *document)
{
    growing *g = user;
    LJ_TRY(lj_document_encode(&g->encoder, document, &g->ids, &g->learnt));
    return g->ids.count ? document_end(g) : LJ_OK;
}

static lj_status files_read(growing *g, const char *path, lj_arena *arena)
{
    lj_document_file *files;
    size_t count, passed;
    LJ_TRY(lj_document_files(&path, 1, arena, &files, &count, &passed));
    if (passed) lj_log(LJ_LOG_INFO, "note: %s: %zu files of other kinds are passed over", path, passed);
    for (size_t i = 0; i < count; i++) {
        g->encoder.end_token = files[i].lines || count > 1;
        LJ_TRY(lj_documents_read(&files[i], 0, 0, document_add, g));
    }
    return LJ_OK;
}

static void growing_release(growing *g)
{
    lj_ids_release(&g->ids);
    lj_text_release(&g->learnt);
    free(g->ends);
}

/* Marks as the rows read them; none when every token is learnt. */
static lj_status marks_take(const growing *g, uint8_t **marks)
{
    *marks = NULL;
    if (!g->learnt.data || !memchr(g->learnt.data, 0, g->ids.count)) return LJ_OK;
    *marks = malloc(g->ids.count);
    if (!*marks) return lj_fail(LJ_ERR_NOMEM, "loss marks of %zu tokens", g->ids.count);
    memcpy(*marks, g->learnt.data, g->ids.count);
    return LJ_OK;
}

lj_status lj_corpus_read(const char *path, const lj_tokenizer *tokenizer, const lj_chat_format *format, lj_corpus *corpus)
{
    growing g = {.encoder = {.tokenizer = tokenizer, .format = format}};
    lj_arena arena;
    uint8_t *marks = NULL;
    lj_arena_init(&arena, "corpus");
    lj_text_init(&g.learnt);
    lj_status status = files_read(&g, path, &arena);
    lj_arena_release(&arena);
    if (status == LJ_OK && g.ids.count == 0) status = lj_fail(LJ_ERR_INVALID, "%s: holds no text", path);
    if (status == LJ_OK) status = marks_take(&g, &marks);
    if (status != LJ_OK) {
        growing_release(&g);
        return status;
    }
    *corpus = (lj_corpus){g.ids.data, marks, (int64_t)g.ids.count, g.ends, (int64_t)g.end_count};
    lj_text_release(&g.learnt);
    return LJ_OK;
}

lj_status lj_corpus_format(const char *name, const lj_chat_format **format)
{
    *format = NULL;
    return *name ? lj_chat_format_find(name, format) : LJ_OK;
}
