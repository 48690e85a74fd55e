/* Writing safetensors: declarations become the header at the first data byte; the data streams through an atomic file writer. */
#include "formats/safetensors.h"

#include "base/file.h"
#include "base/memory.h"
#include "formats/strict_json.h"

#include <stdlib.h>

struct lj_safetensors_writer {
    lj_file_writer file;
    json_t *header, *metadata;
    uint64_t declared, written; /* bytes of data */
    uint64_t data_start;        /* in the file */
    bool started;               /* the header is on disk */
};

lj_status lj_safetensors_writer_create(const char *path, lj_safetensors_writer **out)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("safetensors writer", sizeof(lj_safetensors_writer), &memory));
    lj_safetensors_writer *writer = memory;
    lj_status status = lj_file_writer_begin(&writer->file, path);
    if (status != LJ_OK) {
        lj_free(writer);
        return status;
    }
    writer->header = json_object(), writer->metadata = json_object();
    if (writer->header && writer->metadata) {
        *out = writer;
        return LJ_OK;
    }
    lj_safetensors_writer_abort(writer);
    return lj_fail(LJ_ERR_NOMEM, "%s: header", path);
}

static lj_status open_for(const lj_safetensors_writer *writer, const json_t *object, const char *name)
{
    if (writer->started) return lj_fail(LJ_ERR_INVALID, "%s: '%s' declared after data was written", writer->file.path, name);
    if (json_object_get(object, name)) return lj_fail(LJ_ERR_INVALID, "%s: '%s' declared twice", writer->file.path, name);
    return LJ_OK;
}

lj_status lj_safetensors_writer_metadata(lj_safetensors_writer *writer, const char *key, const char *value)
{
    LJ_TRY(open_for(writer, writer->metadata, key));
    if (json_object_set_new(writer->metadata, key, json_string(value)) == 0) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s: metadata '%s' is no UTF-8 text", writer->file.path, key);
}

lj_status lj_safetensors_writer_tensor(lj_safetensors_writer *writer, const char *name, lj_dtype dtype, int rank, const int64_t *shape)
{
    LJ_TRY(open_for(writer, writer->header, name));
    if (rank < 0 || rank > LJ_SAFETENSORS_MAX_RANK || strcmp(name, "__metadata__") == 0)
        return lj_fail(LJ_ERR_INVALID, "%s: tensor '%s' of rank %d cannot be written", writer->file.path, name, rank);
    uint64_t bytes = lj_dtype_bytes(dtype);
    json_t *entry = json_object(), *dims = json_array(), *offsets = json_array();
    bool fits = entry && dims && offsets;
    for (int i = 0; i < rank && fits; i++) {
        fits = shape[i] >= 0 && !__builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes) && json_array_append_new(dims, json_integer(shape[i])) == 0;
    }
    fits = fits && bytes <= INT64_MAX && writer->declared + bytes <= INT64_MAX;
    if (fits) {
        json_array_append_new(offsets, json_integer((json_int_t)writer->declared));
        json_array_append_new(offsets, json_integer((json_int_t)(writer->declared + bytes)));
        json_object_set_new(entry, "dtype", json_string(lj_dtype_rows[dtype].safetensors));
        json_object_set(entry, "shape", dims);
        json_object_set(entry, "data_offsets", offsets);
        fits = json_object_set(writer->header, name, entry) == 0;
    }
    json_decref(dims);
    json_decref(offsets);
    json_decref(entry);
    if (!fits) return lj_fail(LJ_ERR_INVALID, "%s: tensor '%s': bad name or size", writer->file.path, name);
    writer->declared += bytes;
    return LJ_OK;
}

/* Length, header, and spaces so that the data starts at a multiple of 8, as the reference writer does. */
static lj_status start(lj_safetensors_writer *writer)
{
    json_t *all = json_object();
    if (json_object_size(writer->metadata)) json_object_set(all, "__metadata__", writer->metadata);
    json_object_update(all, writer->header);
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    if (!text) return lj_fail(LJ_ERR_NOMEM, "%s: header", writer->file.path);
    uint64_t length = strlen(text), padded = (length + 7) & ~(uint64_t)7;
    lj_status status = padded > LJ_SAFETENSORS_MAX_HEADER ? lj_fail(LJ_ERR_LIMIT, "%s: header of %llu bytes, the format allows %d; write more shards",
                                                                    writer->file.path, (unsigned long long)padded, LJ_SAFETENSORS_MAX_HEADER)
                                                          : LJ_OK;
    if (status == LJ_OK) status = lj_file_writer_write(&writer->file, &padded, 8);
    if (status == LJ_OK) status = lj_file_writer_write(&writer->file, text, length);
    if (status == LJ_OK) status = lj_file_writer_write(&writer->file, "       ", padded - length);
    free(text);
    writer->data_start = 8 + padded;
    writer->started = status == LJ_OK;
    return status;
}

lj_status lj_safetensors_writer_write(lj_safetensors_writer *writer, const void *data, size_t bytes)
{
    if (!writer->started) LJ_TRY(start(writer));
    if (bytes > writer->declared - writer->written)
        return lj_fail(LJ_ERR_INVALID, "%s: %llu bytes of tensors declared, %llu written", writer->file.path, (unsigned long long)writer->declared,
                       (unsigned long long)(writer->written + bytes));
    LJ_TRY(lj_file_writer_write(&writer->file, data, bytes));
    writer->written += bytes;
    return LJ_OK;
}

lj_status lj_safetensors_writer_begin(lj_safetensors_writer *writer)
{
    return writer->started ? LJ_OK : start(writer);
}

lj_status lj_safetensors_writer_write_at(lj_safetensors_writer *writer, uint64_t offset, const void *data, size_t bytes)
{
    if (!writer->started || offset > writer->declared || bytes > writer->declared - offset)
        return lj_fail(LJ_ERR_INVALID, "%s: %llu bytes of tensors declared, %llu .. +%zu written", writer->file.path, (unsigned long long)writer->declared,
                       (unsigned long long)offset, bytes);
    LJ_TRY(lj_file_writer_write_at(&writer->file, writer->data_start + offset, data, bytes));
    __atomic_fetch_add(&writer->written, bytes, __ATOMIC_RELAXED);
    return LJ_OK;
}

static void memory_release(lj_safetensors_writer *writer)
{
    json_decref(writer->header);
    json_decref(writer->metadata);
    lj_free(writer);
}

lj_status lj_safetensors_writer_commit(lj_safetensors_writer *writer)
{
    lj_status status = writer->started ? LJ_OK : start(writer);
    if (status == LJ_OK && writer->written != writer->declared)
        status = lj_fail(LJ_ERR_INVALID, "%s: %llu bytes of tensors declared, %llu written", writer->file.path, (unsigned long long)writer->declared,
                         (unsigned long long)writer->written);
    if (status == LJ_OK)
        status = lj_file_writer_commit(&writer->file);
    else
        lj_file_writer_abort(&writer->file);
    memory_release(writer);
    return status;
}

void lj_safetensors_writer_abort(lj_safetensors_writer *writer)
{
    if (!writer) return;
    lj_file_writer_abort(&writer->file);
    memory_release(writer);
}
