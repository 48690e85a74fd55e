/* Who this process and this host are, and whether another process lives. */
#define _GNU_SOURCE
#include "accl/boot/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

uint64_t accl_random(void)
{
    uint64_t value = 0;
    if (getrandom(&value, sizeof value, 0) != sizeof value) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        value = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32 ^ (uint64_t)now.tv_sec;
    }
    return value ? value : 1;
}

/* The word that peers read to see whether they may; changes after a fork. */
static struct {
    pthread_mutex_t lock;
    pid_t owner;
    uint64_t name;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t accl_process_name(void)
{
    pthread_mutex_lock(&process.lock);
    if (process.owner != getpid()) {
        process.owner = getpid();
        process.name = accl_random();
    }
    uint64_t name = process.name;
    pthread_mutex_unlock(&process.lock);
    return name;
}

uint64_t accl_process_probe(void)
{
    return (uint64_t)(uintptr_t)&process.name;
}

static size_t small_file_read(const char *path, char *buffer, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, buffer, capacity - 1);
    close(fd);
    buffer[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

uint64_t accl_boot_host(void)
{
    char text[64];
    uint64_t hash = 0xcbf29ce484222325u;
    size_t n = small_file_read("/proc/sys/kernel/random/boot_id", text, sizeof text);
    for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash;
}

/* Fields 3 (state) and 22 (start time) of /proc/PID/stat; the name in field 2 may hold anything, so count from the last ')'. */
static bool stat_read(int64_t pid, char *state, uint64_t *start)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (!small_file_read(path, text, sizeof text)) return false;
    char *at = strrchr(text, ')');
    if (!at || !at[1]) return false;
    at += 2;
    *state = *at;
    for (int field = 3; field < 22 && at; field++) at = strchr(at + 1, ' ');
    *start = at ? strtoull(at, NULL, 10) : 0;
    return true;
}

uint64_t accl_process_start(void)
{
    char state;
    uint64_t start = 0;
    return stat_read(getpid(), &state, &start) ? start : 0;
}

uint64_t accl_process_namespace(void)
{
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

bool accl_process_alive(const accl_identity *identity)
{
    char state;
    uint64_t start;
    if (!identity->start_time || identity->pid_namespace != accl_process_namespace()) return true;
    if (!stat_read(identity->pid, &state, &start)) return errno != ENOENT && errno != ESRCH;
    return state != 'Z' && state != 'X' && start == identity->start_time;
}
