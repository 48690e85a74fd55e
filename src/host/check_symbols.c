/* Extensions compiled for another torch: symbols of libc10 and libtorch that they need and the installed
 * torch does not define. */
#define _GNU_SOURCE
#include "host/cuda.h"
#include "host/python.h"
#include "host/scan.h"

#include <string.h>

typedef struct {
    json_t *needs;      /* symbol -> binary */
    const char *binary; /* being read */
} collector;

static bool of_torch(const char *name)
{
    static const char *const starts[] = {"_ZN3c10",   "_ZNK3c10",   "_ZN2at",    "_ZNK2at",
                                         "_ZN5torch", "_ZNK5torch", "_ZTIN3c10", "_ZTVN3c10"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0) return true;
    return false;
}

static void need_add(void *user, const char *name)
{
    collector *c = user;
    if (of_torch(name) && !json_object_get(c->needs, name))
        json_object_set_new(c->needs, name, lj_json_string(c->binary));
}

static void need_remove(void *user, const char *name)
{
    collector *c = user;
    if (*name == '_' && json_object_get(c->needs, name)) json_object_del(c->needs, name);
}

static bool in_torch(const char *path)
{
    return strstr(path, "-packages/torch/") != NULL;
}

static void torch_version(lj_host *host, const char *binary, char *out, size_t capacity)
{
    char path[LJ_PATH_BYTES];
    const char *at = strstr(binary, "-packages/");
    snprintf(out, capacity, "torch");
    if (!at) return;
    lj_say(path, "%.*s/torch/lib", (int)(at - binary) + 9, binary);
    json_t *packages = lj_python_packages(host), *torch = lj_python_find(packages, "torch");
    if (torch) snprintf(out, capacity, "torch %s", lj_json_text(torch, "version"));
    json_decref(packages);
}

static void binary_report(lj_host *host, lj_findings *out, const char *binary, const char *symbol,
                          size_t more)
{
    char owner[256], torch[96];
    lj_file_owner(host, binary, owner, sizeof owner);
    torch_version(host, binary, torch, sizeof torch);
    lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
    lj_say(f->part, "%s", strrchr(binary, '/') + 1);
    lj_say(f->found, "undefined symbol: %s (%s) needs %s, which %s does not define; %zu more are missing",
           binary, owner, symbol, torch, more);
    lj_say(f->wanted, "an extension compiled for the torch that is there");
    lj_say(f->source, "dynamic symbols of the extension and of torch/lib");
    lj_say(f->next_step,
           "install the build of %s for %s, or compile it against it (pip install --no-build-isolation "
           "--force-reinstall --no-deps)",
           owner, torch);
}

/* Groups what is left by binary. */
static void report(lj_host *host, lj_findings *out, const json_t *needs)
{
    json_t *counts = json_object(), *where, *count, *firsts = json_object();
    const char *symbol, *binary;
    json_object_foreach((json_t *)needs, symbol, where)
    {
        binary = json_string_value(where);
        json_object_set_new(counts, binary,
                            json_integer(json_integer_value(json_object_get(counts, binary)) + 1));
        if (!json_object_get(firsts, binary)) json_object_set_new(firsts, binary, lj_json_string(symbol));
    }
    json_object_foreach(counts, binary, count) if (out->count < 10)
        binary_report(host, out, binary, lj_json_text(firsts, binary), (size_t)json_integer_value(count) - 1);
    json_decref(counts);
    json_decref(firsts);
}

void lj_check_torch_symbols(lj_host *host, lj_findings *out)
{
    lj_scan s;
    lj_scan_begin(&s, host, out);
    collector c = {.needs = json_object()};
    char full[2 * LJ_PATH_BYTES];
    size_t i, libraries = 0;
    json_t *path;
    json_array_foreach(s.binaries, i, path)
    {
        c.binary = json_string_value(path);
        if (in_torch(c.binary) || !strstr(c.binary, "-packages/")) continue;
        (void)lj_elf_symbols(lj_host_path(host, c.binary, full, sizeof full), false, need_add, &c);
    }
    size_t needed = json_object_size(c.needs);
    for (int pass = 0; pass < 2 && json_object_size(c.needs);
         pass++) /* torch's own libraries, then what extensions give each other */
        json_array_foreach(s.binaries, i, path)
        {
            if (in_torch(json_string_value(path)) != (pass == 0)) continue;
            lj_note(out, "symbols of %s", json_string_value(path));
            libraries += in_torch(json_string_value(path)) &&
                         lj_elf_symbols(lj_host_path(host, json_string_value(path), full, sizeof full), true,
                                        need_remove, &c) == LJ_OK;
            if (pass == 1)
                (void)lj_elf_symbols(lj_host_path(host, json_string_value(path), full, sizeof full), true,
                                     need_remove, &c);
        }
    if (libraries && !s.cut) report(host, out, c.needs);
    if (!out->count) {
        lj_finding *f = lj_find(out, libraries && !s.cut ? LJ_VERDICT_OK
                                     : needed && s.cut   ? LJ_VERDICT_NOT_AVAILABLE
                                                         : LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found,
               needed ? "%zu symbols of torch needed by extensions%s" : "no extension of torch in the view",
               needed, libraries && !s.cut ? ", all defined" : "; not all could be looked at");
        lj_say(f->source, "dynamic symbols");
    }
    json_decref(c.needs);
    lj_scan_end(&s);
}
