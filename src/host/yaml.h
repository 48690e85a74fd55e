/* YAML text as JSON values: the form in which rules, manifests and job files are used. */
#ifndef LJ_HOST_YAML_H
#define LJ_HOST_YAML_H

#include "base/status.h"

#include <jansson.h>

/* Every document of the file, in an array (new reference). Plain scalars become null, booleans and numbers as
 * YAML 1.2's core schema reads them; quoted ones stay text. Bounded: depth 64, a million nodes after aliases.
 * LJ_ERR_FORMAT has line and column. */
lj_status lj_yaml_load_all(const char *path, json_t **documents);
/* The first document of a file. */
lj_status lj_yaml_load(const char *path, json_t **document);
/* The same from memory; `name` is for messages. */
lj_status lj_yaml_parse_all(const char *text, size_t bytes, const char *name, json_t **documents);
/* Writes a value as block YAML that any YAML reader reads back as the same value (keys in their order).
 * Returns a malloc'd text. */
char *lj_yaml_write(const json_t *value);

#endif
