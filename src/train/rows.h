/* Training rows: token documents cut or packed into rows of `length` tokens, read in a shuffled order from any position.
 *
 * A corpus of running text (no loss marks, one document) is a stream: row i holds tokens i*length .., its targets are the tokens that
 * follow; what is left at the end is shorter than a row and is reported. A corpus of several documents is packed: whole documents side
 * by side, best fit by decreasing length, longer ones cut; attention and positions stop at their borders.
 *
 * The position in the data is one number, rows taken so far: epoch = position / rows, place = position % rows. Epochs follow each
 * other without loss or repetition, whatever the batch. Read-only after init: any number of threads. */
#ifndef LJ_TRAIN_ROWS_H
#define LJ_TRAIN_ROWS_H

#include "base/memory.h"
#include "train/batch.h"

#include <stdbool.h>

/* Tokens of all documents after each other. */
typedef struct {
    int32_t *tokens;    /* from lj_alloc; the other lists from malloc */
    uint8_t *marks;     /* 1: this token is learnt (a target); NULL: all are */
    int64_t token_count;
    int64_t *ends;      /* of documents: token index after the last */
    int64_t document_count;
} lj_corpus;

void lj_corpus_release(lj_corpus *corpus);
/* xxHash of tokens, marks and borders: tells changed data on resume. */
uint64_t lj_corpus_fingerprint(const lj_corpus *corpus);

typedef struct {
    int64_t first, length; /* tokens of the corpus */
} lj_segment;

typedef struct {
    const lj_corpus *corpus; /* must outlive the rows */
    int64_t length, count;   /* tokens of a row, rows */
    int64_t first;           /* of a stream: token where row 0 begins */
    bool packed;
    lj_segment *segments;    /* packed: all rows' segments */
    int64_t *row_segments;   /* packed: [count + 1] first segment of each row */
    int64_t unused_tokens;   /* tokens that no row holds */
    bool shuffled;
    uint64_t seed;
} lj_rows;

/* Rows over tokens [first, last) of a stream, or over all documents. LJ_ERR_INVALID when there is not one row: have and need. */
lj_status lj_rows_init(lj_rows *rows, const lj_corpus *corpus, int64_t first, int64_t last, int64_t length);
void lj_rows_release(lj_rows *rows);
/* Turns shuffling on. */
void lj_rows_shuffle(lj_rows *rows, uint64_t seed);
/* Which row stands at a position. */
int64_t lj_rows_at(const lj_rows *rows, int64_t position);
/* Fills rows [0, count) of the batch from `position` on, over epoch ends. */
void lj_rows_fill(const lj_rows *rows, int64_t position, int64_t count, lj_batch *batch);

#endif
