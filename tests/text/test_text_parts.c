/* The small parts: UTF-8, normal forms against fixtures, expressions, stand-ins for bytes. */
#include "support/testing.h"

#include "base/utf8.h"
#include "formats/strict_json.h"
#include "text/byte_chars.h"
#include "text/normalize.h"
#include "text/pattern.h"

#include <stdlib.h>

static void utf8_is_strict(void **state)
{
    (void)state;
    uint32_t code;
    char bytes[4];
    for (uint32_t c = 0; c < 0x110000; c += 7) {
        if (c >= 0xd800 && c < 0xe000) continue;
        size_t n = lj_utf8_encode(c, bytes);
        assert_int_equal(lj_utf8_decode(bytes, n, &code), n);
        assert_int_equal(code, c);
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(lj_utf8_decode(bytes, cut, &code), 0);
            assert_true(lj_utf8_incomplete(bytes, cut));
        }
    }
    static const char *const wrong[] = {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xff", "\xe6\x41"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(lj_utf8_decode(wrong[i], strlen(wrong[i]), &code), 0);
        assert_int_equal(lj_utf8_valid_prefix(wrong[i], strlen(wrong[i])), 0);
    }
    assert_false(lj_utf8_incomplete("\xed\xa0", 2));
    assert_false(lj_utf8_incomplete("\xe0\x80", 2));
    assert_int_equal(lj_utf8_valid_prefix("abcdefgh\xc3\xa9\xff", 11), 10);
}

static void forms_equal_the_librarys(void **state)
{
    (void)state;
    json_t *rows, *row;
    size_t index;
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    assert_ok(lj_json_load(LJ_TEST_DATA "/text/forms.json", 1 << 20, &rows));
    assert_true(json_array_size(rows) > 400);
    json_array_foreach(rows, index, row) {
        const char *name = json_string_value(json_array_get(row, 0)), *from = json_string_value(json_array_get(row, 1)),
                   *to = json_string_value(json_array_get(row, 2));
        lj_norm_kind kind = LJ_NORM_NFC;
        while (strcmp(names[kind], name) != 0) kind++;
        lj_text out;
        lj_text_init(&out);
        assert_ok(lj_unicode_form(kind, from, strlen(from), &out));
        assert_string_equal(out.data ? out.data : "", to);
        lj_text_release(&out);
    }
    json_decref(rows);
}

/* A megabyte of marks in the worst order is sorted in a moment. */
static void marks_are_not_quadratic(void **state)
{
    (void)state;
    size_t pairs = 1 << 18;
    char *text = malloc(4 * pairs);
    for (size_t i = 0; i < pairs; i++) memcpy(text + 4 * i, i % 2 ? "\xcc\x81\xcc\xa3" : "\xcc\xa3\xcc\x81", 4);
    lj_text out;
    lj_text_init(&out);
    assert_ok(lj_unicode_form(LJ_NORM_NFC, text, 4 * pairs, &out));
    assert_int_equal(out.length, 4 * pairs);
    assert_memory_equal(out.data, "\xcc\xa3\xcc\xa3", 4);
    assert_memory_equal(out.data + out.length - 4, "\xcc\x81\xcc\x81", 4);
    lj_text_release(&out);
    free(text);
}

static void check_match(const char *expression, const char *text, size_t start, size_t end)
{
    lj_pattern *pattern;
    lj_pattern_scratch scratch = {0};
    size_t a, b;
    assert_ok(lj_pattern_create(expression, strlen(expression), LJ_PATTERN_HUGGING_FACE, &pattern));
    assert_ok(lj_pattern_find(pattern, &scratch, text, strlen(text), 0, &a, &b));
    if (a != start || b != end) fail_msg("%s in '%s': %zu .. %zu, expected %zu .. %zu", expression, text, a, b, start, end);
    lj_pattern_scratch_release(&scratch);
    lj_pattern_destroy(pattern);
}

static void expressions_mean_what_their_authors_meant(void **state)
{
    (void)state;
    check_match("\\s+", "a\xc2\x85\xe3\x80\x80z", 1, 6);
    check_match("\\s", "\xe1\xa0\x8e", 3, 3);                 /* U+180E is no white space any more */
    check_match("\\s+$", "ab  \nc", 2, 4);                    /* $ is the end of a line */
    check_match("\\p{N}{1,3}", "a12345", 1, 4);
    check_match("\\p{N}{1,3}+", "a12345", 1, 6);              /* Ruby: a repetition of the repetition */
    check_match("(?i:'s|'t)", "x'S", 1, 3);
    check_match("\\p{L}+", "1\xf0\xae\xaf\xb0", 1, 5);        /* U+2EBF0 came with Unicode 15.1 */
    check_match("\\P{L}", "\xf0\xae\xaf\xb0.", 4, 5);
    check_match("[^\\s\\p{L}]", "\xf0\xae\xaf\xb0.", 4, 5);
    check_match("\\h+", "xyzBEEFq", 3, 7);
    check_match("\\u0041", "xA", 1, 2);
    check_match("[]a]+", "x]a", 1, 3);
    check_match("x*", "aaa", 3, 3);                           /* empty matches are none */
    check_match("(?m:a.b)", "a\nb", 0, 3);                    /* Ruby's m */
    check_match("\\w+", ".\xc2\xb2_1", 1, 5);
    lj_pattern *pattern;
    static const char *const refused[] = {"[a[b]]", "[a&&b]", "\\K", "[\\W]", "(?<n>a)\\g<n>"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(lj_pattern_create(refused[i], strlen(refused[i]), LJ_PATTERN_HUGGING_FACE, &pattern), LJ_ERR_UNSUPPORTED);
    assert_fails(lj_pattern_create("(", 1, LJ_PATTERN_HUGGING_FACE, &pattern), LJ_ERR_FORMAT, "'('");
}

/* An expression that runs away is stopped with an error. */
static void runaway_expressions_are_stopped(void **state)
{
    (void)state;
    lj_pattern *pattern;
    lj_pattern_scratch scratch = {0};
    char text[64];
    size_t a, b;
    memset(text, 'a', sizeof text);
    assert_ok(lj_pattern_create("^(a|a)*[bc]$", 12, LJ_PATTERN_HUGGING_FACE, &pattern));
    assert_fails(lj_pattern_find(pattern, &scratch, text, sizeof text, 0, &a, &b), LJ_ERR_LIMIT, "(a|a)*[bc]");
    lj_pattern_scratch_release(&scratch);
    lj_pattern_destroy(pattern);
}

static void stand_ins_are_a_bijection(void **state)
{
    (void)state;
    char text[1024], back[1024];
    size_t used = 0, bytes;
    for (int b = 0; b < 256; b++) used += lj_byte_char_encode((unsigned char)b, text + used);
    assert_true(lj_byte_chars_decode(text, used, back, &bytes));
    assert_int_equal(bytes, 256);
    for (int b = 0; b < 256; b++) assert_int_equal((unsigned char)back[b], b);
    assert_false(lj_byte_chars_decode(" ", 1, back, &bytes));
    assert_false(lj_byte_chars_decode("\xe4\xbd\xa0", 3, back, &bytes));
    assert_int_equal(lj_byte_char_encode(' ', text), 2);
    assert_memory_equal(text, "\xc4\xa0", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_is_strict),
        cmocka_unit_test(forms_equal_the_librarys),
        cmocka_unit_test(marks_are_not_quadratic),
        cmocka_unit_test(expressions_mean_what_their_authors_meant),
        cmocka_unit_test(runaway_expressions_are_stopped),
        cmocka_unit_test(stand_ins_are_a_bijection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
