/* How failures are made and widened. Policy: the function that finds the fault words it (name, have, need, next step);
 * callers add where it happened with lj_fail_in; only the command line prints. */
#ifndef LJ_BASE_STATUS_H
#define LJ_BASE_STATUS_H

#include "ljperf/status.h"

#include <stddef.h>

#define LJ_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Sets this thread's message and returns `status`, so that `return lj_fail(...)` is the whole error path. */
lj_status lj_fail(lj_status status, const char *format, ...) LJ_PRINTF(2, 3);

/* LJ_ERR_IO with "<what> <path>: <strerror(errno)>". Reads errno first, so call it right after the failing call. */
lj_status lj_fail_errno(const char *what, const char *path);

/* Puts "<context>: " before the thread's message; returns `status` unchanged. No effect on LJ_OK. */
lj_status lj_fail_in(lj_status status, const char *format, ...) LJ_PRINTF(2, 3);

/* Carries a message to another thread: copy it there with lj_error_set. */
void lj_error_set(const char *message);

/* Returns early from the enclosing function when `expr` failed. */
#define LJ_TRY(expr)                                                                                                             \
    do {                                                                                                                         \
        lj_status lj_try_status = (expr);                                                                                        \
        if (lj_try_status != LJ_OK) return lj_try_status;                                                                        \
    } while (0)

/* The same with a cleanup label: sets the variable `status` and jumps. */
#define LJ_TRY_GOTO(expr, label)                                                                                                 \
    do {                                                                                                                         \
        status = (expr);                                                                                                         \
        if (status != LJ_OK) goto label;                                                                                         \
    } while (0)

/* The nearest of `names` (count entries) to `word` by edit distance, or NULL when none is near enough to be a slip. */
const char *lj_nearest_name(const char *word, const char *const *names, size_t count);

#endif
