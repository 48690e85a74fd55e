/* PPU and AMD cards: driver, software kit, device files. */
#define _GNU_SOURCE
#include "host/check.h"
#include "host/child.h"
#include "host/version.h"

#include <string.h>
#include <unistd.h>

typedef struct {
    json_t *rule;
    char driver[64], place[256], looked_at[512];
    bool hardware;
    size_t cards;
} accelerator;

static bool pci_vendor(lj_host *host, const char *vendor)
{
    json_t *files = lj_host_glob(host, "/sys/bus/pci/devices/*/vendor"), *file;
    size_t i;
    bool found = false;
    json_array_foreach(files, i, file)
    {
        const char *path = json_string_value(file);
        char class_path[LJ_PATH_BYTES], *word = lj_host_read_word(host, path);
        if (!word || strcmp(word, vendor) != 0) continue;
        lj_say(class_path, "%.*sclass", (int)(strlen(path) - strlen("vendor")), path);
        word = lj_host_read_word(host, class_path);
        found |= !word || strncmp(word, "0x03", 4) == 0 ||
                 strncmp(word, "0x12", 4) == 0; /* display and processing accelerators, no bridges */
    }
    json_decref(files);
    return found;
}

static void driver_read(lj_host *host, accelerator *a)
{
    json_t *files = json_object_get(a->rule, "driver_files"), *file;
    size_t i;
    lj_json_join(files, 8, a->looked_at, sizeof a->looked_at);
    json_array_foreach(files, i, file)
    {
        char *text = lj_host_read(host, json_string_value(file));
        if (!text || *a->driver || !lj_version_find(text, a->driver, sizeof a->driver)) continue;
        lj_say(a->place, "%s", json_string_value(file));
    }
}

static void accelerator_look(lj_host *host, const char *name, accelerator *a)
{
    *a = (accelerator){.rule = lj_json_at(lj_rules(host, "accelerators"), name)};
    char module[128];
    driver_read(host, a);
    json_t *cards = lj_host_glob(host, lj_json_text(a->rule, "card_devices"));
    a->cards = json_array_size(cards);
    json_decref(cards);
    lj_say(module, "/sys/module/%s", lj_json_text(a->rule, "module"));
    a->hardware =
        *a->driver || lj_host_exists(host, module) || pci_vendor(host, lj_json_text(a->rule, "pci_vendor")) ||
        lj_host_exists(host,
                       json_string_value(json_array_get(json_object_get(a->rule, "control_devices"), 0)));
}

/* The management tool's answer, on a live host whose driver says nothing in its files. */
static void driver_query(lj_host *host, const lj_findings *out, accelerator *a)
{
    json_t *words = json_object_get(a->rule, "query"), *word;
    const char *argv[8] = {NULL};
    size_t i;
    json_array_foreach(words, i, word) if (i < 7) argv[i] = json_string_value(word);
    if (!lj_host_live(host) || !argv[0] || !a->hardware || *a->driver) return;
    lj_note(out, "%s", argv[0]);
    lj_program_options options = {.timeout_s = 0.8};
    lj_program_result result;
    if (lj_child_program_run(argv, &options, &result) != LJ_OK) return;
    if (result.code == 0 && result.output.data &&
        lj_version_find(result.output.data, a->driver, sizeof a->driver))
        lj_say(a->place, "%s", argv[0]);
    lj_program_release(&result);
}

static void devices_judge(lj_host *host, lj_findings *out, const accelerator *a, const char *vendor)
{
    json_t *files = json_object_get(a->rule, "control_devices"), *file;
    size_t i;
    bool dev = lj_host_live(host) || a->cards || lj_host_exists(host, "/dev/null");
    json_array_foreach(files, i, file) dev |= lj_host_exists(host, json_string_value(file));
    if (!dev) return;
    json_array_foreach(files, i, file)
    {
        if (lj_host_exists(host, json_string_value(file)) && a->cards) continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
        lj_say(f->part, "devices");
        lj_say(f->found, "%s driver %s, but %s is missing", vendor, a->driver,
               a->cards ? json_string_value(file) : lj_json_text(a->rule, "card_devices"));
        lj_say(f->wanted, "the control files and one card file for each card");
        lj_say(f->source, "/dev; %s", lj_json_text_at(a->rule, "sources.devices"));
        lj_say(f->next_step,
               "start the container with --device=%s and the cards' files (ljperf image run prints the line)",
               json_string_value(file));
        return;
    }
}

static void missing_driver(lj_host *host, lj_findings *out, const accelerator *a, const char *vendor,
                           const char *what)
{
    bool needed = a->hardware || strcmp(lj_json_text(host->manifest, "vendor"), vendor) == 0;
    lj_finding *f = lj_find(out, needed ? LJ_VERDICT_FAIL : LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->found, "%s driver: not found (looked at %s)%s", what, a->looked_at,
           a->hardware ? ", though a card is there" : "");
    lj_say(f->source, "%s", a->looked_at);
    if (!needed) return;
    lj_say(f->wanted, "a loaded %s driver", what);
    lj_say(f->next_step, "load the module %s, or start the container so that it sees the driver",
           lj_json_text(a->rule, "module"));
}

static void sdk_read(lj_host *host, const accelerator *a, char *version, size_t capacity, const char **place)
{
    json_t *files = json_object_get(a->rule, "sdk_files"), *file,
           *folders = json_object_get(a->rule, "sdk_folders");
    const char *variable = lj_host_env(host, lj_json_text(a->rule, "sdk_variable"));
    char path[LJ_PATH_BYTES];
    static const char *const names[] = {"version", "version.txt", "VERSION", "version.json"};
    size_t i, k;
    *version = 0;
    json_array_foreach(files, i, file)
    {
        char *text = lj_host_read(host, json_string_value(file));
        if (text && lj_version_find(text, version, capacity)) {
            *place = json_string_value(file);
            return;
        }
    }
    for (k = 0; variable && k < sizeof names / sizeof *names; k++) {
        lj_say(path, "%s/%s", variable, names[k]);
        char *text = lj_host_read(host, path);
        *place = "PPU_SDK";
        if (text && lj_version_find(text, version, capacity)) return;
    }
    json_array_foreach(folders, i, file)
    { /* "/usr/local/PPU_SDK_1.5.1" */
        json_t *found = lj_host_glob(host, json_string_value(file)), *one;
        json_array_foreach(found, k, one)
        {
            char real[LJ_PATH_BYTES];
            *place = "the folder's name";
            if (!*version)
                (void)lj_version_find(
                    strrchr(lj_host_final(host, json_string_value(one), real, sizeof real), '/') + 1, version,
                    capacity);
            const char *dash = strpbrk(strrchr(real, '/'), "-_");
            for (; dash && !*version; dash = strpbrk(dash + 1, "-_"))
                (void)lj_version_find(dash + 1, version, capacity);
        }
        json_decref(found);
    }
}

static void sdk_judge(lj_host *host, lj_findings *out, const accelerator *a)
{
    char version[64];
    const char *place = "", *wanted = lj_json_text_at(host->manifest, "requires.sdk");
    sdk_read(host, a, version, sizeof version, &place);
    json_object_set_new(out->facts, "ppu_sdk", json_string(version));
    if (!*version || !*wanted) return;
    int order = lj_version_compare(version, wanted);
    lj_finding *f = lj_find(out, order == 0 ? LJ_VERDICT_OK : LJ_VERDICT_WARN);
    lj_say(f->part, "sdk");
    lj_say(f->found, "PPU SDK %s", version);
    lj_say(f->wanted, "PPU SDK %s", wanted);
    lj_say(f->source, "%s; %s", place, lj_json_text_at(a->rule, "sources.requirement"));
    if (order != 0) lj_say(f->next_step, "use the SDK of the image: another one was put over it");
}

void lj_check_ppu(lj_host *host, lj_findings *out)
{
    accelerator a;
    accelerator_look(host, "ppu", &a);
    driver_query(host, out, &a);
    json_object_set_new(out->facts, "ppu_driver", json_string(a.driver));
    if (!*a.driver) {
        missing_driver(host, out, &a, "ppu", "PPU");
        return;
    }
    bool ours = strcmp(lj_json_text(host->manifest, "vendor"), "ppu") == 0;
    const char *minimum =
        ours ? lj_json_text_at(host->manifest, "requires.driver.minimum") : lj_json_text(a.rule, "minimum");
    const char *advised =
        ours ? lj_json_text_at(host->manifest, "requires.driver.advised") : lj_json_text(a.rule, "advised");
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->found, "PPU driver %s, %zu card(s)", a.driver, a.cards);
    lj_say(f->wanted, "driver >= %s%s%s%s", minimum, *advised ? " (" : "", advised,
           *advised ? " advised)" : "");
    lj_say(f->source, "%s; %s", a.place,
           ours ? lj_json_text_at(host->manifest, "requires.driver.source")
                : lj_json_text_at(a.rule, "sources.requirement"));
    if (lj_version_compare(a.driver, minimum) < 0) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->next_step,
               "update the PPU driver to %s (at least %s); on ACS ask for it with the label "
               "alibabacloud.com/gpu-driver-version",
               *advised ? advised : minimum, minimum);
    } else if (*advised && lj_version_compare(a.driver, advised) < 0) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->next_step,
               "works; %s is advised: on ACS ask for it with the label alibabacloud.com/gpu-driver-version: "
               "\"%s\"",
               advised, advised);
    }
    devices_judge(host, out, &a, "PPU");
    sdk_judge(host, out, &a);
}

void lj_check_amd(lj_host *host, lj_findings *out)
{
    accelerator a;
    char rocm[64] = "";
    size_t i;
    json_t *files, *file;
    accelerator_look(host, "amd", &a);
    bool module = lj_host_exists(host, "/sys/module/amdgpu"), compute = pci_vendor(host, "0x1002");
    files = lj_json_at(a.rule, "rocm_files");
    json_array_foreach(files, i, file)
    {
        json_t *found = lj_host_glob(host, json_string_value(file));
        char *text =
            json_array_size(found) ? lj_host_read(host, json_string_value(json_array_get(found, 0))) : NULL;
        if (text && !*rocm) (void)lj_version_find(text, rocm, sizeof rocm);
        json_decref(found);
    }
    json_object_set_new(out->facts, "rocm", json_string(rocm));
    json_object_set_new(out->facts, "amd_driver", json_string(a.driver));
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->source, "/sys/module/amdgpu, /dev/kfd, /opt/rocm; %s",
           lj_json_text_at(a.rule, "sources.devices"));
    lj_say(f->found, "amdgpu %s, ROCm %s, %zu render device(s)", *a.driver ? a.driver : "of the kernel",
           *rocm ? rocm : "not found", a.cards);
    if (!module && !lj_host_exists(host, "/dev/kfd")) {
        bool needed = compute || strcmp(lj_json_text(host->manifest, "vendor"), "amd") == 0 ||
                      *lj_json_text_at(host->manifest, "requires.rocm");
        f->verdict = needed ? LJ_VERDICT_FAIL : LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, "AMD driver: not found (looked at /sys/module/amdgpu, /dev/kfd)%s",
               compute ? ", though a card is there" : "");
        if (needed)
            lj_say(f->next_step,
                   "modprobe amdgpu, or start the container with --device=/dev/kfd --device=/dev/dri");
    } else if (!lj_host_exists(host, "/dev/kfd") && (lj_host_live(host) || lj_host_is_folder(host, "/dev"))) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->found, "the amdgpu module is loaded, /dev/kfd is missing");
        lj_say(f->wanted, "/dev/kfd and /dev/dri/renderD*");
        lj_say(f->next_step,
               "start the container with --device=/dev/kfd --device=/dev/dri --group-add video (and render)");
    } else if (lj_host_live(host) && access("/dev/kfd", R_OK | W_OK) != 0) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->found, "/dev/kfd may not be opened by this user");
        lj_say(f->wanted, "read and write access");
        lj_say(f->next_step, "add the user to the groups render and video, or --group-add for a container");
    } else if (a.cards == 0 && (lj_host_live(host) || lj_host_is_folder(host, "/dev"))) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->found, "/dev/kfd is there, no /dev/dri/renderD*");
        lj_say(f->wanted, "/dev/kfd and /dev/dri/renderD*");
        lj_say(f->next_step, "start the container with --device=/dev/dri");
    }
}
