/* check_packing: 10,000 random sets of documents packed into rows; each token once, borders kept, no more rows than best fit decreasing.
 * Then 1 and 10 million documents, timed. Prints one JSON object. */
#include "base/clock.h"
#include "train/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Tokens are named memory, borders are the heap's: as lj_corpus_release frees them. */
static void *array(size_t bytes)
{
    void *fresh = NULL;
    if (lj_alloc_zero("bench", bytes, &fresh) != LJ_OK) exit(1);
    return fresh;
}

/* Documents of 1 .. most tokens; token values are not looked at by packing. */
static lj_corpus corpus_make(uint64_t seed, int64_t documents, int64_t most)
{
    lj_corpus c = {.document_count = documents, .ends = malloc((size_t)documents * sizeof *c.ends)};
    for (int64_t d = 0; d < documents; d++) c.ends[d] = c.token_count += 1 + (int64_t)(next(&seed) % (uint64_t)most);
    c.tokens = array((size_t)c.token_count * sizeof *c.tokens);
    return c;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Best fit decreasing in its plainest form, over the documents cut to `length`. */
static int64_t best_fit(const lj_corpus *c, int64_t length)
{
    int64_t count = 0, rows = 0, begin = 0, *pieces = malloc(((size_t)c->document_count + (size_t)(c->token_count / length) + 1) * sizeof *pieces), *space;
    for (int64_t d = 0; d < c->document_count; begin = c->ends[d++])
        for (int64_t left = c->ends[d] - begin; left > 0; left -= length) pieces[count++] = left < length ? left : length;
    qsort(pieces, (size_t)count, sizeof *pieces, descending);
    space = malloc(((size_t)count + 1) * sizeof *space);
    for (int64_t i = 0; i < count; i++) {
        int64_t best = -1;
        for (int64_t r = 0; r < rows; r++)
            if (space[r] >= pieces[i] && (best < 0 || space[r] < space[best])) best = r;
        if (best < 0) space[best = rows++] = length;
        space[best] -= pieces[i];
    }
    free(pieces);
    free(space);
    return rows;
}

/* Each token in exactly one segment, segments inside one document and one row. */
static bool covered(const lj_rows *rows, const lj_corpus *c)
{
    uint8_t *seen = calloc((size_t)c->token_count + 1, 1), *border = calloc((size_t)c->token_count + 1, 1);
    bool good = true;
    int64_t total = 0;
    for (int64_t d = 0; d < c->document_count; d++) border[c->ends[d]] = 1;
    for (int64_t r = 0; r < rows->count && good; r++) {
        int64_t used = 0;
        for (int64_t s = rows->row_segments[r]; s < rows->row_segments[r + 1] && good; s++) {
            lj_segment g = rows->segments[s];
            used += g.length;
            for (int64_t i = 0; i < g.length && good; i++) {
                good = g.first + i < c->token_count && !seen[g.first + i] && !(i > 0 && border[g.first + i]);
                if (good) seen[g.first + i] = 1, total++;
            }
        }
        good = good && used <= rows->length;
    }
    free(seen);
    free(border);
    return good && total + rows->unused_tokens == c->token_count;
}

static double timed(int64_t documents)
{
    lj_corpus c = corpus_make(9, documents, 60);
    lj_rows rows;
    double begin = lj_now_s();
    bool good = lj_rows_init(&rows, &c, 0, c.token_count, 2048) == LJ_OK;
    double seconds = lj_now_s() - begin;
    if (good) lj_rows_release(&rows);
    lj_corpus_release(&c);
    return good ? seconds : -1;
}

int main(void)
{
    int wrong = 0, more = 0, sets = 10000;
    int64_t unused = 0;
    for (int n = 0; n < sets; n++) {
        uint64_t seed = (uint64_t)n;
        int64_t length = 2 + (int64_t)(next(&seed) % 127), documents = 2 + (int64_t)(next(&seed) % 60);
        lj_corpus c = corpus_make(seed, documents, 1 + (int64_t)(next(&seed) % 200));
        lj_rows rows;
        if (lj_rows_init(&rows, &c, 0, c.token_count, length) == LJ_OK) {
            wrong += rows.packed && !covered(&rows, &c);
            more += rows.packed && rows.count > best_fit(&c, length);
            unused += rows.unused_tokens;
            lj_rows_release(&rows);
        } else {
            wrong++;
        }
        lj_corpus_release(&c);
    }
    double small = timed(1000000), large = timed(10000000);
    printf("{\"sets\": %d, \"wrong\": %d, \"more_rows_than_best_fit\": %d, \"unused_tokens\": %lld, \"million_s\": %.3f, \"ten_million_s\": %.3f}\n", sets, wrong, more,
           (long long)unused, small, large);
    return 0;
}
