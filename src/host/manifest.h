/* Image manifests: data/images of the data folders, images/ of --data-dir, or a file by its path. The schema
 * is data/schemas/image.schema.json. */
#ifndef LJ_HOST_MANIFEST_H
#define LJ_HOST_MANIFEST_H

#include "base/status.h"

#include <jansson.h>

/* All manifests, checked against the schema, sorted by file; a broken one is an error that names file and
 * place. New reference (array). */
lj_status lj_manifests_load(const char *data_dir, json_t **manifests);
/* One image by "name", "name:tag", "name:version", a full reference with a registry, a tag alone, or a path
 * to a YAML file; without a tag the newest version. LJ_ERR_NOT_FOUND has the nearest names. New reference;
 * "tag" in it is the tag that was asked for (or the first). */
lj_status lj_manifest_find(const char *data_dir, const char *image, json_t **manifest);
/* Registry reference of a manifest: form "public" or "vpc" (region needed). Written to out. */
lj_status lj_manifest_reference(const json_t *manifest, const char *form, const char *region, char *out,
                                size_t capacity);
/* The interface stated for a number of cards, "" when none is. */
const char *lj_manifest_interface(const json_t *manifest, int cards);

#endif
