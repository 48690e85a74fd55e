/* Whose template is it? Probe conversations are written by the template itself and by each row; equal on all of them, or refused. */
#include "formats/strict_json.h"
#include "base/memory.h"
#include "text/chat_parts.h"
#include "text/jinja.h"

#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 200, MAX_PROBES = 16 };

/* Every rule that two rows differ in shows in one of these: system messages, trimming, alternation, thoughts, other roles, nothing at all. */
static const struct {
    const char *messages;
    bool generation, no_thinking;
} probes[] = {
    {"[{\"role\":\"user\",\"content\":\"Hello\"}]", true, false},
    {"[{\"role\":\"user\",\"content\":\"Hello\"}]", true, true},
    {"[{\"role\":\"user\",\"content\":\"Hello\"},{\"role\":\"assistant\",\"content\":\"Hi\"}]", false, false},
    {"[{\"role\":\"system\",\"content\":\"Be kind\"},{\"role\":\"user\",\"content\":\"A\"},{\"role\":\"assistant\",\"content\":\"B\"},"
     "{\"role\":\"user\",\"content\":\"C\"}]",
     true, false},
    {"[{\"role\":\"system\",\"content\":\" s \"},{\"role\":\"user\",\"content\":\" \\n u \"},{\"role\":\"assistant\",\"content\":\" \\n a \\n\"},"
     "{\"role\":\"user\",\"content\":\"\\tv\"},{\"role\":\"assistant\",\"content\":\"b \"}]",
     false, false},
    {"[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"<think>\\nt\\n</think>\\n\\nx\"},{\"role\":\"user\",\"content\":\"r\"},"
     "{\"role\":\"assistant\",\"content\":\"<think>\\nz\\n</think>\\n\\ny\"}]",
     false, false},
    {"[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":\"\"}]", false, false},
    {"[{\"role\":\"system\",\"content\":\"only\"}]", true, false},
    {"[{\"role\":\"assistant\",\"content\":\"first\"},{\"role\":\"user\",\"content\":\"then\"}]", true, false},
    {"[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]", true, false},
    {"[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"tool\",\"content\":\"c \\\"d\\\"\"},"
     "{\"role\":\"tool\",\"content\":\"e\"},{\"role\":\"assistant\",\"content\":\"f\"}]",
     true, false},
    {"[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"critic\",\"content\":\"c\"}]", false, false},
};
enum { PROBES = sizeof probes / sizeof *probes };

static json_t *variables_of(const lj_tokenizer *tokenizer, json_t *messages, size_t probe)
{
    lj_span bos = lj_tokenizer_token(tokenizer, lj_tokenizer_bos(tokenizer)), eos = lj_tokenizer_token(tokenizer, lj_tokenizer_eos(tokenizer));
    json_t *variables = json_pack("{s:O, s:b, s:n, s:n, s:b, s:b}", "messages", messages, "add_generation_prompt", probes[probe].generation, "tools",
                                  "documents", "strftime_now", true, "raise_exception", true);
    json_object_set_new(variables, "bos_token", json_stringn_nocheck(bos.data ? bos.data : "", bos.bytes));
    json_object_set_new(variables, "eos_token", json_stringn_nocheck(eos.data ? eos.data : "", eos.bytes));
    if (probes[probe].no_thinking) json_object_set_new(variables, "enable_thinking", json_false());
    return variables;
}

/* What the template writes for a probe; an exception that it raises is an answer, too. */
typedef struct {
    json_t *messages;
    lj_text text;
    bool raised;
} answer;

static lj_status answer_make(const lj_tokenizer *tokenizer, size_t probe, answer *a)
{
    LJ_TRY(lj_json_parse("probe", probes[probe].messages, strlen(probes[probe].messages), &a->messages));
    json_t *variables = variables_of(tokenizer, a->messages, probe);
    lj_status status = lj_jinja_render(lj_tokenizer_chat_template(tokenizer), variables, &a->text);
    json_decref(variables);
    a->raised = status == LJ_ERR_INVALID;
    return a->raised ? LJ_OK : status;
}

static lj_status agrees(const lj_chat_format *row, const lj_tokenizer *tokenizer, size_t probe, const answer *a, bool *out)
{
    lj_chat_message *messages;
    lj_chat_text chat = {0};
    size_t count;
    LJ_TRY(lj_chat_messages(a->messages, &messages, &count));
    lj_chat_options options = {.generation = probes[probe].generation, .no_thinking = probes[probe].no_thinking};
    lj_status status = lj_chat_render(row, tokenizer, messages, count, options, &chat);
    bool raised = status == LJ_ERR_INVALID;
    *out = raised == a->raised && (raised || (chat.text.length == a->text.length && (!a->text.length || memcmp(chat.text.data, a->text.data, a->text.length) == 0)));
    lj_chat_text_release(&chat);
    lj_free(messages);
    return raised ? LJ_OK : status;
}

static lj_status row_find(const lj_tokenizer *tokenizer, const answer *answers, const lj_chat_format **out)
{
    for (size_t i = 0; i < lj_chat_row_count; i++) {
        bool same = true;
        for (size_t p = 0; p < PROBES && same; p++) LJ_TRY(agrees(&lj_chat_rows[i], tokenizer, p, &answers[p], &same));
        if (same) return *out = &lj_chat_rows[i], LJ_OK;
    }
    return lj_fail(LJ_ERR_UNSUPPORTED, "it writes conversations as none of the known formats does");
}

static lj_status refused(lj_status status, const char *template)
{
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(template, "\n"), template);
    if (status == LJ_ERR_NOMEM) return status;
    char reason[512];
    snprintf(reason, sizeof reason, "%s", lj_error_message());
    return lj_fail(LJ_ERR_UNSUPPORTED, "the model's chat template is not recognised (%s); it begins '%.80s'; name a format with --chat-format, or write the "
                   "conversations as \"text\"", reason, line);
}

lj_status lj_chat_format_of(const lj_tokenizer *tokenizer, const lj_chat_format **out)
{
    const char *template = lj_tokenizer_chat_template(tokenizer);
    answer answers[MAX_PROBES] = {0};
    if (!template) return lj_fail(LJ_ERR_NOT_FOUND, "the model brings no chat template; name a format with --chat-format");
    lj_status status = LJ_OK;
    for (size_t p = 0; p < PROBES && status == LJ_OK; p++) status = answer_make(tokenizer, p, &answers[p]);
    if (status == LJ_OK) status = row_find(tokenizer, answers, out);
    for (size_t p = 0; p < PROBES; p++) {
        json_decref(answers[p].messages);
        lj_text_release(&answers[p].text);
    }
    return status == LJ_OK ? status : refused(status, template);
}
