/* render_chat FOLDER CONVERSATIONS.json: the model's own format over each conversation, as a JSON array of {text, ids, learnt} or {error}. */
#include "base/memory.h"
#include "formats/strict_json.h"
#include "text/chat.h"

#include <stdio.h>

static json_t *numbers(const lj_ids *ids, const lj_text *learnt, bool marks)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ids->count; i++) json_array_append_new(list, json_integer(marks ? learnt->data[i] : ids->data[i]));
    return list;
}

static lj_status render(const lj_chat_format *format, const lj_tokenizer *tokenizer, const json_t *row, json_t *out)
{
    lj_chat_message *messages;
    lj_chat_text chat = {0};
    lj_ids ids = {0};
    lj_text learnt = {0};
    size_t count;
    LJ_TRY(lj_chat_messages(json_object_get(row, "messages"), &messages, &count));
    lj_chat_options options = {json_is_true(json_object_get(row, "generation")), json_is_true(json_object_get(row, "no_thinking")), NULL};
    lj_status status = lj_chat_render(format, tokenizer, messages, count, options, &chat);
    if (status == LJ_OK) status = lj_chat_encode(format, tokenizer, messages, count, options, &ids, &learnt);
    if (status == LJ_OK) {
        json_object_set_new(out, "text", json_stringn(chat.text.data ? chat.text.data : "", chat.text.length));
        json_object_set_new(out, "ids", numbers(&ids, &learnt, false));
        json_object_set_new(out, "learnt", numbers(&ids, &learnt, true));
    }
    lj_chat_text_release(&chat);
    lj_ids_release(&ids);
    lj_text_release(&learnt);
    lj_free(messages);
    return status;
}

int main(int argc, char **argv)
{
    lj_tokenizer *tokenizer;
    const lj_chat_format *format;
    json_t *rows, *row, *out = json_array();
    size_t index;
    if (argc != 3 || lj_tokenizer_create(argv[1], &tokenizer) != LJ_OK || lj_chat_format_of(tokenizer, &format) != LJ_OK ||
        lj_json_load(argv[2], (size_t)1 << 28, &rows) != LJ_OK) {
        fprintf(stderr, "%s\n", lj_error_message());
        return 1;
    }
    json_array_foreach(rows, index, row) {
        json_t *made = json_object();
        if (render(format, tokenizer, row, made) != LJ_OK) json_object_set_new(made, "error", json_string(lj_error_message()));
        json_array_append_new(out, made);
    }
    json_t *all = json_pack("{s:s, s:o}", "format", lj_chat_format_name(format), "rows", out);
    json_dumpf(all, stdout, 0);
    json_decref(all);
    json_decref(rows);
    lj_tokenizer_destroy(tokenizer);
    return 0;
}
