/* Memory, shared memory, huge pages and the limits of a process. */
#define _GNU_SOURCE
#include "base/text.h"
#include "host/cgroup.h"
#include "host/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

static const char *size_text(double bytes, char *buffer, size_t capacity)
{
    return lj_size_format(bytes, buffer, capacity);
}

/* Size in a mount's options: "size=65536k", "size=50%" (of memory); < 0 when there is none. */
static double mount_size(lj_host *host, const char *options)
{
    const char *at = strstr(options, "size=");
    if (!at) return -1;
    char *end;
    double value = strtod(at + 5, &end), memory = 0;
    switch (*end) {
    case 'k': return value * 1024;
    case 'm': return value * 1048576;
    case 'g': return value * 1073741824;
    case '%':
        return lj_host_field(host, "/proc/meminfo", "MemTotal", &memory) ? memory * 1024 * value / 100 : -1;
    default: return value;
    }
}

static bool shm_from_mounts(lj_host *host, double *bytes, const char **place)
{
    static const char *const files[] = {"/proc/self/mounts", "/proc/mounts", "/proc/1/mounts", "/etc/mtab"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *text = lj_host_read(host, files[i]), *at = text ? strstr(text, " /dev/shm ") : NULL;
        if (!at) continue;
        at[strcspn(at, "\n")] = 0;
        *place = files[i];
        *bytes = mount_size(host, at);
        double memory;
        if (*bytes < 0 && lj_host_field(host, "/proc/meminfo", "MemTotal", &memory))
            *bytes = memory * 1024 / 2; /* tmpfs's default */
        return *bytes >= 0;
    }
    return false;
}

static bool shm_size(lj_host *host, double *bytes, const char **place)
{
    struct statvfs info;
    if (!lj_host_live(host)) return shm_from_mounts(host, bytes, place);
    *place = "statvfs /dev/shm";
    if (statvfs("/dev/shm", &info) != 0) return false;
    *bytes = (double)info.f_blocks * (double)info.f_frsize;
    return true;
}

static void shm_next_step(lj_host *host, lj_finding *f)
{
    const char *size = lj_json_text_at(host->manifest, "run.shm_size");
    if (!*size) size = lj_json_text_at(lj_rules(host, "limits"), "shared_memory.advised");
    lj_say(f->next_step,
           "start the container with --shm-size=%s or --ipc=host (Kubernetes: an emptyDir with medium: "
           "Memory mounted at /dev/shm); on a host: mount -o remount,size=%s /dev/shm",
           size, size);
}

void lj_check_shared_memory(lj_host *host, lj_findings *out)
{
    json_t *rule = lj_json_at(lj_rules(host, "limits"), "shared_memory");
    const char *place = "", *ranks_from;
    int ranks = lj_host_ranks(host, &ranks_from);
    double bytes,
        need = lj_json_number(rule, "base_bytes", 0) + ranks * lj_json_number(rule, "bytes_a_rank", 0);
    char have_text[32], need_text[32];
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_note(out, "/dev/shm");
    lj_say(f->wanted, "at least %s for %d rank(s) (%s)", size_text(need, need_text, sizeof need_text), ranks,
           ranks_from);
    if (!shm_size(host, &bytes, &place)) {
        bool known = lj_host_live(host) || lj_host_exists(host, "/proc/self/mounts") ||
                     lj_host_exists(host, "/proc/mounts");
        f->verdict = known ? LJ_VERDICT_WARN : LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, known ? "/dev/shm is not mounted" : "no mount table in the view");
        lj_say(f->source, "mount table; %s", lj_json_text(rule, "source"));
        if (known) shm_next_step(host, f);
        return;
    }
    json_object_set_new(out->facts, "shared_memory_bytes", json_real(bytes));
    lj_say(f->found, "/dev/shm of %s", size_text(bytes, have_text, sizeof have_text));
    lj_say(f->source, "%s; %s", place, lj_json_text(rule, "source"));
    if (bytes >= need) return;
    f->verdict = LJ_VERDICT_WARN;
    shm_next_step(host, f);
}

void lj_check_memory(lj_host *host, lj_findings *out)
{
    json_t *rule = lj_json_at(lj_rules(host, "limits"), "memory");
    double total = 0, available = 0;
    char a[32], b[32], c[32];
    lj_limit limit = lj_cgroup_memory(host);
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    bool known = lj_host_field(host, "/proc/meminfo", "MemTotal", &total);
    lj_host_field(host, "/proc/meminfo", "MemAvailable", &available);
    total *= 1024, available *= 1024;
    if (!known && !limit.set) {
        f->verdict = LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, "no /proc/meminfo in the view");
        return;
    }
    bool limited = limit.set && (!known || limit.value < total);
    double usable = limited ? limit.value : total, warn = lj_json_number(rule, "warn_bytes", 0),
           fail = lj_json_number(rule, "fail_bytes", 0);
    double wanted = lj_json_number(host->job, "memory_bytes", 0);
    json_object_set_new(out->facts, "memory_bytes", json_real(usable));
    if (limited)
        lj_say(f->found, "a cgroup limit of %s (version %d) on a machine of %s",
               size_text(limit.value, a, sizeof a), limit.version, size_text(total, b, sizeof b));
    else
        lj_say(f->found, "%s, %s available, no cgroup limit below it", size_text(total, a, sizeof a),
               size_text(available, b, sizeof b));
    lj_say(f->source, "%s; %s", limited ? limit.place : "/proc/meminfo", lj_json_text(rule, "source"));
    lj_say(f->wanted, "at least %s", size_text(wanted > 0 ? wanted : warn, c, sizeof c));
    if (wanted > 0 && usable < wanted) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->next_step, "the job file asks for %s: take a larger machine or ask for less",
               size_text(wanted, c, sizeof c));
    } else if (usable < warn) {
        f->verdict = usable < fail ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN;
        lj_say(f->next_step, limited
                                 ? "raise the container's memory limit (--memory, resources.limits.memory) "
                                   "or take a small model: the kernel kills what goes over it"
                                 : "a machine with more memory");
    } else if (known && available > 0 && available < total / 20 && !limited) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->next_step, "only %s are free: end what uses the rest", size_text(available, c, sizeof c));
    }
}

/* "[madvise]" of "always [madvise] never". */
static void chosen_word(const char *text, char *out, size_t capacity)
{
    const char *open = text ? strchr(text, '[') : NULL, *end = open ? strchr(open, ']') : NULL;
    snprintf(out, capacity, "%.*s", end ? (int)(end - open - 1) : 0, end ? open + 1 : "");
}

void lj_check_huge_pages(lj_host *host, lj_findings *out)
{
    char mode[32];
    double total = 0, free_pages = 0, kib = 2048, memory = 0;
    chosen_word(lj_host_read_word(host, "/sys/kernel/mm/transparent_hugepage/enabled"), mode, sizeof mode);
    lj_host_field(host, "/proc/meminfo", "HugePages_Total", &total);
    lj_host_field(host, "/proc/meminfo", "HugePages_Free", &free_pages);
    lj_host_field(host, "/proc/meminfo", "Hugepagesize", &kib);
    lj_host_field(host, "/proc/meminfo", "MemTotal", &memory);
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->source, "/sys/kernel/mm/transparent_hugepage/enabled, /proc/meminfo");
    lj_say(f->found, "transparent huge pages: %s; reserved: %.0f, free: %.0f", *mode ? mode : "not there",
           total, free_pages);
    if (!*mode && memory == 0) {
        f->verdict = LJ_VERDICT_NOT_APPLICABLE;
    } else if (strcmp(mode, "never") == 0) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->wanted, "madvise or always");
        lj_say(f->next_step, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: large buffers then "
                             "cost fewer TLB misses");
    } else if (memory > 0 && free_pages * kib > memory / 2) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->wanted, "less than half of memory kept in reserved huge pages that nobody uses");
        lj_say(f->next_step, "sysctl vm.nr_hugepages=0 gives %.0f MiB back", free_pages * kib / 1024);
    }
}

/* Soft limit of a line of /proc/self/limits; -1 = unlimited; false when it is not there. */
static bool process_limit(lj_host *host, const char *name, double *value)
{
    char *text = lj_host_read(host, "/proc/self/limits");
    if (!text) text = lj_host_read(host, "/proc/1/limits");
    char *at = text ? strstr(text, name) : NULL;
    if (!at) return false;
    at += strlen(name);
    at += strspn(at, " ");
    *value = strncmp(at, "unlimited", 9) == 0 ? -1 : strtod(at, NULL);
    return true;
}

static bool has_rdma(lj_host *host)
{
    json_t *devices = lj_host_list(host, "/sys/class/infiniband");
    bool found = json_array_size(devices) > 0;
    json_decref(devices);
    return found;
}

static void locked_memory(lj_host *host, lj_findings *out)
{
    double bytes;
    char text[32];
    if (!process_limit(host, "Max locked memory", &bytes)) return;
    bool rdma = has_rdma(host), unlimited = bytes < 0,
         wanted = rdma || strcmp(lj_json_text_at(host->manifest, "run.ulimits.memlock"), "-1") == 0;
    lj_finding *f = lj_find(out, unlimited || !wanted  ? LJ_VERDICT_OK
                                 : rdma && bytes < 1e9 ? LJ_VERDICT_FAIL
                                                       : LJ_VERDICT_WARN);
    lj_say(f->part, "memlock");
    lj_say(f->found, "locked memory: %s%s", unlimited ? "unlimited" : size_text(bytes, text, sizeof text),
           rdma ? ", and RDMA devices are there" : "");
    lj_say(f->wanted, wanted ? "unlimited" : "unlimited where RDMA is used");
    lj_say(f->source, "/proc/self/limits; %s", lj_json_text_at(lj_rules(host, "limits"), "memlock.source"));
    if (f->verdict != LJ_VERDICT_OK)
        lj_say(f->next_step,
               "start the container with --ulimit memlock=-1 (host: memlock in /etc/security/limits.conf, "
               "LimitMEMLOCK=infinity of the service): memory registration fails without it");
}

static void open_files(lj_host *host, lj_findings *out)
{
    double files, warn = lj_json_number(lj_json_at(lj_rules(host, "limits"), "open_files"), "warn", 4096);
    if (!process_limit(host, "Max open files", &files)) return;
    lj_finding *f = lj_find(out, files >= 0 && files < warn ? LJ_VERDICT_WARN : LJ_VERDICT_OK);
    lj_say(f->part, "open_files");
    lj_say(f->found, files < 0 ? "open files: unlimited" : "open files: %.0f", files);
    lj_say(f->wanted, "at least %.0f", warn);
    lj_say(f->source, "/proc/self/limits; %s",
           lj_json_text_at(lj_rules(host, "limits"), "open_files.source"));
    if (f->verdict == LJ_VERDICT_WARN)
        lj_say(f->next_step, "ulimit -n 65536, or --ulimit nofile=65536:65536");
}

static void tasks(lj_host *host, lj_findings *out)
{
    json_t *rule = lj_json_at(lj_rules(host, "limits"), "processes");
    double count = -1, user;
    lj_limit limit = lj_cgroup_tasks(host);
    const char *place = "/proc/self/limits";
    if (process_limit(host, "Max processes", &user)) count = user;
    if (limit.set && (count < 0 || limit.value < count)) count = limit.value, place = limit.place;
    if (count < 0) return;
    double warn = lj_json_number(rule, "warn", 4096), fail = lj_json_number(rule, "fail", 512);
    lj_finding *f = lj_find(out, count < fail   ? LJ_VERDICT_FAIL
                                 : count < warn ? LJ_VERDICT_WARN
                                                : LJ_VERDICT_OK);
    lj_say(f->part, "processes");
    lj_say(f->found, "processes and threads: at most %.0f", count);
    lj_say(f->wanted, "at least %.0f", warn);
    lj_say(f->source, "%s; %s", place, lj_json_text(rule, "source"));
    if (f->verdict != LJ_VERDICT_OK)
        lj_say(f->next_step,
               "raise it: --pids-limit=-1 for a container, podPidsLimit for Kubernetes, nproc in "
               "/etc/security/limits.conf ('Resource temporarily unavailable' when a thread cannot start)");
}

static void stack_size(lj_host *host, lj_findings *out)
{
    json_t *rule = lj_json_at(lj_rules(host, "limits"), "stack");
    double bytes;
    char text[32], need[32];
    if (!process_limit(host, "Max stack size", &bytes)) return;
    bool small = bytes >= 0 && bytes < lj_json_number(rule, "warn_bytes", 0);
    lj_finding *f = lj_find(out, small ? LJ_VERDICT_WARN : LJ_VERDICT_OK);
    lj_say(f->part, "stack");
    lj_say(f->found, "stack: %s", bytes < 0 ? "unlimited" : size_text(bytes, text, sizeof text));
    lj_say(f->wanted, "at least %s", size_text(lj_json_number(rule, "warn_bytes", 0), need, sizeof need));
    lj_say(f->source, "/proc/self/limits; %s", lj_json_text(rule, "source"));
    if (small) lj_say(f->next_step, "ulimit -s 8192, or --ulimit stack=67108864");
}

void lj_check_process_limits(lj_host *host, lj_findings *out)
{
    locked_memory(host, out);
    tasks(host, out);
    open_files(host, out);
    stack_size(host, out);
    if (out->count) return;
    lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->found, "no /proc/self/limits in the view");
}
