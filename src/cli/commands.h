/* The functions behind the rows of commands.c. */
#ifndef LJ_CLI_COMMANDS_H
#define LJ_CLI_COMMANDS_H

#include "cli/command.h"

int lj_command_compile(const lj_command_input *input);
int lj_command_plan(const lj_command_input *input);
int lj_command_version(const lj_command_input *input);
int lj_command_benchmark(const lj_command_input *input);
int lj_command_train(const lj_command_input *input);
int lj_command_generate(const lj_command_input *input);
int lj_command_eval(const lj_command_input *input);
int lj_command_models(const lj_command_input *input);
int lj_command_plot(const lj_command_input *input);
int lj_command_man(const lj_command_input *input);
int lj_command_completion(const lj_command_input *input);
int lj_command_kernels(const lj_command_input *input);
int lj_command_inspect(const lj_command_input *input);
int lj_command_convert(const lj_command_input *input);
int lj_command_doctor(const lj_command_input *input);
int lj_command_image(const lj_command_input *input);
int lj_command_tokenize(const lj_command_input *input);
int lj_command_detokenize(const lj_command_input *input);
int lj_command_data(const lj_command_input *input);
int lj_command_comm(const lj_command_input *input);

#endif
