/* Files of documents (text/documents.h) as one corpus of tokens with loss marks. */
#ifndef LJ_TRAIN_CORPUS_H
#define LJ_TRAIN_CORPUS_H

#include "text/chat.h"
#include "train/rows.h"

/* `format`: how conversations are written; NULL: as the model's own template says. Loss marks: a prompt and everything but the
 * assistant's words is read, not learnt. One text file alone is one running text; otherwise each document ends with EOS. Errors name file
 * and line. */
lj_status lj_corpus_read(const char *path, const lj_tokenizer *tokenizer, const lj_chat_format *format, lj_corpus *corpus);
/* The format named, or NULL for "" (the model's own). LJ_ERR_NOT_FOUND lists the formats. */
lj_status lj_corpus_format(const char *name, const lj_chat_format **format);

#endif
