/* Reading what people have as token documents: .txt (one document), .jsonl with "text", "prompt" and "completion", or "messages". */
#ifndef LJ_TRAIN_CORPUS_H
#define LJ_TRAIN_CORPUS_H

#include "text/tokenizer.h"
#include "train/rows.h"

/* Loss marks: a prompt and everything but the assistant's words is read, not learnt. LJ_ERR_FORMAT names file and line;
 * LJ_ERR_UNSUPPORTED the kind of file. */
lj_status lj_corpus_read(const char *path, const lj_tokenizer *tokenizer, lj_corpus *corpus);

#endif
