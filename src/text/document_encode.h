/* A document as token ids with loss marks. */
#ifndef LJ_TEXT_DOCUMENT_ENCODE_H
#define LJ_TEXT_DOCUMENT_ENCODE_H

#include "text/chat.h"
#include "text/documents.h"

typedef struct {
    const lj_tokenizer *tokenizer;
    const lj_chat_format *format; /* for conversations; NULL: the model's own, found and kept when the first one comes */
    bool end_token;               /* EOS behind each text and pair, where the model has one and it is not there yet */
} lj_document_encoder;

/* Appends ids, and a byte for each to *learnt (1: a target of training). Text: everything is learnt. A pair: the completion. A conversation:
 * the assistant's turns. Special strings inside text and pairs are plain text. One thread an encoder (copy it for others). */
lj_status lj_document_encode(lj_document_encoder *encoder, const lj_document *document, lj_ids *ids, lj_text *learnt);

#endif
