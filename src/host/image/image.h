/* What ljperf knows of container images, put to use: words, comparison, the command that starts one,
 * Kubernetes objects, pulls, and checks of trees. */
#ifndef LJ_HOST_IMAGE_IMAGE_H
#define LJ_HOST_IMAGE_IMAGE_H

#include "base/text.h"
#include "host/host.h"

typedef struct {
    const char *data_dir;      /* "" = the usual folders */
    const char *registry;      /* "public" or "vpc" */
    const char *region;        /* of the VPC form */
    const char *registry_host; /* "" = the manifest's; else HOST[:PORT] under the same path */
    const char *digest;        /* "" or "sha256:..." */
    const char *engine;        /* docker, podman, nerdctl; "" = the first installed */
    const char *kind;          /* pod, job, pytorchjob, mpijob, jobset */
    const char *card_model, *driver_version, *job_name, *shm_size,
        *compute_class;         /* "" = from the manifest */
    const char *output_dir;     /* "" = by the image's name */
    const char *const *command; /* what runs in the container; count 0: the image's own */
    size_t command_count;
    int cards, nodes; /* cards 0 = all of the host */
    bool tls_verify, quiet;
} lj_image_options;

/* --- words (text.c) --- */
void lj_image_list(const json_t *manifests, lj_text *out);
void lj_image_show(const json_t *manifest, lj_text *out);
/* Components added, removed, changed; requirements that differ. As JSON ({from, to, components: [...],
 * requirements: [...]}), new reference, and as text. */
json_t *lj_image_diff(const json_t *from, const json_t *to);
void lj_image_diff_print(const json_t *diff, lj_text *out);
/* Release notes in Markdown; language "en", "zh" or "both". */
void lj_image_notes(const json_t *manifest, const char *language, lj_text *out);

/* --- starting (run.c, kubernetes.c) --- */
/* The reference to use: registry form, host, digest. */
lj_status lj_image_reference(const json_t *manifest, const lj_image_options *options, char *out,
                             size_t capacity);
/* The command that starts the image with an engine, an array of words. LJ_ERR_NOT_FOUND: no engine named and
 * none installed. New reference. */
lj_status lj_image_run_words(const json_t *manifest, const lj_image_options *options, json_t **words);
/* Words as a shell would need them. */
void lj_image_words_print(const json_t *words, lj_text *out);
/* A Kubernetes object. LJ_ERR_INVALID: cards or nodes that the kind cannot have. New reference. */
lj_status lj_image_kubernetes(const json_t *manifest, const lj_image_options *options, json_t **object);

/* --- pulling (pull.c) --- */
/* Copies the image into an OCI layout through skopeo, pinned to the digest that was read first. Gives
 * {reference, digest, folder}. New reference. LJ_ERR_NOT_FOUND: no skopeo; LJ_ERR_INVALID: not logged in
 * where the manifest says a login is needed, or another digest than asked for. */
lj_status lj_image_pull(const json_t *manifest, const lj_image_options *options, json_t **result);

/* --- trees (lint.c) --- */
/* A report (doctor.h) of the rows that concern an image: `check` against this host or a tree, `lint` of a
 * tree someone built on top. `manifest` NULL for lint: the one whose components fit best. `tree`: folder, OCI
 * layout, or a tar file (of a file system, `docker save`, or an OCI layout). */
lj_status lj_image_check(const char *data_dir, const char *image, const char *root, json_t **report);
lj_status lj_image_lint(const char *data_dir, const char *image, const char *tree, json_t **report);

/* --- component tests (components.c) --- */
typedef struct {
    const char *data_dir, *flavour, *python,
        *output_dir;  /* output_dir: where the environment and the tables go */
    const char *only; /* "" or "torch,timm": the others' rows stay those of the last run in output_dir */
} lj_component_options;
/* Makes a virtual environment, installs what can be had, runs each component's test, and gives {rows:
 * [{component, images, wanted, got, why, test, seconds, verdict}]}. Writes components.md, .html and .json to
 * output_dir. New reference. */
lj_status lj_image_components(const json_t *manifests, const lj_component_options *options, json_t **result);

#endif
