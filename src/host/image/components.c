/* Component smoke tests: a virtual environment with what can be had, a program of seconds for each component,
 * and the table of wanted, got and why. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "host/child.h"
#include "host/image/image.h"
#include "host/version.h"
#include "host/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double INSTALL_SECONDS = 900, TEST_SECONDS = 120;
enum { MAX_WORDS = 64, MAX_ENV = 64 };

typedef struct {
    const lj_component_options *options;
    json_t *rules;
    char folder[LJ_PATH_BYTES], python[LJ_PATH_BYTES + 32],
        accl[LJ_PATH_BYTES + 32]; /* accl: our library beside the program */
    const char *env[MAX_ENV];     /* "NAME=VALUE", owned by arena */
    lj_arena arena;
} lab;

/* lib/libaccl.so of an installed program, libaccl.so beside one that was just built. */
static void accl_find(lab *l)
{
    char self[LJ_PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    lj_say(l->accl, "%s/libaccl.so", self);
    if (access(l->accl, R_OK) != 0) lj_say(l->accl, "%s/../lib/libaccl.so", self);
}

static const char *filled(lab *l, const char *text, const char *version);

static lj_status lab_begin(lab *l, const lj_component_options *o)
{
    char path[LJ_PATH_BYTES];
    *l = (lab){.options = o};
    lj_arena_init(&l->arena, "component tests");
    accl_find(l);
    LJ_TRY(lj_data_path(o->data_dir, "components.yaml", path, sizeof path));
    LJ_TRY(lj_yaml_load(path, &l->rules));
    LJ_TRY(lj_folder_create(o->output_dir, 0755));
    if (!realpath(o->output_dir, l->folder)) return lj_fail_errno("open", o->output_dir);
    lj_say(l->python, "%s/environment/bin/python", l->folder);
    const char *name;
    json_t *value;
    size_t count = 0;
    json_object_foreach(json_object_get(l->rules, "environment"), name, value) if (count + 1 < MAX_ENV)
        l->env[count++] = lj_arena_printf(&l->arena, "%s=%s", name, filled(l, json_string_value(value), ""));
    return LJ_OK;
}

static void lab_end(lab *l)
{
    json_decref(l->rules);
    lj_arena_release(&l->arena);
}

static lj_status run(const lab *l, const char *const *argv, const char *input, double timeout,
                     lj_program_result *result)
{
    lj_program_options options = {
        .input = input, .timeout_s = timeout, .together = true, .env = l->env, .folder = l->folder};
    return lj_child_program_run(argv, &options, result);
}

static lj_status environment_make(const lab *l)
{
    char folder[LJ_PATH_BYTES + 32];
    lj_say(folder, "%s/environment", l->folder);
    if (access(l->python, X_OK) == 0) return LJ_OK;
    const char *argv[] = {l->options->python, "-m", "venv", folder, NULL};
    lj_program_result result;
    lj_log(LJ_LOG_INFO, "making %s", folder);
    LJ_TRY(run(l, argv, NULL, 300, &result));
    lj_status status = result.code == 0 ? LJ_OK
                                        : lj_fail(LJ_ERR_IO, "%s -m venv %s: %.300s", l->options->python,
                                                  folder, result.output.data ? result.output.data : "failed");
    lj_program_release(&result);
    return status;
}

/* Words of a rule with {version} and {python} filled in. */
static const char *filled(lab *l, const char *text, const char *version)
{
    const struct {
        const char *mark, *value;
    } marks[] = {{"{version}", version},
                 {"{python}", access(l->python, X_OK) == 0 ? l->python : l->options->python},
                 {"{accl}", l->accl},
                 {"{folder}", l->folder}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = strstr(text, marks[i].mark);
        if (at)
            return lj_arena_printf(&l->arena, "%.*s%s%s", (int)(at - text), text, marks[i].value,
                                   at + strlen(marks[i].mark));
    }
    return text;
}

static bool pip(lab *l, const json_t *words, const char *version, char *why, size_t capacity)
{
    const char *argv[MAX_WORDS] = {
        l->python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"};
    size_t count = 7, i;
    json_t *word;
    lj_program_result result;
    json_array_foreach(words, i, word) if (count + 1 < MAX_WORDS) argv[count++] =
        filled(l, json_string_value(word), version);
    if (run(l, argv, NULL, INSTALL_SECONDS, &result) != LJ_OK) {
        snprintf(why, capacity, "%s", lj_error_message());
        return false;
    }
    bool good = result.code == 0;
    char *text = result.output.data ? result.output.data : "", *error = strstr(text, "ERROR:"),
         *versions = strstr(text, " (from versions:");
    if (versions) *versions = '\n'; /* the list of all versions tells a reader nothing */
    if (!good)
        snprintf(why, capacity, "%s%.*s", result.timed_out ? "pip did not end in time: " : "",
                 (int)(error ? strcspn(error, "\n") : strcspn(text, "\n")), error ? error : text);
    lj_program_release(&result);
    return good;
}

static void installed_version(lab *l, const char *name, char *out, size_t capacity)
{
    const char *argv[] = {l->python, "-c",
                          "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))",
                          name, NULL};
    lj_program_result result;
    *out = 0;
    if (run(l, argv, NULL, 60, &result) != LJ_OK) return;
    if (result.code == 0 && result.output.data)
        snprintf(out, capacity, "%.*s", (int)strcspn(result.output.data, "\r\n"), result.output.data);
    lj_program_release(&result);
}

static void set_text(json_t *row, const char *key, const char *text)
{
    json_object_set_new(row, key, lj_json_string(text));
}

static void add_why(json_t *row, const char *text)
{
    const char *before = lj_json_text(row, "why");
    if (*text)
        json_object_set_new(row, "why",
                            *before ? json_sprintf("%s; %s", before, text) : lj_json_string(text));
}

/* The last line that a program printed. */
static void last_line(const char *text, char *out, size_t capacity)
{
    size_t length = strlen(text);
    while (length && strchr("\r\n ", text[length - 1])) length--;
    size_t start = length;
    while (start && text[start - 1] != '\n') start--;
    snprintf(out, capacity, "%.*s", (int)(length - start), text + start);
}

static void program_test(lab *l, const char *const *argv, double seconds, json_t *row)
{
    lj_program_result result;
    char line[300];
    double start = lj_now_s();
    if (run(l, argv, NULL, seconds, &result) != LJ_OK) {
        set_text(row, "verdict", "not here");
        add_why(row, lj_error_message());
        return;
    }
    json_object_set_new(row, "seconds", json_real(lj_now_s() - start));
    last_line(result.output.data ? result.output.data : "", line, sizeof line);
    set_text(row, "said", line);
    set_text(row, "verdict", result.code == 0 ? "passed" : result.timed_out ? "no answer in time" : "failed");
    lj_program_release(&result);
}

static void python_test(lab *l, const json_t *rule, json_t *row)
{
    const char *argv[] = {l->python, "-W", "ignore", NULL, NULL};
    char path[LJ_PATH_BYTES + 64];
    lj_say(path, "%s/test_%s.py", l->folder, lj_json_text(rule, "name"));
    const char *text =
        lj_arena_printf(&l->arena, "%s%s", lj_json_text(l->rules, "prelude"), lj_json_text(rule, "test"));
    if (!text || lj_file_write(path, text, strlen(text)) != LJ_OK) {
        add_why(row, lj_error_message());
        return;
    }
    argv[3] = path;
    program_test(l, argv, lj_json_number(rule, "seconds", TEST_SECONDS), row);
}

static void command_test(lab *l, const json_t *rule, json_t *row)
{
    const char *argv[MAX_WORDS] = {NULL};
    char version[64];
    size_t i;
    json_t *word;
    json_array_foreach(json_object_get(rule, "command"), i, word) if (i + 1 < MAX_WORDS) argv[i] =
        filled(l, json_string_value(word), "");
    bool ours =
        json_array_size(json_object_get(rule, "command")) &&
        strstr(json_string_value(json_array_get(json_object_get(rule, "command"),
                                                json_array_size(json_object_get(rule, "command")) - 1)),
               "{accl}");
    if (ours && access(l->accl, R_OK) != 0) {
        set_text(row, "verdict", "not here");
        add_why(row, "libaccl.so is not beside this program");
        return;
    }
    program_test(l, argv, lj_json_number(rule, "seconds", TEST_SECONDS), row);
    if (lj_version_find(lj_json_text(row, "said"), version, sizeof version)) set_text(row, "got", version);
}

static void install(lab *l, const json_t *rule, json_t *row, const char *wanted)
{
    char why[400] = "", got[128];
    json_t *words = json_object_get(rule, "install"), *any = json_object_get(rule, "any"),
           *extra = json_object_get(rule, "extra"), *extra_any = json_object_get(rule, "extra_any");
    const char *name = lj_json_text(rule, "name");
    char public_version[64];
    lj_say(public_version, "%.*s", (int)strcspn(wanted, "+"), wanted);
    if (*lj_json_text(rule, "public")) lj_say(public_version, "%s", lj_json_text(rule, "public"));
    lj_log(LJ_LOG_INFO, "installing %s", name);
    if (json_object_get(rule, "needs")) (void)pip(l, json_object_get(rule, "needs"), "", why, sizeof why);
    if (extra && !pip(l, extra, public_version, why, sizeof why) && extra_any)
        (void)pip(l, extra_any, public_version, why, sizeof why);
    /* torch's own CPU build first where it exists: the public wheel of that number brings gigabytes of CUDA
     * libraries */
    bool prefer_any = strcmp(name, "torch") == 0,
         good = pip(l, prefer_any ? any : words, public_version, why, sizeof why);
    if (!good) {
        add_why(row, why);
        good = any && pip(l, prefer_any ? words : any, public_version, why, sizeof why);
        if (!good) add_why(row, why);
    }
    installed_version(l, name, got, sizeof got);
    if (!*got && *lj_json_text(rule, "as")) installed_version(l, lj_json_text(rule, "as"), got, sizeof got);
    set_text(row, "got", got);
}

static bool chosen(const lab *l, const char *name)
{
    const char *only = l->options->only;
    if (!*only) return true;
    size_t length = strlen(name);
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length])) return true;
    return false;
}

static json_t *rule_of(const lab *l, const char *name)
{
    size_t i;
    json_t *rule;
    json_array_foreach(json_object_get(l->rules, "components"), i,
                       rule) if (strcmp(lj_json_text(rule, "name"), name) == 0) return rule;
    return NULL;
}

static bool has_card(void)
{
    return access("/dev/nvidia0", F_OK) == 0 || access("/dev/alixpu_ppu0", F_OK) == 0;
}

static void component_run(lab *l, const char *name, json_t *row)
{
    json_t *rule = rule_of(l, name);
    if (!rule) {
        set_text(row, "verdict", "no test");
        add_why(row, "data/components.yaml has no row for it");
        return;
    }
    add_why(row, lj_json_text(rule, "why"));
    if (json_is_true(json_object_get(rule, "gpu")) && !json_object_get(rule, "test")) {
        set_text(row, "verdict", has_card() ? "no test" : "needs a card");
        return;
    }
    if (json_object_get(rule, "command")) {
        command_test(l, rule, row);
        return;
    }
    install(l, rule, row, lj_json_text(row, "wanted"));
    if (*lj_json_text(row, "got"))
        python_test(l, rule, row);
    else
        set_text(row, "verdict", "not here");
}

/* Union of all manifests' components: name -> row with the images that have it. */
static json_t *rows_make(const json_t *manifests)
{
    json_t *rows = json_object(), *m, *component;
    size_t i, k;
    json_array_foreach(manifests, i, m) json_array_foreach(json_object_get(m, "components"), k, component)
    {
        const char *name = lj_json_text(component, "name");
        json_t *row = json_object_get(rows, name);
        if (!row)
            json_object_set_new(rows, name,
                                row =
                                    json_pack("{s:s, s:[], s:s, s:s, s:s, s:s, s:s, s:f}", "component", name,
                                              "images", "wanted", lj_json_text(component, "version"), "got",
                                              "", "why", "", "said", "", "verdict", "", "seconds", 0.0));
        json_array_append_new(json_object_get(row, "images"),
                              json_sprintf("%s %s: %s", lj_json_text(m, "name"), lj_json_text(m, "version"),
                                           lj_json_text(component, "version")));
    }
    return rows;
}

/* --- tables --- */

static void cell(lj_text *out, const char *text, bool html)
{
    for (; *text; text++) {
        if (html && strchr("<>&", *text))
            lj_text_add(out, "&#%d;", *text);
        else if (!html && *text == '|')
            lj_text_add(out, "\\|");
        else if (*text == '\n')
            lj_text_add(out, " ");
        else
            lj_text_add_bytes(out, text, 1);
    }
}

static const char *const columns[] = {"component", "wanted", "got", "verdict", "said", "why"};
static const char *const titles[] = {"component", "wanted",        "got",
                                     "tested",    "the test said", "why they differ"};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void table_write(lj_text *out, const json_t *rows, bool html)
{
    size_t i;
    json_t *row;
    lj_text_add(
        out, html ? "<!doctype html><meta charset=\"utf-8\"><title>components</title><table border=\"1\"><tr>"
                  : "|");
    for (i = 0; i < COLUMNS; i++) lj_text_add(out, html ? "<th>%s</th>" : " %s |", titles[i]);
    lj_text_add(out, html ? "</tr>\n" : "\n|---|---|---|---|---|---|\n");
    json_array_foreach(rows, i, row)
    {
        lj_text_add(out, html ? "<tr>" : "|");
        for (size_t k = 0; k < COLUMNS; k++) {
            lj_text_add(out, html ? "<td>" : " ");
            cell(out, lj_json_text(row, columns[k]), html);
            lj_text_add(out, html ? "</td>" : " |");
        }
        lj_text_add(out, html ? "</tr>\n" : "\n");
    }
    if (html) lj_text_add(out, "</table>\n");
}

static lj_status file_in(const lab *l, const char *name, const lj_text *text)
{
    char path[LJ_PATH_BYTES + 64];
    LJ_TRY(lj_text_status(text));
    lj_say(path, "%s/%s", l->folder, name);
    return lj_file_write(path, text->data ? text->data : "", text->length);
}

static lj_status tables_write(const lab *l, const json_t *result)
{
    static const char *const names[] = {"components.md", "components.html", "components.json"};
    lj_status status = LJ_OK;
    for (int i = 0; i < 3 && status == LJ_OK; i++) {
        lj_text text;
        lj_text_init(&text);
        if (i == 2) {
            char *json = json_dumps(result, JSON_INDENT(1));
            lj_text_add(&text, "%s\n", json ? json : "{}");
            free(json);
        } else {
            table_write(&text, json_object_get(result, "rows"), i == 1);
        }
        status = file_in(l, names[i], &text);
        lj_text_release(&text);
    }
    return status;
}

/* The last run's row of a component that this run leaves out; NULL when there is none. Borrowed from
 * `before`. */
static json_t *kept_row(const json_t *before, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(before, "rows"), i, row)
    {
        if (strcmp(lj_json_text(row, "component"), name) == 0) return row;
    }
    return NULL;
}

static json_t *last_run(const lab *l)
{
    char path[LJ_PATH_BYTES + 64];
    lj_say(path, "%s/components.json", l->folder);
    return json_load_file(path, 0, NULL);
}

lj_status lj_image_components(const json_t *manifests, const lj_component_options *options, json_t **result)
{
    lab l;
    char why[400];
    const char *name;
    json_t *row, *list = json_array();
    lj_status status = lab_begin(&l, options);
    if (status == LJ_OK) status = environment_make(&l);
    if (status == LJ_OK && !pip(&l, json_object_get(l.rules, "first"), "", why, sizeof why))
        status = lj_fail(LJ_ERR_IO, "pip: %s", why);
    json_t *rows = rows_make(manifests), *before = status == LJ_OK ? last_run(&l) : NULL;
    if (status == LJ_OK) json_object_foreach(rows, name, row)
        {
            if (!chosen(&l, name)) {
                json_t *kept = kept_row(before, name);
                if (kept) json_array_append(list, kept);
                continue;
            }
            component_run(&l, name, row);
            lj_log(LJ_LOG_INFO, "%s: %s", name, lj_json_text(row, "verdict"));
            json_array_append(list, row);
        }
    json_t *made = json_pack("{s:{s:s, s:i}, s:s, s:o}", "schema", "name", "ljperf.image.components",
                             "version", 1, "flavour", options->flavour, "rows", list);
    if (status == LJ_OK) status = tables_write(&l, made);
    if (status == LJ_OK)
        *result = made;
    else
        json_decref(made);
    json_decref(rows);
    json_decref(before);
    lab_end(&l);
    return status;
}
