/* A GGUF's tokenizer written for Hugging Face and read back gives the ids that the GGUF itself gives. */
#include "support/gguf_build.h"
#include "support/testing.h"

#include "text/gguf_save.h"
#include "text/tokenizer.h"

#include <stdlib.h>

static char folder[256], path[300];
static gguf_build b;

static int setup(void **state)
{
    (void)state;
    test_folder_create(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    gguf_build_init(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gguf_build_release(&b);
    test_folder_remove(folder);
    return lj_memory_live() == 0 ? 0 : -1;
}

/* An array field of strings. */
static void add_strings(const char *key, const char *const *texts, size_t count)
{
    uint8_t *value = malloc(64 * count + 1);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t length = strlen(texts[i]);
        memcpy(value + used, &length, 8);
        memcpy(value + used + 8, texts[i], length);
        used += 8 + length;
    }
    gguf_build_raw(&b, key, LJ_GGUF_ARRAY, LJ_GGUF_STRING, count, value, used);
    free(value);
}

enum { BYTES = 256, MOST = 400 };

typedef struct {
    char text[MOST][32];
    const char *pointers[MOST];
    int32_t types[MOST];
    float scores[MOST];
    size_t count;
} list;

static void add_token(list *l, const char *text, int32_t type, float score)
{
    snprintf(l->text[l->count], sizeof l->text[0], "%s", text);
    l->pointers[l->count] = l->text[l->count];
    l->types[l->count] = type, l->scores[l->count] = score;
    l->count++;
}

static void list_store(list *l, bool scores)
{
    add_strings("tokenizer.ggml.tokens", l->pointers, l->count);
    gguf_build_raw(&b, "tokenizer.ggml.token_type", LJ_GGUF_ARRAY, LJ_GGUF_I32, l->count, l->types, 4 * l->count);
    if (scores) gguf_build_raw(&b, "tokenizer.ggml.scores", LJ_GGUF_ARRAY, LJ_GGUF_F32, l->count, l->scores, 4 * l->count);
}

/* GPT-2's characters for bytes, as UTF-8. */
static void byte_text(int byte, char out[4])
{
    int shown = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174, code = byte;
    if (!shown) {
        code = 256;
        for (int i = 0; i < byte; i++) code += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
    }
    if (code < 128)
        snprintf(out, 4, "%c", code);
    else
        snprintf(out, 4, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 63));
}

/* The last two parts are tokens that a user defined or that control: llama.cpp and sentencepiece treat what stands beside them differently. */
static void random_text(uint64_t *seed, size_t parts_used, char *text, size_t most)
{
    static const char *const parts[] = {"the ", "a", "b", " ", "  ", "12", "é", "中", "t", "s", "ab", "\n", "'s", "he", "👍", ".", "<|end|>", "<u>"};
    size_t used = 0, want = (size_t)test_random_range(seed, 0, 40);
    text[0] = 0;
    for (size_t i = 0; i < want && used + 8 < most; i++) used += (size_t)snprintf(text + used, most - used, "%s", parts[test_random(seed) % parts_used]);
}

static void same_ids_both_ways(size_t parts_used)
{
    lj_gguf *gguf;
    lj_tokenizer *from_gguf, *from_folder;
    uint64_t seed = 4;
    gguf_build_write(&b, path);
    assert_ok(lj_gguf_open(path, &gguf));
    assert_ok(lj_gguf_tokenizer_save(gguf, folder));
    lj_gguf_close(gguf);
    assert_ok(lj_tokenizer_create(path, &from_gguf));
    assert_ok(lj_tokenizer_create(folder, &from_folder));
    assert_int_equal(lj_tokenizer_bos(from_gguf), lj_tokenizer_bos(from_folder));
    assert_int_equal(lj_tokenizer_eos(from_gguf), lj_tokenizer_eos(from_folder));
    assert_string_equal(lj_tokenizer_chat_template(from_gguf), lj_tokenizer_chat_template(from_folder));
    for (int i = 0; i < 2000; i++) {
        char text[400];
        lj_ids x = {0}, y = {0};
        random_text(&seed, parts_used, text, sizeof text);
        lj_encode_options options = {.add_special = i & 1, .parse_special = i & 2};
        assert_ok(lj_tokenizer_encode(from_gguf, text, strlen(text), options, &x));
        assert_ok(lj_tokenizer_encode(from_folder, text, strlen(text), options, &y));
        if (x.count != y.count || (x.count && memcmp(x.data, y.data, 4 * x.count) != 0)) fail_msg("'%s' differs", text);
        lj_ids_release(&x), lj_ids_release(&y);
    }
    lj_tokenizer_destroy(from_gguf);
    lj_tokenizer_destroy(from_folder);
}

static void byte_level(void **state)
{
    (void)state;
    static const char *const merges[] = {"h e", "t he", "Ġ the", "a b", "1 2", "Ġ Ġ"};
    static const char *const joined[] = {"he", "the", "Ġthe", "ab", "12", "ĠĠ"};
    list *l = calloc(1, sizeof *l);
    add_token(l, "<|end|>", 3, 0);
    for (int byte = 0; byte < BYTES; byte++) {
        char text[4];
        byte_text(byte, text);
        add_token(l, text, 1, 0);
    }
    for (size_t i = 0; i < 6; i++) add_token(l, joined[i], 1, 0);
    add_token(l, "<u>", 4, 0);
    add_token(l, "", 1, 0);
    gguf_build_string(&b, "tokenizer.ggml.model", "gpt2");
    gguf_build_string(&b, "tokenizer.ggml.pre", "llama-bpe");
    list_store(l, false);
    add_strings("tokenizer.ggml.merges", merges, 6);
    gguf_build_u32(&b, "tokenizer.ggml.bos_token_id", 0);
    gguf_build_u32(&b, "tokenizer.ggml.eos_token_id", 0);
    gguf_build_string(&b, "tokenizer.chat_template", "{{ messages }}\n");
    same_ids_both_ways(18);
    free(l);
}

static void scored(void **state)
{
    (void)state;
    list *l = calloc(1, sizeof *l);
    add_token(l, "<unk>", 2, 0);
    add_token(l, "<s>", 3, 0);
    add_token(l, "</s>", 3, 0);
    for (int byte = 0; byte < BYTES; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        add_token(l, text, 6, 0);
    }
    static const char *const pieces[] = {"\xe2\x96\x81t", "he", "\xe2\x96\x81the", "ab", "\xe2\x96\x81\xe2\x96\x81", "\xe2\x96\x81", "t", "h", "e", "a", "b", "1", "2", ".", "s"};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) add_token(l, pieces[i], 1, -(float)i - 1);
    add_token(l, "<u>", 4, 0);
    gguf_build_string(&b, "tokenizer.ggml.model", "llama");
    list_store(l, true);
    gguf_build_u32(&b, "tokenizer.ggml.bos_token_id", 1);
    gguf_build_u32(&b, "tokenizer.ggml.eos_token_id", 2);
    gguf_build_u32(&b, "tokenizer.ggml.unknown_token_id", 0);
    gguf_build_string(&b, "tokenizer.chat_template", "{{ x }}");
    same_ids_both_ways(16);
    free(l);
}

static void wrong_vocabularies_are_refused(void **state)
{
    (void)state;
    static const char *const twice[] = {"a", "a"}, *const once[] = {"a", "b"};
    lj_gguf *gguf;
    gguf_build_string(&b, "tokenizer.ggml.model", "gpt2");
    gguf_build_string(&b, "tokenizer.ggml.pre", "smollm");
    add_strings("tokenizer.ggml.tokens", twice, 2);
    gguf_build_write(&b, path);
    assert_ok(lj_gguf_open(path, &gguf));
    assert_fails(lj_gguf_tokenizer_save(gguf, folder), LJ_ERR_UNSUPPORTED, "token 1 is in the vocabulary twice");
    lj_gguf_close(gguf);
    gguf_build_release(&b);
    gguf_build_init(&b);
    gguf_build_string(&b, "tokenizer.ggml.model", "gpt2");
    gguf_build_string(&b, "tokenizer.ggml.pre", "smollm");
    add_strings("tokenizer.ggml.tokens", once, 2);
    gguf_build_raw(&b, "tokenizer.ggml.token_type", LJ_GGUF_ARRAY, LJ_GGUF_I32, 1, "\1\0\0\0", 4);
    gguf_build_write(&b, path);
    assert_ok(lj_gguf_open(path, &gguf));
    assert_fails(lj_gguf_tokenizer_save(gguf, folder), LJ_ERR_FORMAT, "has 1 entries, tokenizer.ggml.tokens has 2");
    lj_gguf_close(gguf);
    gguf_build_release(&b);
    gguf_build_init(&b);
    gguf_build_string(&b, "tokenizer.ggml.model", "t5");
    gguf_build_write(&b, path);
    assert_ok(lj_gguf_open(path, &gguf));
    assert_fails(lj_gguf_tokenizer_save(gguf, folder), LJ_ERR_UNSUPPORTED, "tokenizer 't5'");
    lj_gguf_close(gguf);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(byte_level), TEST(scored), TEST(wrong_vocabularies_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
