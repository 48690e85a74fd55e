#define _GNU_SOURCE
#include "train/folder.h"

#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A rename lasts only when its folder is on disk too. Systems that cannot sync a folder are no error. */
static void sync_parent(const char *path)
{
    char parent[4096];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash) *slash = 0;
    int fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

/* An older folder of that name is swapped in one step, so that at no moment neither is there. */
lj_status lj_folder_publish(const char *temporary, const char *final)
{
    if (lj_fault("rename", final)) return lj_fail(LJ_ERR_IO, "rename %s: injected fault", final);
    bool replaced = access(final, F_OK) == 0;
    int failed = replaced ? renameat2(AT_FDCWD, temporary, AT_FDCWD, final, RENAME_EXCHANGE) : rename(temporary, final);
    if (failed) return lj_fail_errno("rename", temporary);
    sync_parent(final);
    if (replaced) lj_folder_remove(temporary);
    return LJ_OK;
}

void lj_folder_remove(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return;
    for (struct dirent *e; (e = readdir(folder));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) (void)unlinkat(dirfd(folder), e->d_name, 0);
    closedir(folder);
    (void)rmdir(path);
}

static bool process_gone(const char *name)
{
    const char *dash = strrchr(name, '-');
    long pid = dash ? strtol(dash + 1, NULL, 10) : 0;
    return pid <= 0 || pid == (long)getpid() || (kill((pid_t)pid, 0) != 0 && errno == ESRCH);
}

lj_status lj_folder_sweep(const char *path, const char *prefix)
{
    DIR *folder = opendir(path);
    if (!folder) return lj_fail_errno("open", path);
    for (struct dirent *e; (e = readdir(folder));) {
        char name[4096];
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 || !process_gone(e->d_name)) continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        lj_folder_remove(name);
    }
    closedir(folder);
    return LJ_OK;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_checkpoint(const char *path, const char *name, int64_t *step)
{
    char *end, state[4096];
    if (strncmp(name, "step-", 5) != 0) return false;
    *step = strtoll(name + 5, &end, 10);
    snprintf(state, sizeof state, "%s/%s/trainer_state.json", path, name);
    return end != name + 5 && !*end && access(state, R_OK) == 0;
}

static lj_status step_add(int64_t **steps, size_t *count, int64_t step)
{
    int64_t *grown = realloc(*steps, (*count + 1) * sizeof *grown);
    if (!grown) return lj_fail(LJ_ERR_NOMEM, "list of checkpoints");
    grown[(*count)++] = step, *steps = grown;
    return LJ_OK;
}

lj_status lj_folder_steps(const char *path, int64_t **steps, size_t *count)
{
    *steps = NULL, *count = 0;
    DIR *folder = opendir(path);
    if (!folder) return errno == ENOENT ? LJ_OK : lj_fail_errno("open", path);
    lj_status status = LJ_OK;
    int64_t step;
    for (struct dirent *e; status == LJ_OK && (e = readdir(folder));)
        if (is_checkpoint(path, e->d_name, &step)) status = step_add(steps, count, step);
    closedir(folder);
    if (status != LJ_OK) {
        free(*steps);
        *steps = NULL, *count = 0;
        return status;
    }
    if (*count) qsort(*steps, *count, sizeof **steps, ascending);
    return LJ_OK;
}
