/* The command line: finds the command, reads environment and flags, runs it, prints the one error line. */
#define _GNU_SOURCE
#include "base/machine.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/manual.h"
#include "cli/older.h"
#include "cli/recipe_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const lj_config_key lj_common_keys[] = {LJ_CFG_help, LJ_CFG_json, LJ_CFG_quiet, LJ_CFG_strict, LJ_CFG_threads,
                                            LJ_CFG_seed, LJ_CFG_isa,  LJ_CFG_cache, LJ_CFG_cc};
enum { COMMON_KEYS = sizeof lj_common_keys / sizeof *lj_common_keys };
const size_t lj_common_key_count = COMMON_KEYS;

static void print_line(void *user, lj_log_level level, const char *line)
{
    static const char *const words[] = {"error: ", "warning: ", "", "debug: "};
    (void)user;
    fprintf(stderr, "%s%s\n", words[level], line);
}

static int usage_error(const char *hint)
{
    fprintf(stderr, "ljperf: %s; see %s\n", lj_error_message(), hint);
    return LJ_EXIT_USAGE;
}

static int print_overview(void)
{
    printf("ljperf %s: train, tune, diagnose and serve language models\n\nusage: ljperf COMMAND [OPTIONS]\n\n", LJ_VERSION);
    for (size_t i = 0; i < lj_command_count; i++) printf("  %-12s %s\n", lj_commands[i].name, lj_commands[i].summary);
    printf("\n`ljperf COMMAND --help` has the options; every option --some-name is also read from LJPERF_SOME_NAME.\n");
    return LJ_EXIT_OK;
}

static int print_help(const lj_command *command)
{
    lj_text help;
    lj_text_init(&help);
    lj_text_add(&help, "usage: ljperf %s [OPTIONS] %s\n\n%s\n", command->name, command->arguments, command->summary);
    if (command->details) lj_text_add(&help, "\n%s\n", command->details);
    if (command->key_count) lj_text_add(&help, "\noptions:\n");
    lj_config_help(&help, command->keys, command->key_count);
    lj_text_add(&help, "\ncommon options:\n");
    lj_config_help(&help, lj_common_keys, COMMON_KEYS);
    int code = lj_exit(lj_text_status(&help));
    if (help.data) fputs(help.data, stdout);
    lj_text_release(&help);
    return code;
}

static const lj_command *command_find(const char *name)
{
    for (size_t i = 0; i < lj_command_count; i++)
        if (strcmp(lj_commands[i].name, name) == 0) return &lj_commands[i];
    return NULL;
}

static int command_unknown(const char *name)
{
    const char *names[128];
    for (size_t i = 0; i < lj_command_count && i < 128; i++) names[i] = lj_commands[i].name;
    const char *near = lj_nearest_name(name, names, lj_command_count);
    fprintf(stderr, "ljperf: no command '%s'%s%s%s; see ljperf --help\n", name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return LJ_EXIT_USAGE;
}

/* Settings that the libraries read from the environment, so that a flag and a variable are the same thing below the command line. */
static void export_settings(const lj_config *config)
{
    static const struct {
        lj_config_key key;
        const char *variable;
    } exported[] = {{LJ_CFG_isa, "LJPERF_ISA"}, {LJ_CFG_cache, "LJPERF_CACHE"}, {LJ_CFG_cc, "LJPERF_CC"}, {LJ_CFG_gemm, "LJPERF_GEMM"}};
    for (size_t i = 0; i < sizeof exported / sizeof *exported; i++)
        if (lj_config_is_set(config, exported[i].key)) setenv(exported[i].variable, lj_config_string(config, exported[i].key), 1);
    lj_strict_set(lj_config_bool(config, LJ_CFG_strict));
}

/* Variables that users of the reference images know. */
static lj_status reference_variables(lj_config *config)
{
    const char *optimize = getenv("CHECKPOINT_OPTIMIZATION");
    if (!optimize || !*optimize || strcasecmp(optimize, "false") == 0 || strcmp(optimize, "0") == 0) return LJ_OK;
    if (strcasecmp(optimize, "true") != 0 && strcmp(optimize, "1") != 0)
        return lj_fail(LJ_ERR_INVALID, "CHECKPOINT_OPTIMIZATION='%s' is neither true nor false", optimize);
    return lj_config_set(config, LJ_CFG_recompute, "auto", LJ_FROM_ENVIRONMENT);
}

static int command_run(const lj_command *command, lj_config *config, int argc, char **argv)
{
    lj_config_key keys[LJ_CFG_COUNT];
    const char *positional[LJ_MAX_POSITIONAL];
    size_t count = 0, positional_count;
    for (size_t i = 0; i < COMMON_KEYS; i++) keys[count++] = lj_common_keys[i];
    for (size_t i = 0; i < command->key_count; i++) keys[count++] = command->keys[i];
    char hint[96];
    snprintf(hint, sizeof hint, "ljperf %s --help", command->name);
    if (lj_config_read_environment(config) != LJ_OK) return usage_error("ljperf --help");
    if (lj_config_read_flags(config, keys, count, argc, argv, positional, LJ_MAX_POSITIONAL, &positional_count) != LJ_OK)
        return usage_error(hint);
    if (reference_variables(config) != LJ_OK) return usage_error(hint);
    if (lj_config_bool(config, LJ_CFG_help)) return print_help(command);
    if (*lj_config_string(config, LJ_CFG_config) &&
        lj_recipe_file_read(lj_config_string(config, LJ_CFG_config), keys, count, config) != LJ_OK)
        return usage_error(hint);
    lj_log_set(print_line, NULL, lj_config_bool(config, LJ_CFG_quiet) ? LJ_LOG_ERROR : LJ_LOG_INFO);
    export_settings(config);
    lj_command_input input = {config, positional, positional_count};
    int code = command->run(&input);
    if (code == LJ_EXIT_USAGE) return usage_error(hint);
    if (code != LJ_EXIT_OK && *lj_error_message()) fprintf(stderr, "ljperf %s: %s\n", command->name, lj_error_message());
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_overview();
        return LJ_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        const lj_command *topic = argc > 2 ? command_find(argv[2]) : NULL;
        return topic ? print_help(topic) : argc > 2 ? command_unknown(argv[2]) : print_overview();
    }
    if (strcmp(argv[1], "--version") == 0) return printf("ljperf %s\n", LJ_VERSION) > 0 ? LJ_EXIT_OK : LJ_EXIT_FAILED;
    char **todays;
    int count = lj_older_arguments(argc, argv, &todays);
    if (count) argc = count, argv = todays;
    const lj_command *command = command_find(argv[1]);
    if (!command) return command_unknown(argv[1]);
    lj_config config;
    lj_config_init(&config);
    int code = command_run(command, &config, argc - 2, argv + 2);
    lj_config_release(&config);
    return code;
}
