/* Inside gguf*.c only: the handle, and what the parser (gguf.c) and the reader (gguf_read.c) share. */
#ifndef LJ_FORMATS_GGUF_PARTS_H
#define LJ_FORMATS_GGUF_PARTS_H

#include "base/file.h"
#include "base/memory.h"
#include "formats/gguf.h"

/* One file. */
typedef struct {
    const char *path;
    lj_mapped_file file;
    uint32_t version;
    size_t field_count, tensor_count;
    lj_gguf_field *fields;                /* file order */
    const lj_gguf_field **fields_by_key;  /* sorted */
    lj_gguf_tensor *tensors;              /* file order */
} lj_gguf_part;

struct lj_gguf {
    lj_arena arena;
    lj_gguf_part *parts;
    size_t part_count, part_capacity, tensor_count;
    const lj_gguf_tensor **tensors;         /* file order over all parts */
    const lj_gguf_tensor **tensors_by_name; /* sorted */
};

size_t lj_gguf_type_bytes(lj_gguf_type type); /* 0: varies */
/* Fields and tensors of part->file, checked. */
lj_status lj_gguf_part_parse(lj_gguf *gguf, lj_gguf_part *part);
/* Sorts the fields by key; a duplicate is an error. */
lj_status lj_gguf_part_index(lj_gguf *gguf, lj_gguf_part *part);
const lj_gguf_field *lj_gguf_part_find(const lj_gguf_part *part, const char *key);
lj_status lj_gguf_part_int(const lj_gguf *gguf, const lj_gguf_part *part, const char *key, int64_t *out);

#endif
