#define _GNU_SOURCE
#include "base/file.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static lj_status map_open_file(lj_mapped_file *file, int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info) != 0) return lj_fail_errno("stat", path);
    if (S_ISDIR(info.st_mode)) return lj_fail(LJ_ERR_IO, "open %s: is a folder, a file is needed", path);
    if (info.st_size == 0) {
        *file = (lj_mapped_file){.data = (const uint8_t *)""};
        return LJ_OK;
    }
    void *mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping == MAP_FAILED) return lj_fail_errno("map", path);
    *file = (lj_mapped_file){mapping, (size_t)info.st_size, mapping};
    return LJ_OK;
}

lj_status lj_mapped_file_init(lj_mapped_file *file, const char *path)
{
    if (lj_fault("open", path)) return lj_fail(LJ_ERR_IO, "open %s: injected fault", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return lj_fail_errno("open", path);
    lj_status status = map_open_file(file, fd, path);
    close(fd);
    return status;
}

void lj_mapped_file_release(lj_mapped_file *file)
{
    if (file->mapping) munmap(file->mapping, file->bytes);
    *file = (lj_mapped_file){0};
}

lj_status lj_file_writer_begin(lj_file_writer *writer, const char *path)
{
    char temporary[4096];
    if (snprintf(temporary, sizeof temporary, "%s.tmp.%d", path, (int)getpid()) >= (int)sizeof temporary)
        return lj_fail(LJ_ERR_INVALID, "path is longer than %zu characters: %.80s...", sizeof temporary, path);
    if (lj_fault("open", path)) return lj_fail(LJ_ERR_IO, "create %s: injected fault", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return lj_fail_errno("create", temporary);
    *writer = (lj_file_writer){fd, strdup(path), strdup(temporary), 0};
    if (writer->path && writer->temporary) return LJ_OK;
    lj_file_writer_abort(writer);
    return lj_fail(LJ_ERR_NOMEM, "path of %s", path);
}

static lj_status write_all(int fd, const char *path, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        if (lj_fault("write", path)) return lj_fail(LJ_ERR_IO, "write %s: injected fault", path);
        ssize_t done = write(fd, at, bytes > (1u << 30) ? 1u << 30 : bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return lj_fail_errno("write", path);
        at += done, bytes -= (size_t)done;
    }
    return LJ_OK;
}

lj_status lj_file_writer_write(lj_file_writer *writer, const void *data, size_t bytes)
{
    LJ_TRY(write_all(writer->fd, writer->temporary, data, bytes));
    writer->written += bytes;
    return LJ_OK;
}

lj_status lj_file_writer_write_at(lj_file_writer *writer, uint64_t offset, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        if (lj_fault("write", writer->temporary)) return lj_fail(LJ_ERR_IO, "write %s: injected fault", writer->temporary);
        ssize_t done = pwrite(writer->fd, at, bytes > (1u << 30) ? 1u << 30 : bytes, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return lj_fail_errno("write", writer->temporary);
        at += done, offset += (uint64_t)done, bytes -= (size_t)done;
    }
    return LJ_OK;
}

void lj_file_writer_abort(lj_file_writer *writer)
{
    if (writer->fd >= 0) close(writer->fd);
    if (writer->temporary) unlink(writer->temporary);
    free(writer->path);
    free(writer->temporary);
    *writer = (lj_file_writer){.fd = -1};
}

/* A rename is durable only when its folder is. Folders that refuse fsync (some network systems) are not an error. */
static void sync_parent(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 1;
    if (length >= sizeof folder) return;
    memcpy(folder, slash ? path : ".", length);
    folder[length] = 0;
    int fd = open(length ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!fsync(fd);
    close(fd);
}

lj_status lj_file_writer_commit(lj_file_writer *writer)
{
    lj_status status = LJ_OK;
    if (lj_fault("fsync", writer->path) || fsync(writer->fd) != 0) status = lj_fail_errno("sync", writer->temporary);
    if (close(writer->fd) != 0 && status == LJ_OK) status = lj_fail_errno("close", writer->temporary);
    writer->fd = -1;
    if (status == LJ_OK && (lj_fault("rename", writer->path) || rename(writer->temporary, writer->path) != 0))
        status = lj_fail_errno("rename to", writer->path);
    if (status == LJ_OK) {
        sync_parent(writer->path);
        free(writer->temporary);
        writer->temporary = NULL;
    }
    lj_file_writer_abort(writer);
    return status;
}

lj_status lj_file_write(const char *path, const void *data, size_t bytes)
{
    if (strcmp(path, "-") == 0) return write_all(STDOUT_FILENO, "standard output", data, bytes);
    lj_file_writer writer;
    LJ_TRY(lj_file_writer_begin(&writer, path));
    lj_status status = lj_file_writer_write(&writer, data, bytes);
    if (status == LJ_OK) return lj_file_writer_commit(&writer);
    lj_file_writer_abort(&writer);
    return status;
}

lj_status lj_folder_create(const char *path, unsigned mode)
{
    char part[4096];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part) return lj_fail(LJ_ERR_INVALID, "bad folder name '%.80s'", path);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdir(part, path[i] ? 0755 : mode) != 0 && errno != EEXIST) return lj_fail_errno("create folder", part);
    }
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return lj_fail(LJ_ERR_IO, "create folder %s: a file is in the way", path);
    return LJ_OK;
}

lj_status lj_cache_folder(char *buffer, size_t capacity)
{
    const char *own = getenv("LJPERF_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;
    if (own && *own)
        length = snprintf(buffer, capacity, "%s", own);
    else if (xdg && *xdg)
        length = snprintf(buffer, capacity, "%s/ljperf", xdg);
    else if (home && *home)
        length = snprintf(buffer, capacity, "%s/.cache/ljperf", home);
    else
        return lj_fail(LJ_ERR_NOT_FOUND, "no cache folder: HOME is not set; set LJPERF_CACHE to a folder");
    return (size_t)length < capacity ? LJ_OK : lj_fail(LJ_ERR_LIMIT, "cache folder name is too long");
}
