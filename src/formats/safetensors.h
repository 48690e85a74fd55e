/* safetensors files: read mapped or by ranges, written piece by piece.
 *
 * The format: u64 header length, a JSON object {"NAME": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}}, then
 * the data, which the tensors cover without gap, overlap or rest. Both readers apply the same checks. A handle is read-only: any
 * number of threads. */
#ifndef LJ_FORMATS_SAFETENSORS_H
#define LJ_FORMATS_SAFETENSORS_H

#include "base/status.h"
#include "tensor/dtype.h"

enum { LJ_SAFETENSORS_MAX_RANK = 8, LJ_SAFETENSORS_MAX_HEADER = 100000000 };

typedef struct {
    const char *name;
    lj_dtype dtype;
    int rank; /* 0: one element */
    int64_t shape[LJ_SAFETENSORS_MAX_RANK];
    uint64_t offset, bytes; /* in the file: offset counts from its start */
    const uint8_t *data;    /* in the mapping; NULL when read by ranges */
} lj_safetensors_tensor;

typedef struct {
    const char *key, *value;
} lj_safetensors_entry;

typedef struct lj_safetensors lj_safetensors;

/* Maps and checks a file. LJ_ERR_IO; LJ_ERR_FORMAT with file, offset, expected and found; LJ_ERR_UNSUPPORTED names a tensor whose dtype
 * or rank we do not have. */
lj_status lj_safetensors_open(const char *path, lj_safetensors **out);

/* Reads up to `bytes` at `offset` into `buffer`; *got less than asked means the end of the file. */
typedef lj_status (*lj_range_read_fn)(void *user, uint64_t offset, size_t bytes, void *buffer, size_t *got);
/* The same checks over a range reader (a remote file, a pipe): reads the header only, usually in one request. `file_bytes` is the whole
 * size; `name` names it in errors. Tensors have no `data`; read them at their `offset`. */
lj_status lj_safetensors_open_ranged(const char *name, uint64_t file_bytes, lj_range_read_fn read, void *user, lj_safetensors **out);
/* A file by ranges, not mapped. */
lj_status lj_safetensors_open_header(const char *path, lj_safetensors **out);
void lj_safetensors_close(lj_safetensors *file); /* NULL is allowed */

const char *lj_safetensors_path(const lj_safetensors *file);
size_t lj_safetensors_count(const lj_safetensors *file);
const lj_safetensors_tensor *lj_safetensors_get(const lj_safetensors *file, size_t index); /* in the order of the data */
const lj_safetensors_tensor *lj_safetensors_find(const lj_safetensors *file, const char *name);
size_t lj_safetensors_metadata_count(const lj_safetensors *file);
const lj_safetensors_entry *lj_safetensors_metadata_get(const lj_safetensors *file, size_t index);

/* Writing: declare every tensor, then write their bytes in that order, any piece size, then commit; or abort at any point. The file
 * appears complete at commit or not at all. One thread.
 *
 *     lj_safetensors_writer *w;
 *     lj_safetensors_writer_create("model.safetensors", &w);
 *     lj_safetensors_writer_metadata(w, "format", "pt");
 *     lj_safetensors_writer_tensor(w, "x", LJ_F32, 2, (int64_t[]){3, 4});
 *     lj_safetensors_writer_write(w, data, 48);
 *     lj_safetensors_writer_commit(w);                                              */
typedef struct lj_safetensors_writer lj_safetensors_writer;
lj_status lj_safetensors_writer_create(const char *path, lj_safetensors_writer **out);
/* A duplicate name or key, a rank or size out of bounds: LJ_ERR_INVALID. Declaring after the first write: LJ_ERR_INVALID. */
lj_status lj_safetensors_writer_metadata(lj_safetensors_writer *writer, const char *key, const char *value);
lj_status lj_safetensors_writer_tensor(lj_safetensors_writer *writer, const char *name, lj_dtype dtype, int rank, const int64_t *shape);
/* More bytes than declared: LJ_ERR_INVALID. */
lj_status lj_safetensors_writer_write(lj_safetensors_writer *writer, const void *data, size_t bytes);
/* Writing from several threads instead: after _begin nothing can be declared, and _write_at puts bytes at an offset of the data (from 0; the
 * tensors lie one after the other in the order of their declaration). Each byte exactly once, any order; do not mix with _write.
 * _write_at: any thread. */
lj_status lj_safetensors_writer_begin(lj_safetensors_writer *writer);
lj_status lj_safetensors_writer_write_at(lj_safetensors_writer *writer, uint64_t offset, const void *data, size_t bytes);
/* Fewer bytes than declared: LJ_ERR_INVALID and nothing appears. Both destroy the writer, also on failure. */
lj_status lj_safetensors_writer_commit(lj_safetensors_writer *writer);
void lj_safetensors_writer_abort(lj_safetensors_writer *writer); /* NULL is allowed */

#endif
