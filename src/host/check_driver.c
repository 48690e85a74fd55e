/* The driver against what the job needs: an image's stated branches when there is a manifest, else the
 * general tables of data/rules/nvidia.yaml. The compatibility package helps only where the driver is too old
 * and the cards are data-centre ones. */
#include "host/check.h"
#include "host/cuda.h"
#include "host/pattern.h"
#include "host/version.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    lj_host *host;
    const lj_cuda_view *view;
    lj_finding *out;
    bool compat;           /* a compatibility package is in the view */
    char compat_text[256]; /* "compatibility package 570.86.10 in /usr/local/cuda-12.8/compat" */
} judge;

static const char *class_text(const lj_cuda_view *view)
{
    static const char *const texts[] = {"unknown cards", "consumer cards", "workstation cards",
                                        "data-centre cards"};
    return texts[view->card_class];
}

static void say(judge *j, lj_verdict verdict, const char *next)
{
    j->out->verdict = verdict;
    lj_say(j->out->next_step, "%s", next);
}

/* The end of every path where only the package could help. `accepted`: the branch is one that the package
 * supports. */
static void judge_package(judge *j, const char *minimum)
{
    const lj_cuda_view *v = j->view;
    char next[512];
    if (v->card_class == LJ_CARDS_CONSUMER) {
        lj_say(next,
               j->compat ? "update the driver to %s: the compatibility package needs data-centre cards, on "
                           "%s it ends in error 804"
                         : "update the driver to %s: the compatibility package is no way out on %s",
               minimum, *v->first_card ? v->first_card : "consumer cards");
        say(j, LJ_VERDICT_FAIL, next);
    } else if (!j->compat) {
        lj_say(next,
               "update the driver to %s, or install the compatibility package of the runtime "
               "(cuda-compat-%d-%ld); none found",
               minimum, lj_version_major(v->runtime),
               strtol(strchr(v->runtime, '.') ? strchr(v->runtime, '.') + 1 : "0", NULL, 10));
        say(j, LJ_VERDICT_FAIL, next);
    } else if (v->card_class == LJ_CARDS_DATA_CENTRE) {
        say(j, LJ_VERDICT_OK, "");
        lj_say(j->out->wanted, "%s",
               "use the compatibility package: the driver is older than the runtime asks, its branch and the "
               "cards allow it");
    } else {
        lj_say(next,
               "update the driver to %s; the compatibility package works on data-centre cards, and these are "
               "%s (%s)",
               minimum, class_text(v), *v->first_card ? v->first_card : "no name found");
        say(j, LJ_VERDICT_WARN, next);
    }
}

/* Row of a list of {branch, minimum} for a driver; NULL: not in the list. */
static json_t *branch_row(json_t *list, int branch)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) if ((int)lj_json_number(row, "branch", 0) == branch) return row;
    return NULL;
}

static bool branch_refused(const json_t *list, int branch)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) if (json_integer_value(item) == branch) return true;
    return false;
}

/* Greatest row at or below the version; NULL when the version is older than all. */
static json_t *row_at_or_below(json_t *rows, const char *version)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i,
                       row) if (lj_version_compare(version, lj_json_text(row, "cuda")) >= 0) return row;
    return NULL;
}

static json_t *general_branches(const judge *j)
{
    json_t *rows = lj_json_at(lj_rules(j->host, "nvidia"), "compatibility_package"), *row;
    size_t i;
    json_array_foreach(rows, i,
                       row) if (lj_version_major(lj_json_text(row, "cuda")) ==
                                lj_version_major(j->view->runtime)) return json_object_get(row, "branches");
    return NULL;
}

/* A branch that the manifest puts in no list and that is below its minimum: the notes decide; what CUDA's
 * general tables would say is told. */
static void judge_unlisted(judge *j, int branch, const char *minimum)
{
    const lj_cuda_view *v = j->view;
    json_t *native = row_at_or_below(lj_json_at(lj_rules(j->host, "nvidia"), "runtimes"), v->runtime),
           *row = branch_row(general_branches(j), branch);
    char next[512], general[160] = "";
    if (native && lj_version_compare(v->driver, lj_json_text(native, "driver")) >= 0)
        lj_say(general, " (CUDA %s itself would take %s; the image's notes do not)",
               lj_json_text(native, "cuda"), lj_json_text(native, "driver"));
    else if (row)
        lj_say(general,
               " (CUDA's general table knows a compatibility package for R%d; the image's notes do not)",
               branch);
    lj_say(next,
           "update the driver to %s: R%d stands neither among the accepted branches nor is it new enough%s",
           minimum, branch, general);
    say(j, LJ_VERDICT_FAIL, next);
}

static void judge_by_manifest(judge *j)
{
    const lj_cuda_view *v = j->view;
    json_t *requires = json_object_get(j->host->manifest, "requires"),
           *accepted = lj_json_at(requires, "driver.compatibility.branches");
    const char *minimum = lj_json_text_at(requires, "driver.minimum");
    int branch = lj_version_major(v->driver);
    json_t *row = branch_row(accepted, branch);
    bool refused = branch_refused(lj_json_at(requires, "driver.compatibility.refused"), branch);
    char next[768], list[128] = "";
    lj_say(j->out->wanted,
           "driver >= %s, or on data-centre cards a listed branch with the compatibility package", minimum);
    if (row) lj_say(list, "R%d from %s on is listed", branch, lj_json_text(row, "minimum"));
    if (lj_version_compare(v->driver, minimum) >= 0) {
        say(j, LJ_VERDICT_OK, "");
        lj_say(j->out->wanted, "driver >= %s (the compatibility package is to be skipped)", minimum);
        return;
    }
    bool enough = row && lj_version_compare(v->driver, lj_json_text(row, "minimum")) >= 0;
    if (row && !enough) {
        lj_say(next, "update the driver to %s, or within R%d to %s or later", minimum, branch,
               lj_json_text(row, "minimum"));
        say(j, LJ_VERDICT_FAIL, next);
    } else if (row && refused) {
        judge_package(j, minimum);
        if (j->out->verdict == LJ_VERDICT_FAIL) return;
        lj_say(next,
               "two statements of the image's notes contradict each other: '%s' and 'R%d is not forward "
               "compatible and must upgrade'; update the driver to %s to be safe",
               list, branch, minimum);
        say(j, LJ_VERDICT_WARN, next);
        lj_say(j->out->wanted,
               "driver >= %s; the notes list R%d both as accepted (from %s) and as not forward compatible",
               minimum, branch, lj_json_text(row, "minimum"));
    } else if (row) {
        judge_package(j, minimum);
    } else if (refused) {
        lj_say(next, "update the driver to %s: R%d is not forward compatible with CUDA %s", minimum, branch,
               lj_json_text(requires, "cuda"));
        say(j, LJ_VERDICT_FAIL, next);
    } else {
        judge_unlisted(j, branch, minimum);
    }
}

static void judge_by_tables(judge *j)
{
    const lj_cuda_view *v = j->view;
    json_t *rules = lj_rules(j->host, "nvidia"),
           *native = row_at_or_below(json_object_get(rules, "runtimes"), v->runtime);
    json_t *minor = row_at_or_below(json_object_get(rules, "minor_compatibility"), v->runtime),
           *row = branch_row(general_branches(j), lj_version_major(v->driver));
    const char *minimum = native ? lj_json_text(native, "driver") : "410.48";
    bool same_major = minor && lj_version_major(lj_json_text(minor, "cuda")) == lj_version_major(v->runtime);
    const char *until = row ? lj_json_text(row, "until") : "";
    bool branch_ok = row && lj_version_compare(v->driver, lj_json_text(row, "minimum")) >= 0 &&
                     (!*until || lj_version_compare(v->runtime, until) <= 0);
    char next[512];
    lj_say(j->out->wanted, "driver >= %s for CUDA %s", minimum, v->runtime);
    if (lj_version_compare(v->driver, minimum) >= 0) {
        say(j, LJ_VERDICT_OK, "");
        lj_say(j->out->wanted, "driver >= %s for CUDA %s (the compatibility package is to be skipped)",
               minimum, v->runtime);
    } else if (j->compat && (branch_ok || v->card_class == LJ_CARDS_CONSUMER)) {
        judge_package(j, minimum);
    } else if (same_major && lj_version_compare(v->driver, lj_json_text(minor, "driver")) >= 0) {
        lj_say(next,
               "runs by minor version compatibility (driver >= %s for any CUDA %d), without what is new in "
               "%s; code that needs PTX compiled at load fails: update the driver to %s",
               lj_json_text(minor, "driver"), lj_version_major(v->runtime), v->runtime, minimum);
        say(j, LJ_VERDICT_WARN, next);
    } else if (branch_ok) {
        judge_package(j, minimum);
    } else {
        lj_say(next,
               "update the driver to %s: R%d cannot run CUDA %s, not even with the compatibility package",
               minimum, lj_version_major(v->driver), v->runtime);
        say(j, LJ_VERDICT_FAIL, next);
    }
}

static void say_source(judge *j)
{
    lj_host *host = j->host;
    const lj_cuda_view *v = j->view;
    const char *stated = host->manifest ? lj_json_text_at(host->manifest, "requires.driver.source")
                                        : lj_json_text_at(lj_rules(host, "nvidia"), "sources.runtimes");
    lj_say(j->out->source, "%s; runtime: %s; %s", v->driver_place,
           *v->runtime_place ? v->runtime_place : "none found", stated);
}

static void driver_missing(lj_host *host, lj_findings *out, const lj_cuda_view *v)
{
    const char *vendor = lj_json_text(host->manifest, "vendor");
    bool needed = v->hardware || strcmp(vendor, "nvidia") == 0;
    lj_finding *f = lj_find(out, needed ? LJ_VERDICT_FAIL : LJ_VERDICT_NOT_APPLICABLE);
    lj_say(f->found, "driver: not found (looked at %s)%s", v->looked_at,
           v->hardware ? ", though an NVIDIA card or its device files are there" : "");
    lj_say(f->source, "%s", v->looked_at);
    if (!needed) return;
    const char *minimum = lj_json_text_at(host->manifest, "requires.driver.minimum");
    lj_say(f->wanted, *minimum ? "driver >= %s" : "a loaded NVIDIA driver%s", *minimum ? minimum : "");
    bool module = lj_host_exists(host, "/usr/src/nvidia") || lj_host_exists(host, "/var/lib/dkms/nvidia");
    lj_say(f->next_step, "%s",
           module ? "the module's sources are here but it is not loaded: install the headers of the running "
                    "kernel, dkms autoinstall, modprobe nvidia"
                  : "load the driver (modprobe nvidia), or start the container with the NVIDIA runtime so "
                    "that /proc/driver/nvidia is visible");
}

static void judge_driver(lj_host *host, lj_findings *out, const lj_cuda_view *v)
{
    judge j = {host, v, lj_find(out, LJ_VERDICT_OK), json_array_size(v->compat) > 0, ""};
    json_t *package = json_array_get(v->compat, 0);
    if (package)
        lj_say(j.compat_text, ", compatibility package %s in %s", lj_json_text(package, "version"),
               lj_json_text(package, "folder"));
    lj_say(j.out->found, "driver %s, %s%s%s, CUDA runtime %s%s", v->driver,
           *v->first_card ? v->first_card : "", *v->first_card ? ", " : "", class_text(v),
           *v->runtime ? v->runtime : "not found",
           *j.compat_text ? j.compat_text : ", no compatibility package");
    if (host->manifest && strcmp(lj_json_text(host->manifest, "vendor"), "nvidia") == 0)
        judge_by_manifest(&j);
    else if (*v->runtime)
        judge_by_tables(&j);
    else
        lj_say(j.out->wanted, "any driver (no CUDA runtime in the view to compare with; give --image)");
    say_source(&j);
}

/* Is there code for this card in the runtime, and does the driver know it? */
static void judge_architecture(lj_host *host, lj_findings *out, const lj_cuda_view *v)
{
    json_t *table = lj_json_at(lj_rules(host, "gpus"), "architectures"),
           *rows = json_object_get(table, "rows"), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (!*v->first_card || !lj_host_pattern_find(lj_json_text(row, "pattern"), v->first_card, NULL, 0))
            continue;
        const char *from = lj_json_text(row, "cuda"), *dropped = lj_json_text(row, "dropped"),
                   *driver = lj_json_text(row, "driver");
        bool early = *v->runtime && lj_version_compare(v->runtime, from) < 0,
             late = *v->runtime && *dropped && lj_version_compare(v->runtime, dropped) >= 0;
        bool old = *v->driver && lj_version_compare(v->driver, driver) < 0;
        if (!early && !late && !old) return;
        lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
        lj_say(f->part, "card");
        lj_say(f->found,
               old ? "%s is %s, which driver %s does not know"
                   : "%s is %s, for which CUDA %s has no code ('no kernel image', 'not compatible with the "
                     "current PyTorch installation')",
               v->first_card, lj_json_text(row, "name"), old ? v->driver : v->runtime);
        lj_say(f->wanted, "driver >= %s, CUDA >= %s%s%s", driver, from, *dropped ? " and below " : "",
               dropped);
        lj_say(f->source, "%s; %s; %s", v->driver_place, v->runtime_place, lj_json_text(table, "source"));
        lj_say(f->next_step,
               old    ? "update the driver to %s or later"
               : late ? "use an image of a CUDA below %s"
                      : "use an image (or a torch build) of CUDA %s or later",
               old    ? driver
               : late ? dropped
                      : from);
        return;
    }
}

void lj_check_driver(lj_host *host, lj_findings *out)
{
    lj_cuda_view view;
    lj_note(out, "driver files, card names and CUDA runtimes");
    lj_cuda_look(host, &view);
    json_object_set_new(out->facts, "nvidia_driver", json_string(view.driver));
    json_object_set(out->facts, "nvidia_cards", view.cards);
    json_object_set_new(out->facts, "cuda_runtime", json_string(view.runtime));
    json_object_set(out->facts, "cuda_runtime_libraries", view.runtimes);
    json_object_set(out->facts, "cuda_compatibility_packages", view.compat);
    if (*view.driver) judge_architecture(host, out, &view);
    if (*view.driver)
        judge_driver(host, out, &view);
    else
        driver_missing(host, out, &view);
    lj_cuda_release(&view);
}

/* --- which libcuda.so.1 --- */

static void order_pinned(lj_host *host, lj_findings *out)
{
    size_t i;
    json_t *conf = lj_loader_conf(host), *row;
    json_array_foreach(conf, i, row)
    {
        const char *folder = lj_json_text(row, "folder");
        if (!strstr(folder, "compat")) continue;
        bool image = !lj_host_live(host) && !lj_host_exists(host, "/proc/driver/nvidia/version");
        lj_finding *f = lj_find(out, image ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN);
        lj_say(f->part, "%s", "pinned");
        lj_say(f->found, "%s puts %s on the loader's path for every driver", lj_json_text(row, "file"),
               folder);
        lj_say(f->wanted, "no compatibility folder in the loader's configuration or cache");
        lj_say(f->source, "%s; %s", lj_json_text(row, "file"),
               lj_json_text_at(lj_rules(host, "nvidia"), "sources.order"));
        lj_say(f->next_step, "remove the line and run ldconfig; let the container runtime choose (or set "
                             "LD_LIBRARY_PATH at start when the driver is older)");
    }
    json_decref(conf);
}

static void order_cache_pinned(lj_host *host, lj_findings *out)
{
    size_t i;
    json_t *cache = lj_loader_cache(host), *row;
    if (out->count) { /* the configuration already told */
        json_decref(cache);
        return;
    }
    json_array_foreach(cache, i, row)
    {
        if (strcmp(lj_json_text(row, "soname"), "libcuda.so.1") != 0 ||
            !strstr(lj_json_text(row, "path"), "compat"))
            continue;
        lj_finding *f = lj_find(out, lj_host_exists(host, "/proc/driver/nvidia/version") ? LJ_VERDICT_WARN
                                                                                         : LJ_VERDICT_FAIL);
        lj_say(f->part, "%s", "pinned");
        lj_say(f->found, "/etc/ld.so.cache leads libcuda.so.1 to %s", lj_json_text(row, "path"));
        lj_say(f->wanted, "no compatibility folder in the loader's configuration or cache");
        lj_say(f->source, "/etc/ld.so.cache; %s", lj_json_text_at(lj_rules(host, "nvidia"), "sources.order"));
        lj_say(f->next_step, "run ldconfig without the compatibility folder: a container runtime that "
                             "rebuilds the cache flips the order");
        break;
    }
    json_decref(cache);
}

/* Error 803: the loaded user-space driver is older than the kernel module. Error 804: the package on cards
 * that it does not support. */
static void order_judge_compat(lj_finding *f, const lj_cuda_view *v)
{
    bool known = *v->loaded_version != 0;
    int order = known ? lj_version_compare(v->loaded_version, v->driver) : 1;
    if (order < 0) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->wanted,
               "the driver's own libcuda.so.1 (%s): the compatibility package is older and must be skipped",
               v->driver);
        lj_say(f->next_step,
               "take %s out of %s: CUDA would end in error 803 (system has unsupported display driver / cuda "
               "driver combination)",
               v->loaded.path, v->loaded.why);
    } else if (v->card_class == LJ_CARDS_CONSUMER && order > 0) {
        f->verdict = LJ_VERDICT_FAIL;
        lj_say(f->wanted, "the driver's own libcuda.so.1: the compatibility package needs data-centre cards");
        lj_say(f->next_step, "take %s out of %s and update the driver: CUDA would end in error 804 on %s",
               v->loaded.path, v->loaded.why, v->first_card);
    } else {
        lj_say(f->wanted,
               order == 0 ? "either: both are %s" : "the compatibility package (newer than driver %s)",
               v->driver);
    }
}

static bool driver_old_for_runtime(lj_host *host, const lj_cuda_view *v)
{
    const char *minimum = lj_json_text_at(host->manifest, "requires.driver.minimum");
    json_t *native = row_at_or_below(lj_json_at(lj_rules(host, "nvidia"), "runtimes"), v->runtime);
    if (!*minimum && native) minimum = lj_json_text(native, "driver");
    return *v->runtime && *v->driver && *minimum && lj_version_compare(v->driver, minimum) < 0;
}

static void order_judge_driver_library(lj_host *host, lj_finding *f, const lj_cuda_view *v)
{
    json_t *package = json_array_get(v->compat, 0);
    lj_say(f->wanted, "the driver's own libcuda.so.1");
    if (!package || !driver_old_for_runtime(host, v) || v->card_class == LJ_CARDS_CONSUMER) return;
    f->verdict = LJ_VERDICT_WARN;
    if (v->loaded.pinned && lj_host_live(host)) f->verdict = LJ_VERDICT_FAIL;
    lj_say(f->wanted, "the compatibility package in %s first: driver %s is older than CUDA %s asks",
           lj_json_text(package, "folder"), v->driver, v->runtime);
    lj_say(f->next_step,
           "LD_LIBRARY_PATH=%s:$LD_LIBRARY_PATH, or a container runtime that does it "
           "(nvidia-container-toolkit's enable-cuda-compat hook)",
           lj_json_text(package, "folder"));
}

void lj_check_compat_order(lj_host *host, lj_findings *out)
{
    lj_cuda_view view;
    lj_note(out, "libcuda.so.1 along the loader's path");
    lj_cuda_look(host, &view);
    order_pinned(host, out);
    order_cache_pinned(host, out);
    json_object_set_new(out->facts, "libcuda", lj_json_string(view.loaded.final));
    json_object_set_new(out->facts, "libcuda_by", json_string(view.loaded.why));
    lj_finding *f = lj_find(out, LJ_VERDICT_OK);
    if (!*view.loaded.path) {
        f->verdict = LJ_VERDICT_NOT_APPLICABLE;
        lj_say(f->found, "no libcuda.so.1 on the loader's path%s",
               json_array_size(view.compat) ? " (a compatibility package lies outside it)" : "");
    } else {
        lj_say(f->found, "libcuda.so.1 -> %s (by %s), kernel module %s", view.loaded.final, view.loaded.why,
               *view.driver ? view.driver : "not found");
        lj_say(f->source, "%s; %s", view.loaded.why,
               lj_json_text_at(lj_rules(host, "nvidia"), "sources.order"));
        if (view.loaded_is_compat && *view.driver)
            order_judge_compat(f, &view);
        else
            order_judge_driver_library(host, f, &view);
    }
    lj_cuda_release(&view);
}
