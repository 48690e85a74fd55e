/* One callback, one lock, and the list of admitted fallbacks. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 4096, MAX_FALLBACKS = 64, FALLBACK_BYTES = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lj_log_fn sink;
static void *sink_user;
static lj_log_level sink_max = LJ_LOG_INFO;
static bool strict_mode;
static char fallbacks[MAX_FALLBACKS][FALLBACK_BYTES];
static size_t fallback_count;

void lj_log_set(lj_log_fn fn, void *user, lj_log_level max)
{
    pthread_mutex_lock(&lock);
    sink = fn, sink_user = user, sink_max = max;
    pthread_mutex_unlock(&lock);
}

void lj_log(lj_log_level level, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (sink && level <= sink_max) sink(sink_user, level, line);
    pthread_mutex_unlock(&lock);
}

void lj_strict_set(bool strict)
{
    strict_mode = strict;
}

bool lj_strict(void)
{
    return strict_mode;
}

/* True when the key was not yet there. A full list drops the entry, never the warning. */
static bool remember(const char *key, const char *reason, const char *remedy)
{
    size_t length = strlen(key);
    bool fresh = true;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < fallback_count && fresh; i++)
        fresh = strncmp(fallbacks[i], key, length) != 0 || fallbacks[i][length] != ':';
    if (fresh && fallback_count < MAX_FALLBACKS)
        snprintf(fallbacks[fallback_count++], FALLBACK_BYTES, "%s: %s; %s", key, reason, remedy);
    pthread_mutex_unlock(&lock);
    return fresh;
}

lj_status lj_fallback(const char *key, const char *reason, const char *remedy)
{
    if (strict_mode) return lj_fail(LJ_ERR_UNSUPPORTED, "%s: %s (refused under --strict); %s", key, reason, remedy);
    if (remember(key, reason, remedy)) lj_log(LJ_LOG_WARN, "%s: %s; %s", key, reason, remedy);
    return LJ_OK;
}

size_t lj_fallback_count(void)
{
    return fallback_count;
}

const char *lj_fallback_get(size_t index)
{
    return index < fallback_count ? fallbacks[index] : "";
}
