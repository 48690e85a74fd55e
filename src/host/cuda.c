#define _GNU_SOURCE
#include "host/cuda.h"

#include "host/pattern.h"
#include "host/python.h"
#include "host/version.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

lj_card_class lj_card_class_of(lj_host *host, const char *name)
{
    static const struct {
        const char *word;
        lj_card_class value;
    } words[] = {{"consumer", LJ_CARDS_CONSUMER},
                 {"workstation", LJ_CARDS_WORKSTATION},
                 {"data-centre", LJ_CARDS_DATA_CENTRE}};
    json_t *rows = lj_json_at(lj_rules(host, "gpus"), "classes"), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (!lj_host_pattern_find(lj_json_text(row, "pattern"), name, NULL, 0)) continue;
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (strcmp(lj_json_text(row, "class"), words[k].word) == 0) return words[k].value;
    }
    return LJ_CARDS_UNKNOWN;
}

void lj_library_version(const char *path, char *out, size_t capacity)
{
    const char *so = strstr(path, ".so.");
    *out = 0;
    if (!so) return;
    so += 4;
    size_t length = strspn(so, "0123456789.");
    if (strchr(so, '.') && length > 2) snprintf(out, capacity, "%.*s", (int)length, so);
}

static void driver_look(lj_host *host, lj_cuda_view *view)
{
    json_t *places = lj_json_at(lj_rules(host, "nvidia"), "driver_files"), *place;
    size_t i;
    lj_json_join(places, 8, view->looked_at, sizeof view->looked_at);
    json_array_foreach(places, i, place)
    {
        char *text = lj_host_read(host, json_string_value(place));
        if (!text || !lj_version_find(text, view->driver, sizeof view->driver)) continue;
        if (lj_version_major(view->driver) == 0) { /* "0.0" is how some tools write "unknown" */
            *view->driver = 0;
            continue;
        }
        lj_say(view->driver_place, "%s", json_string_value(place));
        return;
    }
}

/* "Model: \t\t NVIDIA A100-SXM4-80GB" in each card's information file. */
static void cards_look(lj_host *host, lj_cuda_view *view)
{
    json_t *files = lj_host_glob(host, "/proc/driver/nvidia/gpus/*/information"), *file;
    size_t i;
    json_array_foreach(files, i, file)
    {
        char *text = lj_host_read(host, json_string_value(file)),
             *model = text ? strcasestr(text, "model:") : NULL;
        if (!model) continue;
        model += 6;
        model += strspn(model, " \t");
        model[strcspn(model, "\r\n")] = 0;
        lj_json_append_text(view->cards, model);
        lj_card_class one = lj_card_class_of(host, model);
        if (json_array_size(view->cards) == 1 || one < view->card_class) {
            view->card_class = one; /* the least able card decides */
            lj_say(view->first_card, "%s", model);
        }
    }
    json_decref(files);
}

static bool pci_has(lj_host *host, const char *vendor, const char *class_prefix)
{
    json_t *files = lj_host_glob(host, "/sys/bus/pci/devices/*/vendor"), *file;
    size_t i;
    bool found = false;
    json_array_foreach(files, i, file)
    {
        const char *path = json_string_value(file);
        char class_path[LJ_PATH_BYTES];
        char *word = lj_host_read_word(host, path);
        if (!word || strcmp(word, vendor) != 0) continue;
        lj_say(class_path, "%.*sclass", (int)(strlen(path) - strlen("vendor")), path);
        word = lj_host_read_word(host, class_path);
        if (!word || strncmp(word, class_prefix, strlen(class_prefix)) == 0) found = true;
    }
    json_decref(files);
    return found;
}

static bool hardware_look(lj_host *host, const lj_cuda_view *view)
{
    return *view->driver || json_array_size(view->cards) || lj_host_exists(host, "/dev/nvidia0") ||
           lj_host_exists(host, "/dev/nvidiactl") || lj_host_exists(host, "/proc/driver/nvidia") ||
           pci_has(host, "0x10de", "0x03");
}

static bool seen_path(const json_t *rows, const char *path)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) if (strcmp(lj_json_text(row, "path"), path) == 0) return true;
    return false;
}

/* Real files only: links are followed and each target counts once. */
static void libraries_look(lj_host *host, const char *folder_pattern, const char *name_pattern, json_t *out)
{
    char pattern[LJ_PATH_BYTES], final[LJ_PATH_BYTES];
    lj_say(pattern, "%s/%s", folder_pattern, name_pattern);
    json_t *files = lj_host_glob(host, pattern), *file;
    size_t i;
    json_array_foreach(files, i, file)
    {
        lj_host_final(host, json_string_value(file), final, sizeof final);
        if (seen_path(out, final) || !lj_host_exists(host, final)) continue;
        json_array_append_new(out, json_pack("{s:o}", "path", lj_json_string(final)));
    }
    json_decref(files);
}

static void compat_look(lj_host *host, lj_cuda_view *view)
{
    json_t *folders = lj_json_at(lj_rules(host, "nvidia"), "compat_folders"), *folder, *row;
    size_t i;
    json_array_foreach(folders, i, folder)
        libraries_look(host, json_string_value(folder), "libcuda.so*", view->compat);
    json_array_foreach(view->compat, i, row)
    {
        char version[48], where[LJ_PATH_BYTES];
        lj_library_version(lj_json_text(row, "path"), version, sizeof version);
        lj_say(where, "%s", lj_json_text(row, "path"));
        char *slash = strrchr(where, '/');
        if (slash) *slash = 0;
        json_object_set_new(row, "version", json_string(version));
        json_object_set_new(row, "folder", lj_json_string(where));
    }
}

void lj_file_owner(lj_host *host, const char *path, char *out, size_t capacity)
{
    if (lj_python_owner(host, path, out, capacity)) return;
    json_t *lists = lj_host_glob(host, "/var/lib/dpkg/info/*.list"), *list;
    size_t i;
    bool found = false;
    json_array_foreach(lists, i, list)
    {
        const char *file = json_string_value(list), *name = strrchr(file, '/') + 1;
        bool likely = strstr(name, "cuda") || strstr(name, "nvidia") || strstr(name, "cudnn") ||
                      strstr(name, "nccl") || strstr(name, "cublas");
        char *text = likely ? lj_host_read(host, file) : NULL, *at = text ? strstr(text, path) : NULL;
        if (!at || (at[strlen(path)] != '\n' && at[strlen(path)])) continue;
        snprintf(out, capacity, "Debian package %.*s",
                 (int)strcspn(name, ":") < (int)strlen(name) - 5 ? (int)strcspn(name, ":")
                                                                 : (int)strlen(name) - 5,
                 name);
        found = true;
        break;
    }
    json_decref(lists);
    if (found) return;
    const char *toolkit = strstr(path, "/cuda-");
    if (toolkit)
        snprintf(out, capacity, "CUDA toolkit folder %.*s",
                 (int)(toolkit - path) + 1 + (int)strcspn(toolkit + 1, "/"), path);
    else if (strncmp(path, "/opt/conda/", 11) == 0)
        snprintf(out, capacity, "conda environment /opt/conda");
    else
        snprintf(out, capacity, "no package");
}

/* "libcudart.so.12.4.127", "libcudart-9335f6a2.so.12" -> major 12; a JSON file of the toolkit can say the
 * rest. */
static void runtimes_look(lj_host *host, lj_cuda_view *view)
{
    json_t *folders = lj_json_at(lj_rules(host, "nvidia"), "runtime_folders"), *folder, *row;
    size_t i, k;
    json_array_foreach(folders, i, folder)
        libraries_look(host, json_string_value(folder), "libcudart.so.*", view->runtimes);
    json_t *sites = lj_python_sites(host);
    static const char *const inside[] = {"nvidia/cuda_runtime/lib", "nvidia/cu*/lib", "torch/lib", "*.libs",
                                         "tensorrt_libs",           "*/lib",          "*/libs"};
    json_array_foreach(sites, i, folder)
    {
        for (k = 0; k < sizeof inside / sizeof *inside; k++) {
            char pattern[LJ_PATH_BYTES];
            lj_say(pattern, "%s/%s", json_string_value(folder), inside[k]);
            libraries_look(host, pattern, "libcudart*.so.*", view->runtimes);
        }
    }
    json_decref(sites);
    json_array_foreach(view->runtimes, i, row)
    {
        char version[48], owner[256];
        const char *path = lj_json_text(row, "path"), *so = strstr(path, ".so.");
        lj_library_version(path, version, sizeof version);
        if (!*version && so) lj_say(version, "%.*s", (int)strspn(so + 4, "0123456789."), so + 4);
        lj_file_owner(host, path, owner, sizeof owner);
        json_object_set_new(row, "version", json_string(version));
        json_object_set_new(row, "major", json_integer(lj_version_major(version)));
        json_object_set_new(row, "owner", lj_json_string(owner));
    }
}

static bool runtime_from(lj_cuda_view *view, const char *version, const char *place)
{
    if (!version || lj_version_major(version) == 0) return false;
    lj_say(view->runtime, "%.*s", (int)strspn(version, "0123456789."), version);
    lj_say(view->runtime_place, "%s", place);
    return true;
}

/* Greatest libcudart; its file name "12.4.127" is release 12.4. */
static bool runtime_from_libraries(lj_cuda_view *view)
{
    size_t i;
    json_t *row, *best = NULL;
    json_array_foreach(view->runtimes, i,
                       row) if (!best || lj_version_compare(lj_json_text(row, "version"),
                                                            lj_json_text(best, "version")) > 0) best = row;
    if (!best) return false;
    const char *version = lj_json_text(best, "version"), *dot = strchr(version, '.');
    if (!dot) return false; /* only a major: another source may know more */
    char release[48];
    lj_say(release, "%.*s", (int)(dot - version) + 1 + (int)strspn(dot + 1, "0123456789"), version);
    return runtime_from(view, release, lj_json_text(best, "path"));
}

static bool runtime_from_files(lj_host *host, lj_cuda_view *view)
{
    static const char *const files[] = {"/usr/local/cuda/version.json", "/usr/local/cuda/version.txt"};
    char version[48];
    for (size_t i = 0; i < 2; i++) {
        char *text = lj_host_read(host, files[i]), *cuda = text ? strstr(text, "\"cuda\"") : NULL;
        char *at = cuda ? strstr(cuda, "\"version\"") : text;
        if (at && lj_version_find(at, version, sizeof version) && runtime_from(view, version, files[i]))
            return true;
    }
    return false;
}

static bool runtime_from_python(lj_host *host, lj_cuda_view *view)
{
    json_t *sites = lj_python_sites(host), *site;
    size_t i;
    bool found = false;
    json_array_foreach(sites, i, site)
    {
        char path[LJ_PATH_BYTES], version[48];
        lj_say(path, "%s/torch/version.py", json_string_value(site));
        char *text = lj_host_read(host, path), *at = text ? strstr(text, "cuda") : NULL;
        char *quote = at ? strchr(at, '\'') : NULL;
        if (quote && (!strchr(at, '\n') || quote < strchr(at, '\n')) &&
            lj_version_find(quote, version, sizeof version))
            found = runtime_from(view, version, path);
        if (found) break;
    }
    json_decref(sites);
    return found;
}

/* Major-only libcudart ("libcudart.so.12" without a longer name) and compat folders' names are the last
 * resort. */
static bool runtime_from_names(lj_host *host, lj_cuda_view *view)
{
    json_t *folders = lj_host_glob(host, "/usr/local/cuda-*.*");
    size_t i;
    json_t *folder;
    bool found = false;
    json_array_foreach(folders, i, folder) found |=
        runtime_from(view, strrchr(json_string_value(folder), '-') + 1, json_string_value(folder));
    json_decref(folders);
    if (found) return true;
    json_t *row = json_array_get(view->runtimes, 0);
    return row && runtime_from(view, lj_json_text(row, "version"), lj_json_text(row, "path"));
}

static void runtime_look(lj_host *host, lj_cuda_view *view)
{
    const char *wanted = lj_json_text_at(host->manifest, "requires.cuda"),
               *variable = lj_host_env(host, "CUDA_VERSION");
    if (runtime_from(view, wanted, "the image's manifest")) return;
    if (runtime_from_libraries(view) || runtime_from_files(host, view) || runtime_from_python(host, view))
        return;
    if (variable && runtime_from(view, variable, "CUDA_VERSION")) return;
    (void)runtime_from_names(host, view);
}

static void loaded_look(lj_host *host, lj_cuda_view *view)
{
    json_t *row;
    size_t i;
    if (!lj_loader_resolve(host, "libcuda.so.1", &view->loaded)) return;
    lj_library_version(view->loaded.final, view->loaded_version, sizeof view->loaded_version);
    json_array_foreach(view->compat, i, row)
    {
        if (strcmp(lj_json_text(row, "path"), view->loaded.final) != 0) continue;
        view->loaded_is_compat = true;
        if (!*view->loaded_version) lj_say(view->loaded_version, "%s", lj_json_text(row, "version"));
    }
    if (strstr(view->loaded.final, "/compat/") || strstr(view->loaded.path, "/compat/") ||
        strstr(view->loaded.path, "cuda-compat"))
        view->loaded_is_compat = true;
}

void lj_cuda_look(lj_host *host, lj_cuda_view *view)
{
    *view = (lj_cuda_view){.cards = json_array(), .runtimes = json_array(), .compat = json_array()};
    driver_look(host, view);
    cards_look(host, view);
    view->hardware = hardware_look(host, view);
    compat_look(host, view);
    runtimes_look(host, view);
    runtime_look(host, view);
    loaded_look(host, view);
}

void lj_cuda_release(lj_cuda_view *view)
{
    json_decref(view->cards);
    json_decref(view->runtimes);
    json_decref(view->compat);
    *view = (lj_cuda_view){0};
}
