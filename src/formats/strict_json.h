/* JSON from outside: bounded in size and depth, no duplicate keys, errors with file and offset. Values are jansson's. */
#ifndef LJ_FORMATS_STRICT_JSON_H
#define LJ_FORMATS_STRICT_JSON_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { LJ_JSON_MAX_DEPTH = 64 };

/* Parses `bytes` of text; `where` names the source in errors ("model.safetensors header"). LJ_ERR_FORMAT: not JSON, a duplicate
 * key, more than 64 levels. The caller owns *out (json_decref). Any thread. */
lj_status lj_json_parse(const char *where, const char *text, size_t bytes, json_t **out);
/* The same for human text: strings may hold \u0000, so their readers must go by json_string_length. */
lj_status lj_json_parse_text(const char *where, const char *text, size_t bytes, json_t **out);
/* The same where whole numbers may be beyond 64 bits (a tokenizer_config.json's model_max_length is 10^30): all numbers are doubles. */
lj_status lj_json_parse_wide(const char *where, const char *text, size_t bytes, json_t **out);
/* The same from a file of at most `max_bytes`. */
lj_status lj_json_load(const char *path, size_t max_bytes, json_t **out);

/* Fields of an object. An absent or null field leaves *out as it is; the wrong type or a number out of range is LJ_ERR_FORMAT with the
 * file, the key and what it must be. Strings belong to the object. */
lj_status lj_json_get_int(const json_t *object, const char *where, const char *key, int64_t *out);
lj_status lj_json_get_double(const json_t *object, const char *where, const char *key, double *out);
lj_status lj_json_get_bool(const json_t *object, const char *where, const char *key, bool *out);
lj_status lj_json_get_string(const json_t *object, const char *where, const char *key, const char **out);
/* True when the field is there and is not null. */
bool lj_json_has(const json_t *object, const char *key);

#endif
