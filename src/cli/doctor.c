/* ljperf doctor: is this host, container or tree fit for the job? */
#define _GNU_SOURCE
#include "host/doctor.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/commands.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lj_status emit(const lj_config *config, const json_t *report)
{
    const char *path = lj_config_string(config, LJ_CFG_json);
    lj_status status = LJ_OK;
    if (*path) {
        char *text = json_dumps(report, JSON_INDENT(1));
        lj_text out;
        lj_text_init(&out);
        if (text) lj_text_add(&out, "%s\n", text);
        free(text);
        status = out.data ? lj_file_write(path, out.data, out.length) : lj_fail(LJ_ERR_NOMEM, "report");
        lj_text_release(&out);
    }
    if (status != LJ_OK || strcmp(path, "-") == 0) return status;
    lj_text out;
    lj_text_init(&out);
    lj_doctor_print(&out, report, lj_config_bool(config, LJ_CFG_all));
    if (out.data) fputs(out.data, stdout);
    fflush(stdout);
    lj_text_release(&out);
    return LJ_OK;
}

static int code_of(const json_t *report)
{
    return strcmp(lj_json_text(report, "verdict"), "fail") == 0 ? LJ_EXIT_FAILED : LJ_EXIT_OK;
}

static int finish(lj_status status, const lj_config *config, json_t *report)
{
    if (status == LJ_OK) status = emit(config, report);
    int code = status == LJ_OK ? code_of(report) : LJ_EXIT_FAILED;
    if (status == LJ_OK) lj_error_set(""); /* a failed check is no error of the command */
    json_decref(report);
    return code;
}

static int merge_files(const lj_command_input *input)
{
    json_t *reports = json_array(), *merged = NULL;
    lj_status status = LJ_OK;
    for (size_t i = 0; i < input->argument_count && status == LJ_OK; i++) {
        json_error_t error;
        json_t *report = json_load_file(input->arguments[i], 0, &error);
        json_t *checks = json_object_get(report, "checks");
        if (!json_is_array(checks))
            status = lj_fail(LJ_ERR_FORMAT, "%s: %s", input->arguments[i],
                             report ? "no report of ljperf doctor --json" : error.text);
        if (report && !*lj_json_text(report, "host"))
            json_object_set_new(report, "host", json_string(input->arguments[i]));
        json_array_append_new(reports, report);
    }
    if (status == LJ_OK) status = lj_doctor_merge(reports, false, &merged);
    json_decref(reports);
    if (status != LJ_OK) return LJ_EXIT_USAGE;
    return finish(status, input->config, merged);
}

static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    stopped = 1;
}

/* Prints every check whose verdict is another than at the last look. */
static void print_changes(const json_t *before, const json_t *now)
{
    json_t *checks = json_object_get(now, "checks"), *check, *old = json_object();
    size_t i;
    json_array_foreach(json_object_get(before, "checks"), i, check)
        json_object_set(old, lj_json_text(check, "name"), json_object_get(check, "verdict"));
    json_array_foreach(checks, i, check)
    {
        const char *name = lj_json_text(check, "name"), *was = json_string_value(json_object_get(old, name)),
                   *is = lj_json_text(check, "verdict");
        if (was && strcmp(was, is) == 0) continue;
        if (!was && lj_verdict_weight(is) == 0) continue;
        printf("%s: %s -> %s: %s\n", name, was ? was : "new", is, lj_json_text(check, "found"));
    }
    json_decref(old);
    fflush(stdout);
}

static int watch(const lj_command_input *input, const lj_doctor_options *options)
{
    json_t *before = NULL, *now = NULL;
    signal(SIGINT, stop), signal(SIGTERM, stop);
    lj_status status = lj_doctor_run(options, &before);
    if (status == LJ_OK) status = emit(input->config, before);
    while (status == LJ_OK && !stopped) {
        double until = lj_now_s() + lj_config_float(input->config, LJ_CFG_interval);
        while (!stopped && lj_now_s() < until) lj_sleep_s(0.1);
        if (stopped) break;
        status = lj_doctor_run(options, &now);
        if (status != LJ_OK) break;
        print_changes(before, now);
        json_decref(before);
        before = now;
    }
    int code = status == LJ_OK ? code_of(before) : LJ_EXIT_FAILED;
    json_decref(before);
    if (status == LJ_OK) lj_error_set("");
    return code;
}

int lj_command_doctor(const lj_command_input *input)
{
    const lj_config *c = input->config;
    lj_doctor_options options = {lj_config_string(c, LJ_CFG_root),    lj_config_string(c, LJ_CFG_data_dir),
                                 lj_config_string(c, LJ_CFG_image),   lj_config_string(c, LJ_CFG_job),
                                 (int)lj_config_int(c, LJ_CFG_ranks), (int)lj_config_int(c, LJ_CFG_threads),
                                 lj_config_float(c, LJ_CFG_check_time)};
    json_t *report = NULL;
    if (lj_config_bool(c, LJ_CFG_merge)) return merge_files(input);
    if (input->argument_count) {
        lj_fail(LJ_ERR_INVALID, "unexpected argument '%s' (reports of several hosts: --merge A.json B.json)",
                input->arguments[0]);
        return LJ_EXIT_USAGE;
    }
    lj_status status = LJ_OK;
    if (*lj_config_string(c, LJ_CFG_hosts)) {
        status = lj_doctor_hosts(lj_config_string(c, LJ_CFG_hosts),
                                 lj_config_string(c, LJ_CFG_remote_command), &report);
        return finish(status, c, report);
    }
    if (lj_config_bool(c, LJ_CFG_watch)) return watch(input, &options);
    status = lj_doctor_run(&options, &report);
    if (status == LJ_ERR_NOT_FOUND || status == LJ_ERR_FORMAT)
        return LJ_EXIT_USAGE; /* an unknown image, a job file that is none */
    if (status == LJ_OK && *lj_config_string(c, LJ_CFG_bundle))
        status = lj_doctor_bundle(&options, report, lj_config_string(c, LJ_CFG_bundle));
    return finish(status, c, report);
}
