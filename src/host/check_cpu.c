/* Processors: instruction sets, quota against threads, memory nodes, clocks, kernel settings. */
#define _GNU_SOURCE
#include "host/cgroup.h"
#include "host/check.h"
#include "host/pattern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>

static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at += length)
        if ((at == text || at[-1] == ' ' || at[-1] == '\t') &&
            (at[length] == ' ' || at[length] == '\n' || !at[length]))
            return true;
    return false;
}

void lj_check_cpu(lj_host *host, lj_findings *out)
{
    static const char *const features[] = {"avx2",     "avx512f",  "avx512_vnni", "avx512_bf16",
                                           "amx_tile", "amx_bf16", "amx_int8"};
    char *text = lj_host_read(host, "/proc/cpuinfo"), *flags = text ? strstr(text, "flags\t") : NULL,
         list[256] = "", name[96] = "";
    char *model = text ? strstr(text, "model name\t: ") : NULL;
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->source, "/proc/cpuinfo");
    if (model) lj_say(name, "%.*s", (int)strcspn(model + 13, "\n"), model + 13);
    if (!flags) {
        bool arm = text && strstr(text, "Features\t");
        f->verdict = text && !arm ? LJ_VERDICT_NOT_AVAILABLE : LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, text ? "a processor that is not x86-64" : "no /proc/cpuinfo in the view");
        return;
    }
    flags[strcspn(flags, "\n")] = 0;
    for (size_t i = 0, used = 0; i < sizeof features / sizeof *features; i++)
        if (has_word(flags, features[i]))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", features[i]);
    lj_say(f->found, "%s: %s", name, *list ? list : "neither AVX2 nor anything newer");
    json_object_set_new(out->facts, "cpu", lj_json_string(name));
    json_object_set_new(out->facts, "cpu_features", json_string(list));
    if (has_word(flags, "avx2") && has_word(flags, "fma")) return;
    f->verdict = LJ_VERDICT_WARN;
    lj_say(f->wanted, "AVX2 and FMA, better AVX-512 with bf16 or AMX");
    lj_say(f->next_step, "on a virtual machine: pass the host's CPU model through; else the portable kernels "
                         "run, several times slower");
}

static int wanted_threads(lj_host *host, int processors, const char **from)
{
    const char *variable = lj_host_env(host, "OMP_NUM_THREADS");
    *from = "--threads";
    if (host->threads > 0) return host->threads;
    *from = "OMP_NUM_THREADS";
    if (variable && atoi(variable) > 0) return atoi(variable);
    *from = "one for each processor";
    return processors;
}

void lj_check_cpu_quota(lj_host *host, lj_findings *out)
{
    const char *from, *ranks_from;
    int processors = lj_host_processors(host), threads = wanted_threads(host, processors, &from),
        ranks = lj_host_ranks(host, &ranks_from);
    lj_limit limit = lj_cgroup_cpu(host);
    double usable = limit.set && (processors == 0 || limit.value < processors) ? limit.value : processors;
    bool explicit_threads = strcmp(from, "one for each processor") != 0;
    int all = explicit_threads ? threads * ranks : threads;
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    json_object_set_new(out->facts, "processors", json_integer(processors));
    json_object_set_new(out->facts, "cpu_quota", limit.set ? json_real(limit.value) : json_null());
    if (!processors && !limit.set) {
        f->verdict = LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, "neither processors nor a quota in the view");
        return;
    }
    if (limit.set)
        lj_say(f->found,
               "a CPU quota of %.2f processors (cgroup version %d), %d in the set, %d thread(s) (%s)",
               limit.value, limit.version, processors, all, from);
    else
        lj_say(f->found, "%d processors, no quota, %d thread(s) (%s)", processors, all, from);
    lj_say(f->wanted, "no more threads than processors, and at least one processor");
    lj_say(f->source, "%s; %s", limit.set ? limit.place : "affinity of the process",
           lj_json_text_at(lj_rules(host, "limits"), "cpu.source"));
    if (all <= usable + 0.01 && usable >= 1) return;
    f->verdict = LJ_VERDICT_WARN;
    if (usable < 1)
        lj_say(f->next_step, "raise the quota (--cpus, resources.limits.cpu) to 1 or more; until then run "
                             "one thread (OMP_NUM_THREADS=1)");
    else
        lj_say(f->next_step, "OMP_NUM_THREADS=%d%s, or raise the quota to %d",
               (int)fmax(1, floor(usable / (explicit_threads && ranks > 0 ? ranks : 1))),
               explicit_threads && ranks > 1 ? " for each rank" : "", all);
}

void lj_check_numa(lj_host *host, lj_findings *out)
{
    json_t *nodes = lj_host_glob(host, "/sys/devices/system/node/node[0-9]*"), *node;
    size_t i, empty = 0;
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->source, "/sys/devices/system/node");
    json_array_foreach(nodes, i, node)
    {
        char path[LJ_PATH_BYTES], *text;
        lj_say(path, "%s/meminfo", json_string_value(node));
        text = lj_host_read(host, path);
        char *total = text ? strstr(text, "MemTotal:") : NULL;
        empty += total && strtod(total + 9, NULL) == 0;
    }
    json_object_set_new(out->facts, "numa_nodes", json_integer((json_int_t)json_array_size(nodes)));
    if (json_array_size(nodes) == 0) {
        f->verdict = LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, "no memory nodes in the view");
    } else if (empty) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->found, "%zu of %zu memory nodes have no memory", empty, json_array_size(nodes));
        lj_say(f->wanted, "memory modules at every node");
        lj_say(f->next_step, "threads on that node reach all memory over the link: bind to the others "
                             "(numactl) or add modules");
    } else {
        lj_say(f->found, "%zu memory node(s)%s", json_array_size(nodes),
               json_array_size(nodes) > 1 ? ": bind each rank to one (ljperf launch does)" : "");
    }
    json_decref(nodes);
}

void lj_check_clock_source(lj_host *host, lj_findings *out)
{
    char *now = lj_host_read_word(host, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    json_t *rule = lj_json_at(lj_rules(host, "limits"), "clock");
    char list[256];
    lj_finding *f = lj_find(out, now ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->source, "/sys/devices/system/clocksource/clocksource0/current_clocksource; %s",
           lj_json_text(rule, "source"));
    lj_say(f->found, "%s", now ? now : "no clock source in the view");
    if (!now || lj_json_holds(json_object_get(rule, "good"), now)) return;
    f->verdict = LJ_VERDICT_WARN;
    lj_say(f->wanted, "one of %s", lj_json_join(json_object_get(rule, "good"), 8, list, sizeof list));
    lj_say(f->next_step, "reading the time costs a trip to a device: boot with tsc=reliable if the TSC is "
                         "stable, or see why the kernel marked it unstable (dmesg | grep -i tsc)");
}

void lj_check_clock_sync(lj_host *host, lj_findings *out)
{
    struct timex state = {0};
    int result = adjtimex(&state);
    bool kept = result >= 0 && result != TIME_ERROR && !(state.status & STA_UNSYNC);
    int nodes = lj_host_nodes(host);
    lj_finding *f = lj_find(out, kept || nodes < 2 ? LJ_VERDICT_OK : LJ_VERDICT_WARN);
    json_object_set_new(out->facts, "clock_synchronised", json_boolean(kept));
    lj_say(f->source, "adjtimex");
    if (kept) {
        lj_say(f->found, "kept in step, error at most %.3f s", (double)state.maxerror * 1e-6);
        return;
    }
    lj_say(f->found, "nobody keeps the clock in step%s",
           nodes < 2 ? " (matters across hosts: certificates, logs, time-outs)" : "");
    lj_say(f->wanted, "a running NTP client");
    if (nodes >= 2) lj_say(f->next_step, "start chronyd or systemd-timesyncd on every host");
}

static bool setting_bad(const json_t *row, const char *text)
{
    double value = strtod(text, NULL), low, high;
    if (lj_json_holds(json_object_get(row, "bad"), text)) return true;
    if (json_object_get(row, "below") && value < lj_json_number(row, "below", 0)) return true;
    return json_object_get(row, "range_below") && sscanf(text, "%lf %lf", &low, &high) == 2 &&
           high - low < lj_json_number(row, "range_below", 0);
}

void lj_check_kernel_settings(lj_host *host, lj_findings *out)
{
    json_t *rows = lj_json_at(lj_rules(host, "limits"), "kernel_settings"), *row;
    size_t i, seen = 0;
    int nodes = lj_host_nodes(host);
    json_array_foreach(rows, i, row)
    {
        char *text = lj_host_read_word(host, lj_json_text(row, "path"));
        if (!text) continue;
        seen++;
        if (!setting_bad(row, text) || (json_is_true(json_object_get(row, "multi_node")) && nodes < 2))
            continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_WARN);
        lj_say(f->part, "%s", lj_json_text(row, "name"));
        lj_say(f->found, "%s = %s: %s", lj_json_text(row, "name"), text, lj_json_text(row, "why"));
        lj_say(f->wanted, "%s", lj_json_text(row, "next"));
        lj_say(f->source, "%s", lj_json_text(row, "path"));
        lj_say(f->next_step, "%s", lj_json_text(row, "next"));
    }
    if (out->count) return;
    lj_finding *f = lj_find(out, seen ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->found, "%zu settings looked at", seen);
    lj_say(f->source, "/proc/sys");
}
