#define _GNU_SOURCE
#include "host/scan.h"

#include "base/clock.h"
#include "host/python.h"

#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 5, MAX_BINARIES = 20000 };

static bool is_binary_name(const char *name, bool programs)
{
    return strstr(name, ".so") != NULL || programs;
}

static void scan_folder(lj_scan *s, const char *folder, int depth, bool programs)
{
    json_t *names = lj_host_list(s->host, folder), *name;
    size_t i;
    json_array_foreach(names, i, name)
    {
        char path[LJ_PATH_BYTES], full[2 * LJ_PATH_BYTES];
        struct stat info;
        const char *word = json_string_value(name);
        if (lj_now_s() > s->deadline || json_array_size(s->binaries) >= MAX_BINARIES) {
            s->cut = true;
            break;
        }
        lj_say(path, "%s/%s", folder, word);
        lj_host_path(s->host, path, full, sizeof full);
        if (lstat(full, &info) != 0) continue;
        if (S_ISDIR(info.st_mode) && depth < MAX_DEPTH && strcmp(word, "__pycache__") != 0 &&
            strcmp(word, "include") != 0 && !strstr(word, ".dist-info"))
            scan_folder(s, path, depth + 1, programs);
        else if (S_ISREG(info.st_mode) && is_binary_name(word, programs && (info.st_mode & 0111)))
            lj_json_append_text(s->binaries, path);
    }
    json_decref(names);
}

void lj_scan_begin(lj_scan *s, lj_host *host, lj_findings *out)
{
    static const char *const program_folders[] = {
        "/usr/local/bin", "/usr/local/sbin", "/opt/bin", "/app", "/workspace", "/opt/hpcx", "/usr/local/lib"};
    *s = (lj_scan){host, out, lj_now_s() + lj_host_scan_seconds(host), json_array(), false};
    json_t *sites = lj_python_sites(host), *site;
    size_t i;
    for (i = 0; i < sizeof program_folders / sizeof *program_folders; i++) {
        lj_note(out, "programs in %s", program_folders[i]);
        scan_folder(s, program_folders[i], i == 6 ? MAX_DEPTH : 2, i != 6);
    }
    json_array_foreach(sites, i, site)
    {
        lj_note(out, "shared objects in %s", json_string_value(site));
        scan_folder(s, json_string_value(site), 0, false);
    }
    json_decref(sites);
}

bool lj_scan_elf(lj_scan *s, const char *path, lj_elf *elf)
{
    char full[2 * LJ_PATH_BYTES];
    if (lj_now_s() > s->deadline) {
        s->cut = true;
        return false;
    }
    return lj_elf_read(lj_host_path(s->host, path, full, sizeof full), elf) == LJ_OK;
}

void lj_scan_end(lj_scan *s)
{
    json_decref(s->binaries);
    s->binaries = NULL;
}
