/* Every kind of tokenizer file against the ids of its own library (fixtures/text), and files that lie. */
#include "support/testing.h"

#include "base/file.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const files[] = {"gpt2.json",  "llama3.json",  "qwen2.json",  "falcon.json", "llama2.json",
                                    "gemma.json", "mistral.json", "spaces.json", "llama2.model", "rules.model"};
/* Kinds that give their input back exactly. */
static const char *const exact[] = {"gpt2.json", "gemma.json", "llama2.json", "mistral.json", "llama2.model"};

static char *path_of(const char *name, char *buffer, size_t capacity)
{
    snprintf(buffer, capacity, LJ_TEST_DATA "/text/%s", name);
    return buffer;
}

static lj_mapped_file file_open(const char *name)
{
    char path[512];
    lj_mapped_file map;
    assert_ok(lj_mapped_file_init(&map, path_of(name, path, sizeof path)));
    return map;
}

static lj_tokenizer *open_fixture(const char *name)
{
    char path[512];
    lj_tokenizer *tokenizer;
    assert_ok(lj_tokenizer_create(path_of(name, path, sizeof path), &tokenizer));
    return tokenizer;
}

static lj_ids expected_ids(const char *name)
{
    char ids_name[64];
    const char *dot = strrchr(name, '.');
    if (strcmp(dot, ".model") == 0)
        snprintf(ids_name, sizeof ids_name, "%s.ids", name);
    else
        snprintf(ids_name, sizeof ids_name, "%.*s.ids", (int)(dot - name), name);
    lj_mapped_file map = file_open(ids_name);
    lj_ids ids = {0};
    char *text = malloc(map.bytes + 1), *at = text;
    memcpy(text, map.data, map.bytes);
    text[map.bytes] = 0;
    for (char *end; (void)strtol(at, &end, 10), end != at; at = end) assert_ok(lj_ids_add(&ids, (int32_t)strtol(at, NULL, 10)));
    free(text);
    lj_mapped_file_release(&map);
    return ids;
}

static void ids_equal_the_librarys(void **state)
{
    (void)state;
    lj_mapped_file sample = file_open("sample.txt");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bool model = strstr(files[i], ".model") != NULL;
        lj_tokenizer *tokenizer = open_fixture(files[i]);
        lj_ids ids = {0}, expected = expected_ids(files[i]);
        /* Hugging Face parses special strings and adds BOS; sentencepiece does neither. */
        assert_ok(lj_tokenizer_encode(tokenizer, (const char *)sample.data, sample.bytes, (lj_encode_options){!model, !model}, &ids));
        for (size_t k = 0; k < expected.count && k < ids.count; k++)
            if (ids.data[k] != expected.data[k]) fail_msg("%s: id %zu is %d, expected %d", files[i], k, ids.data[k], expected.data[k]);
        assert_int_equal(ids.count, expected.count);
        lj_ids_release(&ids);
        lj_ids_release(&expected);
        lj_tokenizer_destroy(tokenizer);
    }
    lj_mapped_file_release(&sample);
}

/* A wrong id is found: the comparison above can fail. */
static void another_tokenizer_gives_other_ids(void **state)
{
    (void)state;
    lj_mapped_file sample = file_open("sample.txt");
    lj_tokenizer *tokenizer = open_fixture("gpt2.json");
    lj_ids ids = {0}, expected = expected_ids("llama3.json");
    assert_ok(lj_tokenizer_encode(tokenizer, (const char *)sample.data, sample.bytes, (lj_encode_options){true, true}, &ids));
    assert_true(ids.count != expected.count || memcmp(ids.data, expected.data, ids.count * sizeof *ids.data) != 0);
    lj_ids_release(&ids);
    lj_ids_release(&expected);
    lj_tokenizer_destroy(tokenizer);
    lj_mapped_file_release(&sample);
}

static void text_comes_back(void **state)
{
    (void)state;
    lj_mapped_file sample = file_open("sample.txt");
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        lj_tokenizer *tokenizer = open_fixture(exact[i]);
        lj_ids ids = {0};
        lj_text text;
        lj_text_init(&text);
        assert_ok(lj_tokenizer_encode(tokenizer, (const char *)sample.data, sample.bytes, (lj_encode_options){0}, &ids));
        assert_ok(lj_tokenizer_decode(tokenizer, ids.data, ids.count, false, &text));
        assert_int_equal(text.length, sample.bytes);
        assert_memory_equal(text.data, sample.data, sample.bytes);
        lj_text_release(&text);
        lj_ids_release(&ids);
        lj_tokenizer_destroy(tokenizer);
    }
    lj_mapped_file_release(&sample);
}

/* Bytes that are no UTF-8 keep their byte tokens and come back. */
static void broken_bytes_come_back(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gpt2.json", "llama2.json", "gemma.json"};
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        lj_tokenizer *tokenizer = open_fixture(kinds[i]);
        for (int round = 0; round < 300; round++) {
            char bytes[24];
            size_t count = (size_t)test_random_range(&seed, 1, 24);
            for (size_t k = 0; k < count; k++) bytes[k] = (char)test_random(&seed);
            if (round == 0) count = 2, bytes[0] = (char)0xe6, bytes[1] = (char)0xad;
            if (round == 1) memcpy(bytes, "\xf4\x8f\xbe\x80\xff" "a", count = 6); /* a stand-in's own code point in a broken text */
            lj_ids ids = {0};
            lj_text text;
            lj_text_init(&text);
            assert_ok(lj_tokenizer_encode(tokenizer, bytes, count, (lj_encode_options){0}, &ids));
            assert_ok(lj_tokenizer_decode(tokenizer, ids.data, ids.count, false, &text));
            assert_int_equal(text.length, count);
            assert_memory_equal(text.data, bytes, count);
            lj_text_release(&text);
            lj_ids_release(&ids);
        }
        lj_tokenizer_destroy(tokenizer);
    }
}

/* Only registered specials vanish; an ordinary entry that looks like one stays. */
static void skipping_follows_the_register(void **state)
{
    (void)state;
    static const char plain[] = "{\"added_tokens\":[{\"id\":0,\"content\":\"<pad>\",\"special\":false},{\"id\":1,\"content\":\"<s>\",\"special\":true}],"
                                "\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"<pad>\":0,\"<s>\":1,\"a\":2,\"</s>\":3},\"merges\":[]}}";
    lj_tokenizer *tokenizer;
    lj_text text;
    assert_ok(lj_tokenizer_create_json("test", plain, sizeof plain - 1, &tokenizer));
    lj_text_init(&text);
    assert_ok(lj_tokenizer_decode(tokenizer, (const int32_t[]){1, 2, 3, 0, 0, 0}, 6, true, &text));
    assert_string_equal(text.data, "a</s><pad><pad><pad>");
    text.length = 0;
    assert_ok(lj_tokenizer_decode(tokenizer, (const int32_t[]){1, 2, 3}, 3, false, &text));
    assert_string_equal(text.data, "<s>a</s>");
    lj_text_release(&text);
    lj_tokenizer_destroy(tokenizer);
}

static void json_fails(const char *text, lj_status status, const char *part)
{
    lj_tokenizer *tokenizer = NULL;
    assert_fails(lj_tokenizer_create_json("t.json", text, strlen(text), &tokenizer), status, part);
    assert_null(tokenizer);
}

#define MODEL(vocab, merges) "{\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[" merges "]}}"

static void lies_are_refused(void **state)
{
    (void)state;
    json_fails("{", LJ_ERR_FORMAT, "t.json");
    json_fails("[]", LJ_ERR_FORMAT, "must be an object");
    json_fails("{\"model\":{\"type\":\"Unigram\",\"vocab\":[],\"merges\":[]}}", LJ_ERR_UNSUPPORTED, "Unigram");
    json_fails(MODEL("", ""), LJ_ERR_FORMAT, "vocabulary is empty");
    json_fails(MODEL("\"a\":0,\"b\":0", ""), LJ_ERR_FORMAT, "id 0 is given twice");
    json_fails(MODEL("\"a\":0,\"a\":1", ""), LJ_ERR_FORMAT, "duplicate");
    json_fails(MODEL("\"a\":2000000000", ""), LJ_ERR_LIMIT, "highest id is 2000000000");
    json_fails(MODEL("\"a\":-1", ""), LJ_ERR_FORMAT, "-1");
    json_fails(MODEL("\"a\":\"x\"", ""), LJ_ERR_FORMAT, "whole number");
    json_fails(MODEL("\"a\":0,\"b\":1", "\"a b\""), LJ_ERR_FORMAT, "merge 0 ('a' + 'b'): what it makes");
    json_fails(MODEL("\"a\":0,\"b\":1,\"ab\":2", "\"a b\",\"ab c\""), LJ_ERR_FORMAT, "merge 1 ('ab' + 'c'): its right part");
    json_fails(MODEL("\"a\":0", "[\"a\"]"), LJ_ERR_FORMAT, "merge 0");
    json_fails("{\"normalizer\":{\"type\":\"Nmt\"},\"model\":{}}", LJ_ERR_UNSUPPORTED, "'Nmt'");
    json_fails("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"},\"model\":{}}", LJ_ERR_FORMAT, "'('");
    json_fails("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&[b]]\"},\"behavior\":\"Isolated\"},\"model\":{}}", LJ_ERR_UNSUPPORTED,
               "intersection");
    char deep[400] = "";
    for (int i = 0; i < 70; i++) strcat(deep, "[");
    json_fails(deep, LJ_ERR_FORMAT, "deeper");
}

/* Every beginning of a file is refused or read, never a crash; the same with a flipped byte. */
static void cut_and_flipped_files(void **state)
{
    (void)state;
    static const char *const cut[] = {"llama2.model", "rules.model", "gpt2.json"};
    for (size_t f = 0; f < 3; f++) {
        lj_mapped_file map = file_open(cut[f]);
        uint8_t *copy = malloc(map.bytes);
        uint64_t seed = f;
        memcpy(copy, map.data, map.bytes);
        size_t stride = f == 2 ? 97 : 13;
        for (size_t bytes = 0; bytes <= map.bytes; bytes += stride) {
            lj_tokenizer *tokenizer = NULL;
            size_t at = bytes ? (size_t)test_random_range(&seed, 0, (int64_t)bytes - 1) : 0;
            uint8_t before = copy[at];
            if (bytes % 2) copy[at] = (uint8_t)test_random(&seed);
            lj_status status = f == 2 ? lj_tokenizer_create_json(cut[f], (const char *)copy, bytes, &tokenizer)
                                      : lj_tokenizer_create_spm(cut[f], copy, bytes, &tokenizer);
            if (status != LJ_OK) assert_non_null(strstr(lj_error_message(), cut[f]));
            if (status == LJ_OK) lj_tokenizer_destroy(tokenizer);
            copy[at] = before;
        }
        free(copy);
        lj_mapped_file_release(&map);
    }
}

/* Running out of memory at any allocation is an error, never a leak or a crash. */
static int allocations_left;

static bool fail_allocation(void *user, const char *kind, const char *name)
{
    (void)user, (void)name;
    return strcmp(kind, "alloc") == 0 && allocations_left-- <= 0;
}

static void each_allocation_fails_once(void **state)
{
    (void)state;
    lj_mapped_file map = file_open("qwen2.json");
    size_t live = lj_memory_live();
    for (int n = 0;; n++) {
        lj_tokenizer *tokenizer = NULL;
        lj_ids ids = {0};
        allocations_left = n;
        lj_fault_set(fail_allocation, NULL);
        lj_status status = lj_tokenizer_create_json("qwen2.json", (const char *)map.data, map.bytes, &tokenizer);
        if (status == LJ_OK) status = lj_tokenizer_encode(tokenizer, "caf\xc3\xa9 <think> it's 12", 19, (lj_encode_options){true, true}, &ids);
        bool reached = allocations_left >= 0;
        lj_fault_set(NULL, NULL);
        lj_ids_release(&ids);
        lj_tokenizer_destroy(tokenizer);
        assert_int_equal(lj_memory_live(), live);
        if (reached) {
            assert_int_equal(status, LJ_OK);
            break;
        }
        assert_int_equal(status, LJ_ERR_NOMEM);
    }
    lj_mapped_file_release(&map);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(lj_file_write(path, text, strlen(text)));
}

/* Roles and template stand beside the tokenizer; a length limit beyond 64 bits is usual there. */
static void folders_are_read(void **state)
{
    (void)state;
    char folder[256], from[512], to[512];
    lj_tokenizer *tokenizer;
    test_folder_create(folder, sizeof folder);
    assert_fails(lj_tokenizer_create(folder, &tokenizer), LJ_ERR_NOT_FOUND, "tokenizer.json");
    lj_mapped_file map = file_open("gpt2.json");
    snprintf(to, sizeof to, "%s/tokenizer.json", folder);
    assert_ok(lj_file_write(to, map.data, map.bytes));
    write_file(folder, "tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656, \"bos_token\": {\"content\": \"<|im_start|>\"},"
                                                " \"eos_token\": \"<|im_end|>\", \"chat_template\": [{\"name\": \"default\", \"template\": \"T\"}]}");
    assert_ok(lj_tokenizer_create(folder, &tokenizer));
    assert_int_equal(lj_tokenizer_bos(tokenizer), lj_tokenizer_find(tokenizer, "<|im_start|>", 12));
    assert_int_equal(lj_tokenizer_eos(tokenizer), lj_tokenizer_find(tokenizer, "<|im_end|>", 10));
    assert_string_equal(lj_tokenizer_chat_template(tokenizer), "T");
    assert_true(lj_tokenizer_ends_turn(tokenizer, lj_tokenizer_eos(tokenizer)));
    lj_tokenizer_destroy(tokenizer);
    write_file(folder, "chat_template.jinja", "J");
    assert_ok(lj_tokenizer_create(folder, &tokenizer));
    assert_string_equal(lj_tokenizer_chat_template(tokenizer), "J");
    lj_tokenizer_destroy(tokenizer);
    snprintf(from, sizeof from, "%s/nothing.gguf", folder);
    assert_fails(lj_tokenizer_create(from, &tokenizer), LJ_ERR_NOT_FOUND, "nothing.gguf");
    lj_mapped_file_release(&map);
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_the_librarys),        cmocka_unit_test(another_tokenizer_gives_other_ids),
        cmocka_unit_test(text_comes_back),               cmocka_unit_test(broken_bytes_come_back),
        cmocka_unit_test(skipping_follows_the_register), cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(cut_and_flipped_files),         cmocka_unit_test(each_allocation_fails_once),
        cmocka_unit_test(folders_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
