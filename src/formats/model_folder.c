/* Names from an index file are input from outside: they may only mean files of their own folder. */
#define _GNU_SOURCE
#include "formats/model_folder.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool lj_path_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool lj_path_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

lj_status lj_path_parent(const char *path, char *buffer, size_t capacity)
{
    const char *slash = strrchr(path, '/');
    size_t length = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= capacity) return lj_fail(LJ_ERR_INVALID, "%.80s...: path is too long", path);
    memcpy(buffer, slash ? path : ".", length);
    buffer[length] = 0;
    return LJ_OK;
}

static bool plain_name(const char *name)
{
    if (!*name || *name == '.' || strlen(name) > NAME_MAX) return false;
    for (const char *c = name; *c; c++)
        if (*c == '/' || (unsigned char)*c < 32 || *c == 127) return false;
    return true;
}

static bool inside(const char *real, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(real, folder, length) == 0 && (real[length] == '/' || (length == 1 && *folder == '/'));
}

/* REPOSITORY/snapshots/REVISION -> REPOSITORY/blobs, written over `folder`; false for another layout. */
static bool cache_blobs(char *folder)
{
    char *revision = strrchr(folder, '/');
    if (!revision) return false;
    *revision = 0;
    char *snapshots = strrchr(folder, '/');
    if (!snapshots || strcmp(snapshots, "/snapshots") != 0) return false;
    strcpy(snapshots, "/blobs"); /* shorter than what it replaces */
    return true;
}

lj_status lj_model_folder_file(const char *folder, const char *name, char *buffer, size_t capacity)
{
    char real[PATH_MAX], real_folder[PATH_MAX];
    if (!plain_name(name)) return lj_fail(LJ_ERR_FORMAT, "%s: '%.200s' is no plain file name; files of a model lie in its own folder", folder, name);
    if (snprintf(buffer, capacity, "%s/%s", folder, name) >= (int)capacity) return lj_fail(LJ_ERR_INVALID, "%.80s...: path is too long", folder);
    if (!realpath(folder, real_folder)) return lj_fail_errno("open", folder);
    if (!realpath(buffer, real)) return lj_fail_errno("open", buffer);
    if (inside(real, real_folder) || (cache_blobs(real_folder) && inside(real, real_folder))) return LJ_OK;
    return lj_fail(LJ_ERR_FORMAT, "%s: is a symbolic link out of its folder (to %s); put the file there or give the folder where it is", buffer, real);
}
