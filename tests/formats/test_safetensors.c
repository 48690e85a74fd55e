/* safetensors: round trips, the strict checks, both readers alike, and every prefix of a valid file refused. */
#include "support/testing.h"

#include "base/file.h"
#include "formats/safetensors.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[256], path[512];

static int setup(void **state)
{
    (void)state;
    test_folder_create(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_folder_remove(folder);
    return 0;
}

/* A raw file: header text (padded by nothing) and `data_bytes` of zeros. */
static void raw_write(const char *header, size_t data_bytes)
{
    size_t length = strlen(header);
    uint64_t length64 = length;
    uint8_t *all = calloc(1, 8 + length + data_bytes + 1);
    memcpy(all, &length64, 8);
    memcpy(all + 8, header, length);
    assert_ok(lj_file_write(path, all, 8 + length + data_bytes));
    free(all);
}

/* Both readers must come to the same verdict, word for word. */
static lj_status open_both(lj_safetensors **out)
{
    char message[2048];
    lj_safetensors *ranged = NULL;
    lj_status first = lj_safetensors_open(path, out);
    snprintf(message, sizeof message, "%s", lj_error_message());
    lj_status second = lj_safetensors_open_header(path, &ranged);
    assert_int_equal(first, second);
    if (first != LJ_OK) assert_string_equal(message, lj_error_message());
    if (first == LJ_OK) assert_int_equal(lj_safetensors_count(*out), lj_safetensors_count(ranged));
    if (first == LJ_OK) lj_safetensors_close(ranged);
    return first;
}

static void write_three(void)
{
    lj_safetensors_writer *w;
    float a[6] = {1, -2, 3, 4.5f, 0, -0.0f};
    uint16_t b[3] = {0x3f80, 0x7fc0, 0x8000};
    uint8_t c = 7;
    assert_ok(lj_safetensors_writer_create(path, &w));
    assert_ok(lj_safetensors_writer_metadata(w, "format", "pt"));
    assert_ok(lj_safetensors_writer_metadata(w, "note", "größer \"quoted\" \n"));
    assert_ok(lj_safetensors_writer_tensor(w, "a.weight", LJ_F32, 2, (int64_t[]){2, 3}));
    assert_ok(lj_safetensors_writer_tensor(w, "empty", LJ_F16, 2, (int64_t[]){0, 5}));
    assert_ok(lj_safetensors_writer_tensor(w, "b", LJ_BF16, 1, (int64_t[]){3}));
    assert_ok(lj_safetensors_writer_tensor(w, "scalar", LJ_U8, 0, NULL));
    assert_fails(lj_safetensors_writer_tensor(w, "b", LJ_BF16, 1, (int64_t[]){3}), LJ_ERR_INVALID, "declared twice");
    assert_ok(lj_safetensors_writer_write(w, a, 10));
    assert_ok(lj_safetensors_writer_write(w, (char *)a + 10, 14));
    assert_fails(lj_safetensors_writer_tensor(w, "late", LJ_F32, 1, (int64_t[]){1}), LJ_ERR_INVALID, "after data");
    assert_ok(lj_safetensors_writer_write(w, b, 6));
    assert_ok(lj_safetensors_writer_write(w, &c, 1));
    assert_fails(lj_safetensors_writer_write(w, &c, 1), LJ_ERR_INVALID, "31 bytes of tensors declared, 32 written");
    assert_ok(lj_safetensors_writer_commit(w));
}

static void round_trip(void **state)
{
    (void)state;
    lj_safetensors *file;
    write_three();
    assert_ok(open_both(&file));
    assert_int_equal(lj_safetensors_count(file), 4);
    assert_int_equal(lj_safetensors_metadata_count(file), 2);
    assert_string_equal(lj_safetensors_metadata_get(file, 1)->value, "größer \"quoted\" \n");
    const lj_safetensors_tensor *a = lj_safetensors_find(file, "a.weight"), *s = lj_safetensors_find(file, "scalar");
    assert_int_equal(a->rank, 2);
    assert_int_equal(a->shape[1], 3);
    assert_int_equal(((uintptr_t)a->data) % 8, 0);
    assert_true(((const float *)(const void *)a->data)[3] == 4.5f);
    assert_int_equal(s->rank, 0);
    assert_int_equal(s->data[0], 7);
    assert_int_equal(lj_safetensors_find(file, "empty")->bytes, 0);
    assert_null(lj_safetensors_find(file, "absent"));
    lj_safetensors_close(file);
}

static void short_write_leaves_nothing(void **state)
{
    (void)state;
    lj_safetensors_writer *w;
    assert_ok(lj_safetensors_writer_create(path, &w));
    assert_ok(lj_safetensors_writer_tensor(w, "a", LJ_F32, 1, (int64_t[]){4}));
    assert_ok(lj_safetensors_writer_write(w, "abcd", 4));
    assert_fails(lj_safetensors_writer_commit(w), LJ_ERR_INVALID, "16 bytes of tensors declared, 4 written");
    assert_int_not_equal(access(path, F_OK), 0);
}

/* Case 22: metadata and no tensors. */
static void zero_tensors_keep_metadata(void **state)
{
    (void)state;
    lj_safetensors_writer *w;
    lj_safetensors *file;
    assert_ok(lj_safetensors_writer_create(path, &w));
    assert_ok(lj_safetensors_writer_metadata(w, "only", "this"));
    assert_ok(lj_safetensors_writer_commit(w));
    assert_ok(open_both(&file));
    assert_int_equal(lj_safetensors_count(file), 0);
    assert_string_equal(lj_safetensors_metadata_get(file, 0)->key, "only");
    assert_string_equal(lj_safetensors_metadata_get(file, 0)->value, "this");
    lj_safetensors_close(file);
}

/* Case 23: headers about the size of the first range, through a reader that gives short pieces too. */
typedef struct {
    lj_mapped_file file;
    size_t piece;
} pieces;

static lj_status piece_read(void *user, uint64_t offset, size_t bytes, void *buffer, size_t *got)
{
    const pieces *p = user;
    *got = bytes < p->piece ? bytes : p->piece;
    if (offset + *got > p->file.bytes) *got = p->file.bytes - offset;
    memcpy(buffer, p->file.data + offset, *got);
    return LJ_OK;
}

static void header_sizes_round_the_first_range(void **state)
{
    (void)state;
    static const size_t sizes[] = {99990, 99991, 99992, 99993, 99994, 99999, 100000, 100001, 100008, 250000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        static const char head[] = "{\"t\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"__metadata__\":{\"k\":\"", tail[] = "\"}}";
        char *header = malloc(sizes[i] + 1);
        memset(header, 'x', sizes[i]);
        memcpy(header, head, sizeof head - 1);
        memcpy(header + sizes[i] - (sizeof tail - 1), tail, sizeof tail);
        raw_write(header, 3);
        free(header);
        for (size_t piece = 4096; piece <= 1 << 20; piece *= 16) {
            pieces p = {.piece = piece};
            lj_safetensors *file;
            assert_ok(lj_mapped_file_init(&p.file, path));
            assert_ok(lj_safetensors_open_ranged("ranged", p.file.bytes, piece_read, &p, &file));
            assert_int_equal(lj_safetensors_find(file, "t")->offset, 8 + sizes[i]);
            assert_int_equal(strlen(lj_safetensors_metadata_get(file, 0)->value), sizes[i] - sizeof head + 1 - sizeof tail + 1);
            lj_safetensors_close(file);
            lj_mapped_file_release(&p.file);
        }
    }
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        lj_status status;
        const char *part;
    } rows[] = {
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 5, LJ_ERR_FORMAT, "found 1 more bytes"}, /* case 25 */
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 3, LJ_ERR_FORMAT, "within 0 .. 3, found [0, 4]"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, LJ_ERR_FORMAT, "a gap or an overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3, LJ_ERR_FORMAT, "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, LJ_ERR_FORMAT, "expected 16 bytes by dtype and shape, found 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905,4],\"data_offsets\":[0,4]}}", 4, LJ_ERR_FORMAT, "does not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}", 4, LJ_ERR_FORMAT, "integer"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, LJ_ERR_FORMAT, "whole numbers from 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, LJ_ERR_FORMAT, "whole numbers from 0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, LJ_ERR_FORMAT, "found [4, 0]"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, LJ_ERR_FORMAT, "found [-4, 0]"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, LJ_ERR_FORMAT, "duplicate"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, LJ_ERR_FORMAT, "an object with dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, LJ_ERR_UNSUPPORTED, "'a' has dtype 'Q9'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, LJ_ERR_UNSUPPORTED, "9 dimensions"},
        {"{\"__metadata__\":{\"a\":1}}", 0, LJ_ERR_FORMAT, "expected a string at 'a'"},
        {"{\"__metadata__\":[]}", 0, LJ_ERR_FORMAT, "__metadata__ to be an object"},
        {" {}", 0, LJ_ERR_FORMAT, "offset 8: expected '{'"},
        {"{}x", 0, LJ_ERR_FORMAT, "end of file expected"},
        {"[]", 0, LJ_ERR_FORMAT, "offset 8: expected '{'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lj_safetensors *file = NULL;
        raw_write(rows[i].header, rows[i].data);
        assert_fails(open_both(&file), rows[i].status, rows[i].part);
        assert_non_null(strstr(lj_error_message(), path));
        assert_null(file);
    }
}

static void huge_and_deep_headers_are_refused(void **state)
{
    (void)state;
    uint64_t length = 1ull << 62;
    lj_safetensors *file;
    assert_ok(lj_file_write(path, &length, 8));
    assert_fails(open_both(&file), LJ_ERR_FORMAT, "expected a header of 2 .. 100000000 bytes, found 4611686018427387904");
    char deep[400] = "{\"a\":";
    memset(deep + 5, '[', 300);
    deep[305] = 0;
    raw_write(deep, 0);
    assert_fails(open_both(&file), LJ_ERR_FORMAT, "nested deeper than 64");
}

static void every_prefix_is_refused(void **state)
{
    (void)state;
    lj_mapped_file whole;
    write_three();
    assert_ok(lj_mapped_file_init(&whole, path));
    size_t bytes = whole.bytes;
    lj_mapped_file_release(&whole);
    for (size_t n = bytes; n-- > 0;) {
        lj_safetensors *file;
        assert_int_equal(truncate(path, (off_t)n), 0);
        assert_fails(open_both(&file), LJ_ERR_FORMAT, path);
    }
}

/* Each fallible operation fails once: an error, no leak, no file. */
typedef struct {
    int countdown;
} nth;

static bool fail_nth(void *user, const char *kind, const char *name)
{
    (void)kind, (void)name;
    return ((nth *)user)->countdown-- == 0;
}

static lj_status write_one(void)
{
    lj_safetensors_writer *w;
    LJ_TRY(lj_safetensors_writer_create(path, &w));
    lj_status status = lj_safetensors_writer_tensor(w, "a", LJ_F32, 1, (int64_t[]){1});
    if (status == LJ_OK) status = lj_safetensors_writer_write(w, "abcd", 4);
    if (status == LJ_OK) return lj_safetensors_writer_commit(w);
    lj_safetensors_writer_abort(w);
    return status;
}

static void failures_leave_nothing(void **state)
{
    (void)state;
    size_t before = lj_memory_live();
    int n = 0;
    for (lj_status status = LJ_ERR_IO; status != LJ_OK; n++) {
        nth fault = {n};
        unlink(path);
        lj_fault_set(fail_nth, &fault);
        status = write_one();
        lj_fault_set(NULL, NULL);
        assert_int_equal(access(path, F_OK) == 0, status == LJ_OK);
        assert_int_equal(lj_memory_live(), before);
    }
    assert_true(n > 5);
    n = 0;
    for (lj_status status = LJ_ERR_IO; status != LJ_OK; n++) {
        nth fault = {n};
        lj_safetensors *file;
        lj_fault_set(fail_nth, &fault);
        status = lj_safetensors_open(path, &file);
        lj_fault_set(NULL, NULL);
        if (status == LJ_OK) lj_safetensors_close(file);
        assert_int_equal(lj_memory_live(), before);
    }
    assert_true(n > 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(round_trip),          TEST(short_write_leaves_nothing),        TEST(zero_tensors_keep_metadata), TEST(header_sizes_round_the_first_range),
        TEST(wrong_files_are_refused), TEST(huge_and_deep_headers_are_refused), TEST(every_prefix_is_refused),    TEST(failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
