/* Secrets out of texts and JSON values, by the tables of data/rules/secrets.yaml. */
#ifndef LJ_HOST_REDACT_H
#define LJ_HOST_REDACT_H

#include "base/text.h"

#include <jansson.h>

/* Is this the name of something secret ("HF_TOKEN", "db-password")? */
bool lj_secret_name(const json_t *rules, const char *name);
/* Appends the text without its secrets; returns how many were removed. */
size_t lj_redact(const json_t *rules, const char *text, lj_text *out);
/* A copy without secrets: strings by their form, values by their key, {name, value} pairs by the name, and
 * all data of Kubernetes Secrets. New reference. */
json_t *lj_redact_json(const json_t *rules, const json_t *value);

#endif
