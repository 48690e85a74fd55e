/* GGUF: every value type, split files, wrong files refused with the place, every prefix refused. */
#include "support/gguf_build.h"
#include "support/testing.h"

#include "base/file.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[256], path[512];
static gguf_build b;
static lj_gguf *gguf;

static int setup(void **state)
{
    (void)state;
    test_folder_create(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    gguf_build_init(&b);
    gguf = NULL;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lj_gguf_close(gguf);
    gguf_build_release(&b);
    test_folder_remove(folder);
    return lj_memory_live() == 0 ? 0 : -1;
}

static lj_status build_and_open(void)
{
    gguf_build_write(&b, path);
    return lj_gguf_open(path, &gguf);
}

static void all_value_types(void **state)
{
    (void)state;
    static const struct {
        lj_gguf_type type;
        int64_t value;
    } integers[] = {{LJ_GGUF_U8, 200}, {LJ_GGUF_I8, -3}, {LJ_GGUF_U16, 60000}, {LJ_GGUF_I16, -30000}, {LJ_GGUF_U32, 4000000000},
                    {LJ_GGUF_I32, -7}, {LJ_GGUF_U64, INT64_MAX}, {LJ_GGUF_I64, INT64_MIN}};
    static const size_t widths[] = {1, 1, 2, 2, 4, 4, 8, 8};
    for (size_t i = 0; i < 8; i++) gguf_build_raw(&b, lj_gguf_type_name(integers[i].type), integers[i].type, 0, 1, &integers[i].value, widths[i]);
    double wide = 0.1;
    uint8_t truth = 1;
    uint64_t huge = UINT64_MAX;
    static const uint8_t strings[] = {2, 0, 0, 0, 0, 0, 0, 0, 'h', 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gguf_build_f32(&b, "f32", 0.5f);
    gguf_build_raw(&b, "f64", LJ_GGUF_F64, 0, 1, &wide, 8);
    gguf_build_raw(&b, "bool", LJ_GGUF_BOOL, 0, 1, &truth, 1);
    gguf_build_raw(&b, "huge", LJ_GGUF_U64, 0, 1, &huge, 8);
    gguf_build_string(&b, "string", "grüße");
    gguf_build_raw(&b, "strings", LJ_GGUF_ARRAY, LJ_GGUF_STRING, 2, strings, sizeof strings);
    gguf_build_raw(&b, "floats", LJ_GGUF_ARRAY, LJ_GGUF_F32, 2, (float[]){1, 2}, 8);
    gguf_build_raw(&b, "none", LJ_GGUF_ARRAY, LJ_GGUF_STRING, 0, "", 0);
    b.version = 2;
    assert_ok(build_and_open());
    assert_int_equal(lj_gguf_version(gguf), 2);
    for (size_t i = 0; i < 8; i++) {
        int64_t value = 5;
        assert_ok(lj_gguf_get_int(gguf, lj_gguf_type_name(integers[i].type), &value));
        assert_true(value == integers[i].value);
    }
    double number = 0;
    bool flag = false;
    int64_t whole = 77;
    lj_gguf_string text, *list;
    uint64_t count;
    const uint8_t *data;
    assert_ok(lj_gguf_get_double(gguf, "f32", &number));
    assert_true(number == 0.5);
    assert_ok(lj_gguf_get_double(gguf, "f64", &number));
    assert_true(number == 0.1);
    assert_ok(lj_gguf_get_bool(gguf, "bool", &flag));
    assert_true(flag);
    assert_ok(lj_gguf_get_string(gguf, "string", &text));
    assert_int_equal(text.bytes, 7);
    assert_ok(lj_gguf_get_strings(gguf, "strings", &list, &count));
    assert_int_equal(count, 2);
    assert_int_equal(list[0].bytes, 2);
    assert_memory_equal(list[0].data, "h\0", 2);
    assert_int_equal(list[1].bytes, 0);
    lj_free(list);
    assert_ok(lj_gguf_get_strings(gguf, "none", &list, &count));
    assert_int_equal(count, 0);
    lj_free(list);
    assert_ok(lj_gguf_get_array(gguf, "floats", LJ_GGUF_F32, &data, &count));
    assert_int_equal(count, 2);
    assert_ok(lj_gguf_get_int(gguf, "absent", &whole));
    assert_int_equal(whole, 77);
    assert_fails(lj_gguf_get_int(gguf, "huge", &whole), LJ_ERR_FORMAT, "below 2^63");
    assert_int_equal(whole, 77);
    assert_fails(lj_gguf_get_int(gguf, "f32", &whole), LJ_ERR_FORMAT, "key 'f32' is f32, it must be a whole number");
    assert_fails(lj_gguf_get_bool(gguf, "u8", &flag), LJ_ERR_FORMAT, "it must be bool");
    assert_fails(lj_gguf_get_string(gguf, "strings", &text), LJ_ERR_FORMAT, "an array of string");
}

/* Case 29: the scores of a vocabulary declared as bytes. */
static void array_type_is_checked(void **state)
{
    (void)state;
    uint8_t scores[16] = {0};
    const uint8_t *data;
    uint64_t count;
    gguf_build_raw(&b, "tokenizer.ggml.scores", LJ_GGUF_ARRAY, LJ_GGUF_U8, 16, scores, 16);
    assert_ok(build_and_open());
    assert_fails(lj_gguf_get_array(gguf, "tokenizer.ggml.scores", LJ_GGUF_F32, &data, &count), LJ_ERR_FORMAT,
                 "key 'tokenizer.ggml.scores' is an array of u8, it must be an array of f32");
}

/* Case 26: a product of dimensions that wraps. */
static void wrapping_dims_are_refused(void **state)
{
    (void)state;
    static const uint64_t dims[][4] = {{4096, (1ull << 42) + 1, 1ull << 20, 1}, {1ull << 63, 2, 1, 1}, {UINT64_MAX, 1, 1, 1}, {1ull << 31, 1ull << 31, 1, 1}};
    for (size_t i = 0; i < 4; i++) {
        gguf_build_release(&b);
        gguf_build_init(&b);
        gguf_build_tensor_at(&b, "blk.0.attn_q.weight", 0, 4, dims[i], 0);
        assert_fails(build_and_open(), LJ_ERR_FORMAT, "tensor 'blk.0.attn_q.weight'");
        assert_non_null(strstr(lj_error_message(), "does not fit 62 bits"));
    }
    gguf_build_release(&b);
    gguf_build_init(&b);
    gguf_build_tensor_at(&b, "t", 0, 2, (uint64_t[]){(1ull << 42) + 1, 4096}, 0);
    assert_fails(build_and_open(), LJ_ERR_FORMAT, "needs bytes 0"); /* fits 62 bits, not the file */
    assert_non_null(strstr(lj_error_message(), "x.gguf"));
}

typedef void (*build_fn)(void);

static void dup_key(void)
{
    gguf_build_u32(&b, "a", 1);
    gguf_build_u32(&b, "a", 1);
}
static void dup_tensor(void)
{
    gguf_build_tensor(&b, "t", 0, 1, (uint64_t[]){8}, NULL, 32);
    gguf_build_tensor(&b, "t", 0, 1, (uint64_t[]){8}, NULL, 32);
}
static void overlap(void)
{
    gguf_build_tensor(&b, "t", 0, 1, (uint64_t[]){16}, NULL, 64);
    gguf_build_tensor_at(&b, "u", 0, 1, (uint64_t[]){8}, 32);
}
static void unaligned(void)
{
    gguf_build_tensor_at(&b, "t", 0, 1, (uint64_t[]){1}, 4);
}
static void bad_alignment(void)
{
    gguf_build_u32(&b, "general.alignment", 24);
}
static void zero_alignment(void)
{
    gguf_build_u32(&b, "general.alignment", 0);
}
static void beyond_the_end(void)
{
    gguf_build_tensor_at(&b, "t", 0, 1, (uint64_t[]){8}, 1ull << 62);
}
static void block_cut(void)
{
    gguf_build_tensor(&b, "t", 12, 2, (uint64_t[]){128, 2}, NULL, 144);
}
static void bad_type(void)
{
    gguf_build_tensor(&b, "t", 77, 1, (uint64_t[]){8}, NULL, 32);
}
static void bad_rank(void)
{
    gguf_build_tensor_at(&b, "t", 0, 0, (uint64_t[]){8}, 0);
}
static void rank_five(void)
{
    gguf_build_tensor_at(&b, "t", 0, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0);
}
static void bad_value_type(void)
{
    gguf_build_raw(&b, "k", (lj_gguf_type)13, 0, 1, "", 0);
}
static void long_array(void)
{
    gguf_build_raw(&b, "k", LJ_GGUF_ARRAY, LJ_GGUF_F64, 1ull << 61, "", 0);
}
static void many_strings(void)
{
    gguf_build_raw(&b, "k", LJ_GGUF_ARRAY, LJ_GGUF_STRING, 1ull << 60, "", 0);
}
static void long_string(void)
{
    gguf_build_raw(&b, "k", LJ_GGUF_STRING, 0, 1, (uint64_t[]){UINT64_MAX}, 8);
}
static void bad_bool(void)
{
    gguf_build_raw(&b, "k", LJ_GGUF_BOOL, 0, 1, "\2", 1);
}
static void zero_in_key(void)
{
    gguf_build_raw(&b, "", LJ_GGUF_U8, 0, 1, "\1", 1);
}
static void nested(void)
{
    uint8_t value[256] = {0};
    for (int i = 0; i < 16; i++) value[12 * i] = LJ_GGUF_ARRAY, value[12 * i + 4] = 1;
    gguf_build_raw(&b, "k", LJ_GGUF_ARRAY, LJ_GGUF_ARRAY, 1, value, sizeof value);
}
static void too_many_fields(void)
{
    b.field_count = 1ull << 40;
}
static void too_many_tensors(void)
{
    b.tensor_count = UINT64_MAX;
}
static void version_1(void)
{
    b.version = 1;
}
static void version_4(void)
{
    b.version = 4;
}
static void big_endian(void)
{
    b.version = 0x03000000;
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        build_fn build;
        lj_status status;
        const char *part;
    } rows[] = {
        {dup_key, LJ_ERR_FORMAT, "key 'a' is there twice"},
        {dup_tensor, LJ_ERR_FORMAT, "tensor 't' is there twice"},
        {overlap, LJ_ERR_FORMAT, "'t' and 'u' overlap"},
        {unaligned, LJ_ERR_FORMAT, "offset 4 is no multiple of the alignment 32"},
        {bad_alignment, LJ_ERR_FORMAT, "general.alignment is 24"},
        {zero_alignment, LJ_ERR_FORMAT, "general.alignment is 0"},
        {beyond_the_end, LJ_ERR_FORMAT, "cut short or damaged"},
        {block_cut, LJ_ERR_FORMAT, "a multiple of 256 for type Q4_K"},
        {bad_type, LJ_ERR_FORMAT, "type number 77 is unknown"},
        {bad_rank, LJ_ERR_FORMAT, "expected a rank of 1 .. 4, found 0"},
        {rank_five, LJ_ERR_FORMAT, "found 5"},
        {bad_value_type, LJ_ERR_FORMAT, "expected a value type 0 .. 12, found 13"},
        {long_array, LJ_ERR_FORMAT, "of an array, found"},
        {many_strings, LJ_ERR_FORMAT, "bytes of a string, found"},
        {long_string, LJ_ERR_FORMAT, "expected 18446744073709551615 bytes of a string"},
        {bad_bool, LJ_ERR_FORMAT, "expected a bool (0 or 1), found 2"},
        {zero_in_key, LJ_ERR_FORMAT, "expected a key of 1 .. 65535 bytes"},
        {nested, LJ_ERR_FORMAT, "arrays nested deeper than 4"},
        {too_many_fields, LJ_ERR_FORMAT, "cannot fit"},
        {too_many_tensors, LJ_ERR_FORMAT, "cannot fit"},
        {version_1, LJ_ERR_UNSUPPORTED, "version 1"},
        {version_4, LJ_ERR_UNSUPPORTED, "version 4"},
        {big_endian, LJ_ERR_UNSUPPORTED, "big-endian"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gguf_build_release(&b);
        gguf_build_init(&b);
        rows[i].build();
        assert_fails(build_and_open(), rows[i].status, rows[i].part);
        assert_non_null(strstr(lj_error_message(), path));
        assert_null(gguf);
    }
}

/* A file whose data lies under a larger alignment, written by hand as the builder has 32. */
static void alignment_is_honoured(void **state)
{
    (void)state;
    gguf_build_u32(&b, "general.alignment", 8);
    gguf_build_tensor(&b, "t", 0, 1, (uint64_t[]){2}, (float[]){3, 4}, 8);
    gguf_build_tensor_at(&b, "u", 0, 1, (uint64_t[]){2}, 8);
    assert_ok(build_and_open());
    const lj_gguf_tensor *t = lj_gguf_tensor_find(gguf, "t"), *u = lj_gguf_tensor_find(gguf, "u");
    assert_ptr_equal(t->data + 8, u->data);
}

static void write_part(int number, int count, const char *tensor, float value, int64_t total)
{
    char name[600];
    uint16_t no = (uint16_t)number, of = (uint16_t)count;
    gguf_build_release(&b);
    gguf_build_init(&b);
    if (number == 0) gguf_build_string(&b, "general.architecture", "llama");
    gguf_build_raw(&b, "split.no", LJ_GGUF_U16, 0, 1, &no, 2);
    gguf_build_raw(&b, "split.count", LJ_GGUF_U16, 0, 1, &of, 2);
    gguf_build_raw(&b, "split.tensors.count", LJ_GGUF_I32, 0, 1, &total, 4);
    if (tensor) gguf_build_tensor(&b, tensor, 0, 1, (uint64_t[]){1}, &value, 4);
    snprintf(name, sizeof name, "%s/m-%05d-of-%05d.gguf", folder, number + 1, count);
    gguf_build_write(&b, name);
}

static void split_files_open_from_any_part(void **state)
{
    (void)state;
    char name[600], second[600];
    write_part(0, 3, NULL, 0, 2);
    write_part(1, 3, "a", 1, 2);
    write_part(2, 3, "b", 2, 2);
    for (int i = 1; i <= 3; i++) {
        snprintf(name, sizeof name, "%s/m-%05d-of-00003.gguf", folder, i);
        assert_ok(lj_gguf_open(name, &gguf));
        assert_int_equal(lj_gguf_part_count(gguf), 3);
        assert_int_equal(lj_gguf_tensor_count(gguf), 2);
        assert_int_equal(lj_gguf_tensor_find(gguf, "b")->part, 2);
        assert_non_null(lj_gguf_find(gguf, "general.architecture"));
        lj_gguf_close(gguf), gguf = NULL;
    }
    write_part(2, 3, "a", 2, 2); /* the same tensor again */
    assert_fails(lj_gguf_open(name, &gguf), LJ_ERR_FORMAT, "tensor 'a' is there twice");
    write_part(2, 3, "b", 2, 3);
    write_part(0, 3, NULL, 0, 3);
    assert_fails(lj_gguf_open(name, &gguf), LJ_ERR_FORMAT, "split.tensors.count is 3, the 3 parts hold 2 tensors");
    snprintf(second, sizeof second, "%s/m-00002-of-00003.gguf", folder);
    unlink(second);
    assert_fails(lj_gguf_open(name, &gguf), LJ_ERR_IO, "part 2 of 3");
    assert_fails(lj_gguf_open(name, &gguf), LJ_ERR_IO, "m-00002-of-00003.gguf");
    write_part(1, 2, "x", 0, 1);
    snprintf(name, sizeof name, "%s/m-00002-of-00002.gguf", folder);
    rename(name, path);
    assert_fails(lj_gguf_open(path, &gguf), LJ_ERR_FORMAT, "rename the parts back");
}

/* Every prefix of valid files, longest first: never a crash, and no success before the last byte of data is there. */
static void prefixes_of(const char *source)
{
    lj_mapped_file whole;
    assert_ok(lj_mapped_file_init(&whole, source));
    assert_ok(lj_file_write(path, whole.data, whole.bytes));
    size_t step = whole.bytes > 8192 ? whole.bytes / 2048 : 1;
    for (size_t n = whole.bytes - 32; n > 0; n -= n <= 4096 ? 1 : step) { /* up to 31 bytes at the end may be padding */
        assert_int_equal(truncate(path, (off_t)n), 0);
        assert_fails(lj_gguf_open(path, &gguf), LJ_ERR_FORMAT, path);
    }
    lj_mapped_file_release(&whole);
}

static void every_prefix_is_refused(void **state)
{
    (void)state;
    char source[600];
    gguf_build_llama(&b, false);
    snprintf(source, sizeof source, "%s/whole.gguf", folder);
    gguf_build_write(&b, source);
    prefixes_of(source);
    prefixes_of(LJ_TEST_DATA "/formats/types.gguf");
    prefixes_of(LJ_TEST_DATA "/formats/tiny.gguf");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_value_types),       TEST(array_type_is_checked),          TEST(wrapping_dims_are_refused), TEST(wrong_files_are_refused),
        TEST(alignment_is_honoured), TEST(split_files_open_from_any_part), TEST(every_prefix_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
