/* Megatron's files: written and read again in every element type, with and without modes, and every way they can lie. */
#include "support/testing.h"

#include "formats/megatron.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct {
    char folder[256], prefix[300];
} place;

static place place_make(void)
{
    place p;
    test_folder_create(p.folder, sizeof p.folder);
    snprintf(p.prefix, sizeof p.prefix, "%s/set", p.folder);
    return p;
}

/* Random documents of random sequences; the same seed gives the same set. */
static void write_set(const char *prefix, lj_megatron_type type, bool modes, uint64_t seed, int32_t most)
{
    lj_megatron_writer *writer;
    int32_t tokens[64];
    assert_ok(lj_megatron_writer_begin(prefix, type, modes, &writer));
    int64_t documents = test_random_range(&seed, 0, 7);
    for (int64_t d = 0; d < documents; d++) {
        int64_t sequences = test_random_range(&seed, 1, 4);
        for (int64_t s = 0; s < sequences; s++) {
            size_t count = (size_t)test_random_range(&seed, 0, 63);
            for (size_t i = 0; i < count; i++) tokens[i] = (int32_t)test_random_range(&seed, 0, most);
            assert_ok(lj_megatron_writer_add(writer, tokens, count, (int)(s % 3)));
        }
        assert_ok(lj_megatron_writer_end_document(writer));
    }
    assert_ok(lj_megatron_writer_commit(writer));
}

static void check_set(const char *prefix, lj_megatron_type type, bool modes, uint64_t seed, int32_t most)
{
    lj_megatron *set;
    int32_t tokens[64];
    uint64_t at = 0;
    assert_ok(lj_megatron_open(prefix, &set));
    assert_int_equal(set->type, type);
    int64_t documents = test_random_range(&seed, 0, 7);
    assert_int_equal(set->document_count, documents);
    for (int64_t d = 0; d < documents; d++) {
        int64_t sequences = test_random_range(&seed, 1, 4);
        assert_int_equal(lj_megatron_document(set, (uint64_t)d), at);
        for (int64_t s = 0; s < sequences; s++, at++) {
            uint64_t count = (uint64_t)test_random_range(&seed, 0, 63);
            assert_int_equal(lj_megatron_length(set, at), count);
            assert_int_equal(lj_megatron_mode(set, at), modes ? s % 3 : 0);
            assert_ok(lj_megatron_read(set, at, 0, count, tokens));
            for (uint64_t i = 0; i < count; i++) assert_int_equal(tokens[i], test_random_range(&seed, 0, most));
        }
    }
    assert_int_equal(set->sequence_count, at);
    lj_megatron_close(set);
}

static void sets_come_back(void **state)
{
    (void)state;
    place p = place_make();
    static const int32_t most[] = {0, 255, 127, 32767, 1 << 30, 1 << 30, 1 << 30, 1 << 24, 65535};
    for (int type = 1; type <= 8; type++)
        for (uint64_t seed = 0; seed < 12; seed++) {
            bool modes = seed % 2;
            write_set(p.prefix, (lj_megatron_type)type, modes, seed, most[type]);
            check_set(p.prefix, (lj_megatron_type)type, modes, seed, most[type]);
        }
    test_folder_remove(p.folder);
}

static void tokens_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    place p = place_make();
    lj_megatron_writer *writer;
    assert_ok(lj_megatron_writer_begin(p.prefix, LJ_MEGATRON_U16, false, &writer));
    assert_fails(lj_megatron_writer_add(writer, (const int32_t[]){65536}, 1, 0), LJ_ERR_INVALID, "65536");
    assert_fails(lj_megatron_writer_add(writer, (const int32_t[]){-1}, 1, 0), LJ_ERR_INVALID, "uint16");
    lj_megatron_writer_abort(writer);
    char path[320];
    snprintf(path, sizeof path, "%s.bin", p.prefix);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(lj_megatron_type_for(65499), LJ_MEGATRON_U16);
    assert_int_equal(lj_megatron_type_for(65500), LJ_MEGATRON_I32);
    test_folder_remove(p.folder);
}

/* Every beginning of the index, every byte of it changed: refused with the file's name, or read inside its bounds. */
static void lies_are_refused(void **state)
{
    (void)state;
    place p = place_make();
    char idx[320], cut[320];
    int32_t tokens[64];
    write_set(p.prefix, LJ_MEGATRON_U16, false, 5, 65535);
    snprintf(idx, sizeof idx, "%s.idx", p.prefix);
    snprintf(cut, sizeof cut, "%s/cut.idx", p.folder);
    lj_mapped_file map;
    assert_ok(lj_mapped_file_init(&map, idx));
    uint8_t *copy = malloc(map.bytes);
    char bin[320], cut_bin[320];
    snprintf(bin, sizeof bin, "%s.bin", p.prefix);
    snprintf(cut_bin, sizeof cut_bin, "%s/cut.bin", p.folder);
    assert_int_equal(link(bin, cut_bin), 0);
    for (size_t n = 0; n < 2 * map.bytes; n++) {
        size_t bytes = n < map.bytes ? n : map.bytes;
        memcpy(copy, map.data, map.bytes);
        if (n >= map.bytes) copy[n - map.bytes] ^= (uint8_t)(0x80 | n);
        assert_ok(lj_file_write(cut, copy, bytes));
        lj_megatron *set = NULL;
        lj_status status = lj_megatron_open(cut, &set);
        if (n < map.bytes) assert_int_equal(status, LJ_ERR_FORMAT);
        if (status != LJ_OK) {
            assert_non_null(strstr(lj_error_message(), "cut.idx"));
            continue;
        }
        for (uint64_t s = 0; s < set->sequence_count; s++) {
            uint64_t length = lj_megatron_length(set, s);
            assert_int_not_equal(lj_megatron_read(set, s, 0, length < 64 ? length : 64, tokens), LJ_ERR_INVALID);
        }
        assert_fails(lj_megatron_read(set, set->sequence_count, 0, 0, tokens), LJ_ERR_INVALID, "not there");
        lj_megatron_close(set);
    }
    free(copy);
    lj_mapped_file_release(&map);
    test_folder_remove(p.folder);
}

/* A value that is no id: a fraction, a negative number. */
static void values_are_checked(void **state)
{
    (void)state;
    place p = place_make();
    char bin[320];
    int32_t token;
    lj_megatron *set;
    lj_megatron_writer *writer;
    assert_ok(lj_megatron_writer_begin(p.prefix, LJ_MEGATRON_F64, false, &writer));
    assert_ok(lj_megatron_writer_add(writer, (const int32_t[]){7}, 1, 0));
    assert_ok(lj_megatron_writer_commit(writer));
    snprintf(bin, sizeof bin, "%s.bin", p.prefix);
    const double wrong[] = {1.5, -1, 1e10, strtod("nan", NULL)};
    for (int i = 0; i < 4; i++) {
        assert_ok(lj_file_write(bin, &wrong[i], 8));
        assert_ok(lj_megatron_open(bin, &set));
        assert_fails(lj_megatron_read(set, 0, 0, 1, &token), LJ_ERR_FORMAT, "no token id");
        lj_megatron_close(set);
    }
    test_folder_remove(p.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_come_back),
        cmocka_unit_test(tokens_that_do_not_fit_are_refused),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(values_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
