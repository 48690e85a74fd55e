/* The doctor: one report of all checks, its text form, the report of several hosts together, and the support
 * bundle. */
#ifndef LJ_HOST_DOCTOR_H
#define LJ_HOST_DOCTOR_H

#include "base/text.h"
#include "host/check.h"

typedef struct {
    const char *root, *data_dir; /* "" = this machine; "" = only the usual data folders */
    const char *image, *job;     /* "" = none */
    int ranks, threads;          /* 0 = from the environment */
    double time_scale;           /* factor of the checks' time-outs; 0 = 1 */
} lj_doctor_options;

/* Runs every check (under 2 s) and gives the report: {schema, verdict: ok|warn|fail, summary, host, root,
 * image, time_unix_s, seconds, ljperf_version, counts, checks: [{name, found, wanted, verdict, source,
 * next_step}], facts}. New reference. Errors: the data files or the manifest. */
lj_status lj_doctor_run(const lj_doctor_options *options, json_t **report);
/* Text: the verdict in one line, then what matters (everything with `all`). */
void lj_doctor_print(lj_text *out, const json_t *report, bool all);
/* Fills verdict, summary and counts of a report from its checks. */
void lj_report_judge(json_t *report);
/* "fail" > "warn" > everything else. */
int lj_verdict_weight(const char *verdict);

/* --- several hosts (merge.c) --- */
/* One report out of several: their failing checks, and what must agree between hosts. `together`: made at the
 * same moment (clocks can be compared). New reference. */
lj_status lj_doctor_merge(const json_t *reports, bool together, json_t **merged);
/* Runs `ljperf doctor --json -` on each host of a comma-separated list through ssh, at once; a host that does
 * not answer is a failing check. `command`: what to run there. */
lj_status lj_doctor_hosts(const char *hosts, const char *command, json_t **merged);

/* --- bundle (bundle.c) --- */
/* Writes a tar file: report.json, report.txt, environment, system files, package lists; every text goes
 * through the redactor. */
lj_status lj_doctor_bundle(const lj_doctor_options *options, const json_t *report, const char *path);
#endif
