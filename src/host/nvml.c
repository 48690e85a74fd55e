/* The live driver, through libraries that are loaded at run time and never linked: NVML and the CUDA driver
 * library. */
#include "host/check.h"
#include "host/version.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void *open_first(const char *soname, const lj_findings *out, char *path, size_t capacity)
{
    static const char *const folders[] = {"",
                                          "/usr/lib/x86_64-linux-gnu/",
                                          "/usr/lib64/",
                                          "/usr/local/nvidia/lib64/",
                                          "/usr/lib/wsl/lib/",
                                          "/usr/lib/aarch64-linux-gnu/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, capacity, "%s%s", folders[i], soname);
        lj_note(out, "loading %s", path);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

/* Function pointers of a library, by value so that no cast between object and function pointers is needed. */
static bool symbol(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (found) memcpy(function, &found, sizeof found);
    return found != NULL;
}

static void say_code(lj_host *host, lj_finding *f, const char *table, const char *call, int code)
{
    char key[16], path[32];
    lj_say(key, "%d", code);
    lj_say(path, "%s.%d", table, code);
    json_t *row = lj_json_at(lj_rules(host, "cuda_errors"), path);
    f->verdict = LJ_VERDICT_FAIL;
    lj_say(f->found, "%s answers %s (%s): %s", call, key, row ? lj_json_text(row, "name") : "unknown code",
           row ? lj_json_text(row, "cause") : "see the API reference");
    lj_say(f->wanted, "0");
    lj_say(f->next_step, "%s", row ? lj_json_text(row, "next") : "look at the kernel log");
}

typedef struct {
    int (*init)(void), (*version)(char *, unsigned), (*count)(unsigned *), (*handle)(unsigned, void **),
        (*name)(void *, char *, unsigned);
    int (*link)(void *, unsigned *), (*link_max)(void *, unsigned *), (*width)(void *, unsigned *),
        (*width_max)(void *, unsigned *);
    int (*remapped)(void *, unsigned *, unsigned *, unsigned *, unsigned *),
        (*persistence)(void *, unsigned *);
} nvml_calls;

static bool nvml_load(void *library, nvml_calls *c)
{
    *c = (nvml_calls){0};
    bool needed = symbol(library, "nvmlInit_v2", &c->init) &&
                  symbol(library, "nvmlSystemGetDriverVersion", &c->version) &&
                  symbol(library, "nvmlDeviceGetCount_v2", &c->count) &&
                  symbol(library, "nvmlDeviceGetHandleByIndex_v2", &c->handle) &&
                  symbol(library, "nvmlDeviceGetName", &c->name);
    symbol(library, "nvmlDeviceGetCurrPcieLinkGeneration", &c->link),
        symbol(library, "nvmlDeviceGetMaxPcieLinkGeneration", &c->link_max);
    symbol(library, "nvmlDeviceGetCurrPcieLinkWidth", &c->width),
        symbol(library, "nvmlDeviceGetMaxPcieLinkWidth", &c->width_max);
    symbol(library, "nvmlDeviceGetRemappedRows", &c->remapped),
        symbol(library, "nvmlDeviceGetPersistenceMode", &c->persistence);
    return needed;
}

/* Width is what a bad slot or riser costs; the generation falls when a card idles, so it is shown but not
 * judged. */
static void nvml_card(const nvml_calls *c, unsigned index, void *card, lj_findings *out, json_t *names)
{
    char name[128] = "?";
    unsigned width = 0, width_max = 0, corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    c->name(card, name, sizeof name);
    lj_json_append_text(names, name);
    bool narrow = c->width && c->width_max && c->width(card, &width) == 0 &&
                  c->width_max(card, &width_max) == 0 && width < width_max;
    bool rows = c->remapped && c->remapped(card, &corrected, &uncorrected, &pending, &failed) == 0;
    if (narrow) {
        lj_finding *f = lj_find(out, LJ_VERDICT_WARN);
        lj_say(f->part, "card%u", index);
        lj_say(f->found, "%s: PCIe link of %u lanes", name, width);
        lj_say(f->wanted, "%u lanes", width_max);
        lj_say(f->source, "NVML, nvmlDeviceGetCurrPcieLinkWidth");
        lj_say(f->next_step, "reseat the card or riser; a virtual machine may show a narrower link");
    }
    if (rows && (pending || failed)) {
        lj_finding *f = lj_find(out, failed ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN);
        lj_say(f->part, "card%u", index);
        lj_say(f->found, "%s: row remapping %s (%u corrected, %u uncorrected)", name,
               failed ? "failed" : "pending", corrected, uncorrected);
        lj_say(f->wanted, "none pending, none failed");
        lj_say(f->source, "NVML, nvmlDeviceGetRemappedRows");
        lj_say(f->next_step, failed ? "replace the card" : "reset the card (nvidia-smi -r) when it is idle");
    }
}

static void nvml_cards(lj_host *host, const nvml_calls *c, lj_findings *out, const char *path)
{
    unsigned count = 0, persistence = 1;
    char version[96] = "";
    json_t *names = json_array();
    lj_finding own = {.verdict = LJ_VERDICT_OK};
    lj_note(out, "nvmlDeviceGetCount_v2 in %s", path);
    int code = c->count(&count);
    c->version(version, sizeof version);
    for (unsigned i = 0; code == 0 && i < count; i++) {
        void *card = NULL;
        lj_note(out, "card %u through %s", i, path);
        code = c->handle(i, &card);
        if (code == 0) nvml_card(c, i, card, out, names);
        if (code == 0 && c->persistence) c->persistence(card, &persistence);
    }
    char list[512];
    lj_say(own.source, "%s", path);
    lj_say(own.found, "driver %s, %u card(s): %s%s", version, count,
           lj_json_join(names, 4, list, sizeof list), persistence ? "" : "; persistence mode off");
    if (code != 0) say_code(host, &own, "nvml", "NVML", code);
    if (code == 0 && !persistence) {
        own.verdict = LJ_VERDICT_WARN;
        lj_say(own.wanted, "persistence mode on");
        lj_say(own.next_step, "run nvidia-persistenced (or nvidia-smi -pm 1): without it each start "
                              "initialises the cards for seconds");
    }
    *lj_find(out, own.verdict) = own;
    json_object_set_new(out->facts, "nvml_cards", names);
}

void lj_check_nvml(lj_host *host, lj_findings *out)
{
    char path[256];
    void *library = open_first("libnvidia-ml.so.1", out, path, sizeof path);
    nvml_calls calls;
    if (!library) {
        lj_finding *f = lj_find(out, lj_host_exists(host, "/proc/driver/nvidia") ? LJ_VERDICT_NOT_AVAILABLE
                                                                                 : LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "no libnvidia-ml.so.1 on the loader's path");
        lj_say(f->source, "dlopen");
        return;
    }
    if (!nvml_load(library, &calls)) {
        lj_finding *f = lj_find(out, LJ_VERDICT_NOT_AVAILABLE);
        lj_say(f->found, "%s lacks functions of NVML", path);
        lj_say(f->next_step, "see which package brought the file");
        return;
    }
    lj_note(out, "nvmlInit_v2 in %s", path);
    int code = calls.init();
    if (code == 0) {
        nvml_cards(host, &calls, out, path);
        return;
    }
    lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
    lj_say(f->source, "%s", path);
    say_code(host, f, "nvml", "nvmlInit", code);
}

void lj_check_cuda_start(lj_host *host, lj_findings *out)
{
    char path[256];
    int (*init)(unsigned), (*version)(int *), number = 0;
    void *library = open_first("libcuda.so.1", out, path, sizeof path);
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    if (!library || !symbol(library, "cuInit", &init) || !symbol(library, "cuDriverGetVersion", &version)) {
        f->verdict = lj_host_exists(host, "/proc/driver/nvidia") ? LJ_VERDICT_NOT_AVAILABLE
                                                                 : LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, library ? "%s is no CUDA driver library" : "no libcuda.so.1 on the loader's path%s",
               library ? path : "");
        lj_say(f->source, "dlopen");
        return;
    }
    lj_say(f->source, "%s", path);
    lj_note(out, "cuDriverGetVersion in %s", path);
    version(&number);
    lj_note(out, "cuInit in %s", path);
    int code = init(0);
    lj_say(f->found, "cuInit works, the driver library is of CUDA %d.%d", number / 1000, number % 1000 / 10);
    json_object_set_new(out->facts, "cuda_driver_version",
                        json_sprintf("%d.%d", number / 1000, number % 1000 / 10));
    if (code != 0) say_code(host, f, "cuda", "cuInit", code);
}
