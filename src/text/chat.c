/* Finding a model's format, rendering, and carrying the loss marks from bytes to tokens. */
#define _GNU_SOURCE
#include "text/chat.h"

#include "formats/strict_json.h"
#include "text/chat_parts.h"
#include "text/jinja.h"
#include "text/tokenizer_parts.h"

#include <string.h>

enum { SEARCH_AHEAD = 256 };

const char *lj_chat_format_name(const lj_chat_format *format)
{
    return format->name;
}

const lj_chat_format *lj_chat_format_get(size_t index)
{
    return index < lj_chat_row_count ? &lj_chat_rows[index] : NULL;
}

lj_status lj_chat_format_find(const char *name, const lj_chat_format **out)
{
    const char *names[64] = {0};
    lj_text list;
    size_t count = 0;
    for (size_t i = 0; i < lj_chat_row_count; i++) {
        if (strcmp(lj_chat_rows[i].name, name) == 0) return *out = &lj_chat_rows[i], LJ_OK;
        if (count < 64) names[count++] = lj_chat_rows[i].name;
    }
    const char *near = lj_nearest_name(name, names, count);
    lj_text_init(&list);
    for (size_t i = 0; i < count; i++) lj_text_add(&list, i ? ", %s" : "%s", names[i]);
    lj_status status = lj_fail(LJ_ERR_NOT_FOUND, "no chat format '%s'%s%s%s; there are %s", name, near ? "; did you mean '" : "", near ? near : "",
                               near ? "'?" : "", list.data ? list.data : "");
    lj_text_release(&list);
    return status;
}

void lj_chat_text_release(lj_chat_text *chat)
{
    lj_text_release(&chat->text);
    lj_text_release(&chat->learnt);
}

static lj_span role_string(const lj_tokenizer *tokenizer, int32_t id)
{
    lj_span text = tokenizer ? lj_tokenizer_token(tokenizer, id) : (lj_span){0};
    return text.data ? text : (lj_span){"", 0};
}

lj_status lj_chat_render(const lj_chat_format *format, const lj_tokenizer *tokenizer, const lj_chat_message *messages, size_t count,
                         lj_chat_options options, lj_chat_text *out)
{
    lj_chat_job job = {format, messages, count, options, role_string(tokenizer, lj_tokenizer_bos(tokenizer)),
                       role_string(tokenizer, lj_tokenizer_eos(tokenizer)), out};
    LJ_TRY(format->write(&job));
    LJ_TRY(lj_text_status(&out->text));
    return lj_text_status(&out->learnt);
}

lj_status lj_chat_messages(const json_t *array, lj_chat_message **out, size_t *count)
{
    const json_t *item;
    size_t index;
    void *fresh;
    if (!json_is_array(array)) return lj_fail(LJ_ERR_FORMAT, "messages must be an array");
    LJ_TRY(lj_alloc("text.messages", (json_array_size(array) + 1) * sizeof(lj_chat_message), &fresh));
    lj_chat_message *messages = fresh;
    json_array_foreach(array, index, item) {
        const json_t *role = json_object_get(item, "role"), *content = json_object_get(item, "content");
        if (!json_is_string(role) || !json_is_string(content)) {
            lj_free(messages);
            return lj_fail(LJ_ERR_FORMAT, "message %zu must have \"role\" and \"content\" as strings", index);
        }
        if (lj_json_has(item, "tool_calls")) {
            lj_free(messages);
            return lj_fail(LJ_ERR_UNSUPPORTED, "message %zu has tool_calls; conversations without them are read", index);
        }
        messages[index] = (lj_chat_message){{json_string_value(role), json_string_length(role)}, {json_string_value(content), json_string_length(content)}};
    }
    *out = messages, *count = json_array_size(array);
    return LJ_OK;
}

/* The steps that rewrite characters (not those that put marks for spaces), run over a stretch of one kind of mark. */
static lj_status add_normal(const lj_tokenizer *tokenizer, lj_span text, char learnt, lj_chat_text *out)
{
    lj_normalizer forms = {0};
    lj_normalize_scratch scratch = {0};
    for (size_t i = 0; i < tokenizer->normalizer.count; i++) {
        lj_norm_kind kind = tokenizer->normalizer.steps[i].kind;
        if (kind <= LJ_NORM_NFKD || kind == LJ_NORM_LOWERCASE || kind == LJ_NORM_STRIP_ACCENTS || kind == LJ_NORM_CHARSMAP)
            forms.steps[forms.count++] = tokenizer->normalizer.steps[i]; /* borrowed: not released here */
    }
    bool valid = lj_utf8_valid_prefix(text.data, text.bytes) == text.bytes;
    lj_status status = valid ? lj_normalize(&forms, &scratch, text.data, text.bytes, &text) : LJ_OK;
    if (status == LJ_OK) {
        lj_text_add_bytes(&out->text, text.data, text.bytes);
        for (size_t i = 0; i < text.bytes; i++) lj_text_add_bytes(&out->learnt, &learnt, 1);
    }
    lj_normalize_scratch_release(&scratch);
    return status;
}

static lj_status normal_form(const lj_tokenizer *tokenizer, const lj_chat_text *chat, lj_chat_text *out)
{
    for (size_t at = 0, end; at < chat->text.length; at = end) {
        char learnt = chat->learnt.data[at];
        const char *other = memchr(chat->learnt.data + at, !learnt, chat->text.length - at);
        end = other ? (size_t)(other - chat->learnt.data) : chat->text.length;
        LJ_TRY(add_normal(tokenizer, (lj_span){chat->text.data + at, end - at}, learnt, out));
    }
    LJ_TRY(lj_text_status(&out->text));
    return lj_text_status(&out->learnt);
}

/* Where a token's bytes stand in text from `at` on: there, there but for a space that the tokenizer put in front, or a little further
 * (behind what it has no token for). *start is text.bytes when they are not found: the token stands for something else. */
static void find_token(lj_span text, size_t at, lj_span token, size_t *start, size_t *end)
{
    size_t left = text.bytes - at;
    *start = *end = at;
    if (token.bytes <= left && memcmp(text.data + at, token.data, token.bytes) == 0) {
        *end = at + token.bytes;
        return;
    }
    if (token.bytes && *token.data == ' ' && token.bytes - 1 <= left && memcmp(text.data + at, token.data + 1, token.bytes - 1) == 0) {
        *end = at + token.bytes - 1;
        return;
    }
    size_t room = left < SEARCH_AHEAD + token.bytes ? left : SEARCH_AHEAD + token.bytes;
    const char *found = token.bytes ? memmem(text.data + at, room, token.data, token.bytes) : NULL;
    if (found) *start = (size_t)(found - text.data), *end = *start + token.bytes;
}

/* A mark for each token: that of its last byte. A word's token that begins with the space before an answer belongs to the answer. */
static lj_status align(const lj_tokenizer *tokenizer, const lj_ids *ids, size_t first, const lj_chat_text *chat, lj_text *learnt)
{
    lj_span text = {chat->text.data, chat->text.length};
    size_t at = 0, start, end;
    for (size_t i = first; i < ids->count; i++) {
        const lj_token *token = &tokenizer->tokens[ids->data[i]];
        find_token(text, at, (lj_span){token->text, token->bytes}, &start, &end);
        size_t last = end > start ? end - 1 : start;
        char mark = last < text.bytes ? chat->learnt.data[last] : 0;
        lj_text_add_bytes(learnt, &mark, 1);
        at = end;
    }
    if (text.bytes - at > SEARCH_AHEAD)
        return lj_fail(LJ_ERR_UNSUPPORTED, "loss marks: the tokens of a conversation cover %zu of its %zu bytes; its normaliser changes the text in a way that "
                       "cannot be followed", at, text.bytes);
    return lj_text_status(learnt);
}

static lj_status encode_rendered(const lj_tokenizer *tokenizer, const lj_chat_text *chat, lj_ids *ids, lj_text *learnt)
{
    lj_chat_text normal = {0};
    size_t first = ids->count;
    LJ_TRY(lj_tokenizer_encode(tokenizer, chat->text.data ? chat->text.data : "", chat->text.length, (lj_encode_options){.parse_special = true}, ids));
    lj_status status = normal_form(tokenizer, chat, &normal);
    if (status == LJ_OK) status = align(tokenizer, ids, first, &normal, learnt);
    lj_chat_text_release(&normal);
    return status;
}

lj_status lj_chat_encode(const lj_chat_format *format, const lj_tokenizer *tokenizer, const lj_chat_message *messages, size_t count,
                         lj_chat_options options, lj_ids *ids, lj_text *learnt)
{
    lj_chat_text chat = {0};
    size_t before = ids->count, marks = learnt->length;
    lj_status status = lj_chat_render(format, tokenizer, messages, count, options, &chat);
    if (status == LJ_OK) status = encode_rendered(tokenizer, &chat, ids, learnt);
    if (status != LJ_OK) ids->count = before, learnt->length = marks;
    lj_chat_text_release(&chat);
    return status;
}
