#define _GNU_SOURCE
#include "accl/debug.h"

#include "accl/nccl.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    bool read;
    FILE *file; /* NULL: standard output */
} debug = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void print_line(void *user, lj_log_level level, const char *line)
{
    static const char *const words[] = {"ERROR", "WARN", "INFO", "TRACE"};
    char host[64] = "?";
    (void)user;
    gethostname(host, sizeof host - 1);
    FILE *out = debug.file ? debug.file : stdout;
    fprintf(out, "%s:%d NCCL %s %s\n", host, (int)getpid(), words[level], line);
    fflush(out);
}

/* %h host, %p process, as NCCL writes them. */
static void path_expand(const char *pattern, char *out, size_t capacity)
{
    char host[64] = "?";
    size_t n = 0;
    gethostname(host, sizeof host - 1);
    for (const char *c = pattern; *c && n + 1 < capacity; c++) {
        int added = 1;
        if (c[0] == '%' && (c[1] == 'h' || c[1] == 'p')) {
            added = c[1] == 'h' ? snprintf(out + n, capacity - n, "%s", host) : snprintf(out + n, capacity - n, "%d", (int)getpid());
            c++;
        } else out[n] = *c;
        n += (size_t)added;
    }
    out[n < capacity ? n : capacity - 1] = '\0';
}

static void read_locked(void)
{
    static const struct {
        const char *name;
        lj_log_level level;
    } levels[] = {{"VERSION", LJ_LOG_ERROR}, {"WARN", LJ_LOG_WARN}, {"INFO", LJ_LOG_DEBUG}, {"ABORT", LJ_LOG_DEBUG}, {"TRACE", LJ_LOG_DEBUG}};
    const char *value = getenv("NCCL_DEBUG"), *path = getenv("NCCL_DEBUG_FILE");
    char expanded[512];
    debug.read = true;
    if (debug.file) fclose(debug.file);
    debug.file = NULL;
    if (!value || !*value) return;
    if (path && *path) {
        path_expand(path, expanded, sizeof expanded);
        debug.file = fopen(expanded, "we");
    }
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcasecmp(value, levels[i].name) == 0) lj_log_set(print_line, NULL, levels[i].level);
    if (strcasecmp(value, "VERSION") == 0 || strcasecmp(value, "INFO") == 0) fprintf(debug.file ? debug.file : stdout, "NCCL version %d.%d.%d (ACCL)\n", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
}

void accl_debug_begin(void)
{
    pthread_mutex_lock(&debug.lock);
    if (!debug.read) read_locked();
    pthread_mutex_unlock(&debug.lock);
}

void accl_debug_reset(void)
{
    pthread_mutex_lock(&debug.lock);
    read_locked();
    pthread_mutex_unlock(&debug.lock);
}
