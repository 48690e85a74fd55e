#include "train/rows.h"

#include "train/shuffle.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void lj_corpus_release(lj_corpus *corpus)
{
    lj_free(corpus->tokens);
    free(corpus->marks);
    free(corpus->ends);
    *corpus = (lj_corpus){0};
}

uint64_t lj_corpus_fingerprint(const lj_corpus *corpus)
{
    uint64_t hash = XXH3_64bits(corpus->tokens, (size_t)corpus->token_count * sizeof *corpus->tokens);
    if (corpus->marks) hash = XXH3_64bits_withSeed(corpus->marks, (size_t)corpus->token_count, hash);
    return XXH3_64bits_withSeed(corpus->ends, (size_t)corpus->document_count * sizeof *corpus->ends, hash);
}

static lj_status stream_init(lj_rows *rows, int64_t first, int64_t last)
{
    int64_t tokens = last - first;
    rows->first = first;
    rows->count = tokens > 0 ? (tokens - 1) / rows->length : 0;
    rows->unused_tokens = tokens - rows->count * rows->length;
    if (rows->count > 0) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "the data has %lld tokens, one row of %lld needs %lld; use a longer text or a smaller --seq", (long long)tokens,
                   (long long)rows->length, (long long)rows->length + 1);
}

static int longer_first(const void *a, const void *b)
{
    const lj_segment *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Documents as segments of at most `length` tokens. */
static lj_status segments_cut(lj_rows *rows, lj_segment **out, int64_t *count)
{
    const lj_corpus *c = rows->corpus;
    lj_segment *segments = calloc((size_t)(c->document_count + c->token_count / rows->length) + 1, sizeof *segments);
    if (!segments) return lj_fail(LJ_ERR_NOMEM, "list of %lld documents", (long long)c->document_count);
    int64_t n = 0, begin = 0;
    for (int64_t d = 0; d < c->document_count; begin = c->ends[d++])
        for (int64_t at = begin; at < c->ends[d]; at += rows->length) {
            int64_t left = c->ends[d] - at;
            segments[n++] = (lj_segment){at, left < rows->length ? left : rows->length};
        }
    *out = segments, *count = n;
    return LJ_OK;
}

/* Rows by free space: head[s] is the last row with s tokens free, next[] chains rows of equal space. Best fit looks for the
 * smallest space that is enough: at most `length` steps a segment. */
typedef struct {
    int64_t *head, *next, *row_of, *used;
    int64_t rows;
} packer;

static int64_t packer_place(packer *p, int64_t row_length, int64_t length)
{
    int64_t space = length;
    while (space <= row_length && p->head[space] < 0) space++;
    int64_t row;
    if (space > row_length) {
        row = p->rows++, space = row_length, p->used[row] = 0;
    } else {
        row = p->head[space];
        p->head[space] = p->next[row];
    }
    p->used[row]++;
    space -= length;
    p->next[row] = p->head[space];
    p->head[space] = row;
    return row;
}

static lj_status packer_init(packer *p, int64_t segments, int64_t row_length)
{
    *p = (packer){malloc((size_t)(row_length + 1) * 8), malloc((size_t)(segments + 1) * 8), malloc((size_t)(segments + 1) * 8),
                  malloc((size_t)(segments + 1) * 8), 0};
    for (int64_t i = 0; p->head && i <= row_length; i++) p->head[i] = -1;
    return p->head && p->next && p->row_of && p->used ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "packing of %lld documents", (long long)segments);
}

static void packer_release(packer *p)
{
    free(p->head);
    free(p->next);
    free(p->row_of);
    free(p->used);
}

/* Segments grouped by row, in the order of their rows. */
static lj_status segments_group(lj_rows *rows, const packer *p, const lj_segment *segments, int64_t count)
{
    rows->segments = malloc((size_t)(count + 1) * sizeof *rows->segments);
    rows->row_segments = calloc((size_t)p->rows + 2, sizeof *rows->row_segments);
    if (!rows->segments || !rows->row_segments) return lj_fail(LJ_ERR_NOMEM, "rows of %lld documents", (long long)count);
    for (int64_t row = 0; row < p->rows; row++) rows->row_segments[row + 1] = rows->row_segments[row] + p->used[row];
    int64_t *at = p->next; /* no longer needed: next free place of each row */
    memcpy(at, rows->row_segments, (size_t)p->rows * sizeof *at);
    for (int64_t i = 0; i < count; i++) rows->segments[at[p->row_of[i]]++] = segments[i];
    rows->count = p->rows;
    return LJ_OK;
}

static lj_status packed_init(lj_rows *rows)
{
    lj_segment *segments = NULL;
    int64_t count = 0;
    packer p = {0};
    LJ_TRY(segments_cut(rows, &segments, &count));
    qsort(segments, (size_t)count, sizeof *segments, longer_first);
    lj_status status = packer_init(&p, count, rows->length);
    for (int64_t i = 0; status == LJ_OK && i < count; i++) p.row_of[i] = packer_place(&p, rows->length, segments[i].length);
    if (status == LJ_OK) status = segments_group(rows, &p, segments, count);
    packer_release(&p);
    free(segments);
    if (status == LJ_OK && rows->count == 0) status = lj_fail(LJ_ERR_INVALID, "the data has no tokens");
    return status;
}

lj_status lj_rows_init(lj_rows *rows, const lj_corpus *corpus, int64_t first, int64_t last, int64_t length)
{
    *rows = (lj_rows){.corpus = corpus, .length = length, .packed = corpus->document_count > 1 || corpus->marks};
    lj_status status = rows->packed ? packed_init(rows) : stream_init(rows, first, last);
    if (status != LJ_OK) lj_rows_release(rows);
    return status;
}

void lj_rows_release(lj_rows *rows)
{
    free(rows->segments);
    free(rows->row_segments);
    *rows = (lj_rows){0};
}

void lj_rows_shuffle(lj_rows *rows, uint64_t seed)
{
    rows->shuffled = true, rows->seed = seed;
}

int64_t lj_rows_at(const lj_rows *rows, int64_t position)
{
    int64_t epoch = position / rows->count, place = position % rows->count;
    return rows->shuffled ? lj_shuffle_at(rows->seed, epoch, rows->count, place) : place;
}

/* Token `at` of the corpus as a target, -1 where it is not learnt. */
static int32_t target_of(const lj_corpus *corpus, int64_t at)
{
    return corpus->marks && !corpus->marks[at] ? -1 : corpus->tokens[at];
}

static void segment_fill(const lj_corpus *corpus, lj_segment segment, int64_t base, int64_t start, bool has_next, lj_batch *batch)
{
    for (int64_t i = 0; i < segment.length; i++) {
        int64_t cell = base + start + i, token = segment.first + i;
        batch->tokens[cell] = corpus->tokens[token];
        batch->targets[cell] = i + 1 < segment.length || has_next ? target_of(corpus, token + 1) : -1;
        batch->positions[cell] = (int32_t)i;
        batch->starts[cell] = (int32_t)start;
    }
}

/* The tail of a packed row: a token that nobody learns and that sees only itself. */
static void padding_fill(int64_t base, int64_t start, int64_t length, lj_batch *batch)
{
    for (int64_t i = start; i < length; i++) {
        batch->tokens[base + i] = 0, batch->targets[base + i] = -1;
        batch->positions[base + i] = 0, batch->starts[base + i] = (int32_t)i;
    }
}

/* A cut document goes on in another row, but its next token is still known. */
static bool document_goes_on(const lj_corpus *corpus, lj_segment segment)
{
    int64_t end = segment.first + segment.length, low = 0, high = corpus->document_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (corpus->ends[middle] < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low < corpus->document_count && corpus->ends[low] > end;
}

static void row_fill(const lj_rows *rows, int64_t row, int64_t base, lj_batch *batch)
{
    if (!rows->packed) {
        segment_fill(rows->corpus, (lj_segment){rows->first + row * rows->length, rows->length}, base, 0, true, batch);
        return;
    }
    int64_t start = 0;
    for (int64_t s = rows->row_segments[row]; s < rows->row_segments[row + 1]; s++) {
        segment_fill(rows->corpus, rows->segments[s], base, start, document_goes_on(rows->corpus, rows->segments[s]), batch);
        start += rows->segments[s].length;
    }
    padding_fill(base, start, rows->length, batch);
}

void lj_rows_fill(const lj_rows *rows, int64_t position, int64_t count, lj_batch *batch)
{
    batch->rows = count, batch->length = rows->length;
    for (int64_t i = 0; i < count; i++) row_fill(rows, lj_rows_at(rows, position + i), i * rows->length, batch);
}
