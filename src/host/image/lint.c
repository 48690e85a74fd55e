/* Trees of images: the checks that concern an image, without the doctor's haste. Archives are unpacked by tar
 * into a temporary folder. */
#define _GNU_SOURCE
#include "base/file.h"
#include "host/check.h"
#include "host/child.h"
#include "host/doctor.h"
#include "host/image/image.h"
#include "host/manifest.h"
#include "host/python.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double LINT_SECONDS = 240, LINT_TIMEOUT = 280;

/* --- archives --- */

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void folder_remove(const char *path)
{
    if (*path) nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
}

static lj_status tar_run(const char *const *argv, const char *what, lj_text *listing)
{
    lj_program_result result;
    lj_program_options options = {.timeout_s = 1800};
    LJ_TRY(lj_child_program_run(argv, &options, &result));
    lj_status status = result.code == 0 ? LJ_OK
                                        : lj_fail(LJ_ERR_FORMAT, "%s: tar cannot read it: %.300s", what,
                                                  result.errors.data ? result.errors.data : "");
    if (status == LJ_OK && listing && result.output.data)
        lj_text_add_bytes(listing, result.output.data, result.output.length);
    lj_program_release(&result);
    return status;
}

/* Deletes what a layer's whiteouts name (".wh.NAME", and ".wh..wh..opq" for a folder's whole content) before
 * the layer is unpacked. */
static void whiteouts_apply(const char *rootfs, lj_text *listing)
{
    char *save = NULL;
    for (char *line = listing->data ? strtok_r(listing->data, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *mark = strstr(line, ".wh."), path[LJ_PATH_BYTES], real[2 * LJ_PATH_BYTES];
        if (!mark || (mark > line && mark[-1] != '/')) continue;
        bool opaque = strcmp(mark, ".wh..wh..opq") == 0;
        lj_say(path, "/%.*s%s", (int)(mark - line), line, opaque ? "" : mark + 4);
        lj_host tree = {.root = rootfs};
        if (strstr(path, "..")) continue;
        lj_host_path(&tree, path, real, sizeof real);
        if (strlen(real) <= strlen(rootfs) + 1) continue;
        if (!opaque) {
            folder_remove(real);
            continue;
        }
        json_t *names = lj_host_list(&tree, path), *name;
        size_t i;
        json_array_foreach(names, i, name)
        {
            char inner[3 * LJ_PATH_BYTES];
            lj_say(inner, "%s/%s", real, json_string_value(name));
            folder_remove(inner);
        }
        json_decref(names);
    }
}

static lj_status layer_unpack(const char *layer, const char *rootfs)
{
    lj_text listing;
    lj_text_init(&listing);
    const char *list[] = {"tar", "-tf", layer, NULL};
    const char *unpack[] = {"tar",
                            "-xf",
                            layer,
                            "-C",
                            rootfs,
                            "--no-same-owner",
                            "--no-same-permissions",
                            "--exclude=.wh.*",
                            "--exclude=dev/*",
                            "--delay-directory-restore",
                            NULL};
    lj_status status = tar_run(list, layer, &listing);
    if (status == LJ_OK) whiteouts_apply(rootfs, &listing);
    if (status == LJ_OK) status = tar_run(unpack, layer, NULL);
    lj_text_release(&listing);
    return status;
}

static json_t *json_of(const char *folder, const char *name)
{
    char path[2 * LJ_PATH_BYTES];
    lj_say(path, "%s/%s", folder, name);
    return json_load_file(path, 0, NULL);
}

/* "sha256:abc" -> "blobs/sha256/abc"; NULL text when it is not of that form. */
static void blob_path(const char *digest, char *out, size_t capacity)
{
    const char *colon = strchr(digest, ':');
    *out = 0;
    if (colon && !strchr(digest, '/') && strspn(colon + 1, "0123456789abcdef") == strlen(colon + 1))
        snprintf(out, capacity, "blobs/%.*s/%s", (int)(colon - digest), digest, colon + 1);
}

/* Layers of an OCI layout: index.json -> manifest (through an index of platforms when there is one) ->
 * layers, and the config for its environment. */
static json_t *oci_layers(const char *folder, json_t **config)
{
    char path[LJ_PATH_BYTES];
    json_t *index = json_of(folder, "index.json"), *layers = json_array(), *layer;
    size_t i;
    for (int depth = 0; index && depth < 4; depth++) {
        json_t *first = json_array_get(json_object_get(index, "manifests"), 0), *next;
        if (!first) break;
        blob_path(lj_json_text(first, "digest"), path, sizeof path);
        next = json_of(folder, path);
        json_decref(index);
        index = next;
    }
    json_array_foreach(json_object_get(index, "layers"), i, layer)
    {
        blob_path(lj_json_text(layer, "digest"), path, sizeof path);
        lj_json_append_text(layers, path);
    }
    blob_path(lj_json_text_at(index, "config.digest"), path, sizeof path);
    *config = *path ? json_of(folder, path) : NULL;
    json_decref(index);
    return layers;
}

/* Layers of `docker save`: manifest.json [{Config, Layers}]. */
static json_t *docker_layers(const char *folder, json_t **config)
{
    json_t *manifest = json_of(folder, "manifest.json"), *first = json_array_get(manifest, 0),
           *layers = json_array(), *layer;
    size_t i;
    json_array_foreach(json_object_get(first, "Layers"), i,
                       layer) if (!strstr(json_string_value(layer), "..")) json_array_append(layers, layer);
    *config = *lj_json_text(first, "Config") && !strstr(lj_json_text(first, "Config"), "..")
                  ? json_of(folder, lj_json_text(first, "Config"))
                  : NULL;
    json_decref(manifest);
    return layers;
}

static lj_status layers_unpack(const char *folder, const json_t *layers, const json_t *config,
                               const char *target)
{
    char rootfs[LJ_PATH_BYTES], path[2 * LJ_PATH_BYTES];
    size_t i;
    json_t *layer;
    lj_say(rootfs, "%s/rootfs", target);
    LJ_TRY(lj_folder_create(rootfs, 0700));
    json_array_foreach(layers, i, layer)
    {
        lj_say(path, "%s/%s", folder, json_string_value(layer));
        LJ_TRY(layer_unpack(path, rootfs));
    }
    lj_say(path, "%s/config.json", target);
    if (config && json_dump_file(config, path, JSON_COMPACT) != 0)
        return lj_fail(LJ_ERR_IO, "write %s", path);
    return LJ_OK;
}

/* An unpacked archive or a folder: when it is an image layout its layers are put together in `target`, and
 * `root` becomes that. */
static lj_status layout_open(const char *folder, const char *target, char *root, size_t capacity)
{
    json_t *config = NULL;
    lj_host here = {.root = folder};
    bool oci = lj_host_exists(&here, "/index.json") && lj_host_exists(&here, "/oci-layout"),
         docker = !oci && lj_host_exists(&here, "/manifest.json") && !lj_host_is_folder(&here, "/usr");
    snprintf(root, capacity, "%s", folder);
    if (!oci && !docker) return LJ_OK;
    json_t *layers = oci ? oci_layers(folder, &config) : docker_layers(folder, &config);
    lj_status status = json_array_size(layers)
                           ? layers_unpack(folder, layers, config, target)
                           : lj_fail(LJ_ERR_FORMAT, "%s: an image layout without layers", folder);
    json_decref(layers);
    json_decref(config);
    snprintf(root, capacity, "%s", target);
    return status;
}

static lj_status tree_open(const char *tree, const char *work, char *root, size_t capacity)
{
    struct stat info;
    char archive[LJ_PATH_BYTES], target[LJ_PATH_BYTES];
    if (stat(tree, &info) != 0) return lj_fail_errno("open", tree);
    lj_say(archive, "%s/archive", work), lj_say(target, "%s/image", work);
    LJ_TRY(lj_folder_create(target, 0700));
    if (S_ISDIR(info.st_mode)) return layout_open(tree, target, root, capacity);
    LJ_TRY(lj_folder_create(archive, 0700));
    const char *unpack[] = {"tar",
                            "-xf",
                            tree,
                            "-C",
                            archive,
                            "--no-same-owner",
                            "--no-same-permissions",
                            "--exclude=dev/*",
                            "--delay-directory-restore",
                            NULL};
    LJ_TRY(tar_run(unpack, tree, NULL));
    return layout_open(archive, target, root, capacity);
}

/* --- which image --- */

/* The manifest that most of the installed packages belong to; its patched ones count double. */
static json_t *manifest_guess(const json_t *manifests, const json_t *packages)
{
    size_t i, k;
    json_t *m, *component, *best = NULL;
    int best_points = 1;
    json_array_foreach(manifests, i, m)
    {
        int points = 0;
        json_array_foreach(json_object_get(m, "components"), k, component)
        {
            json_t *package = lj_python_find(packages, lj_json_text(component, "name"));
            if (!package || strcmp(lj_json_text(component, "kind"), "python") != 0) continue;
            bool same = strcmp(lj_json_text(package, "version"), lj_json_text(component, "version")) == 0;
            points += same ? (json_is_true(json_object_get(component, "patched")) ? 4 : 2)
                           : json_is_true(json_object_get(component, "patched"));
        }
        if (points > best_points) best = m, best_points = points;
    }
    return best;
}

static lj_status manifest_for(lj_host *host, const char *data_dir, const char *image)
{
    json_t *manifests, *guess;
    if (*image) return lj_manifest_find(data_dir, image, &host->manifest);
    LJ_TRY(lj_manifests_load(data_dir, &manifests));
    lj_host view = *host;
    view.env = json_object();
    lj_host_load_env(&view);
    json_t *packages = lj_python_packages(&view);
    guess = manifest_guess(manifests, packages);
    if (guess) {
        host->manifest = json_incref(guess);
        json_object_set(guess, "tag", json_array_get(json_object_get(guess, "tags"), 0));
    }
    host->arena = view.arena;
    json_decref(view.env);
    json_decref(packages);
    json_decref(manifests);
    return LJ_OK;
}

static void head_add(json_t *report, const lj_host *host, const char *schema)
{
    json_object_set_new(report, "schema", json_pack("{s:s, s:i}", "name", schema, "version", 1));
    json_object_set_new(report, "root", lj_json_string(*host->root ? host->root : "/"));
    json_object_set_new(report, "image",
                        host->manifest ? json_sprintf("%s:%s", lj_json_text(host->manifest, "name"),
                                                      lj_json_text(host->manifest, "tag"))
                                       : json_null());
    json_object_set_new(report, "time_unix_s", json_integer((json_int_t)time(NULL)));
    lj_report_judge(report);
}

static const lj_check lint_checks[] = {
    {"patched_packages", "the image's patched packages are still the patched ones", lj_check_patched_packages,
     LINT_TIMEOUT, false, NULL, LJ_VERDICT_NOT_AVAILABLE},
    {"cuda_runtimes", "one CUDA runtime in the tree", lj_check_cuda_runtimes, LINT_TIMEOUT, false, NULL,
     LJ_VERDICT_NOT_AVAILABLE},
    {"compat_order", "no compatibility package pinned in the loader's configuration", lj_check_compat_order,
     LINT_TIMEOUT, false, NULL, LJ_VERDICT_NOT_AVAILABLE},
    {"needed_libraries", "libraries that binaries need against those that are there",
     lj_check_needed_libraries, LINT_TIMEOUT, false, NULL, LJ_VERDICT_NOT_AVAILABLE},
    {"symbol_versions", "GLIBC, GLIBCXX and CXXABI versions that binaries need", lj_check_symbol_versions,
     LINT_TIMEOUT, false, NULL, LJ_VERDICT_NOT_AVAILABLE},
    {"torch_symbols", "extensions were compiled for the torch that is there", lj_check_torch_symbols,
     LINT_TIMEOUT, false, NULL, LJ_VERDICT_NOT_AVAILABLE},
    {"package_requirements", "installed Python packages fit each other", lj_check_package_requirements,
     LINT_TIMEOUT, false, NULL, LJ_VERDICT_NOT_AVAILABLE},
    {"package_files", "files of Python packages are those of their RECORD", lj_check_package_files,
     LINT_TIMEOUT, false, NULL, LJ_VERDICT_NOT_AVAILABLE},
    {"image", "the image's own system", lj_check_image, LINT_TIMEOUT, false, NULL, LJ_VERDICT_NOT_AVAILABLE},
    {"environment", "variables that hurt", lj_check_environment, LINT_TIMEOUT, false, NULL,
     LJ_VERDICT_NOT_AVAILABLE},
};

static lj_status lint_root(const char *data_dir, const char *image, const char *root, json_t **report)
{
    lj_host host;
    json_t *result = NULL;
    lj_status status = lj_host_init(&host, root, data_dir);
    host.scan_seconds = LINT_SECONDS;
    if (status == LJ_OK) status = manifest_for(&host, data_dir, image);
    if (status == LJ_OK)
        status = lj_checks_run(&host, lint_checks, sizeof lint_checks / sizeof *lint_checks, &result);
    if (status == LJ_OK) {
        head_add(result, &host, "ljperf.image.lint");
        *report = result;
    }
    lj_host_release(&host);
    return status;
}

lj_status lj_image_lint(const char *data_dir, const char *image, const char *tree, json_t **report)
{
    const char *base = getenv("TMPDIR");
    char work[LJ_PATH_BYTES], root[LJ_PATH_BYTES];
    lj_say(work, "%s/ljperf-lint-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(work)) return lj_fail_errno("create", work);
    lj_status status = tree_open(tree, work, root, sizeof root);
    if (status == LJ_OK) status = lint_root(data_dir, image, root, report);
    if (status == LJ_OK) json_object_set_new(*report, "root", lj_json_string(tree));
    folder_remove(work);
    return status;
}

/* Rows of the doctor that tell whether an image fits a host or a tree. */
static bool concerns_image(const char *name)
{
    static const char *const names[] = {"driver",
                                        "ppu_driver",
                                        "amd_driver",
                                        "driver_libraries",
                                        "compat_order",
                                        "devices",
                                        "nvml",
                                        "cuda_start",
                                        "fabric_manager",
                                        "container_toolkit",
                                        "cuda_runtimes",
                                        "needed_libraries",
                                        "symbol_versions",
                                        "torch_symbols",
                                        "patched_packages",
                                        "package_requirements",
                                        "package_files",
                                        "image",
                                        "environment",
                                        "shared_memory",
                                        "process_limits"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

lj_status lj_image_check(const char *data_dir, const char *image, const char *root, json_t **report)
{
    lj_check rows[64];
    size_t count = 0;
    lj_host host;
    json_t *result = NULL;
    for (size_t i = 0; i < lj_check_count; i++)
        if (concerns_image(lj_checks[i].name)) rows[count++] = lj_checks[i];
    lj_status status = lj_host_init(&host, root, data_dir);
    if (status == LJ_OK) status = lj_manifest_find(data_dir, image, &host.manifest);
    if (status == LJ_OK) status = lj_checks_run(&host, rows, count, &result);
    if (status == LJ_OK) {
        head_add(result, &host, "ljperf.image.check");
        *report = result;
    }
    lj_host_release(&host);
    return status;
}
