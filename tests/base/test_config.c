#include "support/testing.h"

#include "base/config.h"

#include <stdlib.h>

static const lj_config_key keys[] = {LJ_CFG_threads, LJ_CFG_json, LJ_CFG_strict, LJ_CFG_isa, LJ_CFG_help};

static lj_status read_flags(lj_config *config, int argc, char **argv)
{
    const char *positional[2];
    size_t count;
    return lj_config_read_flags(config, keys, sizeof keys / sizeof *keys, argc, argv, positional, 2, &count);
}

static void flags_are_read(void **state)
{
    (void)state;
    lj_config config;
    lj_config_init(&config);
    char *argv[] = {"--threads", "3", "--json=out.json", "--strict", "file"};
    assert_ok(read_flags(&config, 5, argv));
    assert_int_equal(lj_config_int(&config, LJ_CFG_threads), 3);
    assert_string_equal(lj_config_string(&config, LJ_CFG_json), "out.json");
    assert_true(lj_config_bool(&config, LJ_CFG_strict));
    lj_config_release(&config);
}

static void wrong_flags_are_refused(void **state)
{
    (void)state;
    lj_config config;
    lj_config_init(&config);
    char *typo[] = {"--treads", "3"}, *word[] = {"--threads", "two"}, *range[] = {"--threads", "5000"}, *open[] = {"--json"},
         *choice[] = {"--isa", "avx9"};
    assert_fails(read_flags(&config, 2, typo), LJ_ERR_INVALID, "did you mean --threads");
    assert_fails(read_flags(&config, 2, word), LJ_ERR_INVALID, "not a whole number");
    assert_fails(read_flags(&config, 2, range), LJ_ERR_INVALID, "outside 0 .. 1024");
    assert_fails(read_flags(&config, 1, open), LJ_ERR_INVALID, "needs a value");
    assert_fails(read_flags(&config, 2, choice), LJ_ERR_INVALID, "none of generic|avx2");
    lj_config_release(&config);
}

static void environment_is_weaker_than_flags(void **state)
{
    (void)state;
    lj_config config;
    lj_config_init(&config);
    char *argv[] = {"--threads", "3"};
    setenv("LJPERF_THREADS", "2", 1);
    assert_ok(read_flags(&config, 2, argv));
    assert_ok(lj_config_read_environment(&config));
    assert_int_equal(lj_config_int(&config, LJ_CFG_threads), 3);
    unsetenv("LJPERF_THREADS");
    setenv("LJPERF_TREADS", "2", 1);
    assert_fails(lj_config_read_environment(&config), LJ_ERR_NOT_FOUND, "did you mean LJPERF_THREADS");
    unsetenv("LJPERF_TREADS");
    lj_config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(flags_are_read), cmocka_unit_test(wrong_flags_are_refused),
                                       cmocka_unit_test(environment_is_weaker_than_flags)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
