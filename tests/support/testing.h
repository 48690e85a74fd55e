/* What every test includes: cmocka in its required order, and shorthands. */
#ifndef LJ_TESTS_TESTING_H
#define LJ_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/status.h"

/* Fails with the status name and the message. */
#define assert_ok(expr)                                                                                                          \
    do {                                                                                                                         \
        lj_status assert_ok_status = (expr);                                                                                     \
        if (assert_ok_status != LJ_OK) fail_msg("%s: %s: %s", #expr, lj_status_name(assert_ok_status), lj_error_message());      \
    } while (0)

/* Expects this failure, and `part` somewhere in its message. */
#define assert_fails(expr, expected, part)                                                                                       \
    do {                                                                                                                         \
        lj_status assert_fails_status = (expr);                                                                                  \
        if (assert_fails_status != (expected))                                                                                   \
            fail_msg("%s: got %s, expected %s", #expr, lj_status_name(assert_fails_status), lj_status_name(expected));           \
        if (!strstr(lj_error_message(), part)) fail_msg("message \"%s\" lacks \"%s\"", lj_error_message(), part);                 \
    } while (0)

/* Counter-based random numbers (splitmix64): the same on every machine; state is the caller's. */
uint64_t test_random(uint64_t *state);
double test_random_unit(uint64_t *state);  /* [0, 1) */
int64_t test_random_range(uint64_t *state, int64_t low, int64_t high); /* inclusive */
double test_random_normal(uint64_t *state);

/* A fresh empty folder under the system's temporary folder, removed by test_folder_remove. Static buffer per call site. */
char *test_folder_create(char *buffer, size_t capacity);
void test_folder_remove(const char *path);

#endif
