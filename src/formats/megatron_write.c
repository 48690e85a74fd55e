#include "formats/megatron.h"

#include <stdio.h>
#include <string.h>

/* A growing array of plain bytes. */
typedef struct {
    uint8_t *data;
    size_t bytes, capacity;
} column;

struct lj_megatron_writer {
    lj_file_writer bin;
    char *idx_path;
    lj_megatron_type type;
    bool with_modes;
    uint64_t sequences, marked, offset;
    column lengths, offsets, documents, modes;
    uint8_t *block; /* converted tokens */
    size_t block_bytes;
};

static lj_status column_add(column *c, const void *data, size_t bytes)
{
    if (c->capacity - c->bytes < bytes) {
        void *grown;
        size_t capacity = 2 * c->capacity + bytes + 4096;
        LJ_TRY(lj_alloc("formats.megatron", capacity, &grown));
        if (c->bytes) memcpy(grown, c->data, c->bytes);
        lj_free(c->data);
        c->data = grown, c->capacity = capacity;
    }
    memcpy(c->data + c->bytes, data, bytes);
    c->bytes += bytes;
    return LJ_OK;
}

static void release(lj_megatron_writer *writer)
{
    lj_free(writer->lengths.data);
    lj_free(writer->offsets.data);
    lj_free(writer->documents.data);
    lj_free(writer->modes.data);
    lj_free(writer->block);
    lj_free(writer->idx_path);
    lj_free(writer);
}

void lj_megatron_writer_abort(lj_megatron_writer *writer)
{
    if (!writer) return;
    lj_file_writer_abort(&writer->bin);
    release(writer);
}

lj_status lj_megatron_writer_begin(const char *prefix, lj_megatron_type type, bool with_modes, lj_megatron_writer **out)
{
    char path[4096];
    void *fresh, *name;
    int64_t zero = 0;
    if (!lj_megatron_type_bytes(type)) return lj_fail(LJ_ERR_INVALID, "%s: element code %d is none of 1 .. 8", prefix, (int)type);
    size_t length = strlen(prefix);
    if (length + 5 > sizeof path) return lj_fail(LJ_ERR_LIMIT, "path of %zu characters: %.60s...", length, prefix);
    LJ_TRY(lj_alloc_zero("formats.megatron", sizeof(lj_megatron_writer), &fresh));
    lj_megatron_writer *writer = fresh;
    *writer = (lj_megatron_writer){.bin = {.fd = -1}, .type = type, .with_modes = with_modes};
    lj_status status = lj_alloc("formats.megatron", length + 5, &name);
    if (status == LJ_OK) {
        writer->idx_path = name;
        snprintf(name, length + 5, "%s.idx", prefix);
        snprintf(path, sizeof path, "%s.bin", prefix);
        status = lj_file_writer_begin(&writer->bin, path);
    }
    if (status == LJ_OK) status = column_add(&writer->documents, &zero, sizeof zero);
    if (status == LJ_OK)
        *out = writer;
    else
        lj_megatron_writer_abort(writer);
    return status;
}

/* False: the type cannot hold the token exactly. */
static bool put(lj_megatron_type type, int32_t token, uint8_t *at)
{
    static const int32_t most[] = {0, UINT8_MAX, INT8_MAX, INT16_MAX, INT32_MAX, INT32_MAX, INT32_MAX, 1 << 24, UINT16_MAX};
    if (token < 0 || token > most[type]) return false;
    if (type == LJ_MEGATRON_F64) return memcpy(at, &(double){token}, 8), true;
    if (type == LJ_MEGATRON_F32) return memcpy(at, &(float){(float)token}, 4), true;
    int64_t value = token;
    memcpy(at, &value, lj_megatron_type_bytes(type));
    return true;
}

static lj_status block_reserve(lj_megatron_writer *writer, size_t bytes)
{
    if (writer->block_bytes >= bytes) return LJ_OK;
    void *fresh;
    LJ_TRY(lj_alloc("formats.megatron", bytes + bytes / 2, &fresh));
    lj_free(writer->block);
    writer->block = fresh, writer->block_bytes = bytes + bytes / 2;
    return LJ_OK;
}

lj_status lj_megatron_writer_add(lj_megatron_writer *writer, const int32_t *tokens, size_t count, int mode)
{
    size_t each = lj_megatron_type_bytes(writer->type);
    if (count > INT32_MAX) return lj_fail(LJ_ERR_LIMIT, "a sequence of %zu tokens; the format holds at most %d", count, INT32_MAX);
    LJ_TRY(block_reserve(writer, count * each + 8));
    for (size_t i = 0; i < count; i++)
        if (!put(writer->type, tokens[i], writer->block + i * each))
            return lj_fail(LJ_ERR_INVALID, "token %d does not fit the element type %s", tokens[i], lj_megatron_type_name(writer->type));
    int32_t length = (int32_t)count;
    int64_t offset = (int64_t)writer->offset;
    int8_t kept = (int8_t)mode;
    LJ_TRY(lj_file_writer_write(&writer->bin, writer->block, count * each));
    LJ_TRY(column_add(&writer->lengths, &length, sizeof length));
    LJ_TRY(column_add(&writer->offsets, &offset, sizeof offset));
    if (writer->with_modes) LJ_TRY(column_add(&writer->modes, &kept, sizeof kept));
    writer->sequences++, writer->offset += count * each;
    return LJ_OK;
}

lj_status lj_megatron_writer_end_document(lj_megatron_writer *writer)
{
    int64_t mark = (int64_t)writer->sequences;
    writer->marked = writer->sequences;
    return column_add(&writer->documents, &mark, sizeof mark);
}

static lj_status index_write(lj_megatron_writer *writer)
{
    lj_file_writer idx;
    uint8_t header[34] = "MMIDIDX";
    uint64_t version = 1, marks = writer->documents.bytes / 8;
    memcpy(header + 9, &version, 8);
    header[17] = (uint8_t)writer->type;
    memcpy(header + 18, &writer->sequences, 8);
    memcpy(header + 26, &marks, 8);
    LJ_TRY(lj_file_writer_begin(&idx, writer->idx_path));
    const column *columns[] = {&writer->lengths, &writer->offsets, &writer->documents, &writer->modes};
    lj_status status = lj_file_writer_write(&idx, header, sizeof header);
    for (size_t i = 0; i < 4 && status == LJ_OK; i++) status = lj_file_writer_write(&idx, columns[i]->data, columns[i]->bytes);
    if (status == LJ_OK) return lj_file_writer_commit(&idx);
    lj_file_writer_abort(&idx);
    return status;
}

lj_status lj_megatron_writer_commit(lj_megatron_writer *writer)
{
    lj_status status = writer->marked < writer->sequences ? lj_megatron_writer_end_document(writer) : LJ_OK;
    if (status != LJ_OK)
        lj_file_writer_abort(&writer->bin);
    else
        status = lj_file_writer_commit(&writer->bin);
    if (status == LJ_OK) status = index_write(writer);
    release(writer);
    return status;
}
