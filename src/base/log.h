/* Log lines and the one way to admit a fallback. */
#ifndef LJ_BASE_LOG_H
#define LJ_BASE_LOG_H

#include "base/status.h"
#include "ljperf/log.h"

#include <stdbool.h>

void lj_log(lj_log_level level, const char *format, ...) LJ_PRINTF(2, 3);

/* Admits that something slower or different than asked is used: one warning for each `key` in a process, an entry for the
 * reports, and LJ_ERR_UNSUPPORTED under strict mode. Every fallback in the project goes through here. */
lj_status lj_fallback(const char *key, const char *reason, const char *remedy);

/* Strict mode turns fallbacks into errors. Set once at start. */
void lj_strict_set(bool strict);
bool lj_strict(void);

/* The fallbacks admitted so far, as "key: reason; remedy" (owned by the log, valid for the process). */
size_t lj_fallback_count(void);
const char *lj_fallback_get(size_t index);

#endif
