/* Chat formats against what the published templates write (fixtures/text/chats.json), recognition, loss masks by hand, Jinja. */
#include "support/testing.h"

#include "base/file.h"
#include "formats/strict_json.h"
#include "text/chat.h"
#include "text/jinja.h"

#include <stdlib.h>

/* gpt2.json's vocabulary with this template and the roles of ChatML. */
static lj_tokenizer *with_template(const char *folder, const char *template)
{
    char path[512];
    lj_tokenizer *tokenizer;
    lj_mapped_file map;
    assert_ok(lj_mapped_file_init(&map, LJ_TEST_DATA "/text/gpt2.json"));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    assert_ok(lj_file_write(path, map.data, map.bytes));
    lj_mapped_file_release(&map);
    json_t *config = json_pack("{s:s, s:s}", "bos_token", "<|im_start|>", "eos_token", "<|im_end|>");
    if (template) json_object_set_new(config, "chat_template", json_string(template));
    char *text = json_dumps(config, 0);
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    assert_ok(lj_file_write(path, text, strlen(text)));
    free(text);
    json_decref(config);
    assert_ok(lj_tokenizer_create(folder, &tokenizer));
    return tokenizer;
}

static void check_conversation(const lj_chat_format *format, const lj_tokenizer *tokenizer, const json_t *row)
{
    lj_chat_message *messages;
    size_t count;
    lj_chat_text chat = {0};
    const json_t *expected = json_object_get(row, "text");
    assert_ok(lj_chat_messages(json_object_get(row, "messages"), &messages, &count));
    lj_chat_options options = {json_is_true(json_object_get(row, "generation")), json_is_true(json_object_get(row, "no_thinking")), NULL};
    lj_status status = lj_chat_render(format, tokenizer, messages, count, options, &chat);
    if (json_is_null(expected)) {
        assert_int_equal(status, LJ_ERR_INVALID);
    } else {
        assert_ok(status);
        assert_int_equal(chat.text.length, chat.learnt.length);
        assert_string_equal(chat.text.data ? chat.text.data : "", json_string_value(expected));
    }
    lj_chat_text_release(&chat);
    lj_free(messages);
}

static void published_templates_are_recognised_and_written(void **state)
{
    (void)state;
    char folder[256];
    json_t *chats;
    const char *name;
    json_t *chat;
    test_folder_create(folder, sizeof folder);
    assert_ok(lj_json_load(LJ_TEST_DATA "/text/chats.json", 1 << 20, &chats));
    assert_true(json_object_size(chats) >= 10);
    json_object_foreach(chats, name, chat) {
        const lj_chat_format *format;
        size_t index;
        json_t *row;
        lj_tokenizer *tokenizer = with_template(folder, json_string_value(json_object_get(chat, "template")));
        assert_ok(lj_chat_format_of(tokenizer, &format));
        assert_string_equal(lj_chat_format_name(format), name);
        json_array_foreach(json_object_get(chat, "conversations"), index, row) check_conversation(format, tokenizer, row);
        lj_tokenizer_destroy(tokenizer);
    }
    json_decref(chats);
    test_folder_remove(folder);
}

static void unknown_templates_are_refused(void **state)
{
    (void)state;
    char folder[256];
    const lj_chat_format *format;
    test_folder_create(folder, sizeof folder);
    static const char *const unknown[] = {
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}", "{% macro x() %}{% endmacro %}", "{{ messages", "{% for m in messages %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        lj_tokenizer *tokenizer = with_template(folder, unknown[i]);
        assert_fails(lj_chat_format_of(tokenizer, &format), LJ_ERR_UNSUPPORTED, "--chat-format");
        lj_tokenizer_destroy(tokenizer);
    }
    lj_tokenizer *tokenizer = with_template(folder, NULL);
    assert_fails(lj_chat_format_of(tokenizer, &format), LJ_ERR_NOT_FOUND, "--chat-format");
    lj_tokenizer_destroy(tokenizer);
    assert_fails(lj_chat_format_find("chatmll", &format), LJ_ERR_NOT_FOUND, "did you mean 'chatml'");
    test_folder_remove(folder);
}

static lj_chat_message message(const char *role, const char *content)
{
    return (lj_chat_message){{role, strlen(role)}, {content, strlen(content)}};
}

/* The learnt text, written out: stretches in brackets. */
static void check_learnt(const char *name, const lj_tokenizer *tokenizer, const lj_chat_message *messages, size_t count, const char *expected)
{
    const lj_chat_format *format;
    lj_ids ids = {0};
    lj_text learnt, shown;
    lj_text_init(&learnt);
    lj_text_init(&shown);
    assert_ok(lj_chat_format_find(name, &format));
    assert_ok(lj_chat_encode(format, tokenizer, messages, count, (lj_chat_options){0}, &ids, &learnt));
    assert_int_equal(ids.count, learnt.length);
    for (size_t i = 0; i < ids.count; i++) {
        if (learnt.data[i] && (i == 0 || !learnt.data[i - 1])) lj_text_add(&shown, "[[");
        if (learnt.data[i]) { /* behind another token, so that no leading space is dropped */
            size_t before = shown.length;
            const int32_t pair[2] = {ids.data[0], ids.data[i]};
            lj_text both;
            lj_text_init(&both);
            assert_ok(lj_tokenizer_decode(tokenizer, pair, 1, false, &both));
            size_t skip = both.length;
            assert_ok(lj_tokenizer_decode(tokenizer, pair, 2, false, &shown));
            memmove(shown.data + before, shown.data + before + skip, shown.length - before - skip + 1);
            shown.length -= skip;
            lj_text_release(&both);
        }
        if (learnt.data[i] && (i + 1 == ids.count || !learnt.data[i + 1])) lj_text_add(&shown, "]]");
    }
    assert_string_equal(shown.data ? shown.data : "", expected);
    lj_text_release(&shown);
    lj_text_release(&learnt);
    lj_ids_release(&ids);
}

static void only_answers_are_learnt(void **state)
{
    (void)state;
    char folder[256];
    test_folder_create(folder, sizeof folder);
    lj_tokenizer *tokenizer = with_template(folder, NULL);
    const lj_chat_message chat[] = {message("system", "Be kind."), message("user", "Hello <|im_end|> there"), message("assistant", "\nHi!"), message("user", "1+1?"),
                                    message("assistant", "<think>\nadd\n</think>\n\n2.")};
    check_learnt("chatml", tokenizer, chat, 5, "[[\nHi!<|im_end|>]][[<think>\nadd\n</think>\n\n2.<|im_end|>]]");
    check_learnt("smollm2", tokenizer, chat + 1, 2, "[[\nHi!<|im_end|>]]");
    check_learnt("qwen3", tokenizer, chat, 5, "[[\nHi!<|im_end|>]][[<think>\nadd\n</think>\n\n2.<|im_end|>]]");
    check_learnt("llama3", tokenizer, chat, 5, "[[Hi!<|eot_id|>]][[<think>\nadd\n</think>\n\n2.<|eot_id|>]]");
    check_learnt("llama2", tokenizer, chat, 3, "[[Hi! <|im_end|>]]");
    check_learnt("mistral", tokenizer, chat, 3, "[[Hi!<|im_end|>]]");
    check_learnt("chatml", tokenizer, chat, 2, "");
    lj_tokenizer_destroy(tokenizer);
    test_folder_remove(folder);
}

/* SentencePiece puts a space in front of each stretch, a normaliser rewrites characters: the marks stay where they belong. */
static void marks_follow_other_tokenizers(void **state)
{
    (void)state;
    lj_tokenizer *tokenizer;
    const lj_chat_message chat[] = {message("user", "that was  the time"), message("assistant", "with his words"), message("user", "e\xcc\x81 so"),
                                    message("assistant", "is\xcc\x81 it")};
    assert_ok(lj_tokenizer_create(LJ_TEST_DATA "/text/llama2.model", &tokenizer));
    check_learnt("llama2", tokenizer, chat, 2, "[[ with his words </s>]]");
    lj_tokenizer_destroy(tokenizer);
    assert_ok(lj_tokenizer_create(LJ_TEST_DATA "/text/qwen2.json", &tokenizer));
    check_learnt("chatml", tokenizer, chat, 4, "[[with his words<|im_end|>]][[i\xc5\x9b it<|im_end|>]]");
    lj_tokenizer_destroy(tokenizer);
}

static void wrong_messages_are_refused(void **state)
{
    (void)state;
    lj_chat_message *messages;
    size_t count;
    static const char *const wrong[] = {"{}", "[1]", "[{\"role\": \"user\"}]", "[{\"role\": 1, \"content\": \"\"}]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *array = json_loads(wrong[i], 0, NULL);
        assert_int_equal(lj_chat_messages(array, &messages, &count), LJ_ERR_FORMAT);
        json_decref(array);
    }
}

static void check_jinja(const char *source, const char *expected)
{
    lj_text out;
    json_t *variables = json_loads("{\"x\": [1, 2, 3], \"s\": \" ab \", \"o\": {\"k\": \"v\"}, \"t\": true}", 0, NULL);
    lj_text_init(&out);
    assert_ok(lj_jinja_render(source, variables, &out));
    assert_string_equal(out.data ? out.data : "", expected);
    lj_text_release(&out);
    json_decref(variables);
}

static void jinja_works(void **state)
{
    (void)state;
    check_jinja("a{{ s.strip() }}b", "aabb");
    check_jinja("  {% if t %}\n  yes\n  {% else %}\n  no\n  {% endif %}\nend\n", "  yes\nend");
    check_jinja("{%- for i in x -%} {{ i }}{{ ',' if not loop.last }} {%- endfor %}", "1,2,3");
    check_jinja("{{ x[::-1] | join('-') }}{{ x[1:] | length }}{{ x[-1] }}", "3-2-123");
    check_jinja("{% set ns = namespace(n=0) %}{% for i in x %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "6");
    check_jinja("{% for i in x %}{% set y = i %}{% endfor %}{{ y is defined }}", "False");
    check_jinja("{{ o.k + 'w' }}{{ o['k'] == 'v' and 'z' or 'n' }}{{ q is defined }}{{ 'b' in s }}{{ 7 // 2 }}{{ 7 % 4 }}{{ -1 }}", "vwzFalseTrue33-1");
    check_jinja("{{ s | trim | upper }}{{ o | tojson }}{{ none is none }}{# gone #}!", "AB{\"k\": \"v\"}True!");
    check_jinja("{{ not t }}{{ 1 < 2 }}{{ 'a' ~ 1 }}{{ s.split('b')[0] }}{{ q | default('d') }}{% for a in q %}{% else %}e{% endfor %}", "FalseTruea1 ade");
    lj_text out;
    json_t *none = json_object();
    lj_text_init(&out);
    assert_fails(lj_jinja_render("{{ raise_exception('no!') }}", none, &out), LJ_ERR_INVALID, "no!");
    assert_fails(lj_jinja_render("{{ 1 | nofilter }}", none, &out), LJ_ERR_UNSUPPORTED, "filter");
    assert_fails(lj_jinja_render("{{ (((( }}", none, &out), LJ_ERR_FORMAT, "offset");
    json_decref(none);
    lj_text_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_templates_are_recognised_and_written),
        cmocka_unit_test(unknown_templates_are_refused),
        cmocka_unit_test(only_answers_are_learnt),
        cmocka_unit_test(marks_follow_other_tokenizers),
        cmocka_unit_test(wrong_messages_are_refused),
        cmocka_unit_test(jinja_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
