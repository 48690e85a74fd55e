/* The rest of an NVIDIA system: user-space libraries against the kernel module, device files, fabric manager,
 * container toolkit. */
#define _GNU_SOURCE
#include "host/check.h"
#include "host/cuda.h"
#include "host/version.h"

#include <stdlib.h>
#include <string.h>

/* Libraries of the driver carry its version in their names; more than one version, or another than the
 * module's, is error 18 of NVML. */
static void library_versions(lj_host *host, const char *name_pattern, json_t *versions)
{
    json_t *folders = lj_json_at(lj_rules(host, "nvidia"), "driver_folders"), *folder, *file;
    size_t i, k;
    json_array_foreach(folders, i, folder)
    {
        char pattern[LJ_PATH_BYTES];
        lj_say(pattern, "%s/%s", json_string_value(folder), name_pattern);
        json_t *files = lj_host_glob(host, pattern);
        json_array_foreach(files, k, file)
        {
            char version[48], final[LJ_PATH_BYTES];
            lj_host_final(host, json_string_value(file), final, sizeof final);
            lj_library_version(final, version, sizeof version);
            if (*version && !strstr(final, "compat") && !json_object_get(versions, version))
                json_object_set_new(versions, version, lj_json_string(final));
        }
        json_decref(files);
    }
}

void lj_check_driver_libraries(lj_host *host, lj_findings *out)
{
    lj_cuda_view view;
    lj_cuda_look(host, &view);
    json_t *versions = json_object(), *path;
    library_versions(host, "libnvidia-ml.so*", versions);
    library_versions(host, "libcuda.so*", versions);
    const char *version;
    json_object_foreach(versions, version, path)
    {
        bool same = strcmp(version, view.driver) == 0;
        if (same || !*view.driver) continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
        lj_say(f->found, "driver/library version mismatch: %s is %s, the loaded kernel module is %s",
               json_string_value(path), version, view.driver);
        lj_say(f->wanted, "libraries of version %s", view.driver);
        lj_say(f->source, "file names in the driver's folders; %s; NVML_ERROR_LIB_RM_VERSION_MISMATCH",
               view.driver_place);
        lj_say(f->next_step,
               json_object_get(versions, view.driver)
                   ? "remove the libraries of %s (left over from another driver package), then ldconfig"
                   : "reboot or reload the nvidia modules: the driver package was updated to %s under the "
                     "running module",
               version);
    }
    if (!out->count && *view.driver && json_object_size(versions) == 0 &&
        (lj_host_exists(host, "/.dockerenv") || lj_host_exists(host, "/run/.containerenv"))) {
        lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
        lj_say(f->found,
               "a container that sees driver %s but has none of its libraries (libcuda.so, libnvidia-ml.so)",
               view.driver);
        lj_say(f->wanted, "libraries of version %s, mounted by the container runtime", view.driver);
        lj_say(f->source, "the driver's folders; NVIDIA Container Toolkit documentation");
        lj_say(f->next_step, "start the container with the NVIDIA runtime: --gpus all, or --runtime nvidia "
                             "with NVIDIA_DRIVER_CAPABILITIES=compute,utility");
    }
    if (!out->count) {
        lj_finding *f = lj_find(out, json_object_size(versions) && *view.driver ? LJ_VERDICT_OK
                                                                                : LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found,
               json_object_size(versions) ? "libraries and module %s" : "no driver libraries in the view%s",
               json_object_size(versions) ? view.driver : "");
        lj_say(f->source, "file names in the driver's folders");
    }
    json_decref(versions);
    lj_cuda_release(&view);
}

typedef struct {
    const char *vendor, *module;
    const char *needed[4];
    const char *cards; /* glob of card devices, "" none */
    const char *next;
} device_set;

static const device_set nvidia_devices = {
    "NVIDIA",
    "nvidia",
    {"/dev/nvidiactl", "/dev/nvidia-uvm"},
    "/dev/nvidia[0-9]*",
    "nvidia-modprobe -u -c=0, or start the container with the NVIDIA runtime (--gpus all)"};

/* CUDA_VISIBLE_DEVICES with a number that no card has: CUDA sees only those before it, none when it is the
 * first. */
static void visible_judge(lj_host *host, lj_findings *out, size_t cards)
{
    const char *list = lj_host_env(host, "CUDA_VISIBLE_DEVICES");
    for (const char *at = list; cards && at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',')) return; /* GPU-UUID or MIG names */
        if (number < 0 || (size_t)number < cards) continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
        lj_say(f->part, "CUDA_VISIBLE_DEVICES");
        lj_say(f->found, "CUDA_VISIBLE_DEVICES=%s names card %ld; there are %zu (0 to %zu): %s", list, number,
               cards, cards - 1,
               at == list ? "no card is visible" : "the cards from there on are not visible");
        lj_say(f->wanted, "numbers below %zu", cards);
        lj_say(f->source, "%s; /dev/nvidia*; CUDA programming guide, environment variables",
               host->env_source);
        lj_say(f->next_step, "correct CUDA_VISIBLE_DEVICES (a container counts its own cards from 0)");
        return;
    }
}

void lj_check_devices(lj_host *host, lj_findings *out)
{
    lj_cuda_view view;
    lj_cuda_look(host, &view);
    const device_set *set = &nvidia_devices;
    json_t *cards = lj_host_glob(host, set->cards), *missing = json_array();
    size_t driver_cards = json_array_size(view.cards);
    bool folder = lj_host_is_folder(host, "/dev") &&
                  (lj_host_live(host) || json_array_size(cards) || lj_host_exists(host, "/dev/nvidiactl"));
    visible_judge(host, out, json_array_size(cards) ? json_array_size(cards) : driver_cards);
    for (size_t i = 0; i < 4 && set->needed[i]; i++)
        if (!lj_host_exists(host, set->needed[i])) lj_json_append_text(missing, set->needed[i]);
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    lj_say(f->source, "/dev; /proc/driver/nvidia/gpus");
    if (!*view.driver || !folder) {
        f->verdict = LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, *view.driver ? "the tree has no /dev of a running system" : "no NVIDIA driver");
    } else if (json_array_size(missing) || json_array_size(cards) == 0) {
        char list[256];
        f->verdict = LJ_VERDICT_FAIL;
        if (json_array_size(cards) == 0) lj_json_append_text(missing, "/dev/nvidia0");
        lj_say(f->found, "missing device files: %s", lj_json_join(missing, 6, list, sizeof list));
        lj_say(f->wanted, "/dev/nvidiactl, /dev/nvidia-uvm and one /dev/nvidiaN for each card");
        lj_say(f->next_step, "%s", set->next);
    } else if (driver_cards && json_array_size(cards) < driver_cards) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->found, "%zu of the driver's %zu cards have a device file here", json_array_size(cards),
               driver_cards);
        lj_say(f->wanted, "as many as the job uses");
        lj_say(f->next_step, "give the container all cards (--gpus all) if the job should use them");
    } else {
        lj_say(f->found, "%zu card(s) with device files", json_array_size(cards));
    }
    json_decref(cards);
    json_decref(missing);
    lj_cuda_release(&view);
}

static bool process_runs(lj_host *host, const char *comm_start)
{
    json_t *files = lj_host_glob(host, "/proc/[0-9]*/comm"), *file;
    size_t i;
    bool found = false;
    json_array_foreach(files, i, file)
    {
        char *word = lj_host_read_word(host, json_string_value(file));
        if (word && strncmp(word, comm_start, strlen(comm_start)) == 0) found = true;
        if (found) break;
    }
    json_decref(files);
    return found;
}

/* Version of a Debian or RPM package from dpkg's status; "" when it is not installed. */
static void package_version(lj_host *host, const char *name_start, char *out, size_t capacity)
{
    char *text = lj_host_read(host, "/var/lib/dpkg/status"), key[96];
    *out = 0;
    lj_say(key, "Package: %s", name_start);
    char *at = text ? strstr(text, key) : NULL, *end = at ? strstr(at, "\n\n") : NULL;
    char *version = at ? strstr(at, "\nVersion: ") : NULL;
    if (version && (!end || version < end)) lj_version_find(version + 10, out, capacity);
}

static bool has_nvswitch(lj_host *host)
{
    if (lj_host_exists(host, "/dev/nvidia-nvswitchctl") || lj_host_exists(host, "/dev/nvidia-nvswitch0") ||
        lj_host_exists(host, "/proc/driver/nvidia-nvswitch/devices"))
        return true;
    json_t *files = lj_host_glob(host, "/sys/bus/pci/devices/*/class"), *file;
    size_t i;
    bool found = false;
    json_array_foreach(files, i, file)
    {
        const char *path = json_string_value(file);
        char vendor[LJ_PATH_BYTES];
        char *word = lj_host_read_word(host, path);
        if (!word || strncmp(word, "0x0680", 6) != 0) continue;
        lj_say(vendor, "%.*svendor", (int)(strlen(path) - 5), path);
        word = lj_host_read_word(host, vendor);
        if (word && strcmp(word, "0x10de") == 0) found = true;
    }
    json_decref(files);
    return found;
}

void lj_check_fabric_manager(lj_host *host, lj_findings *out)
{
    lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
    lj_cuda_view view;
    lj_cuda_look(host, &view);
    char version[48];
    package_version(host, "nvidia-fabricmanager", version, sizeof version);
    bool container = lj_host_exists(host, "/.dockerenv") || lj_host_exists(host, "/run/.containerenv");
    lj_say(f->source, "/dev/nvidia-nvswitch*, /proc/*/comm, dpkg; NVIDIA Fabric Manager user guide");
    if (!has_nvswitch(host) || container) {
        lj_say(f->found, container ? "a container: the host runs it" : "no NVSwitch");
    } else if (*version && *view.driver && strcmp(version, view.driver) != 0) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->found, "fabric manager %s, driver %s", version, view.driver);
        lj_say(f->wanted, "fabric manager of exactly the driver's version");
        lj_say(f->next_step,
               "install nvidia-fabricmanager %s and restart the service; until then cuInit ends in error 802",
               view.driver);
    } else if (!process_runs(host, "nv-fabricmanage") && !process_runs(host, "nvidia-fabricma")) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->found, "NVSwitch machine, fabric manager %s",
               *version ? "installed but not running" : "not running");
        lj_say(f->wanted, "a running nvidia-fabricmanager of version %s", view.driver);
        lj_say(f->next_step, "systemctl enable --now nvidia-fabricmanager; until then cuInit ends in error "
                             "802 (system not yet initialized)");
    } else {
        f->verdict = LJ_VERDICT_OK;
        lj_say(f->found, "fabric manager runs%s%s", *version ? ", version " : "", version);
    }
    lj_cuda_release(&view);
}

static const char *first_there(lj_host *host, const char *const *paths)
{
    for (; *paths; paths++)
        if (lj_host_exists(host, *paths)) return *paths;
    return NULL;
}

static bool file_mentions(lj_host *host, const char *path, const char *word)
{
    char *text = lj_host_read(host, path);
    return text && strstr(text, word);
}

void lj_check_container_toolkit(lj_host *host, lj_findings *out)
{
    static const char *const engines[] = {"/usr/bin/docker",
                                          "/usr/bin/dockerd",
                                          "/usr/local/bin/docker",
                                          "/usr/bin/podman",
                                          "/usr/bin/containerd",
                                          "/usr/local/bin/containerd",
                                          "/usr/bin/nerdctl",
                                          "/usr/local/bin/nerdctl",
                                          "/usr/bin/crio",
                                          "/etc/docker/daemon.json",
                                          "/etc/containerd/config.toml",
                                          "/var/lib/docker",
                                          NULL};
    static const char *const toolkits[] = {"/usr/bin/nvidia-ctk",
                                           "/usr/bin/nvidia-container-runtime",
                                           "/usr/bin/nvidia-container-toolkit",
                                           "/usr/bin/nvidia-container-cli",
                                           "/usr/bin/nvidia-container-runtime-hook",
                                           "/usr/local/nvidia/toolkit/nvidia-container-runtime",
                                           "/usr/local/bin/nvidia-ctk",
                                           "/run/nvidia/driver",
                                           NULL};
    static const char *const cdi[] = {"/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml",
                                      "/etc/cdi/nvidia.json", "/run/cdi/nvidia.yaml", NULL};
    lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
    lj_cuda_view view;
    lj_cuda_look(host, &view);
    const char *engine = first_there(host, engines), *toolkit = first_there(host, toolkits),
               *devices = first_there(host, cdi);
    bool container = lj_host_exists(host, "/.dockerenv") || lj_host_exists(host, "/run/.containerenv");
    lj_say(f->source, "%s; NVIDIA Container Toolkit installation guide",
           engine ? engine : "usual places of docker, podman, containerd, nerdctl");
    if (!*view.driver || container || !engine) {
        lj_say(f->found, !*view.driver ? "no NVIDIA driver"
                         : container   ? "inside a container"
                                       : "no container engine");
    } else if (!toolkit && !devices) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->found, "container engine (%s) and driver %s, but no NVIDIA container toolkit", engine,
               view.driver);
        lj_say(f->wanted, "nvidia-container-toolkit, or CDI devices in /etc/cdi");
        lj_say(f->next_step, "install nvidia-container-toolkit, then: nvidia-ctk runtime configure "
                             "--runtime=docker && systemctl restart docker");
    } else if (lj_host_exists(host, "/etc/docker/daemon.json") &&
               !file_mentions(host, "/etc/docker/daemon.json", "nvidia") && !devices) {
        f->verdict = LJ_VERDICT_WARN;
        lj_say(f->found, "the toolkit is installed, /etc/docker/daemon.json has no nvidia runtime");
        lj_say(f->wanted, "runtimes.nvidia in /etc/docker/daemon.json");
        lj_say(f->next_step, "nvidia-ctk runtime configure --runtime=docker && systemctl restart docker");
    } else {
        f->verdict = LJ_VERDICT_OK;
        lj_say(f->found, "%s", toolkit ? toolkit : devices);
    }
    lj_cuda_release(&view);
}
