#define _GNU_SOURCE
#include "host/loader.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_INCLUDES = 8 };

static const char *const default_folders[] = {"/lib/x86_64-linux-gnu",
                                              "/usr/lib/x86_64-linux-gnu",
                                              "/lib/aarch64-linux-gnu",
                                              "/usr/lib/aarch64-linux-gnu",
                                              "/lib64",
                                              "/usr/lib64",
                                              "/lib",
                                              "/usr/lib"};

static void conf_read(lj_host *host, const char *path, int depth, json_t *out)
{
    char *text = depth < MAX_INCLUDES ? lj_host_read(host, path) : NULL, *save = NULL;
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        line[strcspn(line, "#")] = 0;
        line += strspn(line, " \t");
        for (size_t length = strlen(line); length && strchr(" \t\r", line[length - 1]);) line[--length] = 0;
        if (strncmp(line, "include", 7) == 0 && strchr(" \t", line[7]) && line[7]) {
            char pattern[LJ_PATH_BYTES];
            line += 8 + strspn(line + 8, " \t");
            lj_say(pattern, *line == '/' ? "%s%s" : "/etc/%s%s", line, "");
            json_t *files = lj_host_glob(host, pattern), *file;
            size_t i;
            json_array_foreach(files, i, file) conf_read(host, json_string_value(file), depth + 1, out);
            json_decref(files);
        } else if (*line == '/') {
            json_array_append_new(out, json_pack("{s:o, s:s}", "folder", lj_json_string(line), "file", path));
        }
    }
}

json_t *lj_loader_conf(lj_host *host)
{
    json_t *out = json_array();
    conf_read(host, "/etc/ld.so.conf", 0, out);
    if (!lj_host_exists(host, "/etc/ld.so.conf")) { /* a fixture or a slim image may have only the folder */
        json_t *files = lj_host_glob(host, "/etc/ld.so.conf.d/*.conf"), *file;
        size_t i;
        json_array_foreach(files, i, file) conf_read(host, json_string_value(file), 0, out);
        json_decref(files);
    }
    return out;
}

static uint32_t read_u32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* glibc's cache: magic "glibc-ld.so.cache1.1", counts, then 24-byte entries {flags, key, value, osversion,
 * hwcap} whose key and value are offsets from the header. An old-format table may stand before it. Everything
 * is checked against the file's size. */
static const uint8_t *cache_header(const lj_mapped_file *file)
{
    static const char magic[] = "glibc-ld.so.cache1.1", old[] = "ld.so-1.7.0";
    size_t start = 0;
    if (file->bytes > 16 && memcmp(file->data, old, sizeof old - 1) == 0) {
        uint64_t end = 16 + 12ull * read_u32(file->data + 12);
        start = (size_t)((end + 7) & ~7ull);
    }
    if (start > file->bytes || file->bytes - start < 48) return NULL;
    return memcmp(file->data + start, magic, sizeof magic - 1) == 0 ? file->data + start : NULL;
}

static json_t *cache_entries(const lj_mapped_file *file)
{
    const uint8_t *header = cache_header(file);
    if (!header) return NULL;
    size_t room = file->bytes - (size_t)(header - file->data), count = read_u32(header + 20);
    if (count > (room - 48) / 24) return NULL;
    json_t *out = json_array();
    for (size_t i = 0; i < count; i++) {
        const uint8_t *entry = header + 48 + 24 * i;
        size_t key = read_u32(entry + 4), value = read_u32(entry + 8);
        if (key >= room || value >= room || !memchr(header + key, 0, room - key) ||
            !memchr(header + value, 0, room - value))
            continue;
        json_array_append_new(out,
                              json_pack("{s:o, s:o}", "soname", lj_json_string((const char *)header + key),
                                        "path", lj_json_string((const char *)header + value)));
    }
    return out;
}

json_t *lj_loader_cache(lj_host *host)
{
    char full[2 * LJ_PATH_BYTES];
    lj_mapped_file file;
    if (lj_mapped_file_init(&file, lj_host_path(host, "/etc/ld.so.cache", full, sizeof full)) != LJ_OK)
        return NULL;
    json_t *entries = cache_entries(&file);
    lj_mapped_file_release(&file);
    return entries;
}

json_t *lj_loader_folders(lj_host *host)
{
    json_t *folders = json_array(), *conf = lj_loader_conf(host), *row;
    size_t i;
    json_array_foreach(conf, i, row) lj_json_append_text(folders, lj_json_text(row, "folder"));
    for (i = 0; i < sizeof default_folders / sizeof *default_folders; i++)
        if (!lj_json_holds(folders, default_folders[i])) lj_json_append_text(folders, default_folders[i]);
    json_decref(conf);
    return folders;
}

static bool take(lj_host *host, const char *folder, const char *soname, const char *why, bool pinned,
                 lj_resolved *out)
{
    char path[1024];
    lj_say(path, "%s/%s", folder, soname);
    if (!lj_host_exists(host, path)) return false;
    *out = (lj_resolved){.pinned = pinned};
    lj_say(out->path, "%s", path);
    lj_host_final(host, path, out->final, sizeof out->final);
    lj_say(out->why, "%s", why);
    return true;
}

static bool from_variable(lj_host *host, const char *soname, lj_resolved *out)
{
    const char *value = lj_host_env(host, "LD_LIBRARY_PATH");
    char *copy = lj_arena_strdup(&host->arena, value ? value : ""), *save = NULL;
    for (char *folder = copy ? strtok_r(copy, ":;", &save) : NULL; folder;
         folder = strtok_r(NULL, ":;", &save))
        if (take(host, folder, soname, "LD_LIBRARY_PATH", true, out)) return true;
    return false;
}

static bool from_cache(const json_t *cache, lj_host *host, const char *soname, lj_resolved *out)
{
    size_t i;
    json_t *row;
    json_array_foreach(cache, i, row)
    {
        char folder[1024];
        if (strcmp(lj_json_text(row, "soname"), soname) != 0) continue;
        lj_say(folder, "%s", lj_json_text(row, "path"));
        char *slash = strrchr(folder, '/');
        if (!slash) continue;
        *slash = 0;
        if (take(host, folder, slash + 1, "/etc/ld.so.cache", true, out)) return true;
    }
    return false;
}

static bool from_conf(lj_host *host, const char *soname, lj_resolved *out)
{
    json_t *conf = lj_loader_conf(host), *row;
    size_t i;
    bool found = false;
    json_array_foreach(conf, i, row)
    {
        found = take(host, lj_json_text(row, "folder"), soname, lj_json_text(row, "file"), true, out);
        if (found) break;
    }
    json_decref(conf);
    return found;
}

bool lj_loader_resolve(lj_host *host, const char *soname, lj_resolved *out)
{
    *out = (lj_resolved){0};
    if (from_variable(host, soname, out)) return true;
    json_t *cache = lj_loader_cache(host);
    bool found = cache ? from_cache(cache, host, soname, out) : from_conf(host, soname, out);
    json_decref(cache);
    for (size_t i = 0; !found && i < sizeof default_folders / sizeof *default_folders; i++)
        found = take(host, default_folders[i], soname, "default folder", false, out);
    for (size_t i = 0; found && i < sizeof default_folders / sizeof *default_folders; i++)
        if (strncmp(out->path, default_folders[i], strlen(default_folders[i])) == 0 &&
            out->path[strlen(default_folders[i])] == '/' &&
            !strchr(out->path + strlen(default_folders[i]) + 1, '/') &&
            strcmp(out->why, "/etc/ld.so.cache") == 0)
            out->pinned = false; /* a default folder's entry of the cache pins nothing */
    return found;
}
