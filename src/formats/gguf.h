/* GGUF v2 and v3, mapped: metadata fields and tensors, checked once at opening.
 *
 * lj_gguf_open maps a file (all parts of a split one, whichever is named) and proves every count, length, type and offset in it; after
 * that reads cannot leave the mapping. Everything handed out points into the mapping or the handle and lives until lj_gguf_close.
 * A handle is read-only: any number of threads. */
#ifndef LJ_FORMATS_GGUF_H
#define LJ_FORMATS_GGUF_H

#include "formats/dequant.h"

#include "base/status.h"

enum { LJ_GGUF_MAX_RANK = 4 };

/* Value types with the file's numbers. */
typedef enum {
    LJ_GGUF_U8,
    LJ_GGUF_I8,
    LJ_GGUF_U16,
    LJ_GGUF_I16,
    LJ_GGUF_U32,
    LJ_GGUF_I32,
    LJ_GGUF_F32,
    LJ_GGUF_BOOL,
    LJ_GGUF_STRING,
    LJ_GGUF_ARRAY,
    LJ_GGUF_U64,
    LJ_GGUF_I64,
    LJ_GGUF_F64,
    LJ_GGUF_TYPE_COUNT
} lj_gguf_type;

/* Not terminated, may hold any bytes. */
typedef struct {
    const char *data;
    size_t bytes;
} lj_gguf_string;

/* One key with its value as stored (little endian, unaligned). */
typedef struct {
    const char *key; /* terminated */
    lj_gguf_type type;
    lj_gguf_type element_type; /* of an array */
    uint64_t count;            /* of an array; 1 else */
    const uint8_t *data;       /* first byte of the value; of an array: of its first element */
    uint64_t bytes;
} lj_gguf_field;

typedef struct {
    const char *name; /* as in the file, terminated */
    const lj_block_type *type;
    int rank;                         /* 1 .. 4 */
    int64_t shape[LJ_GGUF_MAX_RANK];  /* outermost first: the reverse of the file's order, as numpy shows it */
    const uint8_t *data;
    uint64_t bytes;
    size_t part; /* which file of a split one */
} lj_gguf_tensor;

typedef struct lj_gguf lj_gguf;

/* LJ_ERR_IO; LJ_ERR_FORMAT with file, offset, expected and found; LJ_ERR_UNSUPPORTED (version 1, big endian); LJ_ERR_LIMIT. */
lj_status lj_gguf_open(const char *path, lj_gguf **out);
void lj_gguf_close(lj_gguf *gguf); /* NULL is allowed */

uint32_t lj_gguf_version(const lj_gguf *gguf);
size_t lj_gguf_part_count(const lj_gguf *gguf);
const char *lj_gguf_part_path(const lj_gguf *gguf, size_t part);
size_t lj_gguf_field_count(const lj_gguf *gguf);
const lj_gguf_field *lj_gguf_field_get(const lj_gguf *gguf, size_t index); /* in file order, of the first part */
const lj_gguf_field *lj_gguf_find(const lj_gguf *gguf, const char *key);   /* NULL: absent */
size_t lj_gguf_tensor_count(const lj_gguf *gguf);
const lj_gguf_tensor *lj_gguf_tensor_get(const lj_gguf *gguf, size_t index); /* in file order, part after part */
const lj_gguf_tensor *lj_gguf_tensor_find(const lj_gguf *gguf, const char *name);

/* Values by key. An absent key leaves *out as it is; a value of another type is LJ_ERR_FORMAT with file, key, and both types. Integers
 * of any width and sign are accepted where they fit; get_double takes f32 and f64. */
lj_status lj_gguf_get_int(const lj_gguf *gguf, const char *key, int64_t *out);
lj_status lj_gguf_get_double(const lj_gguf *gguf, const char *key, double *out);
lj_status lj_gguf_get_bool(const lj_gguf *gguf, const char *key, bool *out);
lj_status lj_gguf_get_string(const lj_gguf *gguf, const char *key, lj_gguf_string *out);
/* An array of exactly this fixed-size element type: *data (unaligned) and *count. */
lj_status lj_gguf_get_array(const lj_gguf *gguf, const char *key, lj_gguf_type element_type, const uint8_t **data, uint64_t *count);
/* An array of strings: *out is allocated (lj_free by the caller), its strings point into the mapping. */
lj_status lj_gguf_get_strings(const lj_gguf *gguf, const char *key, lj_gguf_string **out, uint64_t *count);

const char *lj_gguf_type_name(lj_gguf_type type); /* "u32" */

#endif
