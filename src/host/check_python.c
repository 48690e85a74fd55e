/* Python packages: patched ones replaced, ones that do not fit each other, files that are not those of their
 * RECORD. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "host/check.h"
#include "host/patched.h"
#include "host/python.h"
#include "host/version.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

lj_verdict lj_patched_judge(const json_t *component, const json_t *package, lj_finding *f)
{
    const char *wanted = lj_json_text(component, "version"), *name = lj_json_text(component, "name"),
               *got = package ? lj_json_text(package, "version") : "";
    const char *suffix = lj_version_suffix(wanted);
    bool patched = json_is_true(json_object_get(component, "patched"));
    lj_say(f->part, "%s", name);
    lj_say(f->wanted, "%s %s%s", name, wanted, patched ? " (patched: must not be reinstalled)" : "");
    lj_say(f->source, "%s; the image's manifest",
           package ? lj_json_text(package, "folder") : "no dist-info folder");
    if (!package) {
        lj_say(f->found, "%s is not installed", name);
        lj_say(f->next_step, "start from the image again, or check that this is the image's Python");
        return f->verdict = patched ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN;
    }
    lj_say(f->found, "%s %s%s%s", name, got, *lj_json_text(package, "installer") ? ", installed by " : "",
           lj_json_text(package, "installer"));
    if (strcmp(got, wanted) == 0) return f->verdict = LJ_VERDICT_OK;
    bool lost = *suffix && !*lj_version_suffix(got);
    if (patched) {
        lj_say(f->next_step,
               lost ? "the patched build was replaced by a public one (suffix +%s is gone): start from the "
                      "image again and install with --no-deps or with %s==%s in a constraints file"
                    : "the image's build (+%s) was replaced: start from the image again and install with "
                      "--no-deps or with %s==%s in a constraints file",
               *suffix ? suffix : "own", name, wanted);
        return f->verdict = LJ_VERDICT_FAIL;
    }
    lj_say(
        f->next_step,
        "another version than the image was tested with; go back with pip install %s==%s if something breaks",
        name, wanted);
    return f->verdict = LJ_VERDICT_WARN;
}

void lj_check_patched_packages(lj_host *host, lj_findings *out)
{
    json_t *components = json_object_get(host->manifest, "components"), *component, *packages;
    size_t i, good = 0;
    if (!components) {
        lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "no image named (--image NAME:TAG)");
        return;
    }
    packages = lj_python_packages(host);
    if (json_array_size(packages) == 0) {
        lj_finding *f = lj_find(out, LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "no Python packages in the view");
        json_decref(packages);
        return;
    }
    bool any = false;
    json_array_foreach(components, i, component) any |=
        strcmp(lj_json_text(component, "kind"), "python") == 0 &&
        lj_python_find(packages, lj_json_text(component, "name"));
    json_array_foreach(components, i, component)
    {
        lj_finding f = {0};
        json_t *package = lj_python_find(packages, lj_json_text(component, "name"));
        if (strcmp(lj_json_text(component, "kind"), "python") != 0 || (!package && !any)) continue;
        if (lj_patched_judge(component, package, &f) == LJ_VERDICT_OK)
            good++;
        else
            *lj_find(out, f.verdict) = f;
    }
    if (!out->count) {
        lj_finding *f = lj_find(out, any ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found,
               any ? "%zu packages as the image has them"
                   : "none of the image's packages is in the view (not the image's tree)",
               good);
        lj_say(f->source, "dist-info folders; the image's manifest");
    }
    json_decref(packages);
}

/* --- requirements: "torch (==2.5.1) ; python_version < '3.13'" --- */

typedef struct {
    char name[128], specifiers[256], marker[256];
} requirement;

static void requirement_read(const char *text, requirement *r)
{
    *r = (requirement){0};
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || (text[length] && strchr("-_.", text[length]))) length++;
    lj_say(r->name, "%.*s", (int)length, text);
    text += length + strspn(text + length, " ");
    if (*text == '[') text += strcspn(text, "]") + 1;
    size_t stop = strcspn(text, ";");
    lj_say(r->specifiers, "%.*s", (int)stop, text);
    if (text[stop]) lj_say(r->marker, "%s", text + stop + 1);
    if (*r->specifiers == '@' || strchr(r->specifiers, '@')) *r->specifiers = 0;
}

/* Python of a site folder: ".../python3.12/site-packages" -> "3.12"; "" when the folder does not say
 * (Debian's python3). */
static void site_python(const char *site, char *out, size_t capacity)
{
    const char *at = strstr(site, "/python3.");
    snprintf(out, capacity, "%.*s", at ? (int)strcspn(at + 7, "/") : 0, at ? at + 7 : "");
}

/* One comparison of a marker; unknown variables make the requirement count as not meant for us, so that
 * nothing is claimed without knowledge. */
static bool marker_part(const char *part, const char *python)
{
    char variable[64] = "", operation[8] = "", value[64] = "";
    if (sscanf(part, " %63[a-z_] %7[=!<>~in ] '%63[^']'", variable, operation, value) < 3 &&
        sscanf(part, " %63[a-z_] %7[=!<>~in ] \"%63[^\"]\"", variable, operation, value) < 3)
        return false;
    for (size_t n = strlen(operation); n && operation[n - 1] == ' ';) operation[--n] = 0;
    char specifier[96];
    lj_say(specifier, "%s%s", operation, value);
    if (strcmp(variable, "python_version") == 0 || strcmp(variable, "python_full_version") == 0)
        return *python && lj_python_version_allows(specifier, python);
    const struct {
        const char *name, *ours;
    } facts[] = {{"sys_platform", "linux"},          {"platform_system", "Linux"},
                 {"platform_machine", "x86_64"},     {"os_name", "posix"},
                 {"implementation_name", "cpython"}, {"platform_python_implementation", "CPython"}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(variable, facts[i].name) == 0)
            return (strcmp(facts[i].ours, value) == 0) == (operation[0] == '=');
    return false;
}

/* "a and b and c"; a marker with "or" or brackets holds only when it has no extra and its first part does:
 * left out as unknown. */
static bool marker_holds(const char *marker, const char *python)
{
    char copy[256];
    if (!*marker) return true;
    if (strstr(marker, "extra") || strstr(marker, " or ") || strchr(marker, '(')) return false;
    lj_say(copy, "%s", marker);
    for (char *at = copy; at;) {
        char *next = strstr(at, " and ");
        if (next) *next = 0, next += 5;
        if (!marker_part(at, python)) return false;
        at = next;
    }
    return true;
}

static json_t *find_beside(const json_t *packages, const char *site, const char *name)
{
    char wanted[256];
    size_t i;
    json_t *package, *anywhere = NULL;
    lj_python_normalise(name, wanted, sizeof wanted);
    json_array_foreach(packages, i, package)
    {
        if (strcmp(lj_json_text(package, "name"), wanted) != 0) continue;
        if (strcmp(lj_json_text(package, "site"), site) == 0) return package;
        anywhere = package;
    }
    return anywhere;
}

/* Packages whose mismatch stops programs from starting; in others a mismatch is a warning. */
static bool is_binary_stack(const char *name)
{
    static const char *const names[] = {
        "torch",      "torchvision", "torchaudio",         "triton",     "numpy",
        "nvidia-",    "flash-attn",  "xformers",           "vllm",       "transformers",
        "deepspeed",  "tokenizers",  "huggingface-hub",    "flashinfer", "jaxlib",
        "tensorflow", "megatron",    "transformer-engine", "sgl-kernel", "bitsandbytes"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
    return false;
}

static void requirement_judge(lj_findings *out, const json_t *packages, const json_t *package,
                              const char *text, const char *python)
{
    requirement r;
    requirement_read(text, &r);
    if (!*r.name || !marker_holds(r.marker, python)) return;
    json_t *other = find_beside(packages, lj_json_text(package, "site"), r.name);
    const char *name = lj_json_text(package, "name");
    if (other && lj_python_version_allows(r.specifiers, lj_json_text(other, "version"))) return;
    char normal[128];
    lj_python_normalise(r.name, normal, sizeof normal);
    bool serious = is_binary_stack(normal) && is_binary_stack(name);
    if (!other && !serious)
        return; /* a missing leaf package shows at import, as a rule it is optional in images */
    lj_finding *f = lj_find(out, serious && other ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN);
    lj_say(f->part, "%s", name);
    if (other)
        lj_say(f->found, "%s %s needs %s%s%s, installed is %s", name, lj_json_text(package, "version"),
               normal, *r.specifiers ? " " : "", r.specifiers, lj_json_text(other, "version"));
    else
        lj_say(f->found, "%s %s needs %s %s, which is not installed", name, lj_json_text(package, "version"),
               normal, r.specifiers);
    lj_say(f->wanted, "%s %s", normal, r.specifiers);
    lj_say(f->source, "%s/METADATA, Requires-Dist", lj_json_text(package, "folder"));
    lj_say(f->next_step, "install the two versions that belong together (pip check lists all), or keep the "
                         "image's and install the other with --no-deps");
}

static void duplicates_judge(lj_findings *out, const json_t *packages)
{
    size_t i, k;
    json_t *a, *b;
    json_array_foreach(packages, i, a) for (k = i + 1; k < json_array_size(packages); k++)
    {
        b = json_array_get(packages, k);
        if (strcmp(lj_json_text(a, "name"), lj_json_text(b, "name")) != 0 ||
            strcmp(lj_json_text(a, "site"), lj_json_text(b, "site")) != 0)
            continue;
        lj_finding *f = lj_find(out, LJ_VERDICT_FAIL);
        lj_say(f->part, "%s", lj_json_text(a, "name"));
        lj_say(f->found, "%s is installed twice in %s: %s and %s", lj_json_text(a, "name"),
               lj_json_text(a, "site"), lj_json_text(a, "version"), lj_json_text(b, "version"));
        lj_say(f->wanted, "one version");
        lj_say(f->source, "dist-info folders");
        lj_say(f->next_step, "pip uninstall %s until none is left, then install the wanted one",
               lj_json_text(a, "name"));
    }
}

/* One package in two sites of the same Python: the first on sys.path hides the other (user folders and
 * /usr/local go first). */
static void shadows_judge(lj_findings *out, const json_t *packages)
{
    size_t i, k;
    json_t *a, *b;
    json_array_foreach(packages, i, a) for (k = i + 1; k < json_array_size(packages); k++)
    {
        b = json_array_get(packages, k);
        const char *x = lj_json_text(a, "site"), *y = lj_json_text(b, "site");
        bool user = strstr(x, "/.local/") || strstr(y, "/.local/");
        if (!user || strcmp(x, y) == 0 || strcmp(lj_json_text(a, "name"), lj_json_text(b, "name")) != 0 ||
            strcmp(lj_json_text(a, "version"), lj_json_text(b, "version")) == 0)
            continue;
        if (!is_binary_stack(lj_json_text(a, "name"))) continue;
        const json_t *first = strstr(x, "/.local/") ? a : b, *hidden = first == a ? b : a;
        lj_finding *f = lj_find(out, LJ_VERDICT_WARN);
        lj_say(f->part, "%s", lj_json_text(a, "name"));
        lj_say(f->found, "%s %s in %s hides %s in %s", lj_json_text(first, "name"),
               lj_json_text(first, "version"), lj_json_text(first, "site"), lj_json_text(hidden, "version"),
               lj_json_text(hidden, "site"));
        lj_say(f->wanted, "one version");
        lj_say(f->source, "dist-info folders");
        lj_say(f->next_step, "PYTHONNOUSERSITE=1, or remove the user's copy");
    }
}

static void conflicts_judge(lj_host *host, lj_findings *out, const json_t *packages)
{
    json_t *rows = lj_json_at(lj_rules(host, "conflicts"), "rows"), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        json_t *a = lj_python_find(packages, lj_json_text(row, "package"));
        json_t *b = a ? find_beside(packages, lj_json_text(a, "site"), lj_json_text(row, "with")) : NULL;
        if (!b || !lj_python_version_allows(lj_json_text(row, "versions"), lj_json_text(a, "version")) ||
            !lj_python_version_allows(lj_json_text(row, "with_versions"), lj_json_text(b, "version")))
            continue;
        lj_finding *f = lj_find(out, strcmp(lj_json_text(row, "verdict"), "fail") == 0 ? LJ_VERDICT_FAIL
                                                                                       : LJ_VERDICT_WARN);
        lj_say(f->part, "%s", lj_json_text(a, "name"));
        lj_say(f->found, "%s %s and %s %s: %s", lj_json_text(a, "name"), lj_json_text(a, "version"),
               lj_json_text(b, "name"), lj_json_text(b, "version"), lj_json_text(row, "why"));
        lj_say(f->wanted, "%s", lj_json_text(row, "next"));
        lj_say(f->source, "dist-info folders; %s", lj_json_text(row, "source"));
        lj_say(f->next_step, "%s", lj_json_text(row, "next"));
    }
}

void lj_check_package_requirements(lj_host *host, lj_findings *out)
{
    json_t *packages = lj_python_packages(host), *package;
    size_t i;
    double deadline = lj_now_s() + lj_host_scan_seconds(host);
    bool cut = false;
    duplicates_judge(out, packages);
    shadows_judge(out, packages);
    conflicts_judge(host, out, packages);
    json_array_foreach(packages, i, package)
    {
        char python[16];
        const char *text;
        if ((cut = lj_now_s() > deadline)) break;
        lj_note(out, "%s", lj_json_text(package, "folder"));
        site_python(lj_json_text(package, "site"), python, sizeof python);
        for (size_t nth = 0; nth < 500 && (text = lj_python_metadata(host, package, "Requires-Dist", nth));
             nth++)
            if (out->count < 40) requirement_judge(out, packages, package, text, python);
        const char *needs = lj_python_metadata(host, package, "Requires-Python", 0);
        if (needs && *python && out->count < 40 && !lj_python_version_allows(needs, python)) {
            lj_finding *f = lj_find(out, LJ_VERDICT_WARN);
            lj_say(f->part, "%s", lj_json_text(package, "name"));
            lj_say(f->found, "%s %s needs Python %s, its folder is of Python %s",
                   lj_json_text(package, "name"), lj_json_text(package, "version"), needs, python);
            lj_say(f->wanted, "Python %s", needs);
            lj_say(f->source, "%s/METADATA, Requires-Python", lj_json_text(package, "folder"));
            lj_say(f->next_step, "install the version for this Python");
        }
    }
    json_t *versions = json_object();
    json_array_foreach(packages, i, package) if (is_binary_stack(lj_json_text(package, "name")))
        json_object_set(versions, lj_json_text(package, "name"), json_object_get(package, "version"));
    json_object_set_new(out->facts, "python_packages", versions);
    if (!out->count) {
        lj_finding *f = lj_find(out, json_array_size(packages) ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found, "%zu packages%s", json_array_size(packages),
               cut                         ? ", not all looked at: time ran out"
               : json_array_size(packages) ? ", all fit"
                                           : "");
        lj_say(f->source, "METADATA of dist-info folders");
    }
    json_decref(packages);
}

/* The distribution changes files after RECORD was written (stripped objects, moved scripts); dpkg --verify is
 * the tool there. */
static bool distribution_site(const char *site)
{
    return strncmp(site, "/usr/lib/python3", 16) == 0 || strncmp(site, "/usr/lib64/python3", 18) == 0;
}

void lj_check_package_files(lj_host *host, lj_findings *out)
{
    json_t *packages = lj_python_packages(host), *package,
           *components = json_object_get(host->manifest, "components"), *component;
    size_t i, listed = 0, checked = 0;
    double deadline = lj_now_s() + lj_host_scan_seconds(host);
    for (int pass = 0; pass < 2;
         pass++) /* the image's patched packages first, the rest while there is time */
        json_array_foreach(packages, i, package)
        {
            bool patched = false;
            size_t k;
            json_array_foreach(components, k, component) patched |=
                json_is_true(json_object_get(component, "patched")) &&
                lj_python_find(packages, lj_json_text(component, "name")) == package;
            if (patched != (pass == 0) || (!patched && distribution_site(lj_json_text(package, "site"))))
                continue;
            lj_record_result r;
            lj_note(out, "%s/RECORD", lj_json_text(package, "folder"));
            lj_python_check_record(host, package, deadline, &r);
            listed += r.listed, checked += r.checked;
            if ((!r.missing && !r.changed) || out->count > 30) continue;
            bool serious = r.changed || r.missing * 20 > r.listed || patched;
            lj_finding *f =
                lj_find(out, serious ? (patched ? LJ_VERDICT_FAIL : LJ_VERDICT_WARN) : LJ_VERDICT_OK);
            lj_say(f->part, "%s", lj_json_text(package, "name"));
            lj_say(f->found, "%s %s: %zu of %zu files changed, %zu missing; first: %s",
                   lj_json_text(package, "name"), lj_json_text(package, "version"), r.changed, r.checked,
                   r.missing, r.first);
            lj_say(f->wanted, "the files of its RECORD");
            lj_say(f->source, "%s/RECORD, sha256", lj_json_text(package, "folder"));
            if (serious)
                lj_say(f->next_step,
                       "another package or a hand wrote over it: install it again, or start from the image");
        }
    if (!out->count) {
        lj_finding *f = lj_find(out, json_array_size(packages) ? LJ_VERDICT_OK : LJ_VERDICT_NOT_APPLICABLE);
        lj_say(f->found,
               checked == listed
                   ? "%zu files as recorded"
                   : "%zu of %zu files looked at (time ran out; ljperf image lint does all), all as recorded",
               checked, listed);
        lj_say(f->source, "RECORD of dist-info folders");
    }
    json_decref(packages);
}
