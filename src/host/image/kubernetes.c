/* Kubernetes objects for ACS: one pod template, five wrappers. */
#define _GNU_SOURCE
#include "base/log.h"
#include "host/image/image.h"
#include "host/manifest.h"
#include "host/schema.h"

#include <string.h>

enum {
    CPUS_A_CARD = 10,
    GIB_A_CARD = 80
}; /* what public submissions of these images ask for with one card */

typedef struct {
    const json_t *manifest;
    const lj_image_options *options;
    char image[1200], interface[32], shm[32];
    const char *class_name, *model, *driver;
    bool hpn;
} plan;

static lj_status model_choose(plan *p)
{
    const lj_image_options *o = p->options;
    const char *known = lj_json_text_at(p->manifest, "kubernetes.models.series");
    p->model = *o->card_model ? o->card_model : known;
    if (*p->model || strcmp(lj_json_text(p->manifest, "vendor"), "cpu") == 0) return LJ_OK;
    p->model = "example-model";
    return lj_fallback(
        "card model",
        "the label alibabacloud.com/gpu-model-series is set to example-model, as the manifest names no card",
        "name yours with --card-model");
}

/* "32g" of container engines is "32Gi" of Kubernetes. */
static void shm_convert(const char *text, char *out, size_t capacity)
{
    size_t length = strlen(text);
    char last = length ? text[length - 1] : 0;
    if (last == 'g' || last == 'G')
        snprintf(out, capacity, "%.*sGi", (int)length - 1, text);
    else if (last == 'm' || last == 'M')
        snprintf(out, capacity, "%.*sMi", (int)length - 1, text);
    else if (last == 'k' || last == 'K')
        snprintf(out, capacity, "%.*sKi", (int)length - 1, text);
    else
        snprintf(out, capacity, "%s", text);
}

static lj_status plan_make(const json_t *manifest, const lj_image_options *o, plan *p)
{
    *p = (plan){.manifest = manifest, .options = o};
    bool cards = strcmp(lj_json_text(manifest, "vendor"), "cpu") != 0;
    if (cards && o->cards < 1)
        return lj_fail(LJ_ERR_INVALID, "--cards %d: a pod of image %s needs one card or more", o->cards,
                       lj_json_text(manifest, "name"));
    LJ_TRY(lj_image_reference(manifest, o, p->image, sizeof p->image));
    lj_say(p->interface, "%s", lj_manifest_interface(manifest, o->cards));
    if (!*p->interface && json_array_size(json_object_get(manifest, "interfaces")))
        return lj_fail(LJ_ERR_INVALID,
                       "--cards %d: the image's notes state an interface for 1, 2, 4, 8 and 16 cards of a "
                       "pod; take one of these",
                       o->cards);
    p->hpn = strcmp(p->interface, "hpn0") == 0;
    p->class_name = *o->compute_class ? o->compute_class : p->hpn ? "gpu-hpn" : "gpu";
    const char *advised = lj_json_text_at(manifest, "requires.driver.advised"),
               *minimum = lj_json_text_at(manifest, "requires.driver.minimum");
    p->driver = *o->driver_version ? o->driver_version : *advised ? advised : minimum;
    shm_convert(*o->shm_size ? o->shm_size : lj_json_text_at(manifest, "run.shm_size"), p->shm,
                sizeof p->shm);
    return model_choose(p);
}

static json_t *labels(const plan *p)
{
    json_t *out = json_pack("{s:s}", "app", p->options->job_name);
    if (strcmp(lj_json_text(p->manifest, "vendor"), "cpu") == 0) return out;
    json_object_set_new(out, "alibabacloud.com/acs", json_string("true"));
    json_object_set_new(out, "alibabacloud.com/compute-class", json_string(p->class_name));
    json_object_set_new(out, "alibabacloud.com/compute-qos", json_string("default"));
    json_object_set_new(out, "alibabacloud.com/gpu-model-series", json_string(p->model));
    if (*p->driver) json_object_set_new(out, "alibabacloud.com/gpu-driver-version", json_string(p->driver));
    if (strcmp(p->class_name, "gpu-hpn") == 0)
        json_object_set_new(out, "alibabacloud.com/hpn-type", json_string("rdma"));
    return out;
}

static json_t *environment(const plan *p)
{
    json_t *out = json_array(), *value;
    const char *name;
    if (*p->interface)
        json_array_append_new(out,
                              json_pack("{s:s, s:s}", "name", "NCCL_SOCKET_IFNAME", "value", p->interface));
    if (*p->interface)
        json_array_append_new(out,
                              json_pack("{s:s, s:s}", "name", "GLOO_SOCKET_IFNAME", "value", p->interface));
    json_object_foreach(lj_json_at(p->manifest, "run.environment"), name, value)
        json_array_append_new(out, json_pack("{s:s, s:O}", "name", name, "value", value));
    return out;
}

static json_t *command(const plan *p, const char *const *otherwise)
{
    json_t *out = json_array();
    for (size_t i = 0; i < p->options->command_count; i++) lj_json_append_text(out, p->options->command[i]);
    if (!p->options->command_count)
        for (; *otherwise; otherwise++) lj_json_append_text(out, *otherwise);
    return out;
}

static json_t *resources(const plan *p)
{
    int cards = p->options->cards > 0 ? p->options->cards : 1;
    json_t *limits = json_pack("{s:o, s:o}", "cpu", json_sprintf("%d", cards * CPUS_A_CARD), "memory",
                               json_sprintf("%dGi", cards * GIB_A_CARD));
    const char *resource = lj_json_text_at(p->manifest, "kubernetes.resource");
    if (*resource) json_object_set_new(limits, resource, json_sprintf("%d", cards));
    json_t *both = json_pack("{s:O, s:O}", "limits", limits, "requests", limits);
    json_decref(limits);
    return both;
}

static json_t *container(const plan *p, const char *name, const char *const *otherwise)
{
    json_t *out =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:{s:{s:[s]}}, s:[{s:s, s:s}]}", "name", name, "image",
                  p->image, "imagePullPolicy", "IfNotPresent", "command", command(p, otherwise), "env",
                  environment(p), "resources", resources(p), "securityContext", "capabilities", "add",
                  "IPC_LOCK", "volumeMounts", "name", "shm", "mountPath", "/dev/shm");
    json_t *ports = lj_json_at(p->manifest, "run.ports"), *port, *list = json_array();
    size_t i;
    json_array_foreach(ports, i, port) json_array_append_new(list, json_pack("{s:O}", "containerPort", port));
    if (json_array_size(list)) json_object_set(out, "ports", list);
    json_decref(list);
    return out;
}

static json_t *pod_spec(const plan *p, const char *name, const char *restart, const char *const *otherwise)
{
    return json_pack("{s:s, s:[o], s:[{s:s, s:{s:s, s:s}}]}", "restartPolicy", restart, "containers",
                     container(p, name, otherwise), "volumes", "name", "shm", "emptyDir", "medium", "Memory",
                     "sizeLimit", p->shm);
}

static const char *const wait_words[] = {"sleep", "infinity", NULL};

static json_t *template(const plan *p, const char *name, const char *restart)
{
    return json_pack("{s:{s:o}, s:o}", "metadata", "labels", labels(p), "spec",
                     pod_spec(p, name, restart, wait_words));
}

static json_t *object(const plan *p, const char *version, const char *kind, json_t *spec)
{
    return json_pack("{s:s, s:s, s:{s:s, s:{s:s}}, s:o}", "apiVersion", version, "kind", kind, "metadata",
                     "name", p->options->job_name, "labels", "app", p->options->job_name, "spec", spec);
}

static json_t *make_pod(const plan *p)
{
    json_t *pod = object(p, "v1", "Pod", pod_spec(p, "main", "Never", wait_words));
    json_object_set_new(json_object_get(pod, "metadata"), "labels", labels(p));
    return pod;
}

static json_t *job_spec(const plan *p)
{
    int nodes = p->options->nodes;
    json_t *spec = json_pack("{s:i, s:i, s:i, s:o}", "completions", nodes, "parallelism", nodes,
                             "backoffLimit", 0, "template", template(p, "main", "Never"));
    if (nodes > 1) json_object_set_new(spec, "completionMode", json_string("Indexed"));
    return spec;
}

static json_t *make_job(const plan *p)
{
    return object(p, "batch/v1", "Job", job_spec(p));
}

static json_t *make_pytorchjob(const plan *p)
{
    json_t *replicas = json_pack("{s:{s:i, s:s, s:o}}", "Master", "replicas", 1, "restartPolicy", "OnFailure",
                                 "template", template(p, "pytorch", "OnFailure"));
    if (p->options->nodes > 1)
        json_object_set_new(replicas, "Worker",
                            json_pack("{s:i, s:s, s:o}", "replicas", p->options->nodes - 1, "restartPolicy",
                                      "OnFailure", "template", template(p, "pytorch", "OnFailure")));
    return object(p, "kubeflow.org/v1", "PyTorchJob",
                  json_pack("{s:o, s:o}", "nprocPerNode",
                            json_sprintf("%d", p->options->cards > 0 ? p->options->cards : 1),
                            "pytorchReplicaSpecs", replicas));
}

/* The launcher starts mpirun and needs no card. */
static json_t *launcher(const plan *p)
{
    char ranks[16];
    lj_say(ranks, "%d", p->options->nodes * (p->options->cards > 0 ? p->options->cards : 1));
    const char *words[] = {"mpirun", "--allow-run-as-root", "-np", ranks, "--bind-to", "none", "hostname",
                           NULL};
    json_t *all = command(p, words), *run = json_array();
    size_t i;
    json_t *one;
    for (i = 0; p->options->command_count && i < 6; i++) lj_json_append_text(run, words[i]);
    json_array_foreach(all, i, one) json_array_append(run, one);
    json_decref(all);
    return json_pack("{s:{s:{s:s}}, s:{s:s, s:[{s:s, s:s, s:o, s:o, s:{s:{s:s, s:s}}}]}}", "metadata",
                     "labels", "app", p->options->job_name, "spec", "restartPolicy", "OnFailure",
                     "containers", "name", "launcher", "image", p->image, "command", run, "env",
                     environment(p), "resources", "limits", "cpu", "2", "memory", "4Gi");
}

static json_t *make_mpijob(const plan *p)
{
    json_t *worker = template(p, "worker", "OnFailure");
    json_t *worker_container = json_array_get(lj_json_at(worker, "spec.containers"), 0);
    json_object_set_new(worker_container, "command",
                        json_pack("[s, s, s]", "/usr/sbin/sshd", "-De", "-oPidFile=/tmp/sshd.pid"));
    return object(p, "kubeflow.org/v2beta1", "MPIJob",
                  json_pack("{s:i, s:{s:s}, s:{s:{s:i, s:o}, s:{s:i, s:o}}}", "slotsPerWorker",
                            p->options->cards > 0 ? p->options->cards : 1, "runPolicy", "cleanPodPolicy",
                            "Running", "mpiReplicaSpecs", "Launcher", "replicas", 1, "template", launcher(p),
                            "Worker", "replicas", p->options->nodes, "template", worker));
}

static json_t *make_jobset(const plan *p)
{
    return object(p, "jobset.x-k8s.io/v1alpha2", "JobSet",
                  json_pack("{s:[{s:s, s:i, s:{s:o}}]}", "replicatedJobs", "name", "workers", "replicas", 1,
                            "template", "spec", job_spec(p)));
}

static const struct {
    const char *kind, *schema; /* our schema of kinds that are not Kubernetes' own */
    json_t *(*make)(const plan *);
} kinds[] = {{"pod", NULL, make_pod},
             {"job", NULL, make_job},
             {"pytorchjob", "schemas/kubernetes/pytorchjob.schema.json", make_pytorchjob},
             {"mpijob", "schemas/kubernetes/mpijob.schema.json", make_mpijob},
             {"jobset", "schemas/kubernetes/jobset.schema.json", make_jobset}};

static lj_status schema_holds(const char *data_dir, const char *name, const json_t *value)
{
    char path[LJ_PATH_BYTES];
    LJ_TRY(lj_data_path(data_dir, name, path, sizeof path));
    json_t *schema = json_load_file(path, 0, NULL);
    lj_status status = schema ? lj_schema_check(schema, value) : lj_fail(LJ_ERR_FORMAT, "%s: not JSON", path);
    json_decref(schema);
    return lj_fail_in(status, "%s", name);
}

lj_status lj_image_kubernetes(const json_t *manifest, const lj_image_options *options, json_t **result)
{
    plan p;
    LJ_TRY(plan_make(manifest, options, &p));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].kind, options->kind) != 0) continue;
        if (i == 0 && options->nodes > 1)
            return lj_fail(LJ_ERR_INVALID,
                           "--nodes %d: a Pod is one; take --kind job, pytorchjob, mpijob or jobset",
                           options->nodes);
        json_t *made = kinds[i].make(&p);
        if (!made) return lj_fail(LJ_ERR_NOMEM, "Kubernetes object");
        lj_status status = kinds[i].schema ? schema_holds(options->data_dir, kinds[i].schema, made) : LJ_OK;
        if (status == LJ_OK)
            *result = made;
        else
            json_decref(made);
        return status;
    }
    return lj_fail(LJ_ERR_INVALID, "--kind %s is none of pod, job, pytorchjob, mpijob, jobset",
                   options->kind);
}
