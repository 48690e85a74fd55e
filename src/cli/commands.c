/* The table of commands: adding one is a file beside this and a row here. */
#include "cli/command.h"
#include "cli/commands.h"

const lj_command lj_commands[] = {
    {"version", "", "versions, machine and what was found on it", NULL, NULL, 0, lj_command_version},
};

const size_t lj_command_count = sizeof lj_commands / sizeof *lj_commands;
