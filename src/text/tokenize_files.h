/* Whole data sets to Megatron's .bin and .idx, by several threads, in the order of the files. */
#ifndef LJ_TEXT_TOKENIZE_FILES_H
#define LJ_TEXT_TOKENIZE_FILES_H

#include "base/parallel.h"
#include "text/document_encode.h"

typedef struct {
    lj_document_encoder encoder;
    const char *const *paths; /* files and folders */
    size_t path_count;
    const char *prefix; /* PREFIX.bin, PREFIX.idx; finished work waits in PREFIX.parts/ */
    int threads;        /* 0: all processors */
    lj_progress_fn progress; /* bytes of the files; NULL: silent */
    void *user;
} lj_tokenize_job;

typedef struct {
    uint64_t files, passed, documents, tokens, bytes;
    uint64_t parts, resumed; /* pieces of work, those found done by an earlier run */
} lj_tokenize_result;

/* Work is cut into parts of some 16 MB; each is written complete or not at all and says what it was made from (file, size, time, tokenizer,
 * settings), so that an interrupted run, started again, makes only what is missing. The parts are joined in order and removed at the end. */
lj_status lj_tokenize_files(const lj_tokenize_job *job, lj_tokenize_result *result);

#endif
