/* The kernel cache's folder, entries and locks. */
#define _GNU_SOURCE
#include "codegen/cache.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

typedef struct {
    char magic[8];
    uint64_t bytes; /* of what stands before */
    uint64_t low, high;
} trailer;

static const char magic[8] = "ljkern1";

/* -- folders --------------------------------------------------------------------------------------------------------------- */

static lj_status check_owner(const char *path, const struct stat *info)
{
    if (info->st_uid != geteuid() && info->st_uid != 0)
        return lj_fail(LJ_ERR_INVALID, "%s belongs to user %ld, not to us (%ld): kernels from it would run as us; set LJPERF_CACHE to a folder of your own",
                       path, (long)info->st_uid, (long)geteuid());
    if (info->st_mode & (S_IWGRP | S_IWOTH))
        return lj_fail(LJ_ERR_INVALID, "%s may be written by others (mode %04o): kernels from it would run as us; chmod go-w it", path,
                       (unsigned)(info->st_mode & 07777));
    return LJ_OK;
}

static lj_status check_folder(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return lj_fail_errno("look at", path);
    if (!S_ISDIR(info.st_mode)) return lj_fail(LJ_ERR_IO, "%s is no folder", path);
    return check_owner(path, &info);
}

static lj_status open_temporary(lj_kernel_cache *cache, const char *wanted)
{
    const char *base = getenv("TMPDIR");
    char reason[1200];
    snprintf(reason, sizeof reason, "%s cannot be written: kernels are built again in each process", wanted);
    LJ_TRY(lj_fallback("kernel cache", reason, "set LJPERF_CACHE to a folder that can"));
    snprintf(cache->folder, sizeof cache->folder, "%s/ljperf-kernels-XXXXXX", base && *base ? base : "/tmp");
    if (lj_fault("mkdir", cache->folder) || !mkdtemp(cache->folder)) return lj_fail_errno("create folder", cache->folder);
    cache->temporary = true;
    return LJ_OK;
}

static lj_status create_folder(const char *path)
{
    if (lj_fault("mkdir", path)) return errno = EROFS, lj_fail_errno("create folder", path);
    return lj_folder_create(path, 0700);
}

lj_status lj_kernel_cache_open(lj_kernel_cache *cache)
{
    char base[900];
    *cache = (lj_kernel_cache){0};
    LJ_TRY(lj_cache_folder(base, sizeof base));
    snprintf(cache->folder, sizeof cache->folder, "%s/kernels", base);
    char wanted[1024];
    snprintf(wanted, sizeof wanted, "%s", cache->folder);
    if (create_folder(cache->folder) != LJ_OK) return open_temporary(cache, wanted);
    LJ_TRY(check_folder(cache->folder));
    return access(cache->folder, W_OK | X_OK) == 0 ? LJ_OK : open_temporary(cache, wanted);
}

lj_status lj_kernel_pack_open(lj_kernel_cache *cache, bool *present)
{
    const char *path = getenv("LJPERF_KERNEL_PACK");
    *present = path && *path;
    if (!*present) return LJ_OK;
    *cache = (lj_kernel_cache){.read_only = true};
    if ((size_t)snprintf(cache->folder, sizeof cache->folder, "%s", path) >= sizeof cache->folder)
        return lj_fail(LJ_ERR_LIMIT, "LJPERF_KERNEL_PACK: the folder's name is too long");
    return lj_fail_in(check_folder(cache->folder), "LJPERF_KERNEL_PACK");
}

void lj_kernel_cache_close(lj_kernel_cache *cache)
{
    if (!cache->temporary) return;
    DIR *folder = opendir(cache->folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
    rmdir(cache->folder);
    cache->temporary = false;
}

/* -- entries --------------------------------------------------------------------------------------------------------------- */

static void entry_path(const lj_kernel_cache *cache, const char *key, const char *ending, char *path, size_t capacity)
{
    snprintf(path, capacity, "%s/%s%s", cache->folder, key, ending);
}

static bool is_sound(const lj_mapped_file *file)
{
    trailer end;
    if (file->bytes <= sizeof end) return false;
    size_t bytes = file->bytes - sizeof end;
    memcpy(&end, file->data + bytes, sizeof end);
    if (memcmp(end.magic, magic, sizeof magic) != 0 || end.bytes != bytes) return false;
    XXH128_hash_t hash = XXH3_128bits(file->data, bytes);
    return hash.low64 == end.low && hash.high64 == end.high;
}

lj_status lj_kernel_cache_find(const lj_kernel_cache *cache, const char *key, char *path, size_t capacity, bool *found)
{
    struct stat info;
    lj_mapped_file file;
    *found = false;
    entry_path(cache, key, ".so", path, capacity);
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) return LJ_OK;
    LJ_TRY(check_owner(path, &info));
    if (lj_fault("open", path) || lj_mapped_file_init(&file, path) != LJ_OK) return LJ_OK; /* gone meanwhile, or unreadable: built again */
    *found = is_sound(&file);
    lj_mapped_file_release(&file);
    if (*found && !cache->read_only) utimensat(AT_FDCWD, path, NULL, 0);
    if (!*found && cache->read_only) return lj_fail(LJ_ERR_FORMAT, "kernel pack: %s is damaged; build the pack again", path);
    if (!*found) {
        lj_log(LJ_LOG_INFO, "kernel cache: %s is damaged and is built again", path);
        unlink(path);
    }
    return LJ_OK;
}

static lj_status append_trailer(const char *object)
{
    lj_mapped_file file;
    trailer end;
    LJ_TRY(lj_mapped_file_init(&file, object));
    XXH128_hash_t hash = XXH3_128bits(file.data, file.bytes);
    end = (trailer){.bytes = file.bytes, .low = hash.low64, .high = hash.high64};
    memcpy(end.magic, magic, sizeof magic);
    lj_mapped_file_release(&file);
    int fd = open(object, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return lj_fail_errno("open", object);
    ssize_t written = lj_fault("write", object) ? (errno = ENOSPC, -1) : write(fd, &end, sizeof end);
    lj_status status = written == (ssize_t)sizeof end ? LJ_OK : lj_fail_errno("write", object);
    close(fd);
    return status;
}

/* A link under a temporary name, renamed over what may stand there. File systems without links get a copy. */
static lj_status add_link(const lj_kernel_cache *cache, const char *object, const char *key)
{
    char path[1200], temporary[1260];
    lj_mapped_file file;
    entry_path(cache, key, ".so", path, sizeof path);
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    unlink(temporary);
    if (link(object, temporary) != 0) {
        LJ_TRY(lj_mapped_file_init(&file, object));
        lj_status status = lj_file_write(path, file.data, file.bytes);
        lj_mapped_file_release(&file);
        return status;
    }
    if (!lj_fault("rename", path) && rename(temporary, path) == 0) {
        unlink(temporary); /* rename does nothing when both are links of one file */
        return LJ_OK;
    }
    lj_status status = lj_fail_errno("rename", temporary);
    unlink(temporary);
    return status;
}

lj_status lj_kernel_cache_add(const lj_kernel_cache *cache, const char *object, const char *const *keys, size_t count)
{
    lj_status status = append_trailer(object);
    if (status == LJ_OK && chmod(object, 0600) != 0) status = lj_fail_errno("chmod", object);
    for (size_t i = 0; i < count && status == LJ_OK; i++) status = add_link(cache, object, keys[i]);
    unlink(object);
    return status;
}

/* -- size ------------------------------------------------------------------------------------------------------------------ */

typedef struct {
    char name[96];
    int64_t used; /* seconds */
    uint64_t bytes; /* its share: links of one file share its size */
} entry;

static int older_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->used < y->used ? -1 : x->used > y->used ? 1 : strcmp(x->name, y->name);
}

static size_t list_entries(DIR *folder, entry *entries, size_t capacity, uint64_t *total)
{
    size_t count = 0;
    struct stat info;
    *total = 0;
    for (struct dirent *at; (at = readdir(folder));) {
        size_t length = strlen(at->d_name);
        bool is_entry = length > 3 && length < sizeof entries->name && strcmp(at->d_name + length - 3, ".so") == 0;
        if (!is_entry || count == capacity || fstatat(dirfd(folder), at->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        entries[count] = (entry){.used = info.st_mtime, .bytes = (uint64_t)info.st_size / (uint64_t)(info.st_nlink ? info.st_nlink : 1)};
        snprintf(entries[count].name, sizeof entries->name, "%s", at->d_name);
        *total += entries[count++].bytes;
    }
    return count;
}

lj_status lj_kernel_cache_trim(const lj_kernel_cache *cache, uint64_t limit)
{
    enum { MOST = 65536 };
    uint64_t total;
    entry *entries;
    DIR *folder = opendir(cache->folder);
    if (!folder) return lj_fail_errno("open", cache->folder);
    lj_status status = lj_alloc("kernel cache list", MOST * sizeof *entries, (void **)&entries);
    if (status == LJ_OK) {
        size_t count = list_entries(folder, entries, MOST, &total);
        if (total > limit) qsort(entries, count, sizeof *entries, older_first);
        for (size_t i = 0; i < count && total > limit; i++)
            if (unlinkat(dirfd(folder), entries[i].name, 0) == 0) total -= entries[i].bytes;
        lj_free(entries);
    }
    closedir(folder);
    return status;
}

/* -- locks ----------------------------------------------------------------------------------------------------------------- */

static lj_status open_lock(const lj_kernel_cache *cache, const char *key, int *fd)
{
    char path[1200];
    entry_path(cache, key, ".lock", path, sizeof path);
    if (lj_fault("open", path)) return errno = EACCES, lj_fail_errno("open", path);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return *fd >= 0 ? LJ_OK : lj_fail_errno("open", path);
}

lj_status lj_kernel_cache_try_lock(const lj_kernel_cache *cache, const char *key, int *fd)
{
    LJ_TRY(open_lock(cache, key, fd));
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0) return LJ_OK;
    bool held = errno == EWOULDBLOCK;
    lj_status status = held ? LJ_OK : lj_fail_errno("lock", key);
    close(*fd);
    *fd = -1;
    return status;
}

lj_status lj_kernel_cache_wait(const lj_kernel_cache *cache, const char *key, double seconds)
{
    double deadline = lj_now_s() + seconds;
    for (;;) {
        int fd;
        LJ_TRY(lj_kernel_cache_try_lock(cache, key, &fd));
        if (fd >= 0) {
            lj_kernel_cache_unlock(cache, key, fd);
            return LJ_OK;
        }
        if (lj_now_s() > deadline) break;
        lj_sleep_s(0.01);
    }
    return lj_fail(LJ_ERR_TIMEOUT, "another process has been building kernel %s for more than %.0f s; if none does, remove %s/%s.lock", key, seconds,
                   cache->folder, key);
}

/* The file goes first: who opens it now makes a new one, looks for the entry and finds it. */
void lj_kernel_cache_unlock(const lj_kernel_cache *cache, const char *key, int fd)
{
    char path[1200];
    entry_path(cache, key, ".lock", path, sizeof path);
    unlink(path);
    close(fd);
}

/* -- notes ----------------------------------------------------------------------------------------------------------------- */

lj_status lj_kernel_cache_note(const lj_kernel_cache *cache, const char *name, const char *text)
{
    char path[1200], now[600];
    if (lj_kernel_cache_noted(cache, name, now, sizeof now) && strcmp(now, text) == 0) return LJ_OK;
    entry_path(cache, name, ".txt", path, sizeof path);
    return lj_file_write(path, text, strlen(text));
}

bool lj_kernel_cache_noted(const lj_kernel_cache *cache, const char *name, char *text, size_t capacity)
{
    char path[1200];
    lj_mapped_file file;
    entry_path(cache, name, ".txt", path, sizeof path);
    if (access(path, R_OK) != 0 || lj_mapped_file_init(&file, path) != LJ_OK) return false;
    snprintf(text, capacity, "%.*s", (int)file.bytes, (const char *)file.data);
    lj_mapped_file_release(&file);
    return true;
}
