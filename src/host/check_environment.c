/* Variables that hurt, and lines of the kernel log that explain failures: both are tables of data/rules. */
#define _GNU_SOURCE
#include "host/cgroup.h"
#include "host/check.h"
#include "host/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool vendor_present(lj_host *host, const char *vendor)
{
    static const struct {
        const char *vendor, *paths[3];
    } rows[] = {{"nvidia", {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/nvidia0"}},
                {"amd", {"/dev/kfd", "/sys/module/amdgpu", NULL}},
                {"rdma", {"/sys/class/infiniband", "/dev/infiniband", NULL}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].vendor, vendor) != 0) continue;
        for (size_t k = 0; k < 3 && rows[i].paths[k]; k++)
            if (lj_host_exists(host, rows[i].paths[k])) return true;
    }
    return false;
}

static bool any_set(lj_host *host, const char *names)
{
    while (*names) {
        char one[64];
        size_t length = strcspn(names, "|");
        lj_say(one, "%.*s", (int)length, names);
        if (lj_host_env(host, one)) return true;
        names += length + (names[length] == '|');
    }
    return false;
}

static bool flag(const json_t *row, const char *key)
{
    return json_is_true(json_object_get(row, key));
}

/* Does the row speak of this value in this place? */
static bool row_applies(lj_host *host, const json_t *row, const char *value, int nodes, int ranks)
{
    const char *match = lj_json_text(row, "match"), *needs = lj_json_text(row, "needs"),
               *unless = lj_json_text(row, "unless");
    if (json_object_get(row, "match") && !lj_host_pattern_whole(match, value)) return false;
    if (*needs && !vendor_present(host, needs) && strcmp(lj_json_text(host->manifest, "vendor"), needs) != 0)
        return false;
    if (flag(row, "multi") && nodes < 2) return false;
    if (flag(row, "ranks") && ranks < 2) return false;
    if (*unless && any_set(host, unless)) return false;
    if (flag(row, "folder") && lj_host_is_folder(host, value)) return false;
    return true;
}

/* LD_PRELOAD: a library that is not there is the fault itself. */
static void preload_path(lj_host *host, const char *value, lj_finding *f)
{
    char *copy = lj_arena_strdup(&host->arena, value), *save = NULL;
    for (char *one = copy ? strtok_r(copy, ": ", &save) : NULL; one; one = strtok_r(NULL, ": ", &save)) {
        if (*one != '/' || lj_host_exists(host, one)) continue;
        lj_say(f->found,
               "LD_PRELOAD names %s, which is not there: every program prints an error and runs without it",
               one);
        lj_say(f->next_step, "correct the path or unset LD_PRELOAD");
    }
}

static void variable_judge(lj_host *host, lj_findings *out, const json_t *row, const char *value,
                           const char *where)
{
    const char *verdict = lj_json_text(row, "verdict"), *name = lj_json_text(row, "name");
    lj_verdict level = flag(row, "quiet") || strcmp(verdict, "ok") == 0 ? LJ_VERDICT_OK
                       : strcmp(verdict, "fail") == 0                   ? LJ_VERDICT_FAIL
                                                                        : LJ_VERDICT_WARN;
    lj_finding *f = lj_find(out, level);
    lj_say(f->part, "%s", name);
    lj_say(f->found, "%s=%.200s: %s", name, value, lj_json_text(row, "why"));
    lj_say(f->wanted, "%s", lj_json_text(row, "next"));
    lj_say(f->source, "%s; %s", where, lj_json_text(row, "source"));
    lj_say(f->next_step, "%s", lj_json_text(row, "next"));
    if (flag(row, "check_path")) preload_path(host, value, f);
}

static void manifest_variables(lj_host *host, lj_findings *out)
{
    json_t *wanted = lj_json_at(host->manifest, "run.environment"), *value;
    const char *name;
    json_object_foreach(wanted, name, value)
    {
        const char *have = lj_host_env(host, name);
        if (!have || strcmp(have, json_string_value(value)) == 0) continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_WARN);
        lj_say(f->part, "%s", name);
        lj_say(f->found, "%s=%s", name, have);
        lj_say(f->wanted, "%s=%s", name, json_string_value(value));
        lj_say(f->source, "%s; the image's run section", host->env_source);
        lj_say(f->next_step, "%s=%s", name, json_string_value(value));
    }
}

/* Those that should be the same on all hosts of a job. */
static json_t *shared_variables(lj_host *host)
{
    static const char *const starts[] = {"NCCL_",       "ACCL_",        "UCX_", "OMP_",
                                         "TORCH_NCCL_", "CUDA_DEVICE_", "GLOO_"};
    json_t *out = json_object(), *value;
    const char *name;
    json_object_foreach(host->env, name, value) for (size_t i = 0; i < sizeof starts / sizeof *starts;
                                                     i++) if (strncmp(name, starts[i], strlen(starts[i])) ==
                                                              0) json_object_set(out, name, value);
    return out;
}

void lj_check_environment(lj_host *host, lj_findings *out)
{
    json_t *rows = lj_json_at(lj_rules(host, "environment"), "variables"), *row,
           *jobs = json_object_get(host->job, "environment");
    const char *from;
    int nodes = lj_host_nodes(host), ranks = lj_host_ranks(host, &from);
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const char *name = lj_json_text(row, "name"), *value = lj_host_env(host, name),
                   *in_job = json_string_value(json_object_get(jobs, name));
        if (value && row_applies(host, row, value, nodes, ranks))
            variable_judge(host, out, row, value, host->env_source);
        if (in_job && row_applies(host, row, in_job, nodes, ranks))
            variable_judge(host, out, row, in_job, "the job file");
    }
    manifest_variables(host, out);
    json_object_set_new(out->facts, "environment", shared_variables(host));
    if (out->count) return;
    lj_finding *f = lj_find(out, json_object_size(host->env) ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->found, "%zu variables, none of them in the table of %zu", json_object_size(host->env),
           json_array_size(rows));
    lj_say(f->source, "%s", host->env_source);
}

/* --- kernel log --- */

/* Records of /dev/kmsg, one a read: "prio,seq,time,flags;text". */
static char *log_live(lj_host *host, bool *refused)
{
    enum { MAX_LOG = 2 << 20 };
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    *refused = fd < 0;
    if (fd < 0) return NULL;
    char record[8192], *text = malloc(MAX_LOG);
    size_t used = 0;
    for (;;) {
        ssize_t got = read(fd, record, sizeof record - 1);
        if (got < 0 && (errno == EPIPE || errno == EINTR))
            continue; /* the ring went over us: take the next */
        if (got <= 0) {
            *refused = used == 0 && errno == EPERM;
            break;
        }
        record[got] = 0;
        char *message = strchr(record, ';');
        if (!text || !message || used + (size_t)got + 2 > MAX_LOG) continue;
        used += (size_t)snprintf(text + used, MAX_LOG - used, "%s", message + 1);
        if (used && text[used - 1] != '\n') text[used++] = '\n', text[used] = 0;
    }
    close(fd);
    if (text) text[used] = 0;
    char *copy = text ? lj_arena_strdup(&host->arena, text) : NULL;
    free(text);
    return copy;
}

static char *log_tree(lj_host *host, const char **place)
{
    static const char *const files[] = {
        "/var/log/dmesg",     "/var/log/kern.log", "/var/log/messages", "/var/log/syslog",
        "/var/log/dmesg.log", "/dev/kmsg",         "/proc/kmsg",        "/dmesg",
        "/dmesg.txt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        *place = files[i];
        char *text = lj_host_read(host, files[i]);
        if (text && *text) return text;
    }
    return NULL;
}

static lj_verdict verdict_of(const json_t *row)
{
    return strcmp(lj_json_text(row, "verdict"), "fail") == 0 ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN;
}

/* kinds: name -> {row, count, last} */
static void kind_add(json_t *kinds, const char *name, json_t *row, const char *shown)
{
    json_t *kind = json_object_get(kinds, name);
    if (!kind) json_object_set_new(kinds, name, kind = json_pack("{s:O, s:i}", "row", row, "count", 0));
    json_object_set_new(kind, "count", json_integer(json_integer_value(json_object_get(kind, "count")) + 1));
    json_object_set_new(kind, "last", lj_json_string(shown));
}

static void log_line(lj_host *host, const char *line, json_t *kinds)
{
    json_t *rules = lj_rules(host, "kernel_log"), *rows = json_object_get(rules, "lines"), *row;
    char shown[512], code[16];
    size_t i;
    const char *xid = strstr(line, "NVRM: Xid");
    if (xid && lj_host_pattern_find("\\): *(\\d+)", xid, code, sizeof code)) {
        char name[32];
        row = json_object_get(json_object_get(rules, "xid"), code);
        lj_say(name, "xid%s", code);
        lj_say(shown, "%.400s", xid + 6);
        json_t *unknown =
            json_pack("{s:s, s:s, s:s}", "verdict", "warn", "cause", "an Xid that the table does not have",
                      "next", "look it up in the Xid catalogue");
        kind_add(kinds, name, row ? row : unknown, shown);
        json_decref(unknown);
        return;
    }
    json_array_foreach(rows, i, row)
    {
        if (!lj_host_pattern_find(lj_json_text(row, "pattern"), line, shown, sizeof shown)) continue;
        kind_add(kinds, lj_json_text(row, "name"), row, shown);
        return;
    }
}

static bool worth_a_look(const char *line)
{
    static const char *const words[] = {
        "NVRM",           "nvidia",        "nouveau",   "amdgpu",   "mlx5",
        "Killed process", "ardware Error", "EDAC",      "AER:",     "blocked for",
        "rror",           "nf_conntrack",  "neighbour", "rejected", "verification failed",
        "apparmor",       "read-only"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(line, words[i])) return true;
    return false;
}

void lj_check_kernel_log(lj_host *host, lj_findings *out)
{
    const char *place = "/dev/kmsg", *name;
    bool refused = false;
    char *text = lj_host_live(host) ? log_live(host, &refused) : log_tree(host, &place), *save = NULL;
    json_t *kinds = json_object(), *kind;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
        if (worth_a_look(line)) log_line(host, line, kinds);
    for (int pass = LJ_VERDICT_FAIL; pass >= LJ_VERDICT_WARN; pass--) json_object_foreach(kinds, name, kind)
        {
            json_t *row = json_object_get(kind, "row");
            if ((int)verdict_of(row) != pass) continue;
            lj_finding *f = lj_find(out, verdict_of(row));
            lj_say(f->part, "%s", name);
            lj_say(f->found, "%s: %s (%lld line(s))", lj_json_text(row, "cause"), lj_json_text(kind, "last"),
                   (long long)json_integer_value(json_object_get(kind, "count")));
            lj_say(f->wanted, "no such line");
            lj_say(f->source, "%s; %s", place,
                   lj_json_text(lj_rules(host, "kernel_log"),
                                strncmp(name, "xid", 3) == 0 ? "xid_source" : "source"));
            lj_say(f->next_step, "%s", lj_json_text(row, "next"));
        }
    json_decref(kinds);
    if (out->count) return;
    lj_finding *f = lj_find(out, text      ? LJ_VERDICT_OK
                                 : refused ? LJ_VERDICT_NOT_AVAILABLE
                                           : LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->found, text      ? "no line of the table"
                     : refused ? "the kernel log may not be read here"
                               : "no kernel log in the view");
    lj_say(f->source, "%s", place);
}
