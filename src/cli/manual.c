/* ljperf man, ljperf completion: both printed from the tables. */
#include "cli/manual.h"

#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

/* Text with troff's special characters made plain. */
static void troff_add(lj_text *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\\')
            lj_text_add(out, "\\e");
        else if (*c == '-')
            lj_text_add(out, "\\-");
        else if ((*c == '.' || *c == '\'') && (c == text || c[-1] == '\n'))
            lj_text_add(out, "\\&%c", *c);
        else
            lj_text_add(out, "%c", *c);
    }
}

static void flag_add(lj_text *out, const lj_config_row *row)
{
    lj_text_add(out, "--");
    for (const char *c = row->name; *c; c++) lj_text_add(out, "%c", *c == '_' ? '-' : *c);
}

static void option_troff(lj_text *out, lj_config_key key)
{
    const lj_config_row *row = &lj_config_rows[key];
    lj_text flag;
    lj_text_init(&flag);
    flag_add(&flag, row);
    lj_text_add(out, ".TP\n\\fB");
    troff_add(out, flag.data ? flag.data : "");
    lj_text_add(out, "\\fR");
    if (row->type != LJ_CONFIG_BOOL) {
        lj_text_add(out, " \\fI");
        troff_add(out, row->choices);
        lj_text_add(out, "\\fR");
    }
    lj_text_add(out, "\n");
    troff_add(out, row->help);
    if (*row->initial && row->type != LJ_CONFIG_BOOL) {
        lj_text_add(out, " (default ");
        troff_add(out, row->initial);
        lj_text_add(out, ")");
    }
    lj_text_add(out, "\n");
    lj_text_release(&flag);
}

static void command_troff(lj_text *out, const lj_command *command)
{
    lj_text_add(out, ".SS ljperf %s", command->name);
    if (*command->arguments) lj_text_add(out, " %s", command->arguments);
    lj_text_add(out, "\n");
    troff_add(out, command->summary);
    lj_text_add(out, ".\n");
    if (command->details) {
        lj_text_add(out, ".PP\n");
        troff_add(out, command->details);
        lj_text_add(out, "\n");
    }
    for (size_t i = 0; i < command->key_count; i++) option_troff(out, command->keys[i]);
}

void lj_manual_write(lj_text *out)
{
    lj_text_add(out, ".TH LJPERF 1 \"\" \"ljperf %s\"\n.SH NAME\nljperf \\- train, tune, diagnose and serve language models\n", LJ_VERSION);
    lj_text_add(out, ".SH SYNOPSIS\n.B ljperf\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\nResults go to standard output, everything else to standard "
                     "error.\nEvery option \\-\\-some\\-name is also read from the variable LJPERF_SOME_NAME; an option overrides a variable, a variable a "
                     "recipe, a recipe a preset.\n.SH COMMANDS\n");
    for (size_t i = 0; i < lj_command_count; i++) command_troff(out, &lj_commands[i]);
    lj_text_add(out, ".SH COMMON OPTIONS\n");
    for (size_t i = 0; i < lj_common_key_count; i++) option_troff(out, lj_common_keys[i]);
    lj_text_add(out, ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n.SH FILES\n~/.cache/ljperf holds compiled kernels and measured choices.\n");
}

/* Flags of one command, separated by blanks. */
static void flags_add(lj_text *out, const lj_command *command)
{
    for (size_t i = 0; i < command->key_count; i++) {
        lj_text_add(out, i ? " " : "");
        flag_add(out, &lj_config_rows[command->keys[i]]);
    }
    for (size_t i = 0; i < lj_common_key_count; i++) {
        lj_text_add(out, " ");
        flag_add(out, &lj_config_rows[lj_common_keys[i]]);
    }
}

static void command_names_add(lj_text *out)
{
    for (size_t i = 0; i < lj_command_count; i++) lj_text_add(out, i ? " %s" : "%s", lj_commands[i].name);
}

/* Values of settings that are a choice, then files for those that take one. */
static void choices_add(lj_text *out)
{
    for (int key = 0; key < LJ_CFG_COUNT; key++) {
        const lj_config_row *row = &lj_config_rows[key];
        if (row->type != LJ_CONFIG_CHOICE) continue;
        lj_text_add(out, "    ");
        flag_add(out, row);
        lj_text_add(out, ") COMPREPLY=($(compgen -W \"");
        for (const char *c = row->choices; *c; c++) lj_text_add(out, "%c", *c == '|' ? ' ' : *c);
        lj_text_add(out, "\" -- \"$word\")); return ;;\n");
    }
}

void lj_completion_bash_write(lj_text *out)
{
    lj_text_add(out, "# bash completion of ljperf %s, written by `ljperf completion bash`\n_ljperf() {\n", LJ_VERSION);
    lj_text_add(out, "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                     "        COMPREPLY=($(compgen -W \"");
    command_names_add(out);
    lj_text_add(out, " --help --version\" -- \"$word\")); return\n    fi\n    case \"$before\" in\n");
    choices_add(out);
    lj_text_add(out, "    esac\n    [[ \"$word\" == -* ]] || { COMPREPLY=($(compgen -f -- \"$word\")); return; }\n    case \"${COMP_WORDS[1]}\" in\n");
    for (size_t i = 0; i < lj_command_count; i++) {
        lj_text_add(out, "    %s) COMPREPLY=($(compgen -W \"", lj_commands[i].name);
        flags_add(out, &lj_commands[i]);
        lj_text_add(out, "\" -- \"$word\")) ;;\n");
    }
    lj_text_add(out, "    esac\n}\ncomplete -o filenames -F _ljperf ljperf\n");
}

/* A word of zsh's _arguments: quotes, colons and brackets escaped. */
static void zsh_word(lj_text *out, const char *text)
{
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            lj_text_add(out, "'\\''");
        else
            lj_text_add(out, strchr(":[]\\", *c) ? "\\%c" : "%c", *c);
    }
}

static void zsh_option(lj_text *out, lj_config_key key)
{
    const lj_config_row *row = &lj_config_rows[key];
    lj_text_add(out, " \\\n        '");
    flag_add(out, row);
    lj_text_add(out, "%s[", row->type == LJ_CONFIG_BOOL ? "" : "=");
    zsh_word(out, row->help);
    lj_text_add(out, "]");
    if (row->type == LJ_CONFIG_CHOICE) {
        lj_text_add(out, ":value:(");
        for (const char *c = row->choices; *c; c++) lj_text_add(out, "%c", *c == '|' ? ' ' : *c);
        lj_text_add(out, ")");
    } else if (row->type != LJ_CONFIG_BOOL) {
        lj_text_add(out, ":value:%s", strstr(row->choices, "FILE") || strstr(row->choices, "DIR") ? "_files" : "");
    }
    lj_text_add(out, "'");
}

void lj_completion_zsh_write(lj_text *out)
{
    lj_text_add(out, "#compdef ljperf\n# zsh completion of ljperf %s, written by `ljperf completion zsh`\n_ljperf() {\n    local -a commands=(", LJ_VERSION);
    for (size_t i = 0; i < lj_command_count; i++) {
        lj_text_add(out, " '%s:", lj_commands[i].name);
        zsh_word(out, lj_commands[i].summary);
        lj_text_add(out, "'");
    }
    lj_text_add(out, ")\n    if (( CURRENT == 2 )); then _describe command commands; return; fi\n    case $words[2] in\n");
    for (size_t i = 0; i < lj_command_count; i++) {
        lj_text_add(out, "    %s) _arguments", lj_commands[i].name);
        for (size_t k = 0; k < lj_commands[i].key_count; k++) zsh_option(out, lj_commands[i].keys[k]);
        for (size_t k = 0; k < lj_common_key_count; k++) zsh_option(out, lj_common_keys[k]);
        lj_text_add(out, " \\\n        '*:file:_files' ;;\n");
    }
    lj_text_add(out, "    esac\n}\n_ljperf \"$@\"\n");
}

static int print_text(void (*write)(lj_text *out))
{
    lj_text out;
    lj_text_init(&out);
    write(&out);
    lj_status status = lj_text_status(&out);
    if (status == LJ_OK && fwrite(out.data, 1, out.length, stdout) != out.length) status = lj_fail_errno("write", "standard output");
    lj_text_release(&out);
    return lj_exit(status);
}

int lj_command_man(const lj_command_input *input)
{
    (void)input;
    return print_text(lj_manual_write);
}

int lj_command_completion(const lj_command_input *input)
{
    const char *shell = input->argument_count == 1 ? input->arguments[0] : "";
    if (strcmp(shell, "bash") == 0) return print_text(lj_completion_bash_write);
    if (strcmp(shell, "zsh") == 0) return print_text(lj_completion_zsh_write);
    (void)lj_fail(LJ_ERR_INVALID, "completion for which shell? bash or zsh, not '%s'", shell);
    return LJ_EXIT_USAGE;
}
