/* ljperf image: what is in an image, does it fit, how is it started. A sub-command is a row of the table. */
#define _GNU_SOURCE
#include "host/image/image.h"
#include "base/file.h"
#include "cli/commands.h"
#include "host/child.h"
#include "host/doctor.h"
#include "host/manifest.h"
#include "host/yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const lj_config *config;
    const char **arguments;
    size_t count;
    lj_image_options options;
} context;

static int usage(const char *format, const char *word)
{
    lj_fail(LJ_ERR_INVALID, format, word);
    return LJ_EXIT_USAGE;
}

static const char *setting(const context *c, lj_config_key key)
{
    return lj_config_string(c->config, key);
}

static lj_status json_out(const context *c, const json_t *value)
{
    const char *path = setting(c, LJ_CFG_json);
    if (!*path) return LJ_OK;
    char *text = json_dumps(value, JSON_INDENT(1));
    lj_status status = text ? lj_file_write(path, text, strlen(text)) : lj_fail(LJ_ERR_NOMEM, "JSON");
    if (status == LJ_OK && strcmp(path, "-") == 0) putchar('\n');
    free(text);
    return status;
}

/* Text goes to standard output unless JSON does. */
static int finish(const context *c, lj_status status, const json_t *value, lj_text *text)
{
    if (status == LJ_OK && value) status = json_out(c, value);
    if (status == LJ_OK && text->data && strcmp(setting(c, LJ_CFG_json), "-") != 0) fputs(text->data, stdout);
    lj_text_release(text);
    return lj_exit(status);
}

/* A name nobody knows is a slip of the caller. */
static int failed(lj_status status)
{
    return status == LJ_ERR_NOT_FOUND || status == LJ_ERR_INVALID ? LJ_EXIT_USAGE : LJ_EXIT_FAILED;
}

static int run_list(context *c)
{
    json_t *manifests;
    lj_text text;
    lj_text_init(&text);
    lj_status status = lj_manifests_load(c->options.data_dir, &manifests);
    if (status != LJ_OK) return LJ_EXIT_FAILED;
    lj_image_list(manifests, &text);
    int code = finish(c, status, manifests, &text);
    json_decref(manifests);
    return code;
}

typedef void (*words_fn)(const json_t *, lj_text *);

static int run_words(context *c, words_fn words)
{
    json_t *manifest;
    lj_text text;
    lj_text_init(&text);
    lj_status status = lj_manifest_find(c->options.data_dir, c->arguments[0], &manifest);
    if (status != LJ_OK) return failed(status);
    words(manifest, &text);
    int code = finish(c, status, manifest, &text);
    json_decref(manifest);
    return code;
}

static int run_show(context *c)
{
    return run_words(c, lj_image_show);
}

static int run_notes(context *c)
{
    json_t *manifest;
    lj_text text;
    lj_text_init(&text);
    lj_status status = lj_manifest_find(c->options.data_dir, c->arguments[0], &manifest);
    if (status != LJ_OK) return failed(status);
    lj_image_notes(manifest, setting(c, LJ_CFG_language), &text);
    int code = finish(c, status, NULL, &text);
    json_decref(manifest);
    return code;
}

static int run_diff(context *c)
{
    json_t *a = NULL, *b = NULL;
    lj_text text;
    if (c->count < 2) return usage("image diff needs two images%s", "");
    lj_text_init(&text);
    lj_status status = lj_manifest_find(c->options.data_dir, c->arguments[0], &a);
    if (status == LJ_OK) status = lj_manifest_find(c->options.data_dir, c->arguments[1], &b);
    int code = failed(status);
    if (status == LJ_OK) {
        json_t *diff = lj_image_diff(a, b);
        lj_image_diff_print(diff, &text);
        code = finish(c, status, diff, &text);
        json_decref(diff);
    }
    json_decref(a);
    json_decref(b);
    return code;
}

static int report_out(const context *c, lj_status status, json_t *report)
{
    lj_text text;
    lj_text_init(&text);
    if (status != LJ_OK) return failed(status);
    lj_doctor_print(&text, report, lj_config_bool(c->config, LJ_CFG_all));
    int code = finish(c, status, report, &text);
    if (code == LJ_EXIT_OK && strcmp(lj_json_text(report, "verdict"), "fail") == 0) code = LJ_EXIT_FAILED;
    lj_error_set("");
    json_decref(report);
    return code;
}

static int run_check(context *c)
{
    json_t *report = NULL;
    lj_status status = lj_image_check(c->options.data_dir, c->arguments[0], setting(c, LJ_CFG_root), &report);
    return report_out(c, status, report);
}

static int run_lint(context *c)
{
    json_t *report = NULL;
    lj_status status = lj_image_lint(c->options.data_dir, setting(c, LJ_CFG_image), c->arguments[0], &report);
    return status == LJ_ERR_IO ? LJ_EXIT_USAGE : report_out(c, status, report);
}

static int execute(const json_t *words)
{
    const char *argv[256] = {NULL};
    size_t i;
    json_t *word;
    json_array_foreach(words, i, word) if (i < 255) argv[i] = json_string_value(word);
    lj_program_options options = {.passthrough = true};
    lj_program_result result;
    fflush(stdout);
    if (lj_child_program_run(argv, &options, &result) != LJ_OK) return LJ_EXIT_FAILED;
    if (result.code != 0) lj_fail(LJ_ERR_PEER, "%s ended with %d", argv[0], result.code);
    int code = result.code == 0 ? LJ_EXIT_OK : LJ_EXIT_FAILED;
    lj_program_release(&result);
    return code;
}

static int run_run(context *c)
{
    json_t *manifest, *words;
    lj_text text;
    lj_text_init(&text);
    lj_status status = lj_manifest_find(c->options.data_dir, c->arguments[0], &manifest);
    if (status != LJ_OK) return failed(status);
    if (!lj_config_is_set(c->config, LJ_CFG_cards)) c->options.cards = 0;
    status = lj_image_run_words(manifest, &c->options, &words);
    json_decref(manifest);
    if (status != LJ_OK) return failed(status);
    lj_image_words_print(words, &text);
    int code = finish(c, status, words, &text);
    if (code == LJ_EXIT_OK && lj_config_bool(c->config, LJ_CFG_execute)) code = execute(words);
    json_decref(words);
    return code;
}

static int run_kubernetes(context *c)
{
    json_t *manifest, *object = NULL;
    lj_text text;
    lj_text_init(&text);
    lj_status status = lj_manifest_find(c->options.data_dir, c->arguments[0], &manifest);
    if (status == LJ_OK) {
        status = lj_image_kubernetes(manifest, &c->options, &object);
        json_decref(manifest);
    }
    if (status != LJ_OK) return failed(status);
    char *yaml = lj_yaml_write(object);
    if (yaml) lj_text_add(&text, "%s", yaml);
    free(yaml);
    int code = finish(c, status, object, &text);
    json_decref(object);
    return code;
}

static int run_pull(context *c)
{
    json_t *manifest, *result = NULL;
    lj_text text;
    lj_text_init(&text);
    lj_status status = lj_manifest_find(c->options.data_dir, c->arguments[0], &manifest);
    if (status != LJ_OK) return failed(status);
    status = lj_image_pull(manifest, &c->options, &result);
    json_decref(manifest);
    if (status != LJ_OK) return LJ_EXIT_FAILED;
    lj_text_add(&text, "%s@%s\n%s\n", lj_json_text(result, "reference"), lj_json_text(result, "digest"),
                lj_json_text(result, "folder"));
    int code = finish(c, status, result, &text);
    json_decref(result);
    return code;
}

static int run_test(context *c)
{
    json_t *manifests, *result = NULL;
    lj_text text;
    size_t i;
    json_t *row;
    lj_text_init(&text);
    lj_component_options options = {
        c->options.data_dir, setting(c, LJ_CFG_flavour), setting(c, LJ_CFG_python),
        *c->options.output_dir ? c->options.output_dir : "component-tests", setting(c, LJ_CFG_only)};
    lj_status status = lj_manifests_load(c->options.data_dir, &manifests);
    if (status != LJ_OK) return LJ_EXIT_FAILED;
    status = lj_image_components(manifests, &options, &result);
    json_decref(manifests);
    if (status != LJ_OK) return LJ_EXIT_FAILED;
    bool bad = false;
    json_array_foreach(json_object_get(result, "rows"), i, row)
    {
        lj_text_add(&text, "%-26s wanted %-18s got %-16s %s\n", lj_json_text(row, "component"),
                    lj_json_text(row, "wanted"), *lj_json_text(row, "got") ? lj_json_text(row, "got") : "-",
                    lj_json_text(row, "verdict"));
        bad |= strcmp(lj_json_text(row, "verdict"), "failed") == 0 ||
               strcmp(lj_json_text(row, "verdict"), "no test") == 0;
    }
    int code = finish(c, status, result, &text);
    json_decref(result);
    if (bad) lj_fail(LJ_ERR_PEER, "a component's test failed; see the table in %s", options.output_dir);
    return bad ? LJ_EXIT_FAILED : code;
}

static const struct {
    const char *name;
    size_t least; /* arguments that must be there */
    int (*run)(context *);
} actions[] = {{"list", 0, run_list}, {"show", 1, run_show},   {"check", 1, run_check},
               {"pull", 1, run_pull}, {"run", 1, run_run},     {"k8s", 1, run_kubernetes},
               {"diff", 2, run_diff}, {"notes", 1, run_notes}, {"lint", 1, run_lint},
               {"test", 0, run_test}};
enum { ACTIONS = sizeof actions / sizeof *actions };

static lj_image_options options_read(const lj_config *c)
{
    return (lj_image_options){.data_dir = lj_config_string(c, LJ_CFG_data_dir),
                              .registry = lj_config_string(c, LJ_CFG_registry),
                              .region = lj_config_string(c, LJ_CFG_region),
                              .registry_host = lj_config_string(c, LJ_CFG_registry_host),
                              .digest = lj_config_string(c, LJ_CFG_digest),
                              .engine = lj_config_string(c, LJ_CFG_engine),
                              .kind = lj_config_string(c, LJ_CFG_kind),
                              .card_model = lj_config_string(c, LJ_CFG_card_model),
                              .driver_version = lj_config_string(c, LJ_CFG_driver_version),
                              .job_name = lj_config_string(c, LJ_CFG_job_name),
                              .shm_size = lj_config_string(c, LJ_CFG_shm_size),
                              .compute_class = lj_config_string(c, LJ_CFG_compute_class),
                              .output_dir = lj_config_string(c, LJ_CFG_output_dir),
                              .cards = (int)lj_config_int(c, LJ_CFG_cards),
                              .nodes = (int)lj_config_int(c, LJ_CFG_nodes),
                              .tls_verify = lj_config_bool(c, LJ_CFG_tls_verify),
                              .quiet = lj_config_bool(c, LJ_CFG_quiet)};
}

int lj_command_image(const lj_command_input *input)
{
    const char *names[ACTIONS];
    for (size_t i = 0; i < ACTIONS; i++) names[i] = actions[i].name;
    if (!input->argument_count)
        return usage("image needs an action: list, show, check, pull, run, k8s, diff, notes, lint or test%s",
                     "");
    for (size_t i = 0; i < ACTIONS; i++) {
        if (strcmp(actions[i].name, input->arguments[0]) != 0) continue;
        context c = {input->config, input->arguments + 1, input->argument_count - 1,
                     options_read(input->config)};
        if (c.count < actions[i].least)
            return usage("image %s needs the name of an image, or a path", actions[i].name);
        if (c.count > 1) c.options.command = c.arguments + 1, c.options.command_count = c.count - 1;
        return actions[i].run(&c);
    }
    const char *near = lj_nearest_name(input->arguments[0], names, ACTIONS);
    lj_fail(LJ_ERR_INVALID, "image: no action '%s'%s%s%s", input->arguments[0],
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return LJ_EXIT_USAGE;
}
