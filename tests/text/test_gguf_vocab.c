/* Tokenizers from GGUF's in-memory vocabulary: both kinds, streaming, broken input, wrong files. */
#include "support/testing.h"

#include "text/byte_chars.h"
#include "text/tokenizer.h"

#include <stdlib.h>

enum { EXTRA = 16, TOKENS = 256 + EXTRA };

static char strings[TOKENS][32];
static lj_span tokens[TOKENS];
static int32_t types[TOKENS];

static lj_span span(const char *text)
{
    return (lj_span){text, strlen(text)};
}

/* 256 byte tokens in byte order, then what `more` lists. */
static lj_gguf_vocab byte_vocab(const char *const *more, size_t more_count, const lj_span *merges, size_t merge_count)
{
    for (int b = 0; b < 256; b++) {
        size_t n = lj_byte_char_encode((unsigned char)b, strings[b]);
        tokens[b] = (lj_span){strings[b], n}, types[b] = 1;
    }
    for (size_t i = 0; i < more_count; i++) tokens[256 + i] = span(more[i]), types[256 + i] = *more[i] == '<' ? 3 : 1;
    return (lj_gguf_vocab){.name = "test", .model = "gpt2", .pre = "smollm", .tokens = tokens, .types = types, .token_count = 256 + more_count,
                           .merges = merges, .merge_count = merge_count, .bos = -1, .eos = 256, .unknown = -1, .pad = -1, .add_bos = -1,
                           .add_eos = -1, .add_space_prefix = -1};
}

static lj_tokenizer *small_byte_level(void)
{
    static const char *const more[] = {"<|end|>", "\xc4\xa0t", "he", "\xc4\xa0the", "hi", "aa", "aaaa"};
    static lj_span merges[6];
    const char *const texts[] = {"\xc4\xa0 t", "h e", "\xc4\xa0t he", "h i", "a a", "aa aa"};
    for (int i = 0; i < 6; i++) merges[i] = span(texts[i]);
    lj_gguf_vocab vocab = byte_vocab(more, 7, merges, 6);
    lj_tokenizer *tokenizer;
    assert_ok(lj_tokenizer_create_gguf_vocab(&vocab, &tokenizer));
    return tokenizer;
}

static void check_ids(const lj_tokenizer *tokenizer, lj_span text, lj_encode_options options, const int32_t *expected, size_t count)
{
    lj_ids ids = {0};
    assert_ok(lj_tokenizer_encode(tokenizer, text.data, text.bytes, options, &ids));
    assert_int_equal(ids.count, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(ids.data[i], expected[i]);
    lj_ids_release(&ids);
}

static void merges_follow_their_ranks(void **state)
{
    (void)state;
    lj_tokenizer *t = small_byte_level();
    const int32_t digits[] = {'1', '2'}, a5[] = {262, 'a'}, none[] = {0};
    check_ids(t, span(" the"), (lj_encode_options){0}, (const int32_t[]){259}, 1);
    check_ids(t, span("12"), (lj_encode_options){0}, digits, 2);
    check_ids(t, span("aaaaa"), (lj_encode_options){0}, a5, 2);
    check_ids(t, span(""), (lj_encode_options){0}, none, 0);
    lj_tokenizer_destroy(t);
}

static void specials_are_tokens_only_when_asked(void **state)
{
    (void)state;
    lj_tokenizer *t = small_byte_level();
    const int32_t with[] = {260, 256, 260}, without[] = {260, '<', '|', 'e', 'n', 'd', '|', '>', 260};
    check_ids(t, span("hi<|end|>hi"), (lj_encode_options){.parse_special = true}, with, 3);
    check_ids(t, span("hi<|end|>hi"), (lj_encode_options){0}, without, 9);
    assert_true(lj_tokenizer_is_special(t, 256));
    assert_true(lj_tokenizer_ends_turn(t, 256));
    assert_false(lj_tokenizer_is_special(t, 260));
    lj_text text;
    lj_text_init(&text);
    assert_ok(lj_tokenizer_decode(t, with, 3, true, &text));
    assert_string_equal(text.data, "hihi");
    assert_fails(lj_tokenizer_decode(t, (const int32_t[]){5000}, 1, true, &text), LJ_ERR_INVALID, "5000");
    lj_text_release(&text);
    lj_tokenizer_destroy(t);
}

/* A character over several tokens, a space glued to its first byte: it appears once, whole. */
static void streams_show_whole_characters(void **state)
{
    (void)state;
    lj_tokenizer *t = small_byte_level();
    const char *text = " \xe7\x84\xb6 \xf0\x9f\x98\x80x";
    lj_ids ids = {0};
    lj_decode_stream stream;
    lj_text out;
    lj_text_init(&out);
    assert_ok(lj_tokenizer_encode(t, text, strlen(text), (lj_encode_options){0}, &ids));
    lj_decode_stream_init(&stream, t, false);
    for (size_t i = 0; i < ids.count; i++) {
        assert_ok(lj_decode_stream_add(&stream, ids.data[i], &out));
        assert_int_equal(lj_utf8_valid_prefix(out.data ? out.data : "", out.length), out.length);
    }
    assert_ok(lj_decode_stream_end(&stream, &out));
    assert_string_equal(out.data, text);
    /* Cut off in the middle: one replacement character, at the end or as soon as it is known to be broken. */
    out.length = 0;
    lj_decode_stream_init(&stream, t, false);
    assert_ok(lj_decode_stream_add(&stream, 0xe7, &out));
    assert_ok(lj_decode_stream_add(&stream, 0x84, &out));
    assert_int_equal(out.length, 0);
    assert_ok(lj_decode_stream_add(&stream, 'x', &out));
    assert_string_equal(out.data, "\xef\xbf\xbdx");
    assert_ok(lj_decode_stream_add(&stream, 0xe7, &out));
    assert_ok(lj_decode_stream_end(&stream, &out));
    assert_string_equal(out.data, "\xef\xbf\xbdx\xef\xbf\xbd");
    lj_text_release(&out);
    lj_ids_release(&ids);
    lj_tokenizer_destroy(t);
}

/* An incomplete sequence is read as llama.cpp reads it: each broken byte is U+FFFD. */
static void broken_input_gives_tokens(void **state)
{
    (void)state;
    lj_tokenizer *t = small_byte_level();
    const int32_t replaced[] = {0xef, 0xbf, 0xbd, 0xef, 0xbf, 0xbd}, surrogate[] = {0xed, 0xa0, 0x80}, overlong[] = {0};
    check_ids(t, span("\xe6\xad"), (lj_encode_options){0}, replaced, 6);
    check_ids(t, span("\xed\xa0\x80"), (lj_encode_options){0}, surrogate, 3);
    check_ids(t, span("\xc0\x80"), (lj_encode_options){0}, overlong, 1);
    lj_tokenizer_destroy(t);
}

static void wrong_vocabularies_are_refused(void **state)
{
    (void)state;
    lj_tokenizer *t = NULL;
    static const char *const more[] = {"<|end|>", "ab", "ab"};
    lj_span good = span("a b"), bad = span("a zz"), none = span("ab");
    lj_gguf_vocab vocab = byte_vocab(more, 2, &bad, 1);
    assert_fails(lj_tokenizer_create_gguf_vocab(&vocab, &t), LJ_ERR_FORMAT, "merge 0 ('a' + 'zz'): its right part");
    vocab = byte_vocab(more, 2, &none, 1);
    assert_fails(lj_tokenizer_create_gguf_vocab(&vocab, &t), LJ_ERR_FORMAT, "merge 0 'ab': no space");
    vocab = byte_vocab(more, 3, &good, 1);
    assert_fails(lj_tokenizer_create_gguf_vocab(&vocab, &t), LJ_ERR_FORMAT, "given twice");
    vocab = byte_vocab(more, 2, &good, 1), vocab.pre = "smolm";
    assert_fails(lj_tokenizer_create_gguf_vocab(&vocab, &t), LJ_ERR_UNSUPPORTED, "nearest: smollm");
    vocab = byte_vocab(more, 2, &good, 1), vocab.model = "rwkv";
    assert_fails(lj_tokenizer_create_gguf_vocab(&vocab, &t), LJ_ERR_UNSUPPORTED, "rwkv");
    vocab = byte_vocab(more, 2, &good, 1), vocab.eos = 258;
    assert_fails(lj_tokenizer_create_gguf_vocab(&vocab, &t), LJ_ERR_FORMAT, "258 is outside");
    vocab = byte_vocab(more, 2, &good, 1), vocab.add_bos = 1;
    assert_fails(lj_tokenizer_create_gguf_vocab(&vocab, &t), LJ_ERR_FORMAT, "no bos_token_id");
    assert_null(t);
}

/* One word of a megabyte costs what a megabyte of words costs, nearly. */
static void long_words_are_not_quadratic(void **state)
{
    (void)state;
    lj_tokenizer *t = small_byte_level();
    size_t bytes = 1 << 20;
    char *text = malloc(bytes);
    memset(text, 'a', bytes);
    lj_ids ids = {0};
    assert_ok(lj_tokenizer_encode(t, text, bytes, (lj_encode_options){0}, &ids));
    assert_int_equal(ids.count, bytes / 4);
    lj_ids_release(&ids);
    free(text);
    lj_tokenizer_destroy(t);
}

/* Scores: "▁a" beats "ab"; what has no token becomes bytes; the prefix space is undone by decoding. */
static void scores_decide_merges(void **state)
{
    (void)state;
    static char bytes[256][8];
    float scores[TOKENS] = {0};
    lj_tokenizer *t;
    lj_text out;
    const char *const more[] = {"<s>", "\xe2\x96\x81", "a", "b", "\xe2\x96\x81" "a", "ab", "\xe2\x96\x81\xe2\x96\x81"};
    const float more_scores[] = {0, -10, -11, -12, -1, -2, -3};
    for (int b = 0; b < 256; b++) {
        snprintf(bytes[b], sizeof bytes[b], "<0x%02X>", (unsigned)b);
        tokens[b] = span(bytes[b]), types[b] = 6;
    }
    for (size_t i = 0; i < 7; i++) tokens[256 + i] = span(more[i]), types[256 + i] = i ? 1 : 3, scores[256 + i] = more_scores[i];
    lj_gguf_vocab vocab = {.name = "test", .model = "llama", .tokens = tokens, .scores = scores, .types = types, .token_count = 263, .bos = 256,
                           .eos = -1, .unknown = -1, .pad = -1, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1};
    assert_ok(lj_tokenizer_create_gguf_vocab(&vocab, &t));
    const int32_t ab[] = {256, 260, 259}, emoji[] = {257, 0xe6, 0xad}, spaces[] = {262, 260};
    check_ids(t, span("ab"), (lj_encode_options){.add_special = true}, ab, 3);
    check_ids(t, span("\xe6\xad"), (lj_encode_options){0}, emoji, 3);
    check_ids(t, span("  a"), (lj_encode_options){0}, spaces, 2);
    lj_text_init(&out);
    assert_ok(lj_tokenizer_decode(t, emoji, 3, false, &out));
    assert_int_equal(out.length, 2);
    assert_memory_equal(out.data, "\xe6\xad", 2);
    lj_text_release(&out);
    scores[258] = (float)strtod("nan", NULL);
    lj_tokenizer_destroy(t);
    assert_fails(lj_tokenizer_create_gguf_vocab(&vocab, &t), LJ_ERR_FORMAT, "score of token 258");
}

static void batches_equal_single_calls(void **state)
{
    (void)state;
    lj_tokenizer *t = small_byte_level();
    enum { COUNT = 97 };
    char texts[COUNT][40];
    lj_span spans[COUNT];
    lj_ids ids[COUNT] = {{0}};
    for (int i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "the %d hi aaaa %d the", i, i * i);
        spans[i] = span(texts[i]);
    }
    assert_ok(lj_tokenizer_encode_batch(t, spans, COUNT, (lj_encode_options){0}, 3, ids));
    for (int i = 0; i < COUNT; i++) {
        check_ids(t, spans[i], (lj_encode_options){0}, ids[i].data, ids[i].count);
        lj_ids_release(&ids[i]);
    }
    lj_tokenizer_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_follow_their_ranks),      cmocka_unit_test(specials_are_tokens_only_when_asked),
        cmocka_unit_test(streams_show_whole_characters),  cmocka_unit_test(broken_input_gives_tokens),
        cmocka_unit_test(wrong_vocabularies_are_refused), cmocka_unit_test(long_words_are_not_quadratic),
        cmocka_unit_test(scores_decide_merges),           cmocka_unit_test(batches_equal_single_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
