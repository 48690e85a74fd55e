/* Paths of the view. A tree is foreign: links are resolved by hand, as chroot would, and cannot leave it. */
#define _GNU_SOURCE
#include "host/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINKS = 40, MAX_FILE_BYTES = 4 << 20, MAX_ENTRIES = 20000 };

typedef struct {
    char done[LJ_PATH_BYTES]; /* resolved so far, relative to the root: "" or "/a/b" */
    char rest[LJ_PATH_BYTES]; /* still to do */
    int links;
} walk;

static void step_up(char *done)
{
    char *slash = strrchr(done, '/');
    if (slash) *slash = 0;
}

/* When root + done names a link, puts its target before the rest. False: no link, or too many. */
static bool follow(const char *root, walk *w)
{
    char full[2 * LJ_PATH_BYTES], target[LJ_PATH_BYTES], joined[2 * LJ_PATH_BYTES];
    lj_say(full, "%s%s", root, w->done);
    ssize_t length = readlink(full, target, sizeof target - 1);
    if (length < 0 || ++w->links > MAX_LINKS) return false;
    target[length] = 0;
    lj_say(joined, "%s/%s", target, w->rest);
    if (strlen(joined) >= sizeof w->rest) return false;
    memcpy(w->rest, joined, strlen(joined) + 1);
    if (*target == '/')
        *w->done = 0;
    else
        step_up(w->done);
    return true;
}

static void walk_path(const char *root, const char *path, walk *w)
{
    *w = (walk){0};
    lj_say(w->rest, "%s", path);
    while (*w->rest) {
        char name[NAME_MAX + 1], tail[LJ_PATH_BYTES];
        size_t length = strcspn(w->rest, "/");
        lj_say(name, "%.*s", (int)length, w->rest);
        lj_say(tail, "%s", w->rest + length + (w->rest[length] == '/'));
        memcpy(w->rest, tail, sizeof w->rest);
        if (!*name || strcmp(name, ".") == 0) continue;
        if (strcmp(name, "..") == 0) {
            step_up(w->done);
            continue;
        }
        size_t used = strlen(w->done);
        snprintf(w->done + used, sizeof w->done - used, "/%s", name);
        (void)follow(root, w);
    }
}

const char *lj_host_path(const lj_host *host, const char *path, char *out, size_t capacity)
{
    if (lj_host_live(host)) {
        snprintf(out, capacity, "%s", path);
        return out;
    }
    walk w;
    walk_path(host->root, path, &w);
    snprintf(out, capacity, "%s%s", host->root, w.done);
    return out;
}

const char *lj_host_final(const lj_host *host, const char *path, char *out, size_t capacity)
{
    walk w;
    walk_path(host->root, path, &w);
    snprintf(out, capacity, "%s", w.done);
    return out;
}

static bool stat_in(const lj_host *host, const char *path, struct stat *info)
{
    char full[2 * LJ_PATH_BYTES];
    return stat(lj_host_path(host, path, full, sizeof full), info) == 0;
}

bool lj_host_exists(const lj_host *host, const char *path)
{
    struct stat info;
    return stat_in(host, path, &info);
}

bool lj_host_is_folder(const lj_host *host, const char *path)
{
    struct stat info;
    return stat_in(host, path, &info) && S_ISDIR(info.st_mode);
}

static size_t read_all(int fd, char *buffer, size_t capacity)
{
    size_t used = 0;
    while (used < capacity) {
        ssize_t got = read(fd, buffer + used, capacity - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        used += (size_t)got;
    }
    return used;
}

/* /proc files say size 0, so the buffer grows with what comes. */
static char *read_growing(lj_arena *arena, int fd)
{
    size_t capacity = 4096, used = 0;
    char *buffer = malloc(capacity);
    for (;;) {
        if (!buffer) return NULL;
        used += read_all(fd, buffer + used, capacity - 1 - used);
        if (used < capacity - 1 || capacity >= MAX_FILE_BYTES) break;
        char *grown = realloc(buffer, capacity *= 4);
        if (!grown) free(buffer);
        buffer = grown;
    }
    for (size_t i = 0; i < used; i++)
        if (!buffer[i]) buffer[i] = ' ';
    buffer[used] = 0;
    char *text = lj_arena_strdup(arena, buffer);
    free(buffer);
    return text;
}

char *lj_host_read(lj_host *host, const char *path)
{
    char full[2 * LJ_PATH_BYTES];
    struct stat info;
    int fd = open(lj_host_path(host, path, full, sizeof full), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    char *text = fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode) ? read_growing(&host->arena, fd) : NULL;
    close(fd);
    return text;
}

char *lj_host_read_word(lj_host *host, const char *path)
{
    char *text = lj_host_read(host, path);
    if (!text) return NULL;
    text += strspn(text, " \t\r\n");
    size_t length = strlen(text);
    while (length && strchr(" \t\r\n", text[length - 1])) text[--length] = 0;
    return *text ? text : NULL;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

json_t *lj_host_list(const lj_host *host, const char *folder)
{
    json_t *list = json_array();
    char full[2 * LJ_PATH_BYTES], **names = NULL;
    DIR *open_folder = opendir(lj_host_path(host, folder, full, sizeof full));
    size_t count = 0;
    struct dirent *entry;
    while (open_folder && count < MAX_ENTRIES && (entry = readdir(open_folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char **grown = realloc(names, (count + 1) * sizeof *names);
        if (!grown) break;
        names = grown;
        names[count++] = strdup(entry->d_name);
    }
    if (open_folder) closedir(open_folder);
    if (count) qsort(names, count, sizeof *names, by_text);
    for (size_t i = 0; i < count; i++) {
        if (names[i]) lj_json_append_text(list, names[i]);
        free(names[i]);
    }
    free(names);
    return list;
}

static void glob_into(const lj_host *host, const char *base, const char *rest, json_t *found)
{
    char part[NAME_MAX + 1], path[LJ_PATH_BYTES];
    rest += strspn(rest, "/");
    size_t length = strcspn(rest, "/"), i;
    lj_say(part, "%.*s", (int)length, rest);
    const char *next = rest + length;
    if (!*part) {
        if (json_array_size(found) < MAX_ENTRIES) lj_json_append_text(found, base);
        return;
    }
    if (!strpbrk(part, "*?[")) {
        lj_say(path, "%s/%s", base, part);
        if (*next || lj_host_exists(host, path)) glob_into(host, path, next, found);
        return;
    }
    json_t *names = lj_host_list(host, *base ? base : "/"), *name;
    json_array_foreach(names, i, name)
    {
        if (fnmatch(part, json_string_value(name), FNM_PERIOD) != 0) continue;
        lj_say(path, "%s/%s", base, json_string_value(name));
        if (!*next || lj_host_is_folder(host, path)) glob_into(host, path, next, found);
    }
    json_decref(names);
}

json_t *lj_host_glob(const lj_host *host, const char *pattern)
{
    json_t *found = json_array();
    glob_into(host, "", pattern, found);
    return found;
}
