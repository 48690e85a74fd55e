#include "text/document_encode.h"

static void mark_rest(const lj_ids *ids, size_t first, lj_text *learnt, char mark)
{
    for (size_t i = first; i < ids->count; i++) lj_text_add_bytes(learnt, &mark, 1);
}

static lj_status add_text(const lj_document_encoder *e, lj_span text, bool special, char mark, lj_ids *ids, lj_text *learnt)
{
    size_t first = ids->count;
    LJ_TRY(lj_tokenizer_encode(e->tokenizer, text.data, text.bytes, (lj_encode_options){.add_special = special}, ids));
    mark_rest(ids, first, learnt, mark);
    return LJ_OK;
}

static lj_status add_chat(lj_document_encoder *e, const lj_document *document, lj_ids *ids, lj_text *learnt)
{
    lj_chat_message *messages;
    size_t count;
    if (!e->format) LJ_TRY(lj_chat_format_of(e->tokenizer, &e->format));
    LJ_TRY(lj_chat_messages(document->messages, &messages, &count));
    lj_status status = lj_chat_encode(e->format, e->tokenizer, messages, count, (lj_chat_options){0}, ids, learnt);
    lj_free(messages);
    return status;
}

lj_status lj_document_encode(lj_document_encoder *e, const lj_document *document, lj_ids *ids, lj_text *learnt)
{
    size_t first = ids->count;
    switch (document->kind) {
    case LJ_DOCUMENT_TEXT: LJ_TRY(add_text(e, document->text, true, 1, ids, learnt)); break;
    case LJ_DOCUMENT_PAIR:
        LJ_TRY(add_text(e, document->prompt, true, 0, ids, learnt));
        LJ_TRY(add_text(e, document->completion, false, 1, ids, learnt));
        break;
    case LJ_DOCUMENT_CHAT: LJ_TRY(add_chat(e, document, ids, learnt)); break;
    }
    int32_t eos = document->kind == LJ_DOCUMENT_CHAT ? -1 : lj_tokenizer_eos(e->tokenizer); /* a chat format ends its turns itself */
    bool ended = ids->count > first && ids->data[ids->count - 1] == eos;
    if (e->end_token && eos >= 0 && !ended) {
        LJ_TRY(lj_ids_add(ids, eos));
        lj_text_add_bytes(learnt, "\1", 1);
    }
    return lj_text_status(learnt);
}
