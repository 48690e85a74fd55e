/* Lists, comparison and release notes of manifests. */
#define _GNU_SOURCE
#include "host/image/image.h"
#include "host/manifest.h"

#include <stdlib.h>
#include <string.h>

void lj_image_list(const json_t *manifests, lj_text *out)
{
    size_t i;
    json_t *m;
    char tags[256];
    lj_text_add(out, "%-24s %-9s %-20s %-8s %s\n", "image", "version", "tags", "cards", "driver");
    json_array_foreach(manifests, i, m)
    {
        const char *minimum = lj_json_text_at(m, "requires.driver.minimum");
        lj_text_add(out, "%-24s %-9s %-20s %-8s %s%s\n", lj_json_text(m, "name"), lj_json_text(m, "version"),
                    lj_json_join(json_object_get(m, "tags"), 4, tags, sizeof tags), lj_json_text(m, "vendor"),
                    *minimum ? ">= " : "none", minimum);
    }
}

static void reference_add(const json_t *m, const char *form, const char *region, const char *label,
                          lj_text *out)
{
    char reference[1024];
    if (lj_manifest_reference(m, form, region, reference, sizeof reference) == LJ_OK)
        lj_text_add(out, "%s%s\n", label, reference);
}

static const char *branches_text(const json_t *m, char *out, size_t capacity)
{
    json_t *rows = lj_json_at(m, "requires.driver.compatibility.branches"), *row;
    size_t i, used = 0;
    *out = 0;
    json_array_foreach(rows, i, row) if (used < capacity) used +=
        (size_t)snprintf(out + used, capacity - used, "%s%s+ (R%.0f)", i ? ", " : "",
                         lj_json_text(row, "minimum"), lj_json_number(row, "branch", 0));
    return out;
}

static const char *refused_text(const json_t *m, char *out, size_t capacity)
{
    json_t *rows = lj_json_at(m, "requires.driver.compatibility.refused"), *row;
    size_t i, used = 0;
    *out = 0;
    json_array_foreach(rows, i, row) if (used < capacity) used += (size_t)snprintf(
        out + used, capacity - used, "%sR%lld", i ? ", " : "", (long long)json_integer_value(row));
    return out;
}

void lj_image_show(const json_t *m, lj_text *out)
{
    size_t i;
    json_t *row;
    char list[512];
    const char *minimum = lj_json_text_at(m, "requires.driver.minimum");
    lj_text_add(out, "%s:%s  %s\n\n", lj_json_text(m, "name"), lj_json_text(m, "tag"),
                lj_json_text_at(m, "summary.en"));
    lj_text_add(out, "system        %s %s\n", lj_json_text_at(m, "os.name"),
                lj_json_text_at(m, "os.version"));
    if (*lj_json_text_at(m, "requires.cuda"))
        lj_text_add(out, "CUDA          %s\n", lj_json_text_at(m, "requires.cuda"));
    if (*lj_json_text_at(m, "requires.sdk"))
        lj_text_add(out, "PPU SDK       %s\n", lj_json_text_at(m, "requires.sdk"));
    if (*minimum)
        lj_text_add(out, "driver        >= %s%s%s\n", minimum,
                    *lj_json_text_at(m, "requires.driver.advised") ? ", advised " : "",
                    lj_json_text_at(m, "requires.driver.advised"));
    if (*branches_text(m, list, sizeof list))
        lj_text_add(out, "              or on data-centre cards with the compatibility package: %s\n", list);
    if (*refused_text(m, list, sizeof list))
        lj_text_add(out, "              not forward compatible: %s\n", list);
    reference_add(m, "public", "", "public        ", out);
    reference_add(m, "vpc",
                  json_string_value(json_array_get(lj_json_at(m, "registry.regions"), 0))
                      ? json_string_value(json_array_get(lj_json_at(m, "registry.regions"), 0))
                      : "REGION",
                  "in a VPC      ", out);
    lj_text_add(out, "login         %s\n",
                json_is_true(lj_json_at(m, "registry.login")) ? "needed before the pull" : "not needed");
    lj_text_add(out, "products      %s",
                lj_json_join(lj_json_at(m, "products.supported"), 8, list, sizeof list));
    if (json_array_size(lj_json_at(m, "products.unsupported")))
        lj_text_add(out, "; not %s",
                    lj_json_join(lj_json_at(m, "products.unsupported"), 8, list, sizeof list));
    lj_text_add(out, "\nstart         shm %s, memlock %s, devices %s\n", lj_json_text_at(m, "run.shm_size"),
                lj_json_text_at(m, "run.ulimits.memlock"), lj_json_text_at(m, "run.devices"));
    json_array_foreach(json_object_get(m, "interfaces"), i, row)
    {
        lj_text_add(out, "interface     %s for", lj_json_text(row, "name"));
        size_t k;
        json_t *number;
        json_array_foreach(json_object_get(row, "cards"), k, number)
            lj_text_add(out, "%s %lld", k ? "," : "", (long long)json_integer_value(number));
        lj_text_add(out, " card(s)\n");
    }
    lj_text_add(out, "\ncomponents\n");
    json_array_foreach(json_object_get(m, "components"), i, row)
        lj_text_add(out, "  %-26s %-18s %s\n", lj_json_text(row, "name"), lj_json_text(row, "version"),
                    json_is_true(json_object_get(row, "patched")) ? "patched: do not reinstall" : "");
    if (json_array_size(json_object_get(m, "rules"))) lj_text_add(out, "\nrules\n");
    json_array_foreach(json_object_get(m, "rules"), i, row)
        lj_text_add(out, "  - %s\n", lj_json_text(row, "en"));
    lj_text_add(out, "\nsource        %s\n", lj_json_text(m, "source"));
}

/* --- diff --- */

static json_t *component_named(const json_t *m, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(m, "components"), i,
                       row) if (strcmp(lj_json_text(row, "name"), name) == 0) return row;
    return NULL;
}

static void component_diff(json_t *out, const char *name, const json_t *a, const json_t *b)
{
    const char *x = a ? lj_json_text(a, "version") : "", *y = b ? lj_json_text(b, "version") : "";
    if (a && b && strcmp(x, y) == 0) return;
    json_array_append_new(out, json_pack("{s:s, s:s, s:s?, s:s?}", "name", name, "change",
                                         !a   ? "added"
                                         : !b ? "removed"
                                              : "changed",
                                         "from", a ? x : NULL, "to", b ? y : NULL));
}

/* Leaves of two trees that differ, as "driver.minimum". */
static void leaves_diff(json_t *out, const char *path, const json_t *a, const json_t *b)
{
    const char *key;
    json_t *inner;
    char deeper[256];
    if (json_equal(a, b)) return;
    bool objects = (!a || json_is_object(a)) && (!b || json_is_object(b)) && (a || b);
    if (!objects) {
        json_array_append_new(out, json_pack("{s:s, s:O?, s:O?}", "name", path, "from", a, "to", b));
        return;
    }
    json_object_foreach((json_t *)a, key, inner)
    {
        lj_say(deeper, "%s%s%s", path, *path ? "." : "", key);
        leaves_diff(out, deeper, inner, json_object_get(b, key));
    }
    json_object_foreach((json_t *)b, key, inner)
    {
        if (json_object_get(a, key)) continue;
        lj_say(deeper, "%s%s%s", path, *path ? "." : "", key);
        leaves_diff(out, deeper, NULL, inner);
    }
}

json_t *lj_image_diff(const json_t *from, const json_t *to)
{
    json_t *components = json_array(), *requirements = json_array(), *row;
    static const char *const sections[] = {"os", "requires", "run", "registry"};
    size_t i;
    json_array_foreach(json_object_get(from, "components"), i, row) component_diff(
        components, lj_json_text(row, "name"), row, component_named(to, lj_json_text(row, "name")));
    json_array_foreach(json_object_get(to, "components"), i,
                       row) if (!component_named(from, lj_json_text(row, "name")))
        component_diff(components, lj_json_text(row, "name"), NULL, row);
    for (i = 0; i < sizeof sections / sizeof *sections; i++)
        leaves_diff(requirements, sections[i], json_object_get(from, sections[i]),
                    json_object_get(to, sections[i]));
    return json_pack("{s:{s:s, s:i}, s:o, s:o, s:o, s:o}", "schema", "name", "ljperf.image.diff", "version",
                     1, "from", json_sprintf("%s:%s", lj_json_text(from, "name"), lj_json_text(from, "tag")),
                     "to", json_sprintf("%s:%s", lj_json_text(to, "name"), lj_json_text(to, "tag")),
                     "components", components, "requirements", requirements);
}

static void value_add(lj_text *out, const json_t *value)
{
    char *text = value && !json_is_null(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    lj_text_add(out, "%s", text ? text : "-");
    free(text);
}

void lj_image_diff_print(const json_t *diff, lj_text *out)
{
    size_t i;
    json_t *row;
    lj_text_add(out, "%s -> %s: %zu component(s) and %zu requirement(s) differ\n", lj_json_text(diff, "from"),
                lj_json_text(diff, "to"), json_array_size(json_object_get(diff, "components")),
                json_array_size(json_object_get(diff, "requirements")));
    json_array_foreach(json_object_get(diff, "components"), i, row) lj_text_add(
        out, "  %-8s %-26s %s%s%s\n", lj_json_text(row, "change"), lj_json_text(row, "name"),
        lj_json_text(row, "from"), *lj_json_text(row, "from") && *lj_json_text(row, "to") ? " -> " : "",
        lj_json_text(row, "to"));
    json_array_foreach(json_object_get(diff, "requirements"), i, row)
    {
        lj_text_add(out, "  requires %-26s ", lj_json_text(row, "name"));
        value_add(out, json_object_get(row, "from"));
        lj_text_add(out, " -> ");
        value_add(out, json_object_get(row, "to"));
        lj_text_add(out, "\n");
    }
}

/* --- notes --- */

typedef struct {
    const char *title, *requirements, *os, *cuda, *sdk, *driver, *driver_compat, *driver_refused, *advised,
        *components, *component_head, *patched, *get, *public_form, *vpc_form, *login, *products,
        *not_products, *rules, *interfaces, *cards, *source;
} words;

static const words english = {"Release notes",
                              "Requirements",
                              "System",
                              "CUDA",
                              "PPU SDK",
                              "Driver",
                              "On data-centre cards also, through the compatibility package",
                              "Not forward compatible, must be upgraded",
                              "advised",
                              "Components",
                              "| component | version | remark |",
                              "patched, do not reinstall",
                              "Getting the image",
                              "Public registry",
                              "Inside a VPC",
                              "Log in to the registry first.",
                              "For",
                              "Not for",
                              "Rules",
                              "Network interface",
                              "card(s)",
                              "Source"};
static const words chinese = {"发布说明",
                              "环境要求",
                              "操作系统",
                              "CUDA",
                              "PPU SDK",
                              "驱动",
                              "数据中心卡亦可通过兼容包使用",
                              "不支持前向兼容、必须升级的驱动分支",
                              "推荐",
                              "组件",
                              "| 组件 | 版本 | 备注 |",
                              "已修改，请勿重新安装",
                              "获取镜像",
                              "公网地址",
                              "VPC 内网地址",
                              "拉取前请先登录镜像仓库。",
                              "适用产品",
                              "不适用",
                              "使用约束",
                              "通信网卡",
                              "卡",
                              "来源"};

static void notes_requirements(const json_t *m, const words *w, lj_text *out)
{
    char list[512];
    lj_text_add(out, "## %s\n\n- %s: %s %s\n", w->requirements, w->os, lj_json_text_at(m, "os.name"),
                lj_json_text_at(m, "os.version"));
    if (*lj_json_text_at(m, "requires.cuda"))
        lj_text_add(out, "- %s: %s\n", w->cuda, lj_json_text_at(m, "requires.cuda"));
    if (*lj_json_text_at(m, "requires.sdk"))
        lj_text_add(out, "- %s: %s\n", w->sdk, lj_json_text_at(m, "requires.sdk"));
    if (*lj_json_text_at(m, "requires.driver.minimum"))
        lj_text_add(out, "- %s: >= %s", w->driver, lj_json_text_at(m, "requires.driver.minimum"));
    if (*lj_json_text_at(m, "requires.driver.advised"))
        lj_text_add(out, " (%s %s)", lj_json_text_at(m, "requires.driver.advised"), w->advised);
    lj_text_add(out, "\n");
    if (*branches_text(m, list, sizeof list)) lj_text_add(out, "- %s: %s\n", w->driver_compat, list);
    if (*refused_text(m, list, sizeof list)) lj_text_add(out, "- %s: %s\n", w->driver_refused, list);
    lj_text_add(out, "- %s: %s\n", w->products,
                lj_json_join(lj_json_at(m, "products.supported"), 8, list, sizeof list));
    if (json_array_size(lj_json_at(m, "products.unsupported")))
        lj_text_add(out, "- %s: %s\n", w->not_products,
                    lj_json_join(lj_json_at(m, "products.unsupported"), 8, list, sizeof list));
}

static void notes_components(const json_t *m, const words *w, const char *language, lj_text *out)
{
    size_t i;
    json_t *row;
    lj_text_add(out, "\n## %s\n\n%s\n|---|---|---|\n", w->components, w->component_head);
    json_array_foreach(json_object_get(m, "components"), i, row)
    {
        const char *role = lj_json_text(json_object_get(row, "role"), language);
        lj_text_add(out, "| %s | %s | %s%s%s |\n", lj_json_text(row, "name"), lj_json_text(row, "version"),
                    role, json_is_true(json_object_get(row, "patched")) ? w->patched : "", "");
    }
}

static void notes_registry(const json_t *m, const words *w, lj_text *out)
{
    char reference[1024], list[256];
    lj_text_add(out, "\n## %s\n\n", w->get);
    if (json_is_true(lj_json_at(m, "registry.login"))) lj_text_add(out, "%s\n\n", w->login);
    if (lj_manifest_reference(m, "public", "", reference, sizeof reference) == LJ_OK)
        lj_text_add(out, "- %s: `%s`\n", w->public_form, reference);
    if (lj_manifest_reference(m, "vpc", "{region-id}", reference, sizeof reference) == LJ_OK)
        lj_text_add(out, "- %s: `%s` (%s)\n", w->vpc_form, reference,
                    lj_json_join(lj_json_at(m, "registry.regions"), 12, list, sizeof list));
}

static void notes_rules(const json_t *m, const words *w, const char *language, lj_text *out)
{
    size_t i, k;
    json_t *row, *number;
    lj_text_add(out, "\n## %s\n\n", w->rules);
    json_array_foreach(json_object_get(m, "rules"), i, row) lj_text_add(
        out, "- %s\n", *lj_json_text(row, language) ? lj_json_text(row, language) : lj_json_text(row, "en"));
    json_array_foreach(json_object_get(m, "interfaces"), i, row)
    {
        lj_text_add(out, "- %s: NCCL_SOCKET_IFNAME=%s (", w->interfaces, lj_json_text(row, "name"));
        json_array_foreach(json_object_get(row, "cards"), k, number)
            lj_text_add(out, "%s%lld", k ? "/" : "", (long long)json_integer_value(number));
        lj_text_add(out, " %s)\n", w->cards);
    }
}

static void notes_one(const json_t *m, const words *w, const char *language, lj_text *out)
{
    const char *summary = lj_json_text(json_object_get(m, "summary"), language);
    lj_text_add(out, "# %s %s: %s\n\n%s\n\n", lj_json_text(m, "name"), lj_json_text(m, "version"), w->title,
                *summary ? summary : lj_json_text_at(m, "summary.en"));
    notes_requirements(m, w, out);
    notes_components(m, w, language, out);
    notes_registry(m, w, out);
    notes_rules(m, w, language, out);
    lj_text_add(out, "\n%s: %s\n", w->source, lj_json_text(m, "source"));
}

void lj_image_notes(const json_t *manifest, const char *language, lj_text *out)
{
    if (strcmp(language, "zh") != 0) notes_one(manifest, &english, "en", out);
    if (strcmp(language, "both") == 0) lj_text_add(out, "\n---\n\n");
    if (strcmp(language, "en") != 0) notes_one(manifest, &chinese, "zh", out);
}
