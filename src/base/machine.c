#define _GNU_SOURCE
#include "base/machine.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static lj_machine machine;
static char class_name[96];

static const char *const isa_names[LJ_ISA_COUNT] = {
    [LJ_ISA_GENERIC] = "generic",         [LJ_ISA_AVX2] = "avx2", [LJ_ISA_AVX512] = "avx512",
    [LJ_ISA_AVX512_BF16] = "avx512_bf16", [LJ_ISA_AMX] = "amx",
};

const char *lj_isa_name(lj_isa isa)
{
    return (unsigned)isa < LJ_ISA_COUNT ? isa_names[isa] : "unknown";
}

lj_status lj_isa_find(const char *name, lj_isa *isa)
{
    for (int i = 0; i < LJ_ISA_COUNT; i++) {
        if (strcmp(name, isa_names[i]) != 0) continue;
        *isa = (lj_isa)i;
        return LJ_OK;
    }
    const char *near = lj_nearest_name(name, isa_names, LJ_ISA_COUNT);
    return lj_fail(LJ_ERR_NOT_FOUND, "no instruction set '%s'; %s%s%s", name, near ? "did you mean " : "take one of generic, avx2, avx512, avx512_bf16, amx",
                   near ? near : "", near ? "?" : "");
}

#if defined(__x86_64__)
/* The kernel hands out the AMX tile state only on request (arch_prctl ARCH_REQ_XCOMP_PERM, feature 18). */
static bool amx_permitted(void)
{
    return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

static lj_isa isa_detect(bool *vnni)
{
    unsigned a, b, c, d, c7 = 0, d7 = 0, a71 = 0;
    *vnni = false;
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) c7 = c, d7 = d;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) a71 = a;
    *vnni = avx512 && (c7 >> 11 & 1);
    bool bf16 = avx512 && (a71 >> 5 & 1), amx = bf16 && (d7 >> 22 & 1) && (d7 >> 24 & 1);
    if (amx && amx_permitted()) return LJ_ISA_AMX;
    return bf16 ? LJ_ISA_AVX512_BF16 : avx512 ? LJ_ISA_AVX512 : avx2 ? LJ_ISA_AVX2 : LJ_ISA_GENERIC;
}

static void family_read(char *out, size_t capacity)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    char vendor[13] = {0};
    __get_cpuid(0, &a, &b, &c, &d);
    memcpy(vendor, &b, 4), memcpy(vendor + 4, &d, 4), memcpy(vendor + 8, &c, 4);
    __get_cpuid(1, &a, &b, &c, &d);
    unsigned family = (a >> 8 & 15) + (a >> 20 & 255), model = (a >> 4 & 15) | (a >> 12 & 0xf0);
    bool amd = strcmp(vendor, "AuthenticAMD") == 0;
    const char *name = !amd ? (strcmp(vendor, "GenuineIntel") == 0 ? "intel" : "x86") : family == 26 ? "zen5"
                       : family == 25 && (model >= 0x60 || (model >= 0x10 && model < 0x20))          ? "zen4"
                       : family == 25                                                                ? "zen3"
                                                                                                     : "amd";
    snprintf(out, capacity, "%s", name);
}
#else
static lj_isa isa_detect(bool *vnni)
{
    *vnni = false;
    return LJ_ISA_GENERIC;
}

static void family_read(char *out, size_t capacity)
{
    snprintf(out, capacity, "generic");
}
#endif

static void cpu_name_read(char *out, size_t capacity)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(out, capacity, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon += 1 + (colon[1] == ' ');
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, capacity, "%.*s", (int)capacity - 1, colon);
        break;
    }
    if (file) fclose(file);
}

static void machine_read(void)
{
    cpu_set_t set;
    machine.isa = isa_detect(&machine.vnni);
    const char *cap = getenv("LJPERF_ISA");
    lj_isa capped;
    if (cap && *cap && lj_isa_find(cap, &capped) == LJ_OK && capped < machine.isa) machine.isa = capped;
    machine.vnni = machine.vnni && machine.isa >= LJ_ISA_AVX512;
    machine.cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    machine.l1d_bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
    machine.l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    machine.l3_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    machine.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    cpu_name_read(machine.cpu_name, sizeof machine.cpu_name);
    char family[32];
    family_read(family, sizeof family);
    snprintf(class_name, sizeof class_name, "%s-%s", family, lj_isa_name(machine.isa));
}

const lj_machine *lj_machine_get(void)
{
    pthread_once(&once, machine_read);
    return &machine;
}

const char *lj_machine_class(void)
{
    lj_machine_get();
    return class_name;
}

static bool number_read(const char *path, uint64_t *value)
{
    FILE *file = fopen(path, "re");
    unsigned long long read;
    bool got = file && fscanf(file, "%llu", &read) == 1;
    if (file) fclose(file);
    if (got) *value = read;
    return got;
}

/* MemAvailable: what the kernel reckons can be had without swapping. */
static uint64_t system_available(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
    if (file) fclose(file);
    return kib ? (uint64_t)kib << 10 : lj_machine_get()->memory_bytes;
}

/* Room under `limit_name` in `folder` and every parent up to `root`; a file that is absent or "max" does not bound. */
static uint64_t cgroup_room(const char *root, const char *group, const char *limit_name, const char *usage_name)
{
    char folder[1024], path[1200];
    uint64_t room = UINT64_MAX, limit, usage;
    snprintf(folder, sizeof folder, "%s%s", root, group);
    for (;;) {
        snprintf(path, sizeof path, "%s/%s", folder, limit_name);
        if (number_read(path, &limit)) {
            snprintf(path, sizeof path, "%s/%s", folder, usage_name);
            if (!number_read(path, &usage)) usage = 0;
            uint64_t left = limit > usage ? limit - usage : 0;
            if (left < room) room = left;
        }
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) <= strlen(root)) return room;
        *slash = 0;
    }
}

uint64_t lj_memory_available(void)
{
    char line[1024];
    uint64_t room = system_available(), bound;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *group = strrchr(line, ':');
        if (!group) continue;
        bool v2 = strncmp(line, "0::", 3) == 0;
        if (!v2 && !strstr(line, ":memory:")) continue;
        bound = v2 ? cgroup_room("/sys/fs/cgroup", group + 1, "memory.max", "memory.current")
                   : cgroup_room("/sys/fs/cgroup/memory", group + 1, "memory.limit_in_bytes", "memory.usage_in_bytes");
        if (bound < room) room = bound;
    }
    if (file) fclose(file);
    return room;
}
