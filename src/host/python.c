#define _GNU_SOURCE
#include "host/python.h"

#include "base/clock.h"
#include "base/file.h"
#include "host/sha256.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const site_patterns[] = {"/usr/lib/python3*/dist-packages",
                                            "/usr/lib/python3*/site-packages",
                                            "/usr/lib64/python3*/site-packages",
                                            "/usr/local/lib/python3*/dist-packages",
                                            "/usr/local/lib/python3*/site-packages",
                                            "/usr/local/lib64/python3*/site-packages",
                                            "/opt/*/lib/python3*/site-packages",
                                            "/opt/conda/envs/*/lib/python3*/site-packages",
                                            "/usr/local/*/lib/python3*/site-packages",
                                            "/root/.local/lib/python3*/site-packages",
                                            "/home/*/.local/lib/python3*/site-packages",
                                            "/venv/lib/python3*/site-packages",
                                            "/opt/*/*/lib/python3*/site-packages",
                                            "/root/*/envs/*/lib/python3*/site-packages",
                                            "/home/*/*/envs/*/lib/python3*/site-packages",
                                            "/home/*/*/lib/python3*/site-packages",
                                            "/home/*/.conda/envs/*/lib/python3*/site-packages",
                                            "/opt/*/envs/*/lib/python3*/site-packages",
                                            "/usr/local/*/envs/*/lib/python3*/site-packages",
                                            "/root/*/lib/python3*/site-packages",
                                            "/workspace/*/lib/python3*/site-packages",
                                            "/app/*/lib/python3*/site-packages",
                                            "/.venv/lib/python3*/site-packages"};

json_t *lj_python_sites(lj_host *host)
{
    json_t *sites = json_array(), *found, *site;
    const char *venv = lj_host_env(host, "VIRTUAL_ENV");
    size_t i, k;
    for (i = 0; i <= sizeof site_patterns / sizeof *site_patterns; i++) {
        char own[LJ_PATH_BYTES] = "", final[LJ_PATH_BYTES];
        if (i == 0 && venv) lj_say(own, "%s/lib/python3*/site-packages", venv);
        if (i == 0 && !venv) continue;
        found = lj_host_glob(host, i == 0 ? own : site_patterns[i - 1]);
        json_array_foreach(found, k, site)
        {
            lj_host_final(host, json_string_value(site), final, sizeof final);
            if (lj_host_is_folder(host, final) && !lj_json_holds(sites, final))
                lj_json_append_text(sites, final);
        }
        json_decref(found);
    }
    return sites;
}

const char *lj_python_normalise(const char *name, char *out, size_t capacity)
{
    size_t used = 0;
    for (; *name && used + 1 < capacity; name++) {
        bool separator = strchr("-_.", *name) != NULL;
        if (separator && used && out[used - 1] == '-') continue;
        out[used++] = separator ? '-' : (char)tolower((unsigned char)*name);
    }
    out[used] = 0;
    return out;
}

/* NAME-VERSION.dist-info; the name itself holds no '-' there. */
static json_t *package_read(lj_host *host, const char *site, const char *entry)
{
    const char *end = strstr(entry, ".dist-info");
    if (!end || end[10] || *entry == '~') return NULL;
    const char *dash = memchr(entry, '-', (size_t)(end - entry));
    if (!dash) return NULL;
    char folder[LJ_PATH_BYTES], name[256], normal[256], path[LJ_PATH_BYTES + 16];
    lj_say(folder, "%s/%s", site, entry);
    lj_say(name, "%.*s", (int)(dash - entry), entry);
    json_t *package =
        json_pack("{s:s, s:o, s:o, s:s, s:s}", "name", lj_python_normalise(name, normal, sizeof normal),
                  "version", json_sprintf("%.*s", (int)(end - dash - 1), dash + 1), "folder",
                  lj_json_string(folder), "site", site, "installer", "");
    if (!package) return NULL;
    const char *version = lj_python_metadata(host, package, "Version", 0);
    if (version && *version) json_object_set_new(package, "version", lj_json_string(version));
    lj_say(path, "%s/INSTALLER", folder);
    char *installer = lj_host_read_word(host, path);
    if (installer) json_object_set_new(package, "installer", lj_json_string(installer));
    return package;
}

json_t *lj_python_packages(lj_host *host)
{
    json_t *packages = json_array(), *sites = lj_python_sites(host), *site, *entry;
    size_t i, k;
    json_array_foreach(sites, i, site)
    {
        json_t *names = lj_host_list(host, json_string_value(site));
        json_array_foreach(names, k, entry)
        {
            json_t *package = package_read(host, json_string_value(site), json_string_value(entry));
            if (package) json_array_append_new(packages, package);
        }
        json_decref(names);
    }
    json_decref(sites);
    return packages;
}

json_t *lj_python_find(const json_t *packages, const char *name)
{
    char wanted[256];
    size_t i;
    json_t *package;
    lj_python_normalise(name, wanted, sizeof wanted);
    json_array_foreach(packages, i,
                       package) if (strcmp(lj_json_text(package, "name"), wanted) == 0) return package;
    return NULL;
}

const char *lj_python_metadata(lj_host *host, const json_t *package, const char *key, size_t nth)
{
    char path[LJ_PATH_BYTES];
    json_t *kept = json_object_get(package, "metadata");
    lj_say(path, "%s/METADATA", lj_json_text(package, "folder"));
    const char *text = kept ? json_string_value(kept) : lj_host_read(host, path);
    if (!kept && text) {
        const char *body = strstr(text, "\n\n"); /* headers only */
        json_object_set_new((json_t *)package, "metadata",
                            json_stringn_nocheck(text, body ? (size_t)(body - text) + 1 : strlen(text)));
        text = lj_json_text(package, "metadata");
    }
    size_t length = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncasecmp(line, key, length) != 0 || line[length] != ':') continue;
        if (nth--) continue;
        const char *value = line + length + 1 + strspn(line + length + 1, " \t");
        char *copy = lj_arena_strdup(&host->arena, value);
        if (copy) copy[strcspn(copy, "\r\n")] = 0;
        return copy;
    }
    return NULL;
}

bool lj_python_owner(lj_host *host, const char *path, char *out, size_t capacity)
{
    const char *marks[] = {"/site-packages/", "/dist-packages/"}, *at = NULL;
    for (size_t i = 0; i < 2 && !at; i++) at = strstr(path, marks[i]);
    if (!at) return false;
    const char *relative = at + strlen("/site-packages/");
    char site[LJ_PATH_BYTES], wanted[LJ_PATH_BYTES];
    lj_say(site, "%.*s", (int)(relative - path) - 1, path);
    lj_say(wanted, "%s,", relative);
    json_t *names = lj_host_list(host, site), *entry;
    size_t i;
    bool found = false;
    json_array_foreach(names, i, entry)
    {
        char record[LJ_PATH_BYTES];
        const char *folder = json_string_value(entry), *end = strstr(folder, ".dist-info"),
                   *dash = strchr(folder, '-');
        if (!end || !dash || dash > end) continue;
        lj_say(record, "%s/%s/RECORD", site, folder);
        char *text = lj_host_read(host, record), *line = text ? strstr(text, wanted) : NULL;
        if (!line || (line > text && line[-1] != '\n')) continue;
        snprintf(out, capacity, "%.*s %.*s (Python package)", (int)(dash - folder), folder,
                 (int)(end - dash) - 1, dash + 1);
        found = true;
        break;
    }
    json_decref(names);
    if (!found && strcspn(relative, "/") < strlen(relative)) {
        snprintf(out, capacity, "folder %.*s of Python's packages", (int)strcspn(relative, "/"), relative);
        found = true;
    }
    return found;
}

/* One RECORD line "path,sha256=BASE64URL,size"; a path may be quoted. */
static void record_line(lj_host *host, const char *site, char *line, lj_record_result *result)
{
    char path[LJ_PATH_BYTES], full[2 * LJ_PATH_BYTES], digest[64];
    char *name = line, *end;
    if (*line == '"') {
        name = line + 1, end = strchr(name, '"');
        if (!end) return;
        *end++ = 0;
    } else {
        end = strchr(line, ',');
        if (!end) return;
    }
    char *hash = strstr(end, "sha256=");
    *end = 0;
    if (!hash || strstr(name, ".pyc")) return;
    hash += 7;
    hash[strcspn(hash, ",\r")] = 0;
    result->listed++;
    if (*name == '/')
        lj_say(path, "%s", name);
    else
        lj_say(path, "%s/%s", site, name);
    lj_host_path(host, path, full, sizeof full);
    struct stat info;
    bool missing = stat(full, &info) != 0 || !S_ISREG(info.st_mode);
    bool changed = !missing &&
                   (lj_sha256_file_base64(full, digest, sizeof digest) != LJ_OK || strcmp(digest, hash) != 0);
    result->checked++;
    if ((missing || changed) && !*result->first)
        lj_say(result->first, "%s %s", path, missing ? "is missing" : "differs from its hash");
    result->missing += missing, result->changed += changed;
}

void lj_python_check_record(lj_host *host, const json_t *package, double deadline, lj_record_result *result)
{
    char path[LJ_PATH_BYTES], *save = NULL;
    *result = (lj_record_result){0};
    lj_say(path, "%s/RECORD", lj_json_text(package, "folder"));
    char *text = lj_host_read(host, path);
    for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
        if (lj_now_s() > deadline) {
            result->listed += strstr(line, "sha256=") != NULL;
            continue;
        }
        record_line(host, lj_json_text(package, "site"), line, result);
    }
}
