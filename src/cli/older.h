/* The older spelling of commands: ljperf --action train --model_name deepspeed/llama3-8b. */
#ifndef LJ_CLI_OLDER_H
#define LJ_CLI_OLDER_H

/* When the first argument is an option and --action is among them, gives argv in today's spelling (a static array, command first):
 * returns its count; 0 when this is not the older spelling or --action has no value. */
int lj_older_arguments(int argc, char **argv, char ***out);

#endif
