#include "host/job.h"

#include "host/host.h"
#include "host/yaml.h"

#include <stdlib.h>
#include <string.h>

double lj_quantity_parse(const char *text)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = {{"", 1},
                 {"m", 1e-3},
                 {"k", 1e3},
                 {"K", 1e3},
                 {"M", 1e6},
                 {"G", 1e9},
                 {"T", 1e12},
                 {"P", 1e15},
                 {"Ki", 1024.0},
                 {"Mi", 1048576.0},
                 {"Gi", 1073741824.0},
                 {"Ti", 1099511627776.0},
                 {"Pi", 1125899906842624.0}};
    char *end;
    double value = strtod(text, &end);
    if (end == text) return -1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0) return value * units[i].factor;
    return -1;
}

static double quantity_of(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    return json_is_number(value)   ? json_number_value(value)
           : json_is_string(value) ? lj_quantity_parse(json_string_value(value))
                                   : -1;
}

typedef struct {
    json_t *job;
    int pods_with_cards, pods;
} reading;

static bool is_card(const char *resource)
{
    static const char *const names[] = {"nvidia.com/gpu", "alibabacloud.com/ppu", "aliyun.com/ppu",
                                        "amd.com/gpu",    "nvidia.com/mig-",      "aliyun.com/gpu"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(resource, names[i], strlen(names[i])) == 0) return true;
    return false;
}

/* The container that has the cards, else the first. */
static json_t *main_container(const json_t *spec, double *cards, const char **resource)
{
    json_t *containers = json_object_get(spec, "containers"), *container, *value;
    size_t i;
    const char *name;
    json_array_foreach(containers, i, container)
    {
        json_t *limits = lj_json_at(container, "resources"), *rows = json_object_get(limits, "limits");
        if (!rows) rows = json_object_get(limits, "requests");
        json_object_foreach(rows, name, value)
        {
            if (!is_card(name)) continue;
            *cards = quantity_of(rows, name), *resource = name;
            return container;
        }
    }
    return json_array_get(containers, 0);
}

/* Size of the emptyDir in memory that is mounted at /dev/shm: -1 none, 0 without a limit. */
static double shm_of(const json_t *spec, const json_t *container)
{
    size_t i, k;
    json_t *mount, *volume, *volumes = json_object_get(spec, "volumes");
    json_array_foreach(json_object_get(container, "volumeMounts"), i, mount)
    {
        if (strcmp(lj_json_text(mount, "mountPath"), "/dev/shm") != 0) continue;
        json_array_foreach(volumes, k, volume)
        {
            if (strcmp(lj_json_text(volume, "name"), lj_json_text(mount, "name")) != 0) continue;
            json_t *empty = json_object_get(volume, "emptyDir");
            if (!empty || strcmp(lj_json_text(empty, "medium"), "Memory") != 0) continue;
            double limit = quantity_of(empty, "sizeLimit");
            return limit < 0 ? 0 : limit;
        }
    }
    return -1;
}

static json_t *environment_of(const json_t *container)
{
    json_t *out = json_object(), *row;
    size_t i;
    json_array_foreach(json_object_get(container, "env"), i, row)
    {
        json_t *value = json_object_get(row, "value");
        if (json_is_string(value)) json_object_set(out, lj_json_text(row, "name"), value);
    }
    return out;
}

static void template_read(reading *r, const json_t *metadata, const json_t *spec, int pods)
{
    double cards = 0;
    const char *resource = "";
    json_t *container = main_container(spec, &cards, &resource);
    if (!container) return;
    r->pods += pods;
    if (cards > 0) r->pods_with_cards += pods;
    bool better = json_object_size(r->job) == 0 || (cards > 0 && lj_json_number(r->job, "cards", 0) == 0);
    if (!better) return;
    json_t *limits = lj_json_at(container, "resources.limits"), *labels = json_object_get(metadata, "labels");
    if (!limits) limits = lj_json_at(container, "resources.requests");
    json_t *fresh =
        json_pack("{s:s, s:f, s:s, s:f, s:f, s:f, s:b, s:b, s:o, s:o}", "image",
                  lj_json_text(container, "image"), "cards", cards, "resource", resource, "memory_bytes",
                  quantity_of(limits, "memory"), "cpu", quantity_of(limits, "cpu"), "shm_bytes",
                  shm_of(spec, container), "host_ipc", json_is_true(json_object_get(spec, "hostIPC")),
                  "host_network", json_is_true(json_object_get(spec, "hostNetwork")), "environment",
                  environment_of(container), "labels", labels ? json_incref(labels) : json_object());
    if (!fresh) return;
    json_object_clear(r->job);
    json_object_update(r->job, fresh);
    json_decref(fresh);
}

static int count_of(const json_t *object, const char *key, int otherwise)
{
    return (int)lj_json_number(object, key, otherwise);
}

/* {Master: {replicas, template}, Worker: {...}} of the training operators. */
static void replica_specs_read(reading *r, const json_t *specs)
{
    const char *role;
    json_t *row;
    json_object_foreach((json_t *)specs, role, row)
        template_read(r, lj_json_at(row, "template.metadata"), lj_json_at(row, "template.spec"),
                      count_of(row, "replicas", 1));
}

static void job_spec_read(reading *r, const json_t *spec, int times)
{
    template_read(r, lj_json_at(spec, "template.metadata"), lj_json_at(spec, "template.spec"),
                  times * count_of(spec, "parallelism", count_of(spec, "completions", 1)));
}

static void job_set_read(reading *r, const json_t *spec)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(spec, "replicatedJobs"), i, row)
        job_spec_read(r, lj_json_at(row, "template.spec"), count_of(row, "replicas", 1));
}

static void document_read(reading *r, const json_t *document)
{
    const char *kind = lj_json_text(document, "kind"), *key;
    json_t *spec = json_object_get(document, "spec"), *value;
    if (strcmp(kind, "Pod") == 0)
        template_read(r, json_object_get(document, "metadata"), spec, 1);
    else if (strcmp(kind, "JobSet") == 0)
        job_set_read(r, spec);
    else if (strcmp(kind, "CronJob") == 0)
        job_spec_read(r, lj_json_at(spec, "jobTemplate.spec"), 1);
    else if (strcmp(kind, "Job") == 0)
        job_spec_read(r, spec, 1);
    else if (json_object_get(spec, "template"))
        template_read(r, lj_json_at(spec, "template.metadata"), lj_json_at(spec, "template.spec"),
                      count_of(spec, "replicas", 1));
    else
        json_object_foreach(spec, key, value) if (strstr(key, "ReplicaSpecs")) replica_specs_read(r, value);
}

lj_status lj_job_load(const char *path, json_t **job)
{
    json_t *documents, *document;
    size_t i;
    LJ_TRY(lj_yaml_load_all(path, &documents));
    reading r = {.job = json_object()};
    lj_status status = LJ_ERR_FORMAT;
    json_array_foreach(documents, i, document)
    {
        document_read(&r, document);
        if (json_object_size(r.job) == 0) continue;
        json_object_set_new(r.job, "kind", json_string(lj_json_text(document, "kind")));
        json_object_set_new(r.job, "name", json_string(lj_json_text_at(document, "metadata.name")));
        json_object_set_new(r.job, "nodes", json_integer(r.pods_with_cards ? r.pods_with_cards : r.pods));
        status = LJ_OK;
        break;
    }
    json_decref(documents);
    if (status == LJ_OK)
        *job = r.job;
    else
        json_decref(r.job);
    return status == LJ_OK
               ? LJ_OK
               : lj_fail(
                     LJ_ERR_FORMAT,
                     "%s: no Pod, Job, PyTorchJob, MPIJob, JobSet or other workload with containers in it",
                     path);
}
