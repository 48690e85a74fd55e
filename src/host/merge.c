/* Reports of several hosts together: what each failed, and what must agree between them. */
#define _GNU_SOURCE
#include "host/child.h"
#include "host/doctor.h"
#include "host/nics.h"
#include "host/version.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double SKEW_WARN_S = 1.0, SKEW_FAIL_S = 5.0, APART_WARN_S = 2.0;

typedef struct {
    const json_t *reports;
    lj_findings out;
} merge;

static lj_finding *say(merge *m, lj_verdict verdict, const char *part, const char *source)
{
    lj_finding *f = lj_find(&m->out, verdict);
    lj_say(f->part, "%s", part);
    lj_say(f->source, "%s", source);
    return f;
}

static const char *host_of(const json_t *report)
{
    return lj_json_text(report, "host");
}

static const char *fact_text(const json_t *report, const char *key, char *out, size_t capacity)
{
    json_t *value = lj_json_at(json_object_get(report, "facts"), key);
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_array(value)) return lj_json_join(value, 16, out, capacity);
    *out = 0;
    if (json_is_number(value)) snprintf(out, capacity, "%.0f", json_number_value(value));
    return out;
}

typedef struct {
    const char *fact, *what;
    size_t parts; /* versions that differ within these leading parts fail, later ones warn; 0: any difference
                     warns; 9: any difference fails */
    const char *next;
} agreement;

static const agreement agreements[] = {
    {"nvidia_driver", "NVIDIA driver", 1, "install one driver on all hosts"},
    {"ppu_driver", "PPU driver", 2, "install one PPU driver on all hosts"},
    {"ppu_sdk", "PPU SDK", 2, "use one image on all hosts"},
    {"amd_driver", "AMD driver", 1, "install one driver on all hosts"},
    {"rocm", "ROCm", 2, "use one image on all hosts"},
    {"cuda_runtime", "CUDA runtime", 9, "use one image on all hosts"},
    {"nvidia_cards", "cards", 0, "take hosts with the same cards: the slowest sets the pace"},
    {"cpu_features", "instruction sets", 0, "take hosts of one kind, or cap the instruction set (--isa)"},
    {"processors", "processors", 0, "give all ranks the same number of processors"},
    {"interface", "interface taken", 0, "name the interface of each host in NCCL_SOCKET_IFNAME"},
};

static bool same_leading(const char *a, const char *b, size_t parts)
{
    char x[64], y[64];
    lj_say(x, "%s", a), lj_say(y, "%s", b);
    char *texts[2] = {x, y};
    for (int i = 0; i < 2; i++) {
        char *at = texts[i];
        for (size_t p = 0; at && p < parts; p++) at = strchr(p ? at + 1 : at, '.');
        if (at) *at = 0;
    }
    return strcmp(x, y) == 0;
}

static void agree(merge *m, const agreement *row)
{
    size_t i;
    json_t *report, *first = NULL;
    char a[256], b[256], list[900] = "";
    size_t used = 0;
    bool differ = false, serious = false;
    json_array_foreach(m->reports, i, report)
    {
        const char *value = fact_text(report, row->fact, b, sizeof b);
        if (!*value) continue;
        if (!first) first = report;
        const char *other = fact_text(first, row->fact, a, sizeof a);
        if (strcmp(value, other) != 0)
            differ = true, serious |= row->parts && !same_leading(value, other, row->parts);
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s: %s", used ? "; " : "",
                                     host_of(report), value);
    }
    if (!differ) return;
    lj_finding *f =
        say(m, serious ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN, row->fact, "facts of the hosts' reports");
    lj_say(f->found, "%s differs between hosts: %s", row->what, list);
    lj_say(f->wanted, "the same on all hosts");
    lj_say(f->next_step, "%s", row->next);
}

static void packages_agree(merge *m)
{
    json_t *first = json_array_get(m->reports, 0), *names = json_object(), *report, *value;
    const char *name;
    size_t i;
    json_array_foreach(m->reports, i, report)
        json_object_update(names, lj_json_at(report, "facts.python_packages"));
    json_object_foreach(names, name, value)
    {
        const char *ours =
            json_string_value(json_object_get(lj_json_at(first, "facts.python_packages"), name));
        json_array_foreach(m->reports, i, report)
        {
            json_t *packages = lj_json_at(report, "facts.python_packages");
            const char *theirs = json_string_value(json_object_get(packages, name));
            if (!ours || !theirs || strcmp(ours, theirs) == 0) continue;
            lj_finding *f = say(m, LJ_VERDICT_FAIL, name, "facts of the hosts' reports");
            lj_say(f->found, "%s differs between hosts: %s has %s, %s has %s", name, host_of(first), ours,
                   host_of(report), theirs);
            lj_say(f->wanted, "one version on all hosts");
            lj_say(f->next_step, "use one image on all hosts");
            break;
        }
    }
    json_decref(names);
}

static void environment_agrees(merge *m)
{
    json_t *first = json_array_get(m->reports, 0), *ours = lj_json_at(first, "facts.environment"), *value,
           *report;
    const char *name;
    size_t i;
    json_object_foreach(ours, name, value) json_array_foreach(m->reports, i, report)
    {
        const char *theirs =
            json_string_value(json_object_get(lj_json_at(report, "facts.environment"), name));
        if (strstr(name, "IFNAME") || (theirs && strcmp(theirs, json_string_value(value)) == 0)) continue;
        lj_finding *f = say(m, LJ_VERDICT_WARN, name, "facts of the hosts' reports");
        lj_say(f->found, "%s differs between hosts: %s has %s, %s has %s", name, host_of(first),
               json_string_value(value), host_of(report), theirs ? theirs : "none");
        lj_say(f->wanted, "the same on all hosts");
        lj_say(f->next_step, "set it in the launcher, not in one host's shell");
        break;
    }
}

/* --- networks --- */

static bool same_subnet(const char *a, const char *b, bool *same_address)
{
    uint32_t x, y;
    int nx, ny;
    if (!lj_address_parse(a, &x, &nx) || !lj_address_parse(b, &y, &ny)) return false;
    int length = nx < ny ? nx : ny;
    uint32_t mask = length ? ~0u << (32 - length) : 0;
    *same_address = x == y;
    return (x & mask) == (y & mask);
}

/* Bridges of each host have the same subnet, often the same address: packets to it never leave. Also any
 * address that two hosts both have. */
static void overlap_judge(merge *m, const json_t *one, const json_t *two, const json_t *nic_a,
                          const json_t *nic_b)
{
    size_t i, k;
    json_t *a, *b;
    bool local =
        json_is_true(json_object_get(nic_a, "local")) || json_is_true(json_object_get(nic_b, "local"));
    json_array_foreach(json_object_get(nic_a, "addresses"), i, a)
        json_array_foreach(json_object_get(nic_b, "addresses"), k, b)
    {
        bool same;
        uint32_t value = 0;
        int length;
        if (!same_subnet(json_string_value(a), json_string_value(b), &same) || (!same && !local)) continue;
        (void)lj_address_parse(json_string_value(a), &value, &length);
        if (value >> 24 == 127) continue;
        const char *name = lj_json_text(nic_a, "name");
        bool taken = strcmp(lj_json_text_at(one, "facts.interface"), name) == 0;
        lj_finding *f =
            say(m, taken || !local ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN, name,
                "interfaces of the hosts' reports; case of a bridge address that two hosts share");
        lj_say(f->found, "%s %s on %s and %s %s on %s: %s%s", name, json_string_value(a), host_of(one),
               lj_json_text(nic_b, "name"), json_string_value(b), host_of(two),
               same ? "the same address" : "overlapping subnets",
               lj_address_private(value) ? " in a range that is not routed between hosts" : "");
        lj_say(f->wanted, "addresses that are unique among the hosts");
        lj_say(f->next_step,
               "keep it out of the choice: NCCL_SOCKET_IFNAME=^%s,lo (or name the right one, eth0), for Open "
               "MPI btl_tcp_if_exclude=%s,lo; or give each host's bridge its own subnet",
               name, name);
    }
}

static void networks_agree(merge *m)
{
    size_t i, k, x, y;
    json_t *one, *two, *nic_a, *nic_b;
    json_array_foreach(m->reports, i, one) for (k = i + 1;
                                                k < json_array_size(m->reports) && m->out.count < 60; k++)
    {
        two = json_array_get(m->reports, k);
        json_array_foreach(lj_json_at(one, "facts.interfaces"), x, nic_a)
            json_array_foreach(lj_json_at(two, "facts.interfaces"), y, nic_b)
                overlap_judge(m, one, two, nic_a, nic_b);
    }
}

static json_t *taken_nic(const json_t *report)
{
    json_t *nics = lj_json_at(report, "facts.interfaces"), *nic;
    size_t i;
    json_array_foreach(nics, i, nic) if (strcmp(lj_json_text(nic, "name"),
                                                lj_json_text_at(report, "facts.interface")) == 0) return nic;
    return NULL;
}

static void taken_agree(merge *m)
{
    json_t *first = json_array_get(m->reports, 0), *report, *ours = taken_nic(first);
    size_t i;
    json_array_foreach(m->reports, i, report)
    {
        json_t *theirs = taken_nic(report);
        double a = lj_json_number(ours, "mtu", 0), b = lj_json_number(theirs, "mtu", 0);
        if (!ours || !theirs || a == b || a == 0 || b == 0) continue;
        lj_finding *f = say(m, LJ_VERDICT_WARN, "mtu", "interfaces of the hosts' reports");
        lj_say(f->found, "MTU differs: %s %s has %.0f, %s %s has %.0f", host_of(first),
               lj_json_text(ours, "name"), a, host_of(report), lj_json_text(theirs, "name"), b);
        lj_say(f->wanted, "one MTU on all hosts and switches");
        lj_say(f->next_step,
               "ip link set %s mtu %.0f on both: large packets vanish where path MTU discovery is blocked",
               lj_json_text(theirs, "name"), a < b ? a : b);
        return;
    }
}

static void rdma_agrees(merge *m)
{
    size_t i;
    json_t *report, *with = NULL, *without = NULL;
    json_array_foreach(m->reports, i, report)
    {
        if (json_array_size(lj_json_at(report, "facts.rdma")))
            with = report;
        else
            without = report;
    }
    if (!with || !without) return;
    lj_finding *f = say(m, LJ_VERDICT_FAIL, "rdma", "RDMA devices of the hosts' reports");
    lj_say(f->found, "%s has RDMA devices, %s has none", host_of(with), host_of(without));
    lj_say(f->wanted, "RDMA on all hosts or on none");
    lj_say(f->next_step,
           "start the container on %s with --device=/dev/infiniband, or set NCCL_IB_DISABLE=1 on all",
           host_of(without));
}

static void clocks_agree(merge *m, bool together)
{
    size_t i;
    json_t *report, *low = NULL, *high = NULL;
    double least = 0, most = 0;
    json_array_foreach(m->reports, i, report)
    {
        double t = lj_json_number(report, "time_unix_s", 0) - lj_json_number(report, "received_unix_s", 0);
        if (!low || t < least) low = report, least = t;
        if (!high || t > most) high = report, most = t;
    }
    double apart = most - least;
    lj_verdict verdict = together               ? (apart > SKEW_FAIL_S   ? LJ_VERDICT_FAIL
                                                   : apart > SKEW_WARN_S ? LJ_VERDICT_WARN
                                                                         : LJ_VERDICT_OK)
                         : apart > APART_WARN_S ? LJ_VERDICT_WARN
                                                : LJ_VERDICT_OK;
    lj_finding *f = say(m, verdict, "clock",
                        together ? "time of each report when it arrived" : "time_unix_s of the reports");
    lj_say(f->found,
           together ? "clocks differ by %.1f s"
                    : "clocks differ by %.1f s, or the reports were made that far apart",
           apart);
    lj_say(f->wanted, "at most %.0f s between %s and %s", together ? SKEW_WARN_S : APART_WARN_S, host_of(low),
           host_of(high));
    if (verdict != LJ_VERDICT_OK)
        lj_say(f->next_step, together ? "start an NTP client on every host"
                                      : "make the reports at the same moment (ljperf doctor --hosts does), "
                                        "and start an NTP client on every host");
}

/* The hosts' own failures, each under its host's name. */
static void hosts_own(merge *m, json_t *checks)
{
    size_t i, k;
    json_t *report, *check;
    json_array_foreach(m->reports, i, report) json_array_foreach(json_object_get(report, "checks"), k, check)
    {
        if (lj_verdict_weight(lj_json_text(check, "verdict")) == 0) continue;
        json_t *copy = json_copy(check);
        json_object_set_new(copy, "name",
                            json_sprintf("%s/%s", host_of(report), lj_json_text(check, "name")));
        json_array_append_new(checks, copy);
    }
}

lj_status lj_doctor_merge(const json_t *reports, bool together, json_t **merged)
{
    merge m = {.reports = reports, .out = {.note_fd = -1}};
    if (json_array_size(reports) < 2)
        return lj_fail(LJ_ERR_INVALID, "%zu report(s); two or more are needed to compare hosts",
                       json_array_size(reports));
    for (size_t i = 0; i < sizeof agreements / sizeof *agreements; i++) agree(&m, &agreements[i]);
    packages_agree(&m);
    environment_agrees(&m);
    networks_agree(&m);
    taken_agree(&m);
    rdma_agrees(&m);
    clocks_agree(&m, together);
    json_t *checks = lj_findings_json(&m.out, "hosts"), *names = json_array(), *report;
    size_t i;
    hosts_own(&m, checks);
    json_array_foreach(reports, i, report) lj_json_append_text(names, host_of(report));
    json_t *result = json_pack("{s:{s:s, s:i}, s:o, s:o}", "schema", "name", "ljperf.doctor.hosts", "version",
                               1, "hosts", names, "checks", checks);
    lj_report_judge(result);
    lj_findings_release(&m.out);
    *merged = result;
    return LJ_OK;
}

/* --- ssh --- */

enum { MAX_HOSTS = 1024, ANSWER_SECONDS = 20 };

static double wall_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* In a child: asks one host, and writes its report (or {error}) with the time it came to fd. */
static _Noreturn void ask_host(const char *name, const char *command, int fd)
{
    const char *argv[] = {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", name, command, NULL};
    lj_program_options options = {.timeout_s = ANSWER_SECONDS};
    lj_program_result result;
    json_t *report = NULL;
    lj_status status = lj_child_program_run(argv, &options, &result);
    if (status == LJ_OK && result.output.data) report = json_loads(result.output.data, 0, NULL);
    if (report)
        json_object_set_new(report, "received_unix_s", json_real(wall_clock()));
    else
        report = json_pack("{s:o}", "error",
                           lj_json_string(status != LJ_OK    ? lj_error_message()
                                          : result.timed_out ? "no answer in time"
                                          : result.errors.data && *result.errors.data
                                              ? result.errors.data
                                              : "the answer is no report of ljperf doctor"));
    json_object_set_new(report, "host", lj_json_string(name));
    char *text = json_dumps(report, JSON_COMPACT);
    if (text) (void)!write(fd, text, strlen(text));
    _exit(0);
}

static json_t *answer_read(int fd)
{
    off_t bytes = lseek(fd, 0, SEEK_END);
    char *text = bytes > 0 ? malloc((size_t)bytes + 1) : NULL;
    json_t *report = NULL;
    if (text && pread(fd, text, (size_t)bytes, 0) == bytes) {
        text[bytes] = 0;
        report = json_loads(text, 0, NULL);
    }
    free(text);
    return report;
}

static void unreachable_add(json_t *checks, const json_t *report)
{
    json_array_insert_new(checks, 0,
                          json_pack("{s:o, s:O, s:s, s:s, s:s, s:s}", "name",
                                    json_sprintf("%s/ssh", host_of(report)), "found",
                                    json_object_get(report, "error"), "wanted", "a report of ljperf doctor",
                                    "verdict", "fail", "source", "ssh in batch mode", "next_step",
                                    "see that ssh to the host works without a password and that ljperf is on "
                                    "its PATH (--remote-command names another)"));
}

lj_status lj_doctor_hosts(const char *hosts, const char *command, json_t **merged)
{
    int fds[MAX_HOSTS];
    pid_t pids[MAX_HOSTS];
    size_t count = 0;
    char *copy = strdup(hosts), *save = NULL;
    if (!copy) return lj_fail(LJ_ERR_NOMEM, "list of hosts");
    for (char *name = strtok_r(copy, ", ", &save); name && count < MAX_HOSTS;
         name = strtok_r(NULL, ", ", &save)) {
        fds[count] = memfd_create("report", MFD_CLOEXEC);
        pids[count] = fork();
        if (pids[count] == 0) ask_host(name, command, fds[count]);
        count++;
    }
    free(copy);
    json_t *reports = json_array(), *silent = json_array(), *report;
    size_t i;
    for (i = 0; i < count; i++) {
        if (pids[i] > 0) waitpid(pids[i], NULL, 0);
        report = answer_read(fds[i]);
        close(fds[i]);
        if (report) json_array_append_new(json_object_get(report, "error") ? silent : reports, report);
    }
    lj_status status = json_array_size(reports) > 1 ? lj_doctor_merge(reports, true, merged) : LJ_OK;
    if (status == LJ_OK && json_array_size(reports) < 2) {
        report = json_array_get(reports, 0);
        *merged =
            json_pack("{s:{s:s, s:i}, s:o}", "schema", "name", "ljperf.doctor.hosts", "version", 1, "checks",
                      report ? json_deep_copy(json_object_get(report, "checks")) : json_array());
    }
    if (status == LJ_OK) {
        json_array_foreach(silent, i, report) unreachable_add(json_object_get(*merged, "checks"), report);
        lj_report_judge(*merged);
    }
    json_decref(reports);
    json_decref(silent);
    return status;
}
