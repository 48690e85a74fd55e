#define _GNU_SOURCE
#include "host/cgroup.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *controller; /* version 1's name */
    const char *v2_file, *v1_file;
    bool (*parse)(lj_host *host, const char *folder, const char *text, int version, double *value);
} limit_kind;

static bool parse_number(lj_host *host, const char *folder, const char *text, int version, double *value)
{
    (void)host, (void)folder, (void)version;
    char *end;
    *value = strtod(text, &end);
    return end != text && *value < 9e18; /* "max", and version 1's PAGE_COUNTER_MAX, are no limit */
}

/* "50000 100000" of cpu.max, or version 1's quota with its period in another file; -1 and "max" are no limit.
 */
static bool parse_quota(lj_host *host, const char *folder, const char *text, int version, double *value)
{
    double quota, period = 100000;
    char path[LJ_PATH_BYTES];
    if (sscanf(text, "%lf %lf", &quota, &period) < 1 || quota <= 0) return false;
    if (version == 1) {
        lj_say(path, "%s/cpu.cfs_period_us", folder);
        char *word = lj_host_read_word(host, path);
        if (word) period = strtod(word, NULL);
    }
    *value = period > 0 ? quota / period : 0;
    return period > 0;
}

static const limit_kind memory_kind = {"memory", "memory.max", "memory.limit_in_bytes", parse_number};
static const limit_kind cpu_kind = {"cpu", "cpu.max", "cpu.cfs_quota_us", parse_quota};
static const limit_kind tasks_kind = {"pids", "pids.max", "pids.max", parse_number};

/* From mount + group up to the mount itself. */
static void limit_climb(lj_host *host, const limit_kind *kind, const char *mount, const char *group,
                        int version, lj_limit *limit)
{
    char folder[LJ_PATH_BYTES], path[LJ_PATH_BYTES + 64];
    lj_say(folder, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    for (;;) {
        double value;
        lj_say(path, "%s/%s", folder, version == 2 ? kind->v2_file : kind->v1_file);
        char *text = lj_host_read_word(host, path);
        if (text && kind->parse(host, folder, text, version, &value) &&
            (!limit->set || value < limit->value)) {
            *limit = (lj_limit){.set = true, .value = value, .version = version};
            lj_say(limit->place, "%s", path);
        }
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) <= strlen(mount)) return;
        *slash = 0;
    }
}

static bool names_controller(const char *list, const char *controller)
{
    size_t length = strlen(controller);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, controller, length) == 0 && (at[length] == ',' || !at[length])) return true;
    return false;
}

static void limit_v1(lj_host *host, const limit_kind *kind, const char *list, const char *group,
                     lj_limit *limit)
{
    char mount[256];
    lj_say(mount, "/sys/fs/cgroup/%s", list);
    if (!lj_host_is_folder(host, mount)) lj_say(mount, "/sys/fs/cgroup/%s", kind->controller);
    limit_climb(host, kind, mount, group, 1, limit);
}

static lj_limit limit_find(lj_host *host, const limit_kind *kind)
{
    lj_limit limit = {0};
    const char *v2 = lj_host_exists(host, "/sys/fs/cgroup/cgroup.controllers") ||
                             !lj_host_is_folder(host, "/sys/fs/cgroup/unified")
                         ? "/sys/fs/cgroup"
                         : "/sys/fs/cgroup/unified";
    char *text = lj_host_read(host, "/proc/self/cgroup"), *save = NULL;
    if (!text) text = lj_host_read(host, "/proc/1/cgroup");
    bool v1_seen = false;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0, list++;
        if (!*list && strncmp(line, "0", 1) == 0) limit_climb(host, kind, v2, group, 2, &limit);
        if (names_controller(list, kind->controller))
            limit_v1(host, kind, list, group, &limit), v1_seen = true;
    }
    if (!text) limit_climb(host, kind, v2, "/", 2, &limit);
    if (!limit.set && !v1_seen) limit_v1(host, kind, kind->controller, "/", &limit);
    return limit;
}

lj_limit lj_cgroup_memory(lj_host *host)
{
    return limit_find(host, &memory_kind);
}

lj_limit lj_cgroup_cpu(lj_host *host)
{
    return limit_find(host, &cpu_kind);
}

lj_limit lj_cgroup_tasks(lj_host *host)
{
    return limit_find(host, &tasks_kind);
}

static int processors_in_list(const char *list)
{
    int count = 0;
    for (const char *at = list; *at;) {
        char *end;
        long low = strtol(at, &end, 10), high = low;
        if (end == at) break;
        if (*end == '-') high = strtol(end + 1, &end, 10);
        count += (int)(high - low + 1);
        at = end + (*end == ',');
    }
    return count;
}

int lj_host_processors(lj_host *host)
{
    if (lj_host_live(host)) {
        cpu_set_t set;
        return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    }
    char *text = lj_host_read(host, "/proc/self/status"),
         *list = text ? strstr(text, "Cpus_allowed_list:") : NULL;
    if (list)
        return processors_in_list(list + strlen("Cpus_allowed_list:") +
                                  strspn(list + strlen("Cpus_allowed_list:"), " \t"));
    int count = 0;
    text = lj_host_read(host, "/proc/cpuinfo");
    for (char *at = text; at && (at = strstr(at, "processor\t")); at++) count++;
    char *online = count ? NULL : lj_host_read_word(host, "/sys/devices/system/cpu/online");
    return online ? processors_in_list(online) : count;
}

bool lj_host_field(lj_host *host, const char *path, const char *name, double *value)
{
    char *text = lj_host_read(host, path);
    size_t length = strlen(name);
    for (char *at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, name, length) != 0) continue;
        char *end;
        at += length + strspn(at + length, ": \t");
        *value = strtod(at, &end);
        return end != at;
    }
    return false;
}

static int number_of(lj_host *host, const char *variable)
{
    const char *text = lj_host_env(host, variable);
    return text ? (int)strtol(text, NULL, 10) : 0;
}

int lj_host_ranks(lj_host *host, const char **from)
{
    static const char *const variables[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                            "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE", "NPROC_PER_NODE"};
    *from = "--ranks";
    if (host->ranks > 0) return host->ranks;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        *from = variables[i];
        if (number_of(host, variables[i]) > 0) return number_of(host, variables[i]);
    }
    *from = "the job's cards";
    int cards = (int)lj_json_number(host->job, "cards", 0);
    if (cards > 0) return cards;
    static const char *const devices[] = {"/dev/nvidia[0-9]*", "/dev/alixpu_ppu*"};
    *from = "the number of cards";
    for (size_t i = 0; i < 2; i++) {
        json_t *found = lj_host_glob(host, devices[i]);
        int count = (int)json_array_size(found);
        json_decref(found);
        if (count > 0) return count;
    }
    *from = "one process";
    return 1;
}

int lj_host_nodes(lj_host *host)
{
    static const char *const variables[] = {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", "NNODES", "PET_NNODES",
                                            "GROUP_WORLD_SIZE"};
    int nodes = (int)lj_json_number(host->job, "nodes", 1);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (number_of(host, variables[i]) > nodes) nodes = number_of(host, variables[i]);
    int world = number_of(host, "WORLD_SIZE"), local = number_of(host, "LOCAL_WORLD_SIZE");
    if (!world)
        world = number_of(host, "OMPI_COMM_WORLD_SIZE"),
        local = number_of(host, "OMPI_COMM_WORLD_LOCAL_SIZE");
    if (local > 0 && world / local > nodes) nodes = world / local;
    return nodes;
}

bool lj_host_in_container(lj_host *host)
{
    char *group = NULL;
    if (lj_host_exists(host, "/.dockerenv") || lj_host_exists(host, "/run/.containerenv") ||
        lj_host_env(host, "KUBERNETES_SERVICE_HOST") || lj_host_env(host, "container"))
        return true;
    group = lj_host_read(host, "/proc/1/cgroup");
    return group && (strstr(group, "/docker/") || strstr(group, "kubepods") || strstr(group, "/lxc/"));
}
