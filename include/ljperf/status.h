/* Status codes and the thread's last error message: what every ljperf call returns.
 *
 * A call that can fail for a reason of the outside world returns lj_status; its outputs are written only when it returns
 * LJ_OK. The text behind a failure belongs to the calling thread and stays until that thread's next failure. */
#ifndef LJPERF_STATUS_H
#define LJPERF_STATUS_H

#if defined(__GNUC__)
#define LJ_API __attribute__((visibility("default")))
#else
#define LJ_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    LJ_OK = 0,
    LJ_ERR_INVALID,     /* an argument or a file's content contradicts itself or us */
    LJ_ERR_NOMEM,       /* memory is short: the message has the bytes asked for */
    LJ_ERR_IO,          /* the system refused a file operation: the message has path and errno text */
    LJ_ERR_FORMAT,      /* a file is not what its format allows: file, offset, expected, found */
    LJ_ERR_NOT_FOUND,   /* a named thing does not exist; the message has the nearest names */
    LJ_ERR_UNSUPPORTED, /* well formed, but nothing here does it */
    LJ_ERR_COMPILER,    /* no compiler and no packed kernel, or the compiler refused our text */
    LJ_ERR_TIMEOUT,     /* a wait ended without its event: the message says who is missing */
    LJ_ERR_PEER,        /* another rank or process failed */
    LJ_ERR_LIMIT,       /* a stated limit (bytes, entries, depth) is too small: have and need */
    LJ_ERR_INTERRUPTED, /* a signal or an abort asked us to stop */
    LJ_STATUS_COUNT
} lj_status;

/* Name of a code, e.g. "LJ_ERR_IO". Static storage. Any thread. */
LJ_API const char *lj_status_name(lj_status status);

/* Message of this thread's last failure, "" when there was none. Valid until this thread's next failure. */
LJ_API const char *lj_error_message(void);

#ifdef __cplusplus
}
#endif
#endif
