/* A command is a row of commands[] (commands.c): its name, words for help, the settings it takes, and a function. A file a command. */
#ifndef LJ_CLI_COMMAND_H
#define LJ_CLI_COMMAND_H

#include "base/config.h"
#include "base/log.h"

#include <stddef.h>

enum { LJ_EXIT_OK = 0, LJ_EXIT_FAILED = 1, LJ_EXIT_USAGE = 2, LJ_MAX_POSITIONAL = 64 };

typedef struct {
    const lj_config *config;
    const char **arguments; /* positional, in order */
    size_t argument_count;
} lj_command_input;

typedef struct {
    const char *name, *arguments, *summary; /* "tokenize", "FILE", "one line" */
    const char *details;                    /* paragraphs for --help, or NULL */
    const lj_config_key *keys;              /* beside the common ones */
    size_t key_count;
    /* Returns an exit code; a failing one has the thread's message set, which main prints as one line. */
    int (*run)(const lj_command_input *input);
} lj_command;

extern const lj_command lj_commands[];
extern const size_t lj_command_count;

/* LJ_EXIT_OK or LJ_EXIT_FAILED of a status. */
static inline int lj_exit(lj_status status)
{
    return status == LJ_OK ? LJ_EXIT_OK : LJ_EXIT_FAILED;
}

#define LJ_KEYS(array) (array), sizeof(array) / sizeof *(array)

#endif
