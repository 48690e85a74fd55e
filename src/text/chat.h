/* Conversations as the text a model was trained on, and which of its tokens are learnt.
 *
 * A format is a row of a table (chat_rows.c). A model's own is found by running its template (Jinja, see jinja.h) over probes and comparing
 * with what each row writes: equal on all probes or not recognised. An unknown template is refused by name, never guessed; --chat-format
 * names a row. */
#ifndef LJ_TEXT_CHAT_H
#define LJ_TEXT_CHAT_H

#include "text/tokenizer.h"

#include <jansson.h>

typedef struct {
    lj_span role, content;
} lj_chat_message;

typedef struct {
    bool generation;  /* end with the beginning of an assistant's turn */
    bool no_thinking; /* Qwen3: the turn begins with an empty thought */
    const char *date; /* "26 Jul 2024" where a format writes one; NULL: the format's own (today, for those that ask the clock) */
} lj_chat_options;

typedef struct lj_chat_format lj_chat_format;

const char *lj_chat_format_name(const lj_chat_format *format);
/* LJ_ERR_NOT_FOUND: lists the rows and the nearest name. */
lj_status lj_chat_format_find(const char *name, const lj_chat_format **out);
/* The model's own. LJ_ERR_NOT_FOUND: it has no template; LJ_ERR_UNSUPPORTED: its template is none of the rows'. Both name --chat-format. */
lj_status lj_chat_format_of(const lj_tokenizer *tokenizer, const lj_chat_format **out);
/* Rows by number, for lists and tests; NULL beyond the last. */
const lj_chat_format *lj_chat_format_get(size_t index);

/* Messages of a JSON array of {"role", "content"}; LJ_ERR_FORMAT names the message. The spans point into the array. *out by lj_free. */
lj_status lj_chat_messages(const json_t *array, lj_chat_message **out, size_t *count);

/* Text of a conversation and a byte for each of its bytes: 1 = learnt (the assistant's words and what ends its turn). */
typedef struct {
    lj_text text, learnt;
} lj_chat_text;
void lj_chat_text_release(lj_chat_text *chat);

/* LJ_ERR_INVALID: roles the format cannot write, as its template would raise. `tokenizer` gives the strings of BOS and EOS. */
lj_status lj_chat_render(const lj_chat_format *format, const lj_tokenizer *tokenizer, const lj_chat_message *messages, size_t count,
                         lj_chat_options options, lj_chat_text *out);
/* Renders and encodes: appends ids, and to *learnt a byte for each. A token is learnt when its last byte is. */
lj_status lj_chat_encode(const lj_chat_format *format, const lj_tokenizer *tokenizer, const lj_chat_message *messages, size_t count,
                         lj_chat_options options, lj_ids *ids, lj_text *learnt);

#endif
