/* Statements: running the tokens of a template. */
#include "text/jinja.h"

#include "text/jinja_parts.h"

#include <string.h>

static const uint64_t most_steps = 2000000;
static const size_t most_output = 16 << 20;

static const jinja_token *here(const jinja_state *s)
{
    return &s->tokens[s->at];
}

void jinja_fail(jinja_state *s, lj_status status, const char *what)
{
    if (s->status == LJ_OK) s->status = lj_fail(status, "template: %s at offset %zu", what, here(s)->offset);
}

bool jinja_is(const jinja_token *token, const char *text)
{
    return (token->kind == JINJA_NAME || token->kind == JINJA_OP) && token->bytes == strlen(text) && memcmp(token->text, text, token->bytes) == 0;
}

bool jinja_take(jinja_state *s, const char *text)
{
    if (s->status != LJ_OK || !jinja_is(here(s), text)) return false;
    s->at++;
    return true;
}

void jinja_need(jinja_state *s, const char *text)
{
    if (s->status == LJ_OK && !jinja_take(s, text)) {
        jinja_fail(s, LJ_ERR_FORMAT, "something is missing");
        if (s->status == LJ_ERR_FORMAT) (void)lj_fail_in(LJ_ERR_FORMAT, "expected '%s'", text);
    }
}

json_t *jinja_lookup(const jinja_state *s, const char *name, size_t bytes)
{
    for (int i = s->scope_count; i-- > 0;) {
        json_t *value = json_object_getn(s->scopes[i], name, bytes);
        if (value) return value;
    }
    return NULL;
}

static void scope_push(jinja_state *s)
{
    if (s->scope_count == JINJA_MAX_DEPTH)
        jinja_fail(s, LJ_ERR_LIMIT, "loops deeper than 64 levels");
    else
        s->scopes[s->scope_count++] = json_object();
}

static void scope_pop(jinja_state *s)
{
    json_decref(s->scopes[--s->scope_count]);
}

static void assign(jinja_state *s, const jinja_token *name, json_t *value)
{
    json_object_setn_new_nocheck(s->scopes[s->scope_count - 1], name->text, name->bytes, value ? value : json_null());
}

static void end_of(jinja_state *s, jinja_kind kind)
{
    if (s->status != LJ_OK) return;
    if (here(s)->kind == kind)
        s->at++;
    else
        jinja_fail(s, LJ_ERR_FORMAT, "a tag goes on where it should end");
}

static void skip_to(jinja_state *s, jinja_kind kind)
{
    while (here(s)->kind != kind && here(s)->kind != JINJA_EOF) s->at++;
    end_of(s, kind);
}

static const char *block(jinja_state *s, bool live);

/* if ... elif ... else ... endif; the condition's tag has been entered. */
static void run_if(jinja_state *s, bool live)
{
    bool done = !live;
    const char *end = "elif";
    while (s->status == LJ_OK && strcmp(end, "elif") == 0) {
        bool truth = false;
        if (done) {
            skip_to(s, JINJA_STMT_END);
        } else {
            json_t *value = jinja_expression(s);
            truth = jinja_true(value);
            json_decref(value);
            end_of(s, JINJA_STMT_END);
        }
        end = block(s, truth && !done);
        done |= truth;
    }
    if (strcmp(end, "else") == 0) {
        end_of(s, JINJA_STMT_END);
        end = block(s, !done);
    }
    if (strcmp(end, "endif") != 0) jinja_fail(s, LJ_ERR_FORMAT, "an if without endif");
    end_of(s, JINJA_STMT_END);
}

static json_t *loop_facts(size_t index, size_t count)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "index0", (json_int_t)index, "index", (json_int_t)index + 1, "length", (json_int_t)count,
                     "revindex0", (json_int_t)(count - 1 - index), "revindex", (json_int_t)(count - index), "first", index == 0, "last",
                     index + 1 == count);
}

/* One name, or two for the pairs of items(). */
typedef struct {
    const jinja_token *names[2];
    size_t count;
} targets;

static targets targets_read(jinja_state *s)
{
    targets t = {0};
    do {
        if (here(s)->kind != JINJA_NAME || t.count == 2) {
            jinja_fail(s, LJ_ERR_UNSUPPORTED, "what a loop assigns to");
            break;
        }
        t.names[t.count++] = &s->tokens[s->at++];
    } while (jinja_take(s, ","));
    return t;
}

static void bind(jinja_state *s, const targets *t, json_t *item)
{
    if (t->count == 1) {
        assign(s, t->names[0], json_incref(item));
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        json_t *part = json_array_get(item, i);
        assign(s, t->names[i], part ? json_incref(part) : NULL);
    }
}

/* The list of a loop: arrays as they are, objects by their keys, anything else has no items. */
static json_t *items_of(json_t *value)
{
    json_t *list = json_array();
    const char *key;
    json_t *item;
    if (json_is_array(value)) {
        json_decref(list);
        return json_incref(value);
    }
    json_object_foreach(value, key, item) json_array_append_new(list, json_string(key));
    return list;
}

static void run_for(jinja_state *s, bool live)
{
    targets t = {0};
    json_t *list = NULL;
    if (live) {
        t = targets_read(s);
        jinja_need(s, "in");
        json_t *value = jinja_expression(s);
        list = items_of(value);
        json_decref(value);
        if (jinja_is(here(s), "if")) jinja_fail(s, LJ_ERR_UNSUPPORTED, "a loop with a condition");
        end_of(s, JINJA_STMT_END);
    } else {
        skip_to(s, JINJA_STMT_END);
    }
    size_t body = s->at, count = json_array_size(list);
    const char *end = NULL;
    for (size_t i = 0; i < count && s->status == LJ_OK; i++) {
        s->at = body;
        scope_push(s);
        if (s->status != LJ_OK) break;
        json_object_set_new(s->scopes[s->scope_count - 1], "loop", loop_facts(i, count));
        bind(s, &t, json_array_get(list, i));
        end = block(s, true);
        scope_pop(s);
    }
    if (!count) end = block(s, false);
    json_decref(list);
    if (s->status == LJ_OK && strcmp(end, "else") == 0) {
        end_of(s, JINJA_STMT_END);
        end = block(s, live && !count);
    }
    if (s->status == LJ_OK && strcmp(end, "endfor") != 0) jinja_fail(s, LJ_ERR_FORMAT, "a for without endfor");
    end_of(s, JINJA_STMT_END);
}

static void run_set(jinja_state *s)
{
    const jinja_token *name = here(s), *field = NULL;
    if (name->kind != JINJA_NAME) {
        jinja_fail(s, LJ_ERR_FORMAT, "set without a name");
        return;
    }
    s->at++;
    if (jinja_take(s, ".")) field = &s->tokens[s->at++];
    if (!jinja_is(here(s), "=")) jinja_fail(s, LJ_ERR_UNSUPPORTED, "a set of another form than name = value");
    jinja_need(s, "=");
    json_t *value = jinja_expression(s);
    if (field)
        json_object_setn_new_nocheck(jinja_lookup(s, name->text, name->bytes), field->text, field->bytes, value ? value : json_null());
    else
        assign(s, name, value);
    end_of(s, JINJA_STMT_END);
}

/* A statement; true when it ends a block: s->at is then behind its name. */
static bool statement(jinja_state *s, bool live, const char **ended)
{
    static const char *const ends[] = {"elif", "else", "endif", "endfor"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (jinja_take(s, ends[i])) return *ended = ends[i], true;
    if (jinja_take(s, "if"))
        run_if(s, live);
    else if (jinja_take(s, "for"))
        run_for(s, live);
    else if (jinja_take(s, "generation") || jinja_take(s, "endgeneration"))
        end_of(s, JINJA_STMT_END); /* Hugging Face's mark of what is learnt */
    else if (!jinja_take(s, "set"))
        jinja_fail(s, LJ_ERR_UNSUPPORTED, "a statement other than if, for, set");
    else if (live)
        run_set(s);
    else
        skip_to(s, JINJA_STMT_END);
    return false;
}

static void output(jinja_state *s, bool live)
{
    if (!live) {
        skip_to(s, JINJA_OUT_END);
        return;
    }
    json_t *value = jinja_expression(s);
    if (s->status == LJ_OK) jinja_write(value, s->out);
    json_decref(value);
    end_of(s, JINJA_OUT_END);
}

/* Runs to the tag that ends the block, whose name it returns ("" at the end of the template). */
static const char *block(jinja_state *s, bool live)
{
    const char *ended = "";
    if (++s->depth > JINJA_MAX_DEPTH) jinja_fail(s, LJ_ERR_LIMIT, "blocks deeper than 64 levels");
    while (s->status == LJ_OK && here(s)->kind != JINJA_EOF) {
        const jinja_token *token = &s->tokens[s->at++];
        if (++s->steps > most_steps || s->out->length > most_output) jinja_fail(s, LJ_ERR_LIMIT, "more steps or output than a chat takes");
        if (token->kind == JINJA_TEXT && live) lj_text_add_bytes(s->out, token->text, token->bytes);
        if (token->kind == JINJA_OUT) output(s, live);
        if (token->kind == JINJA_STMT && statement(s, live, &ended)) break;
    }
    s->depth--;
    return ended;
}

lj_status lj_jinja_render(const char *source, const json_t *variables, lj_text *out)
{
    lj_arena arena;
    jinja_state s = {.out = out, .scope_count = 2};
    lj_arena_init(&arena, "text.jinja");
    lj_status status = jinja_lex(source, &arena, &s.tokens);
    if (status == LJ_OK) {
        s.scopes[0] = json_copy((json_t *)variables), s.scopes[1] = json_object();
        if (*block(&s, true)) jinja_fail(&s, LJ_ERR_FORMAT, "an end without a beginning");
        while (s.scope_count) scope_pop(&s);
        status = s.status;
    }
    lj_arena_release(&arena);
    return status == LJ_OK ? lj_text_status(out) : status;
}
