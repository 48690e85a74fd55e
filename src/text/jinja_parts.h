/* Between the files of the Jinja interpreter. Values are jansson's; NULL is Jinja's undefined. Functions that return a value return a new
 * reference. The first fault is kept in state->status; everything then does nothing. */
#ifndef LJ_TEXT_JINJA_PARTS_H
#define LJ_TEXT_JINJA_PARTS_H

#include "base/memory.h"
#include "text/jinja.h"

typedef enum { JINJA_TEXT, JINJA_OUT, JINJA_OUT_END, JINJA_STMT, JINJA_STMT_END, JINJA_NAME, JINJA_STRING, JINJA_NUMBER, JINJA_OP, JINJA_EOF } jinja_kind;

typedef struct {
    jinja_kind kind;
    const char *text; /* of a string: its value */
    size_t bytes;
    size_t offset;    /* in the source */
} jinja_token;

enum { JINJA_MAX_DEPTH = 64, JINJA_MAX_ARGS = 8 };

typedef struct {
    jinja_token *tokens;
    size_t at;
    lj_text *out;
    json_t *scopes[JINJA_MAX_DEPTH];
    int scope_count, depth;
    uint64_t steps;
    lj_status status;
} jinja_state;

typedef struct {
    json_t *values[JINJA_MAX_ARGS]; /* NULL: undefined */
    size_t count;
    json_t *named; /* object or NULL */
} jinja_args;

lj_status jinja_lex(const char *source, lj_arena *arena, jinja_token **out);

void jinja_fail(jinja_state *s, lj_status status, const char *what);
bool jinja_is(const jinja_token *token, const char *text); /* an operator or a name of this text */
bool jinja_take(jinja_state *s, const char *text);         /* moves past it when it is there */
void jinja_need(jinja_state *s, const char *text);
json_t *jinja_expression(jinja_state *s);
json_t *jinja_lookup(const jinja_state *s, const char *name, size_t bytes); /* borrowed */
bool jinja_true(const json_t *value);
void jinja_write(const json_t *value, lj_text *out);
json_t *jinja_string(const char *text, size_t bytes);

/* NULL and a fault when the name is not known. */
json_t *jinja_filter(jinja_state *s, const char *name, json_t *value, const jinja_args *args);
json_t *jinja_method(jinja_state *s, const char *name, json_t *value, const jinja_args *args);
json_t *jinja_function(jinja_state *s, const char *name, const jinja_args *args);
bool jinja_test(jinja_state *s, const char *name, const json_t *value, const jinja_args *args);

#endif
