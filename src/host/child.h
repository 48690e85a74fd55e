/* Running programs and small probes with a time-out, without a shell. */
#ifndef LJ_HOST_CHILD_H
#define LJ_HOST_CHILD_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

typedef struct {
    int code; /* exit status; 128 + signal */
    bool timed_out;
    lj_text output; /* standard output (and error, when asked for together) up to 16 MiB */
    lj_text errors; /* standard error */
} lj_program_result;

typedef struct {
    const char *input;      /* text for standard input; NULL: /dev/null */
    double timeout_s;       /* 0: none */
    bool together;          /* standard error into output */
    bool passthrough;       /* both streams stay the caller's, output is empty */
    const char *const *env; /* NULL-ended "NAME=VALUE" added to the environment; NULL: none */
    const char *folder;     /* working folder; NULL: ours */
} lj_program_options;

/* Runs argv[0] (found along PATH) and waits. LJ_ERR_NOT_FOUND: no such program (the message has its name);
 * LJ_ERR_IO: no process. A program that fails is LJ_OK with its code. Release the result after LJ_OK. */
lj_status lj_child_program_run(const char *const *argv, const lj_program_options *options,
                               lj_program_result *result);
void lj_program_release(lj_program_result *result);
/* Path of a program along PATH; false when there is none. */
bool lj_program_find(const char *name, char *path, size_t capacity);

/* Calls probe(argument) in a child and returns its value (0..255), or -1 when it did not answer in time. */
int lj_probe(int (*probe)(const char *argument), const char *argument, double timeout_s);

#endif
