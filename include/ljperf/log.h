/* Where ljperf's words go. A library call never prints: it hands lines to one callback, none by default. */
#ifndef LJPERF_LOG_H
#define LJPERF_LOG_H

#include "ljperf/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { LJ_LOG_ERROR, LJ_LOG_WARN, LJ_LOG_INFO, LJ_LOG_DEBUG } lj_log_level;

/* One line, no newline at its end. May be called from any thread, one call at a time (a lock is held: do not log from it). */
typedef void (*lj_log_fn)(void *user, lj_log_level level, const char *line);

/* Sets the callback for lines up to `max` (NULL: silence). Process wide; any thread. */
LJ_API void lj_log_set(lj_log_fn fn, void *user, lj_log_level max);

#ifdef __cplusplus
}
#endif
#endif
