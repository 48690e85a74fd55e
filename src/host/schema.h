/* JSON Schema (draft 7), the part our schema files use: type, const, enum, required, properties,
 * additionalProperties, items, minItems, minLength, minimum, maximum, pattern, anyOf, oneOf, $ref into the
 * same file's definitions. */
#ifndef LJ_HOST_SCHEMA_H
#define LJ_HOST_SCHEMA_H

#include "base/status.h"

#include <jansson.h>

/* LJ_ERR_FORMAT with the place ("requires.driver.minimum") and what is wrong there. A keyword outside the
 * list above is LJ_ERR_UNSUPPORTED, so that no rule of a schema is passed over in silence. */
lj_status lj_schema_check(const json_t *schema, const json_t *value);

#endif
