/* Folders written and read back: whole, sharded, overwritten, and with every operation failing once. */
#include "support/testing.h"

#include "formats/model_write.h"
#include "formats/weights.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIXTURES LJ_TEST_DATA "/formats/"

static char folder[256], target[300];
static lj_weights *source;

static int setup(void **state)
{
    (void)state;
    test_folder_create(folder, sizeof folder);
    snprintf(target, sizeof target, "%s/new/model", folder);
    return lj_weights_open(FIXTURES "tiny.gguf", &source) == LJ_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    lj_weights_close(source);
    test_folder_remove(folder);
    return lj_memory_live() == 0 ? 0 : -1;
}

static lj_status rows_of(void *user, const lj_model_weight *weight, int64_t row, int64_t rows, lj_dtype to, void *out)
{
    (void)user;
    return lj_weights_read(source, lj_weights_find(source, weight->name), row, rows, to, out);
}

static lj_status write_to(lj_dtype dtype, uint64_t shard_bytes, bool overwrite)
{
    lj_model_write_options options = {.dtype = dtype, .max_shard_bytes = shard_bytes, .threads = 3, .overwrite = overwrite};
    return lj_model_folder_write(target, lj_weights_config(source), &options, rows_of, NULL);
}

static bool exists(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", target, name);
    return access(path, F_OK) == 0;
}

/* What was written equals the source, bit by bit in `dtype`. */
static void same_as_source(lj_dtype dtype)
{
    lj_weights *w;
    lj_weights_report report;
    assert_ok(lj_weights_open(target, &w));
    assert_ok(lj_weights_check_model(w, lj_weights_config(w), false, &report));
    assert_int_equal(report.found, 21);
    assert_int_equal(report.unused, 0);
    assert_int_equal(lj_weights_config(w)->dtype, dtype);
    for (size_t i = 0; i < lj_weights_count(w); i++) {
        uint8_t have[4 * 4096], want[4 * 4096];
        lj_weight *a = lj_weights_get(w, i);
        assert_int_equal(a->dtype, dtype);
        assert_ok(lj_weights_read(w, a, 0, a->rows, dtype, have));
        assert_ok(lj_weights_read(source, lj_weights_find(source, a->name), 0, a->rows, dtype, want));
        assert_memory_equal(have, want, (size_t)(a->rows * a->columns) * lj_dtype_bytes(dtype));
    }
    lj_weights_report_release(&report);
    lj_weights_close(w);
}

static void whole_and_every_type(void **state)
{
    (void)state;
    static const lj_dtype types[] = {LJ_F16, LJ_BF16, LJ_F32};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(write_to(types[i], 0, i > 0));
        assert_true(exists("model.safetensors") && exists("config.json") && exists("generation_config.json"));
        assert_false(exists("model.safetensors.index.json"));
        same_as_source(types[i]);
    }
    assert_fails(write_to(LJ_F32, 0, false), LJ_ERR_INVALID, "already there");
    assert_fails(write_to(LJ_I8, 0, true), LJ_ERR_INVALID, "not as i8");
}

/* 22,000 parameters: shards of several sizes, each holding what fits; an earlier set leaves nothing behind. */
static void shards_and_leftovers(void **state)
{
    (void)state;
    assert_ok(write_to(LJ_F16, 20000, false));
    assert_true(exists("model.safetensors.index.json") && exists("model-00001-of-00003.safetensors") && exists("model-00003-of-00003.safetensors"));
    assert_false(exists("model.safetensors"));
    same_as_source(LJ_F16);
    assert_ok(write_to(LJ_F16, 1, true)); /* a file for every tensor */
    assert_true(exists("model-00021-of-00021.safetensors"));
    assert_false(exists("model-00001-of-00003.safetensors"));
    same_as_source(LJ_F16);
    assert_ok(write_to(LJ_BF16, 0, true));
    assert_false(exists("model-00021-of-00021.safetensors") || exists("model.safetensors.index.json"));
    same_as_source(LJ_BF16);
}

typedef struct {
    int countdown;
} nth;

static bool fail_nth(void *user, const char *kind, const char *name)
{
    (void)kind, (void)name;
    return __atomic_fetch_sub(&((nth *)user)->countdown, 1, __ATOMIC_RELAXED) == 0;
}

/* After any failure the folder is no model; no memory is lost; no temporary stays. */
static void every_failure_is_clean(void **state)
{
    (void)state;
    size_t before = lj_memory_live();
    char command[700];
    int n = 0;
    for (lj_status status = LJ_ERR_IO; status != LJ_OK; n++) {
        nth fault = {n};
        lj_weights *w;
        lj_fault_set(fail_nth, &fault);
        status = write_to(LJ_BF16, 20000, true);
        lj_fault_set(NULL, NULL);
        assert_int_equal(lj_memory_live(), before);
        if (status == LJ_OK) break;
        bool complete = lj_weights_open(target, &w) == LJ_OK;
        if (complete) lj_weights_close(w);
        assert_false(complete);
        snprintf(command, sizeof command, "test -z \"$(find '%s' -name '*.tmp.*')\"", folder);
        assert_int_equal(system(command), 0);
    }
    assert_true(n > 20);
    same_as_source(LJ_BF16);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(whole_and_every_type), TEST(shards_and_leftovers), TEST(every_failure_is_clean)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
