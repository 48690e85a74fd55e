/* The formats: a row each, a function a family. What they write is what the models' published templates write, without tools. */
#define _GNU_SOURCE
#include "text/chat_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static void put_span(const lj_chat_job *job, lj_span text, bool learnt)
{
    static const char ones[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                      zeros[64] = {0};
    lj_text_add_bytes(&job->out->text, text.data, text.bytes);
    for (size_t left = text.bytes, n; left > 0; left -= n) {
        n = left < 64 ? left : 64;
        lj_text_add_bytes(&job->out->learnt, learnt ? ones : zeros, n);
    }
}

static void put(const lj_chat_job *job, const char *text, bool learnt)
{
    if (text) put_span(job, (lj_span){text, strlen(text)}, learnt);
}

static bool is(lj_span text, const char *word)
{
    return text.bytes == strlen(word) && memcmp(text.data, word, text.bytes) == 0;
}

static bool role_is(const lj_chat_job *job, size_t index, const char *role)
{
    return index < job->count && is(job->messages[index].role, role);
}

/* Without the characters of `set` (NULL: white space, Unicode's) at the sides. */
static lj_span strip(lj_span text, const char *set, bool left, bool right)
{
    uint32_t code;
    while (left && text.bytes) {
        size_t n = lj_utf8_decode(text.data, text.bytes, &code);
        if (!n || !(set ? code < 128 && code && strchr(set, (int)code) : lj_utf8_white_space(code) || (code >= 0x1c && code <= 0x1f))) break;
        text.data += n, text.bytes -= n;
    }
    while (right && text.bytes) {
        size_t n = 1;
        while (n < text.bytes && n < 4 && ((unsigned char)text.data[text.bytes - n] & 0xc0) == 0x80) n++;
        if (lj_utf8_decode(text.data + text.bytes - n, n, &code) != n) break;
        if (!(set ? code < 128 && code && strchr(set, (int)code) : lj_utf8_white_space(code) || (code >= 0x1c && code <= 0x1f))) break;
        text.bytes -= n;
    }
    return text;
}

static lj_span trim(lj_span text)
{
    return strip(text, NULL, true, true);
}

static lj_span lstrip_lines(lj_span text)
{
    return strip(text, "\n", true, false);
}

static void im_message(const lj_chat_job *job, lj_span role, lj_span content)
{
    bool answer = is(role, "assistant");
    put(job, "<|im_start|>", false);
    put_span(job, role, false);
    put(job, "\n", false);
    put_span(job, content, answer);
    put(job, "<|im_end|>", answer);
    put(job, "\n", false);
}

static void default_system(const lj_chat_job *job)
{
    const char *text = job->format->default_system;
    if (text && job->count && !role_is(job, 0, "system")) im_message(job, (lj_span){"system", 6}, (lj_span){text, strlen(text)});
}

static lj_status write_chatml(const lj_chat_job *job)
{
    default_system(job);
    for (size_t i = 0; i < job->count; i++) im_message(job, job->messages[i].role, job->messages[i].content);
    if (job->options.generation) put(job, "<|im_start|>assistant\n", false);
    return LJ_OK;
}

/* Results of tools are gathered in a user's turn. */
static void tool_message(const lj_chat_job *job, size_t i)
{
    if (i == 0 || !role_is(job, i - 1, "tool")) put(job, "<|im_start|>user", false);
    put(job, "\n<tool_response>\n", false);
    put_span(job, job->messages[i].content, false);
    put(job, "\n</tool_response>", false);
    if (i + 1 == job->count || !role_is(job, i + 1, "tool")) put(job, "<|im_end|>\n", false);
}

static lj_status no_messages(const lj_chat_job *job)
{
    return lj_fail(LJ_ERR_INVALID, "chat format %s: a conversation without messages", job->format->name);
}

/* Roles that the template does not know are left out, as it does. */
static lj_status write_qwen(const lj_chat_job *job)
{
    if (!job->count) return no_messages(job);
    default_system(job);
    for (size_t i = 0; i < job->count; i++) {
        bool known = role_is(job, i, "user") || role_is(job, i, "system") || role_is(job, i, "assistant");
        if (known) im_message(job, job->messages[i].role, job->messages[i].content);
        if (role_is(job, i, "tool")) tool_message(job, i);
    }
    if (job->options.generation) put(job, "<|im_start|>assistant\n", false);
    return LJ_OK;
}

static bool starts_and_ends(lj_span text, const char *start, const char *end)
{
    size_t a = strlen(start), b = strlen(end);
    return text.bytes >= a && text.bytes >= b && memcmp(text.data, start, a) == 0 && memcmp(text.data + text.bytes - b, end, b) == 0;
}

/* The last message that is a user's own; the thoughts after it are kept. */
static size_t last_query(const lj_chat_job *job)
{
    for (size_t i = job->count; i-- > 0;)
        if (role_is(job, i, "user") && !starts_and_ends(job->messages[i].content, "<tool_response>", "</tool_response>")) return i;
    return job->count - 1;
}

/* Splits "<think>a</think>b" into a and b at the template's own places. */
static void split_thought(lj_span content, lj_span *thought, lj_span *rest)
{
    static const char open[] = "<think>", close[] = "</think>";
    *thought = (lj_span){"", 0}, *rest = content;
    const char *end = content.data + content.bytes, *first = content.bytes ? memmem(content.data, content.bytes, close, 8) : NULL;
    if (!first) return;
    lj_span before = strip((lj_span){content.data, (size_t)(first - content.data)}, "\n", false, true);
    for (const char *at; before.bytes && (at = memmem(before.data, before.bytes, open, 7));)
        before = (lj_span){at + 7, before.bytes - (size_t)(at + 7 - before.data)};
    const char *last = first;
    for (const char *at; (at = memmem(last + 8, (size_t)(end - last) - 8, close, 8));) last = at;
    *thought = lstrip_lines(before);
    *rest = lstrip_lines((lj_span){last + 8, (size_t)(end - last) - 8});
}

static void qwen3_answer(const lj_chat_job *job, size_t i, size_t query)
{
    lj_span thought, rest;
    split_thought(job->messages[i].content, &thought, &rest);
    put(job, "<|im_start|>assistant\n", false);
    if (i > query && (i + 1 == job->count || thought.bytes)) {
        put(job, "<think>\n", true);
        put_span(job, strip(thought, "\n", true, true), true);
        put(job, "\n</think>\n\n", true);
        rest = lstrip_lines(rest);
    }
    put_span(job, rest, true);
    put(job, "<|im_end|>", true);
    put(job, "\n", false);
}

static lj_status write_qwen3(const lj_chat_job *job)
{
    if (!job->count) return no_messages(job);
    size_t query = last_query(job);
    for (size_t i = 0; i < job->count; i++) {
        if (role_is(job, i, "user") || role_is(job, i, "system")) im_message(job, job->messages[i].role, job->messages[i].content);
        if (role_is(job, i, "assistant")) qwen3_answer(job, i, query);
        if (role_is(job, i, "tool")) tool_message(job, i);
    }
    if (job->options.generation) put(job, "<|im_start|>assistant\n", false);
    if (job->options.generation && job->options.no_thinking) put(job, "<think>\n\n</think>\n\n", false);
    return LJ_OK;
}

static void header(const lj_chat_job *job, lj_span role)
{
    put(job, "<|start_header_id|>", false);
    put_span(job, role, false);
    put(job, "<|end_header_id|>\n\n", false);
}

static void llama3_message(const lj_chat_job *job, lj_span role, lj_span content)
{
    bool answer = is(role, "assistant");
    header(job, role);
    put_span(job, trim(content), answer);
    put(job, "<|eot_id|>", answer);
}

static lj_status write_llama3(const lj_chat_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        if (i == 0) put_span(job, job->bos, false);
        llama3_message(job, job->messages[i].role, job->messages[i].content);
    }
    if (job->options.generation) header(job, (lj_span){"assistant", 9});
    return LJ_OK;
}

/* A string as JSON writes it, non-ASCII characters as they are. */
static void put_json(const lj_chat_job *job, lj_span text)
{
    put(job, "\"", false);
    for (size_t i = 0; i < text.bytes; i++) {
        static const char plain[] = "\"\\\n\r\t\b\f", coded[] = "\"\\nrtbf";
        char c = text.data[i], out[8] = "";
        const char *at = c ? strchr(plain, c) : NULL;
        if (at)
            snprintf(out, sizeof out, "\\%c", coded[at - plain]);
        else if ((unsigned char)c < 0x20)
            snprintf(out, sizeof out, "\\u%04x", (unsigned)c);
        if (*out)
            put(job, out, false);
        else
            put_span(job, (lj_span){&text.data[i], 1}, false);
    }
    put(job, "\"", false);
}

static void llama31_system(const lj_chat_job *job, lj_span system)
{
    char date[64];
    time_t now = time(NULL);
    struct tm today;
    localtime_r(&now, &today);
    strftime(date, sizeof date, "%d %b %Y", &today);
    header(job, (lj_span){"system", 6});
    put(job, "Cutting Knowledge Date: December 2023\nToday Date: ", false);
    put(job, job->options.date ? job->options.date : job->format->date ? job->format->date : date, false);
    put(job, "\n\n", false);
    put_span(job, trim(system), false);
    put(job, "<|eot_id|>", false);
}

static lj_status write_llama31(const lj_chat_job *job)
{
    if (!job->count) return no_messages(job);
    bool system = role_is(job, 0, "system");
    put_span(job, job->bos, false);
    llama31_system(job, system ? job->messages[0].content : (lj_span){"", 0});
    for (size_t i = system; i < job->count; i++) {
        if (!role_is(job, i, "tool") && !role_is(job, i, "ipython")) {
            llama3_message(job, job->messages[i].role, job->messages[i].content);
            continue;
        }
        header(job, (lj_span){"ipython", 7});
        put_json(job, job->messages[i].content);
        put(job, "<|eot_id|>", false);
    }
    if (job->options.generation) header(job, (lj_span){"assistant", 9});
    return LJ_OK;
}

static lj_status turns_check(const lj_chat_job *job, size_t first)
{
    if (first && job->format->system == LJ_SYSTEM_REFUSED)
        return lj_fail(LJ_ERR_INVALID, "chat format %s: only user and assistant roles are written, message 0 is a system's", job->format->name);
    for (size_t i = first; i < job->count; i++) {
        bool answers = (i - first) % 2;
        if (answers && job->format->passes_others ? role_is(job, i, "user") : !role_is(job, i, answers ? "assistant" : "user"))
            return lj_fail(LJ_ERR_INVALID, "chat format %s: message %zu is of role '%.*s'; user and assistant must alternate, the user first",
                           job->format->name, i, (int)(job->messages[i].role.bytes < 40 ? job->messages[i].role.bytes : 40),
                           job->messages[i].role.data);
    }
    return LJ_OK;
}

/* The ends are trimmed after system message and words are joined, as the templates do. */
static void user_turn(const lj_chat_job *job, size_t i, bool with_system)
{
    const lj_chat_format *f = job->format;
    lj_span content = job->messages[i].content;
    lj_text joined;
    lj_text_init(&joined);
    if (with_system) {
        lj_text_add(&joined, "%s", f->system_open ? f->system_open : "");
        lj_text_add_bytes(&joined, job->messages[0].content.data, job->messages[0].content.bytes);
        lj_text_add(&joined, "%s", f->system_close);
    }
    lj_text_add_bytes(&joined, content.data, content.bytes);
    job->out->text.failed |= joined.failed;
    content = (lj_span){joined.data ? joined.data : "", joined.length};
    if (f->bos_each_turn) put_span(job, job->bos, false);
    put(job, f->user_open, false);
    put_span(job, f->trim_user ? trim(content) : content, false);
    put(job, f->user_close, false);
    lj_text_release(&joined);
}

/* [INST] formats: turns alternate, a system message goes into a user's turn, or has brackets of its own. */
static lj_status write_turns(const lj_chat_job *job)
{
    const lj_chat_format *f = job->format;
    size_t first = role_is(job, 0, "system");
    if (!job->count) return no_messages(job);
    LJ_TRY(turns_check(job, first));
    if (!f->bos_each_turn) put_span(job, job->bos, false);
    if (f->system == LJ_SYSTEM_OWN && first) {
        put(job, f->system_open, false);
        put_span(job, job->messages[0].content, false);
        put(job, f->system_close, false);
    }
    for (size_t i = first; i < job->count; i++) {
        bool holds = first && (f->system == LJ_SYSTEM_FIRST ? i == first : f->system == LJ_SYSTEM_LAST && i + 1 == job->count);
        if ((i - first) % 2 == 0) {
            user_turn(job, i, holds);
            continue;
        }
        if (!role_is(job, i, "assistant")) continue;
        put(job, f->answer_open, false);
        put_span(job, f->trim_answer ? trim(job->messages[i].content) : job->messages[i].content, true);
        put(job, f->answer_close, true);
        put_span(job, job->eos, true);
    }
    return LJ_OK;
}

const lj_chat_format lj_chat_rows[] = {
    {.name = "chatml", .write = write_chatml},
    {.name = "smollm2",
     .write = write_chatml,
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    {.name = "qwen2", .write = write_chatml, .default_system = "You are a helpful assistant."},
    {.name = "qwen2.5", .write = write_qwen, .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    {.name = "qwen3", .write = write_qwen3},
    {.name = "llama3", .write = write_llama3},
    {.name = "llama3.1", .write = write_llama31, .date = "26 Jul 2024"},
    {.name = "llama3.2", .write = write_llama31},
    {.name = "llama2",
     .write = write_turns,
     .user_open = "[INST] ",
     .user_close = " [/INST]",
     .answer_open = " ",
     .answer_close = " ",
     .system_open = "<<SYS>>\n",
     .system_close = "\n<</SYS>>\n\n",
     .system = LJ_SYSTEM_FIRST,
     .trim_user = true,
     .trim_answer = true,
     .bos_each_turn = true,
     .passes_others = true},
    {.name = "mistral-v0.1", .write = write_turns, .user_open = "[INST] ", .user_close = " [/INST]"},
    {.name = "mistral",
     .write = write_turns,
     .user_open = "[INST] ",
     .user_close = "[/INST]",
     .answer_open = " ",
     .trim_answer = true,
     .system = LJ_SYSTEM_LAST,
     .system_close = "\n\n"},
    {.name = "mistral-v0.2",
     .write = write_turns,
     .user_open = " [INST] ",
     .user_close = " [/INST]",
     .answer_open = " ",
     .system = LJ_SYSTEM_FIRST,
     .system_close = "\n\n"},
    {.name = "mistral-nemo",
     .write = write_turns,
     .user_open = "[INST]",
     .user_close = "[/INST]",
     .system = LJ_SYSTEM_LAST,
     .system_close = "\n\n"},
    {.name = "mistral-v7",
     .write = write_turns,
     .user_open = "[INST]",
     .user_close = "[/INST]",
     .system_open = "[SYSTEM_PROMPT]",
     .system_close = "[/SYSTEM_PROMPT]",
     .system = LJ_SYSTEM_OWN},
};

const size_t lj_chat_row_count = sizeof lj_chat_rows / sizeof *lj_chat_rows;
