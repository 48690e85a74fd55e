/* The parts of reading a tokenizer.json; one caller, tokenizer_json.c. */
#ifndef LJ_TEXT_TOKENIZER_JSON_H
#define LJ_TEXT_TOKENIZER_JSON_H

#include "formats/strict_json.h"
#include "text/tokenizer_parts.h"

/* Each takes the value of its key (NULL or null: the file has none) and fills its part of the tokenizer. LJ_ERR_UNSUPPORTED names a step that is not
 * known here. lj_json_pretokenizer sets bpe.byte_level, so the model comes after it. */
lj_status lj_json_normalizer(lj_tokenizer *tokenizer, const json_t *value);
lj_status lj_json_pretokenizer(lj_tokenizer *tokenizer, const json_t *value);
lj_status lj_json_decoder(lj_tokenizer *tokenizer, const json_t *value);
lj_status lj_json_post_processor(lj_tokenizer *tokenizer, const json_t *value);

/* A row of a table of steps: its "type" and what reads it. */
typedef struct {
    const char *type;
    lj_status (*read)(lj_tokenizer *tokenizer, const json_t *value);
} lj_json_step;
/* Finds the row of value's "type" and runs it; `what` for messages ("normalizer"). */
lj_status lj_json_step_read(lj_tokenizer *tokenizer, const json_t *value, const char *what, const lj_json_step *steps, size_t count);
/* Runs fn for each entry of the array value[key]. */
lj_status lj_json_each(lj_tokenizer *tokenizer, const json_t *value, const char *what, const char *key,
                       lj_status (*fn)(lj_tokenizer *tokenizer, const json_t *value));

/* A string of the value, copied to the tokenizer's arena (it may hold zero bytes); LJ_ERR_FORMAT when it is absent or no string. */
lj_status lj_json_copy_string(lj_tokenizer *tokenizer, const json_t *value, const char *what, const char *key, lj_span *out);

#endif
