/* Libraries of a tree: two CUDA runtimes, libraries that binaries need and nobody brings, and symbol versions
 * newer than the C and C++ libraries. Looks at programs in /usr/local/bin, /opt and the shared objects of
 * Python packages, as far as the time goes. */
#define _GNU_SOURCE
#include "host/check.h"
#include "host/cuda.h"
#include "host/elf.h"
#include "host/python.h"
#include "host/scan.h"
#include "host/version.h"

#include <stdlib.h>
#include <string.h>

/* Libraries that torch's wheels bring beside it, when LD_LIBRARY_PATH finds another build of the same name
 * first ("undefined symbol: __nvJitLink...", "cuDNN version incompatibility"). */
static void shadow_judge(lj_host *host, lj_findings *out, const char *own)
{
    const char *name = strrchr(own, '/') + 1, *variable = lj_host_env(host, "LD_LIBRARY_PATH");
    char *copy = lj_arena_strdup(&host->arena, variable ? variable : ""), *save = NULL;
    for (char *folder = copy ? strtok_r(copy, ":", &save) : NULL; folder;
         folder = strtok_r(NULL, ":", &save)) {
        char path[LJ_PATH_BYTES], final[LJ_PATH_BYTES], version[48], owner[256];
        lj_say(path, "%s/%s", folder, name);
        if (!lj_host_exists(host, path) || strcmp(lj_host_final(host, path, final, sizeof final), own) == 0)
            continue;
        lj_library_version(final, version, sizeof version);
        lj_file_owner(host, own, owner, sizeof owner);
        lj_finding *f = lj_find(out, LJ_VERDICT_WARN);
        lj_say(f->part, "%s", name);
        lj_say(f->found, "LD_LIBRARY_PATH leads %s to %s instead of %s (%s)", name, final, own, owner);
        lj_say(f->wanted, "the library that came with the package");
        lj_say(f->source, "LD_LIBRARY_PATH; ld.so(8): it goes before RUNPATH");
        lj_say(f->next_step,
               "take %s out of LD_LIBRARY_PATH: symbols or versions of the two may not fit ('undefined "
               "symbol', 'version incompatibility')",
               folder);
        return;
    }
}

static void shadows_judge(lj_host *host, lj_findings *out)
{
    json_t *sites = lj_python_sites(host), *site, *file;
    size_t i, k;
    if (lj_host_env(host, "LD_LIBRARY_PATH")) json_array_foreach(sites, i, site)
        {
            char pattern[LJ_PATH_BYTES];
            lj_say(pattern, "%s/nvidia/*/lib/lib*.so.*", json_string_value(site));
            json_t *files = lj_host_glob(host, pattern);
            json_array_foreach(files, k, file) if (out->count < 12)
                shadow_judge(host, out, json_string_value(file));
            json_decref(files);
        }
    json_decref(sites);
}

void lj_check_cuda_runtimes(lj_host *host, lj_findings *out)
{
    lj_cuda_view view;
    lj_cuda_look(host, &view);
    size_t i;
    json_t *row, *first = json_array_get(view.runtimes, 0);
    bool majors = false, versions = false, toolkits_only = true;
    char list[900] = "";
    size_t used = 0;
    json_array_foreach(view.runtimes, i, row)
    {
        majors |= json_integer_value(json_object_get(row, "major")) !=
                  json_integer_value(json_object_get(first, "major"));
        versions |= strcmp(lj_json_text(row, "version"), lj_json_text(first, "version")) != 0;
        toolkits_only &= strncmp(lj_json_text(row, "path"), "/usr/local/cuda-", 16) == 0;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s (%s)", i ? ", " : "",
                                     lj_json_text(row, "path"), lj_json_text(row, "owner"));
    }
    lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->source, "libcudart.so.* in toolkit folders and Python packages; owners from RECORD and dpkg");
    if (!first) {
        lj_say(f->found, "no libcudart in the view");
    } else if (!versions) {
        f->verdict = LJ_VERDICT_OK;
        lj_say(f->found, "one CUDA runtime: %s", list);
    } else {
        f->verdict = majors && !(toolkits_only && lj_host_live(host)) ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN;
        lj_say(f->found, "%s: %s",
               majors ? "CUDA runtimes of several major versions"
                      : "several CUDA runtimes of one major version",
               list);
        lj_say(f->wanted, "libcudart of one version");
        lj_say(f->next_step, majors ? "keep one: uninstall the packages of the other major version, or build "
                                      "all binaries for one runtime"
                                    : "harmless as a rule (the newest serves all of its major version); keep "
                                      "one to be sure which is loaded");
    }
    shadows_judge(host, out);
    lj_cuda_release(&view);
}

/* Everything in the tree that could satisfy a need, by file name and by soname: folders of the loader, of
 * Python packages and of toolkits. */
static json_t *provided_names(lj_scan *s)
{
    json_t *names = json_object(), *folders = lj_loader_folders(s->host),
           *runtime = lj_json_at(lj_rules(s->host, "nvidia"), "runtime_folders"), *folder, *file, *path;
    const char *variable = lj_host_env(s->host, "LD_LIBRARY_PATH");
    char *copy = lj_arena_strdup(&s->host->arena, variable ? variable : ""), *save = NULL;
    size_t i, k;
    for (char *one = copy ? strtok_r(copy, ":", &save) : NULL; one; one = strtok_r(NULL, ":", &save))
        lj_json_append_text(folders, one);
    json_array_extend(folders, runtime);
    json_array_foreach(folders, i, folder)
    {
        char pattern[LJ_PATH_BYTES];
        lj_say(pattern, "%s/*.so*", json_string_value(folder));
        json_t *files = lj_host_glob(s->host, pattern);
        json_array_foreach(files, k, file)
        {
            const char *where = json_string_value(file);
            json_object_set_new(names, strrchr(where, '/') + 1, lj_json_string(where));
        }
        json_decref(files);
    }
    json_array_foreach(s->binaries, i, path)
    {
        const char *where = json_string_value(path);
        json_object_set_new(names, strrchr(where, '/') + 1, lj_json_string(where));
    }
    json_decref(folders);
    return names;
}

static json_t *loader_names(lj_scan *s, json_t *names)
{
    json_t *cache = lj_loader_cache(s->host), *row;
    size_t i;
    json_array_foreach(cache, i, row)
        json_object_set_new(names, lj_json_text(row, "soname"), lj_json_string(lj_json_text(row, "path")));
    json_decref(cache);
    return names;
}

/* "libcudart.so.11.0" -> stem "libcudart.so." with number 11; false when the name has no number. */
static bool split_soname(const char *soname, char *stem, size_t capacity, int *major)
{
    const char *so = strstr(soname, ".so.");
    if (!so) return false;
    snprintf(stem, capacity, "%.*s", (int)(so - soname) + 4, soname);
    *major = lj_version_major(so + 4);
    return true;
}

/* The same library of another major version, which is what the reader wants to see. */
static const char *other_version(const json_t *names, const char *soname)
{
    char stem[256];
    int major;
    const char *name;
    json_t *where;
    if (!split_soname(soname, stem, sizeof stem, &major)) return NULL;
    json_object_foreach((json_t *)names, name,
                        where) if (strncmp(name, stem, strlen(stem)) == 0) return json_string_value(where);
    return NULL;
}

/* Found along the binary's own RUNPATH ($ORIGIN is its folder)? */
static bool along_runpath(lj_scan *s, const char *binary, const lj_elf *elf, const char *soname)
{
    char origin[LJ_PATH_BYTES], path[LJ_PATH_BYTES];
    size_t i;
    json_t *entry;
    lj_say(origin, "%s", binary);
    char *slash = strrchr(origin, '/');
    if (slash) *slash = 0;
    json_array_foreach(elf->paths, i, entry)
    {
        const char *text = json_string_value(entry), *rest = strncmp(text, "$ORIGIN", 7) == 0     ? text + 7
                                                             : strncmp(text, "${ORIGIN}", 9) == 0 ? text + 9
                                                                                                  : NULL;
        if (rest)
            lj_say(path, "%s%s/%s", origin, rest, soname);
        else
            lj_say(path, "%s/%s", text, soname);
        if (lj_host_exists(s->host, path)) return true;
    }
    return false;
}

/* Libraries of the driver come from the host when a container starts: an image need not have them. */
static bool comes_with_driver(const char *soname)
{
    static const char *const names[] = {"libcuda.so",      "libnvidia-",     "libnvcuvid", "libnvoptix",
                                        "libcudadebugger", "libhsa-runtime", "libhggc",    "ld-linux",
                                        "libGL",           "libEGL",         "libvdpau"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(soname, names[i], strlen(names[i])) == 0) return true;
    return false;
}

static void report_missing(lj_scan *s, const char *binary, const char *soname, const char *other, size_t more)
{
    char owner[256];
    lj_finding *f = lj_find(s->out, LJ_VERDICT_FAIL);
    lj_file_owner(s->host, binary, owner, sizeof owner);
    lj_say(f->part, "%s", soname);
    lj_say(f->found,
           other ? "%s (%s) needs %s; the tree has %s" : "%s (%s) needs %s; the tree has no version of it%s",
           binary, owner, soname, other ? other : "");
    if (more) {
        size_t used = strlen(f->found);
        snprintf(f->found + used, sizeof f->found - used, "; %zu more binaries need it", more);
    }
    lj_say(f->wanted, "%s on the loader's path", soname);
    lj_say(f->source, "the binary's DT_NEEDED; /etc/ld.so.cache, loader folders, LD_LIBRARY_PATH, RUNPATH");
    lj_say(f->next_step,
           other ? "install the build of %s that is made for the library version that is there, or the "
                   "library itself"
                 : "install the package that brings the library, or the build of %s for this system",
           owner);
}

/* needs: soname -> {binary, count} in order of finding. */
static void collect_missing(lj_scan *s, const json_t *names, json_t *needs)
{
    size_t i, k;
    json_t *path, *soname;
    json_array_foreach(s->binaries, i, path)
    {
        lj_elf elf;
        const char *binary = json_string_value(path);
        if (!lj_scan_elf(s, binary, &elf)) continue;
        json_array_foreach(elf.needed, k, soname)
        {
            const char *name = json_string_value(soname);
            if (!*name || json_object_get(names, name) || comes_with_driver(name) ||
                along_runpath(s, binary, &elf, name))
                continue;
            json_t *need = json_object_get(needs, name);
            if (need)
                json_object_set_new(need, "more",
                                    json_integer(json_integer_value(json_object_get(need, "more")) + 1));
            else
                json_object_set_new(needs, name, json_pack("{s:s, s:i}", "binary", binary, "more", 0));
        }
        lj_elf_release(&elf);
    }
}

void lj_check_needed_libraries(lj_host *host, lj_findings *out)
{
    lj_scan s;
    lj_scan_begin(&s, host, out);
    json_t *names = loader_names(&s, provided_names(&s)), *needs = json_object(), *need;
    const char *soname;
    collect_missing(&s, names, needs);
    int rank = 0;
    for (int pass = 0; pass < 2; pass++) /* another major version of an accelerator library first: that is the
                                            cause, the rest its company */
        json_object_foreach(needs, soname, need)
        {
            const char *other = other_version(names, soname);
            if ((other == NULL) != (pass == 1) || rank++ > 20) continue;
            report_missing(&s, lj_json_text(need, "binary"), soname, other,
                           (size_t)json_integer_value(json_object_get(need, "more")));
        }
    if (!out->count) {
        lj_finding *f = lj_find(out, json_array_size(s.binaries) ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "%zu binaries looked at%s, all their libraries are there",
               json_array_size(s.binaries), s.cut ? " (not all: time ran out)" : "");
        lj_say(f->source, "DT_NEEDED of programs and Python's shared objects");
    }
    json_decref(names);
    json_decref(needs);
    lj_scan_end(&s);
}

/* --- symbol versions --- */

typedef struct {
    const char *prefix;         /* "GLIBC_" */
    const char *library, *what; /* soname that defines them, words for the reader */
    char newest[32];            /* newest defined in the tree, "" = library not found */
    char place[512];
} version_family;

static void family_find(lj_scan *s, version_family *family)
{
    lj_resolved resolved;
    lj_elf elf;
    size_t i;
    json_t *one;
    char full[2 * LJ_PATH_BYTES];
    if (!lj_loader_resolve(s->host, family->library, &resolved)) return;
    if (lj_elf_read(lj_host_path(s->host, resolved.final, full, sizeof full), &elf) != LJ_OK) return;
    lj_say(family->place, "%s", resolved.final);
    json_array_foreach(elf.defined, i, one)
    {
        const char *text = json_string_value(one), *number = text + strlen(family->prefix);
        if (strncmp(text, family->prefix, strlen(family->prefix)) != 0 || lj_version_major(number) == 0)
            continue;
        if (lj_version_compare(number, family->newest) > 0) lj_say(family->newest, "%s", number);
    }
    lj_elf_release(&elf);
}

/* A Python outside /usr brings its own C++ library in PREFIX/lib, which its RPATH finds first. */
static bool prefix_has_library(lj_scan *s, const char *binary, const char *library)
{
    char path[LJ_PATH_BYTES];
    const char *at = strstr(binary, "/lib/python3");
    if (!at || strncmp(binary, "/usr/", 5) == 0) return false;
    lj_say(path, "%.*s/lib/%s", (int)(at - binary), binary, library);
    return lj_host_exists(s->host, path);
}

static void family_judge(lj_scan *s, const version_family *family, const char *binary, const json_t *versions,
                         json_t *told)
{
    size_t i;
    json_t *one;
    const char *worst = NULL;
    if (prefix_has_library(s, binary, family->library)) return;
    json_array_foreach(versions, i, one)
    {
        const char *text = json_string_value(one), *number = text + strlen(family->prefix);
        if (strncmp(text, family->prefix, strlen(family->prefix)) != 0 || lj_version_major(number) == 0)
            continue;
        if (lj_version_compare(number, family->newest) > 0 &&
            (!worst || lj_version_compare(number, worst) > 0))
            worst = number;
    }
    if (!worst || json_object_get(told, family->prefix)) return;
    json_object_set_new(told, family->prefix, json_true());
    char owner[256];
    lj_file_owner(s->host, binary, owner, sizeof owner);
    lj_finding *f = lj_find(s->out, LJ_VERDICT_FAIL);
    lj_say(f->part, "%s%s", family->prefix, worst);
    lj_say(f->found, "%s (%s) needs version `%s%s'; %s has up to %s%s", binary, owner, family->prefix, worst,
           family->place, family->prefix, family->newest);
    lj_say(f->wanted, "%s of at most %s%s", family->what, family->prefix, family->newest);
    lj_say(f->source, "the binary's version needs; version definitions of %s", family->place);
    lj_say(f->next_step,
           "use a build of %s made for this distribution, or a newer base image (the %s decides)", owner,
           family->what);
}

void lj_check_symbol_versions(lj_host *host, lj_findings *out)
{
    version_family families[] = {{"GLIBC_", "libc.so.6", "C library", "", ""},
                                 {"GLIBCXX_", "libstdc++.so.6", "C++ library", "", ""},
                                 {"CXXABI_", "libstdc++.so.6", "C++ library", "", ""}};
    enum { FAMILIES = sizeof families / sizeof *families };
    lj_scan s;
    lj_scan_begin(&s, host, out);
    size_t i;
    json_t *path, *told = json_object();
    bool any = false;
    for (i = 0; i < FAMILIES; i++) family_find(&s, &families[i]), any |= *families[i].newest != 0;
    json_array_foreach(s.binaries, i, path)
    {
        lj_elf elf;
        if (!any || !lj_scan_elf(&s, json_string_value(path), &elf)) continue;
        for (size_t k = 0; k < FAMILIES; k++)
            if (*families[k].newest)
                family_judge(&s, &families[k], json_string_value(path), elf.versions, told);
        lj_elf_release(&elf);
    }
    if (!out->count) {
        lj_finding *f = lj_find(out, any ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, any ? "%zu binaries fit GLIBC_%s, GLIBCXX_%s" : "no C library in the view",
               json_array_size(s.binaries), families[0].newest, families[1].newest);
        lj_say(f->source, "version needs of programs and Python's shared objects");
    }
    json_decref(told);
    lj_scan_end(&s);
}
