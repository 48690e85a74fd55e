/* The thread's last message. Knows nothing of logs: a failure that is handled must leave no trace. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 2048, NAME_BYTES = 64 };

static _Thread_local char message[MESSAGE_BYTES];

static const char *const status_names[LJ_STATUS_COUNT] = {
    [LJ_OK] = "LJ_OK",
    [LJ_ERR_INVALID] = "LJ_ERR_INVALID",
    [LJ_ERR_NOMEM] = "LJ_ERR_NOMEM",
    [LJ_ERR_IO] = "LJ_ERR_IO",
    [LJ_ERR_FORMAT] = "LJ_ERR_FORMAT",
    [LJ_ERR_NOT_FOUND] = "LJ_ERR_NOT_FOUND",
    [LJ_ERR_UNSUPPORTED] = "LJ_ERR_UNSUPPORTED",
    [LJ_ERR_COMPILER] = "LJ_ERR_COMPILER",
    [LJ_ERR_TIMEOUT] = "LJ_ERR_TIMEOUT",
    [LJ_ERR_PEER] = "LJ_ERR_PEER",
    [LJ_ERR_LIMIT] = "LJ_ERR_LIMIT",
    [LJ_ERR_INTERRUPTED] = "LJ_ERR_INTERRUPTED",
};

const char *lj_status_name(lj_status status)
{
    return (unsigned)status < LJ_STATUS_COUNT ? status_names[status] : "LJ_UNKNOWN";
}

const char *lj_error_message(void)
{
    return message;
}

void lj_error_set(const char *text)
{
    snprintf(message, sizeof message, "%s", text);
}

lj_status lj_fail(lj_status status, const char *format, ...)
{
    char text[MESSAGE_BYTES]; /* the arguments may point into `message` */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, sizeof message);
    return status;
}

lj_status lj_fail_errno(const char *what, const char *path)
{
    int code = errno;
    return lj_fail(LJ_ERR_IO, "%s %s: %s", what, path, strerror(code));
}

lj_status lj_fail_in(lj_status status, const char *format, ...)
{
    if (status == LJ_OK) return status;
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used < 0 || used >= MESSAGE_BYTES) used = 0;
    snprintf(text + used, sizeof text - (size_t)used, ": %s", message);
    memcpy(message, text, sizeof message);
    return status;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Optimal string alignment (a swap of neighbours counts once: the commonest typing slip). */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][NAME_BYTES + 1], la = strlen(a), lb = strlen(b);
    if (la > NAME_BYTES || lb > NAME_BYTES) return NAME_BYTES;
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t j = 0; j <= lb; j++) last[j] = j;
    for (size_t i = 1; i <= la; i++) {
        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = min3(now[j], before[j - 2] + 1, now[j]);
        }
        size_t *spare = before;
        before = last, last = now, now = spare;
    }
    return last[lb];
}

const char *lj_nearest_name(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t allowed = strlen(word) / 3 + 1, best_distance = allowed + 1;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, names[i]);
        if (distance < best_distance) best = names[i], best_distance = distance;
    }
    return best;
}
