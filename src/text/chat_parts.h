/* Between chat.c and chat_rows.c: a format's row and what its function writes with. */
#ifndef LJ_TEXT_CHAT_PARTS_H
#define LJ_TEXT_CHAT_PARTS_H

#include "text/chat.h"

typedef struct {
    const lj_chat_format *format;
    const lj_chat_message *messages;
    size_t count;
    lj_chat_options options;
    lj_span bos, eos; /* their strings; empty: none */
    lj_chat_text *out;
} lj_chat_job;

/* Where a system message goes in the [INST] formats. */
typedef enum { LJ_SYSTEM_REFUSED, LJ_SYSTEM_FIRST, LJ_SYSTEM_LAST, LJ_SYSTEM_OWN } lj_system_place;

struct lj_chat_format {
    const char *name;
    lj_status (*write)(const lj_chat_job *job);
    const char *default_system; /* written when the conversation has none; NULL: nothing */
    const char *date;           /* NULL: today */
    /* of the [INST] formats */
    const char *user_open, *user_close, *answer_open, *answer_close;
    const char *system_open, *system_close;
    lj_system_place system;
    bool trim_user, trim_answer, bos_each_turn;
    bool passes_others; /* a role that is neither user nor assistant, in an assistant's place, is left out */
};

extern const lj_chat_format lj_chat_rows[];
extern const size_t lj_chat_row_count;

#endif
