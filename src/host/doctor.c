#define _GNU_SOURCE
#include "host/doctor.h"

#include "base/clock.h"
#include "host/job.h"
#include "host/manifest.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int lj_verdict_weight(const char *verdict)
{
    return strcmp(verdict, "fail") == 0 ? 2 : strcmp(verdict, "warn") == 0 ? 1 : 0;
}

static const char *first_sentence(const json_t *check, char *out, size_t capacity)
{
    snprintf(out, capacity, "%s: %s%s%s", lj_json_text(check, "name"), lj_json_text(check, "found"),
             *lj_json_text(check, "next_step") ? "; next: " : "", lj_json_text(check, "next_step"));
    return out;
}

void lj_report_judge(json_t *report)
{
    json_t *checks = json_object_get(report, "checks"), *check, *first = NULL, *counts = json_object();
    size_t i;
    int worst = 0;
    char cause[2400] = "";
    for (int v = 0; v < LJ_VERDICT_COUNT; v++)
        json_object_set_new(counts, lj_verdict_names[v], json_integer(0));
    json_array_foreach(checks, i, check)
    {
        const char *verdict = lj_json_text(check, "verdict");
        int weight = lj_verdict_weight(verdict);
        json_object_set_new(counts, verdict,
                            json_integer(json_integer_value(json_object_get(counts, verdict)) + 1));
        if (weight > worst) worst = weight, first = check;
    }
    if (first) first_sentence(first, cause, sizeof cause);
    long long fails = json_integer_value(json_object_get(counts, "fail")),
              warns = json_integer_value(json_object_get(counts, "warn"));
    char head[64] = "OK";
    if (worst == 2) lj_say(head, "FAIL (%lld failed, %lld warning%s)", fails, warns, warns == 1 ? "" : "s");
    if (worst == 1) lj_say(head, "OK with %lld warning%s", warns, warns == 1 ? "" : "s");
    json_object_set_new(report, "verdict", json_string(worst == 2 ? "fail" : worst == 1 ? "warn" : "ok"));
    json_object_set_new(report, "summary",
                        *cause ? json_sprintf("%s: %s", head, cause)
                               : json_sprintf("%s: nothing found that stops or slows a job", head));
    json_object_set_new(report, "counts", counts);
}

static void line_add(lj_text *out, const json_t *check)
{
    static const struct {
        const char *verdict, *mark;
    } marks[] = {{"ok", "ok  "},
                 {"warn", "WARN"},
                 {"fail", "FAIL"},
                 {"not applicable", "n/a "},
                 {"not available", "?   "}};
    const char *mark = "?";
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strcmp(marks[i].verdict, lj_json_text(check, "verdict")) == 0) mark = marks[i].mark;
    lj_text_add(out, "%s %-22s %s\n", mark, lj_json_text(check, "name"), lj_json_text(check, "found"));
    if (lj_verdict_weight(lj_json_text(check, "verdict")) == 0) return;
    if (*lj_json_text(check, "wanted"))
        lj_text_add(out, "     %-22s %s\n", "wanted", lj_json_text(check, "wanted"));
    if (*lj_json_text(check, "next_step"))
        lj_text_add(out, "     %-22s %s\n", "next", lj_json_text(check, "next_step"));
    if (*lj_json_text(check, "source"))
        lj_text_add(out, "     %-22s %s\n", "source", lj_json_text(check, "source"));
}

void lj_doctor_print(lj_text *out, const json_t *report, bool all)
{
    json_t *checks = json_object_get(report, "checks"), *check, *counts = json_object_get(report, "counts");
    size_t i, shown = 0;
    lj_text_add(out, "%s\n", lj_json_text(report, "summary"));
    for (int weight = 2; weight >= 1; weight--) json_array_foreach(checks, i, check)
        {
            if (lj_verdict_weight(lj_json_text(check, "verdict")) != weight) continue;
            if (!shown++) lj_text_add(out, "\n");
            line_add(out, check);
        }
    if (all) lj_text_add(out, "\n");
    if (all)
        json_array_foreach(checks, i, check) if (lj_verdict_weight(lj_json_text(check, "verdict")) == 0)
            line_add(out, check);
    if (!all)
        lj_text_add(out,
                    "%s%lld checks ok, %lld not applicable, %lld not available (--all shows them); %.2f s\n",
                    shown ? "\n" : "", (long long)json_integer_value(json_object_get(counts, "ok")),
                    (long long)json_integer_value(json_object_get(counts, "not applicable")),
                    (long long)json_integer_value(json_object_get(counts, "not available")),
                    lj_json_number(report, "seconds", 0));
}

static lj_status host_prepare(const lj_doctor_options *o, lj_host *host)
{
    LJ_TRY(lj_host_init(host, o->root, o->data_dir));
    host->ranks = o->ranks, host->threads = o->threads, host->time_scale = o->time_scale;
    if (o->image && *o->image) LJ_TRY(lj_manifest_find(o->data_dir, o->image, &host->manifest));
    if (o->job && *o->job) LJ_TRY(lj_job_load(o->job, &host->job));
    const char *image = lj_json_text(host->job, "image");
    json_t *named;
    if (!host->manifest && *image && lj_manifest_find(o->data_dir, image, &named) == LJ_OK)
        host->manifest = named;
    return LJ_OK;
}

static void report_head(const lj_doctor_options *o, const lj_host *host, json_t *report, double seconds)
{
    char name[256] = "";
    if (lj_host_live(host)) (void)gethostname(name, sizeof name - 1);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const char *of_tree = lj_json_text_at(report, "facts.host_name");
    json_object_set_new(report, "schema", json_pack("{s:s, s:i}", "name", "ljperf.doctor", "version", 1));
    json_object_set_new(report, "host", lj_json_string(*name ? name : of_tree));
    json_object_set_new(report, "root", lj_json_string(o->root && *o->root ? o->root : "/"));
    json_object_set_new(report, "image",
                        host->manifest ? json_sprintf("%s:%s", lj_json_text(host->manifest, "name"),
                                                      lj_json_text(host->manifest, "tag"))
                                       : json_null());
    json_object_set_new(report, "time_unix_s", json_real((double)now.tv_sec + (double)now.tv_nsec * 1e-9));
    json_object_set_new(report, "seconds", json_real(seconds));
    json_object_set_new(report, "ljperf_version", json_string(LJ_VERSION));
}

lj_status lj_doctor_run(const lj_doctor_options *options, json_t **report)
{
    lj_host host;
    json_t *result = NULL;
    double start = lj_now_s();
    lj_status status = host_prepare(options, &host);
    if (status == LJ_OK) status = lj_checks_run(&host, lj_checks, lj_check_count, &result);
    if (status == LJ_OK) {
        report_head(options, &host, result, lj_now_s() - start);
        lj_report_judge(result);
        *report = result;
    }
    lj_host_release(&host);
    return status;
}
