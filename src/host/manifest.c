#define _GNU_SOURCE
#include "host/manifest.h"

#include "host/host.h"
#include "host/schema.h"
#include "host/version.h"
#include "host/yaml.h"

#include <string.h>

static lj_status manifest_read(const char *data_dir, const char *path, json_t **manifest)
{
    char schema_path[LJ_PATH_BYTES];
    json_t *document, *schema;
    LJ_TRY(lj_data_path(data_dir, "schemas/image.schema.json", schema_path, sizeof schema_path));
    LJ_TRY(lj_yaml_load(path, &document));
    json_error_t error;
    schema = json_load_file(schema_path, 0, &error);
    lj_status status = schema
                           ? lj_schema_check(schema, document)
                           : lj_fail(LJ_ERR_FORMAT, "%s: line %d: %s", schema_path, error.line, error.text);
    json_decref(schema);
    if (status == LJ_OK)
        *manifest = document;
    else
        json_decref(document);
    return lj_fail_in(status, "%s", path);
}

lj_status lj_manifests_load(const char *data_dir, json_t **manifests)
{
    json_t *paths = lj_data_list(data_dir, "images"), *all = json_array(), *path, *one;
    lj_status status = LJ_OK;
    size_t i;
    json_array_foreach(paths, i, path)
    {
        status = manifest_read(data_dir, json_string_value(path), &one);
        if (status != LJ_OK) break;
        json_array_append_new(all, one);
    }
    json_decref(paths);
    if (status == LJ_OK)
        *manifests = all;
    else
        json_decref(all);
    return status;
}

/* "registry/path/name:tag@digest" -> name and tag. */
static void reference_split(const char *image, char *name, size_t name_bytes, char *tag, size_t tag_bytes)
{
    const char *last = strrchr(image, '/'), *at;
    last = last ? last + 1 : image;
    size_t length = strcspn(last, "@");
    at = memchr(last, ':', length);
    snprintf(name, name_bytes, "%.*s", (int)(at ? (size_t)(at - last) : length), last);
    snprintf(tag, tag_bytes, "%.*s", at ? (int)(length - (size_t)(at - last) - 1) : 0, at ? at + 1 : "");
}

static bool fits(const json_t *manifest, const char *name, const char *tag)
{
    const char *own = lj_json_text(manifest, "name"), *version = lj_json_text(manifest, "version");
    json_t *tags = json_object_get(manifest, "tags");
    bool tag_fits = !*tag || strcmp(tag, version) == 0 || lj_json_holds(tags, tag) ||
                    (strncmp(tag, version, strlen(version)) == 0 && tag[strlen(version)] == '-');
    if (strcmp(name, own) == 0) return tag_fits;
    return !*tag && (strcmp(name, version) == 0 || lj_json_holds(tags, name)); /* a tag alone */
}

static lj_status unknown(const json_t *manifests, const char *image, const char *name)
{
    const char *names[64];
    char list[512] = "";
    size_t i, count = 0, used = 0;
    json_t *one;
    json_array_foreach(manifests, i, one)
    {
        if (count == 64) break;
        names[count++] = lj_json_text(one, "name");
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s:%s", i ? ", " : "",
                                     lj_json_text(one, "name"),
                                     json_string_value(json_array_get(json_object_get(one, "tags"), 0)));
    }
    const char *near = lj_nearest_name(name, names, count);
    return lj_fail(
        LJ_ERR_NOT_FOUND,
        "no manifest of image '%s'%s%s%s; known: %s; add your own as images/NAME.yaml of --data-dir", image,
        near && strcmp(near, name) ? "; did you mean " : "", near && strcmp(near, name) ? near : "",
        near && strcmp(near, name) ? "?" : "", list);
}

static void tag_set(json_t *manifest, const char *tag, const char *name)
{
    json_t *tags = json_object_get(manifest, "tags");
    const char *first = json_string_value(json_array_get(tags, 0));
    const char *asked = lj_json_holds(tags, tag)                                      ? tag
                        : lj_json_holds(tags, name)                                   ? name
                        : *tag && strcmp(tag, lj_json_text(manifest, "version")) != 0 ? tag
                                                                                      : first;
    json_object_set_new(manifest, "tag", json_string(asked));
}

static bool is_file(const char *image)
{
    size_t length = strlen(image);
    return length > 5 &&
           (strcmp(image + length - 5, ".yaml") == 0 || strcmp(image + length - 4, ".yml") == 0);
}

lj_status lj_manifest_find(const char *data_dir, const char *image, json_t **manifest)
{
    char name[256], tag[256];
    json_t *all, *one, *best = NULL;
    size_t i;
    if (is_file(image)) {
        LJ_TRY(manifest_read(data_dir, image, manifest));
        tag_set(*manifest, "", "");
        return LJ_OK;
    }
    reference_split(image, name, sizeof name, tag, sizeof tag);
    LJ_TRY(lj_manifests_load(data_dir, &all));
    json_array_foreach(all, i, one) if (fits(one, name, tag) &&
                                        (!best || lj_version_compare(lj_json_text(one, "version"),
                                                                     lj_json_text(best, "version")) > 0))
        best = one;
    lj_status status = best ? LJ_OK : unknown(all, image, name);
    if (best) {
        *manifest = json_incref(best);
        tag_set(*manifest, tag, name);
    }
    json_decref(all);
    return status;
}

/* Puts `value` for "{word}". */
static void fill(char *text, size_t capacity, const char *word, const char *value)
{
    char mark[32], out[1024];
    lj_say(mark, "{%s}", word);
    char *at = strstr(text, mark);
    if (!at) return;
    lj_say(out, "%.*s%s%s", (int)(at - text), text, value, at + strlen(mark));
    snprintf(text, capacity, "%s", out);
}

lj_status lj_manifest_reference(const json_t *manifest, const char *form, const char *region, char *out,
                                size_t capacity)
{
    char path[64], regions[256];
    lj_say(path, "registry.%s", form);
    const char *pattern = lj_json_text_at(manifest, path);
    lj_json_join(lj_json_at(manifest, "registry.regions"), 12, regions, sizeof regions);
    if (!*pattern)
        return lj_fail(LJ_ERR_NOT_FOUND, "image %s has no %s registry form; it has public%s",
                       lj_json_text(manifest, "name"), form,
                       *lj_json_text_at(manifest, "registry.vpc") ? " and vpc" : "");
    if (strstr(pattern, "{region}") && !*region)
        return lj_fail(LJ_ERR_INVALID, "the VPC form of %s needs --region; such as %s",
                       lj_json_text(manifest, "name"), regions);
    snprintf(out, capacity, "%s", pattern);
    fill(out, capacity, "region", region);
    fill(out, capacity, "tag", lj_json_text(manifest, "tag"));
    return LJ_OK;
}

const char *lj_manifest_interface(const json_t *manifest, int cards)
{
    json_t *rows = json_object_get(manifest, "interfaces"), *row, *number;
    size_t i, k;
    json_array_foreach(rows, i, row)
        json_array_foreach(json_object_get(row, "cards"), k,
                           number) if (json_integer_value(number) == cards) return lj_json_text(row, "name");
    return "";
}
