/* What is generated from the tables of commands and settings: the man page, shell completion. */
#ifndef LJ_CLI_MANUAL_H
#define LJ_CLI_MANUAL_H

#include "cli/command.h"

/* Settings that every command has (main.c). */
extern const lj_config_key lj_common_keys[];
extern const size_t lj_common_key_count;

void lj_manual_write(lj_text *out);
void lj_completion_bash_write(lj_text *out);
void lj_completion_zsh_write(lj_text *out);

#endif
