/* GGUF parts, fields and tensors. Every number of the file passes a check in this file before anything is sized or read by it.
 *
 * Layout (little endian): "GGUF", u32 version, u64 tensors, u64 fields; the fields; per tensor name, rank, dims, type, offset; padding
 * to general.alignment; the data, to whose start offsets are relative. */
#define _GNU_SOURCE
#include "formats/gguf.h"

#include "formats/gguf_parts.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_NAME_BYTES = 65535, MAX_NESTED_ARRAYS = 4, MIN_FIELD_BYTES = 8 + 4 + 1, MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8 };

static const struct {
    const char *name;
    size_t bytes; /* 0: length varies */
} value_types[LJ_GGUF_TYPE_COUNT] = {
    [LJ_GGUF_U8] = {"u8", 1},   [LJ_GGUF_I8] = {"i8", 1},   [LJ_GGUF_U16] = {"u16", 2},    [LJ_GGUF_I16] = {"i16", 2},
    [LJ_GGUF_U32] = {"u32", 4}, [LJ_GGUF_I32] = {"i32", 4}, [LJ_GGUF_F32] = {"f32", 4},    [LJ_GGUF_BOOL] = {"bool", 1},
    [LJ_GGUF_U64] = {"u64", 8}, [LJ_GGUF_I64] = {"i64", 8}, [LJ_GGUF_F64] = {"f64", 8},    [LJ_GGUF_STRING] = {"string", 0},
    [LJ_GGUF_ARRAY] = {"array", 0},
};

const char *lj_gguf_type_name(lj_gguf_type type)
{
    return (unsigned)type < LJ_GGUF_TYPE_COUNT ? value_types[type].name : "unknown";
}

size_t lj_gguf_type_bytes(lj_gguf_type type)
{
    return value_types[type].bytes;
}

/* A place in the mapped file. Reads move it; a read past the end fails and names what was wanted. */
typedef struct {
    const char *path;
    const uint8_t *data;
    uint64_t bytes, at;
} cursor;

static lj_status need(const cursor *c, uint64_t bytes, const char *what)
{
    if (bytes <= c->bytes - c->at) return LJ_OK;
    return lj_fail(LJ_ERR_FORMAT, "%s: offset %llu: expected %llu bytes of %s, found %llu before the end of the file", c->path,
                   (unsigned long long)c->at, (unsigned long long)bytes, what, (unsigned long long)(c->bytes - c->at));
}

static lj_status take(cursor *c, void *out, uint64_t bytes, const char *what)
{
    LJ_TRY(need(c, bytes, what));
    memcpy(out, c->data + c->at, bytes);
    c->at += bytes;
    return LJ_OK;
}

static lj_status take_string(cursor *c, lj_gguf_string *out, const char *what)
{
    uint64_t bytes = 0;
    LJ_TRY(take(c, &bytes, 8, what));
    LJ_TRY(need(c, bytes, what));
    *out = (lj_gguf_string){(const char *)c->data + c->at, bytes};
    c->at += bytes;
    return LJ_OK;
}

/* A key or tensor name: bounded, no zero byte inside, copied with a terminator. */
static lj_status take_name(cursor *c, lj_arena *arena, const char **out, const char *what)
{
    uint64_t start = c->at;
    lj_gguf_string raw;
    LJ_TRY(take_string(c, &raw, what));
    if (raw.bytes == 0 || raw.bytes > MAX_NAME_BYTES || memchr(raw.data, 0, raw.bytes))
        return lj_fail(LJ_ERR_FORMAT, "%s: offset %llu: expected a %s of 1 .. %d bytes without zero bytes, found %zu bytes", c->path,
                       (unsigned long long)start, what, MAX_NAME_BYTES, raw.bytes);
    char *copy = lj_arena_alloc(arena, raw.bytes + 1);
    if (!copy) return LJ_ERR_NOMEM;
    memcpy(copy, raw.data, raw.bytes);
    *out = copy;
    return LJ_OK;
}

static lj_status take_type(cursor *c, lj_gguf_type *out, const char *what)
{
    uint32_t type = 0;
    uint64_t start = c->at;
    LJ_TRY(take(c, &type, 4, what));
    if (type >= LJ_GGUF_TYPE_COUNT)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset %llu: expected a value type 0 .. %d, found %u", c->path, (unsigned long long)start,
                       LJ_GGUF_TYPE_COUNT - 1, type);
    *out = (lj_gguf_type)type;
    return LJ_OK;
}

static lj_status bools_check(const cursor *c, uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (c->data[at + i] > 1)
            return lj_fail(LJ_ERR_FORMAT, "%s: offset %llu: expected a bool (0 or 1), found %u", c->path, (unsigned long long)(at + i), c->data[at + i]);
    return LJ_OK;
}

static lj_status skip_elements(cursor *c, lj_gguf_type type, uint64_t count, int depth);

static lj_status skip_array(cursor *c, int depth)
{
    lj_gguf_type type;
    uint64_t count = 0;
    if (depth == MAX_NESTED_ARRAYS)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset %llu: arrays nested deeper than %d", c->path, (unsigned long long)c->at, MAX_NESTED_ARRAYS);
    LJ_TRY(take_type(c, &type, "an array's element type"));
    LJ_TRY(take(c, &count, 8, "an array's length"));
    return skip_elements(c, type, count, depth + 1);
}

/* Walks `count` values of a type, so that later readers need no checks. */
static lj_status skip_elements(cursor *c, lj_gguf_type type, uint64_t count, int depth)
{
    size_t each = value_types[type].bytes;
    if (each) {
        uint64_t bytes;
        if (__builtin_mul_overflow(count, (uint64_t)each, &bytes)) bytes = UINT64_MAX;
        LJ_TRY(need(c, bytes, "an array"));
        if (type == LJ_GGUF_BOOL) LJ_TRY(bools_check(c, c->at, count));
        c->at += bytes;
        return LJ_OK;
    }
    for (uint64_t i = 0; i < count; i++) {
        lj_gguf_string ignored;
        LJ_TRY(type == LJ_GGUF_STRING ? take_string(c, &ignored, "a string") : skip_array(c, depth));
    }
    return LJ_OK;
}

static lj_status take_field(cursor *c, lj_arena *arena, lj_gguf_field *field)
{
    LJ_TRY(take_name(c, arena, &field->key, "key"));
    LJ_TRY(take_type(c, &field->type, "a value type"));
    field->count = 1;
    if (field->type == LJ_GGUF_ARRAY) {
        LJ_TRY(take_type(c, &field->element_type, "an array's element type"));
        LJ_TRY(take(c, &field->count, 8, "an array's length"));
    }
    field->data = c->data + c->at;
    uint64_t start = c->at;
    LJ_TRY(lj_fail_in(skip_elements(c, field->type == LJ_GGUF_ARRAY ? field->element_type : field->type, field->count, 0), "key '%.200s'", field->key));
    field->bytes = c->at - start;
    return LJ_OK;
}

/* "[4096, 4398046511105]" for errors. */
static const char *dims_text(const uint64_t *dims, uint32_t rank, char *buffer, size_t capacity)
{
    size_t used = 0;
    for (uint32_t i = 0; i < rank && used < capacity; i++)
        used += (size_t)snprintf(buffer + used, capacity - used, "%s%llu%s", i ? ", " : "[", (unsigned long long)dims[i], i + 1 == rank ? "]" : "");
    return buffer;
}

/* Elements of all dims, refused when the product or its bytes leave 62 bits. */
static lj_status tensor_size(const cursor *c, lj_gguf_tensor *tensor, const uint64_t *dims)
{
    char text[128];
    uint64_t elements = 1;
    bool fits = true;
    for (int i = 0; i < tensor->rank; i++) fits = fits && dims[i] <= INT64_MAX / 2 && !__builtin_mul_overflow(elements, dims[i], &elements);
    if (fits && dims[0] % tensor->type->block_elements)
        return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%s' has dims %s; the first must be a multiple of %u for type %s", c->path, tensor->name,
                       dims_text(dims, (uint32_t)tensor->rank, text, sizeof text), tensor->type->block_elements, tensor->type->name);
    if (!fits || elements > INT64_MAX / 2 || !lj_block_type_bytes(tensor->type, elements, &tensor->bytes) || tensor->bytes > INT64_MAX / 2)
        return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%s' has dims %s: their product does not fit 62 bits", c->path, tensor->name,
                       dims_text(dims, (uint32_t)tensor->rank, text, sizeof text));
    return LJ_OK;
}

static lj_status take_tensor(cursor *c, lj_arena *arena, lj_gguf_tensor *tensor, uint64_t *offset)
{
    uint32_t rank = 0, type = 0;
    uint64_t dims[LJ_GGUF_MAX_RANK];
    LJ_TRY(take_name(c, arena, &tensor->name, "tensor name"));
    LJ_TRY(take(c, &rank, 4, "a tensor's rank"));
    if (rank < 1 || rank > LJ_GGUF_MAX_RANK)
        return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%s': expected a rank of 1 .. %d, found %u", c->path, tensor->name, LJ_GGUF_MAX_RANK, rank);
    LJ_TRY(take(c, dims, 8 * rank, "a tensor's dims"));
    LJ_TRY(take(c, &type, 4, "a tensor's type"));
    LJ_TRY(take(c, offset, 8, "a tensor's offset"));
    tensor->type = lj_block_type_find(type);
    if (!tensor->type) return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%s': type number %u is unknown", c->path, tensor->name, type);
    tensor->rank = (int)rank;
    LJ_TRY(tensor_size(c, tensor, dims));
    for (uint32_t i = 0; i < rank; i++) tensor->shape[i] = (int64_t)dims[rank - 1 - i];
    return LJ_OK;
}

static lj_status header_take(cursor *c, uint32_t *version, uint64_t *tensors, uint64_t *fields)
{
    char magic[4];
    LJ_TRY(take(c, magic, 4, "the magic word"));
    if (memcmp(magic, "GGUF", 4) != 0)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset 0: expected \"GGUF\", found %02x %02x %02x %02x", c->path, (uint8_t)magic[0], (uint8_t)magic[1],
                       (uint8_t)magic[2], (uint8_t)magic[3]);
    LJ_TRY(take(c, version, 4, "the version"));
    if (*version == __builtin_bswap32(2) || *version == __builtin_bswap32(3))
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: is a big-endian GGUF; convert it to little endian first", c->path);
    if (*version < 2 || *version > 3)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: GGUF version %u, versions 2 and 3 are read; convert it with a current gguf tool", c->path, *version);
    LJ_TRY(take(c, tensors, 8, "the tensor count"));
    LJ_TRY(take(c, fields, 8, "the field count"));
    uint64_t left = c->bytes - c->at;
    if (*fields > left / MIN_FIELD_BYTES || *tensors > left / MIN_TENSOR_BYTES)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset 8: %llu tensors and %llu fields cannot fit the %llu bytes that follow", c->path,
                       (unsigned long long)*tensors, (unsigned long long)*fields, (unsigned long long)left);
    return LJ_OK;
}

/* Alignment of the data, from its field: a power of two. */
static lj_status alignment_read(const lj_gguf *gguf, const lj_gguf_part *part, uint64_t *out)
{
    int64_t alignment = 32;
    LJ_TRY(lj_gguf_part_int(gguf, part, "general.alignment", &alignment));
    if (alignment < 1 || alignment > 1 << 30 || (alignment & (alignment - 1)))
        return lj_fail(LJ_ERR_FORMAT, "%s: general.alignment is %lld, it must be a power of two up to 2^30", part->path, (long long)alignment);
    *out = (uint64_t)alignment;
    return LJ_OK;
}

static int by_data(const void *a, const void *b)
{
    const lj_gguf_tensor *x = *(const lj_gguf_tensor *const *)a, *y = *(const lj_gguf_tensor *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Two tensors that share bytes are a trick or a broken writer. */
static lj_status overlap_check(const lj_gguf_part *part, lj_arena *arena)
{
    const lj_gguf_tensor **sorted = lj_arena_alloc(arena, (part->tensor_count + 1) * sizeof *sorted);
    if (!sorted) return LJ_ERR_NOMEM;
    for (size_t i = 0; i < part->tensor_count; i++) sorted[i] = &part->tensors[i];
    qsort(sorted, part->tensor_count, sizeof *sorted, by_data);
    for (size_t i = 1; i < part->tensor_count; i++)
        if (sorted[i - 1]->data + sorted[i - 1]->bytes > sorted[i]->data)
            return lj_fail(LJ_ERR_FORMAT, "%s: tensors '%s' and '%s' overlap", part->path, sorted[i - 1]->name, sorted[i]->name);
    return LJ_OK;
}

static lj_status tensors_place(const cursor *c, lj_gguf_part *part, const uint64_t *offsets, uint64_t alignment)
{
    uint64_t start = (c->at + alignment - 1) & ~(alignment - 1), room = start < c->bytes ? c->bytes - start : 0;
    for (size_t i = 0; i < part->tensor_count; i++) {
        lj_gguf_tensor *t = &part->tensors[i];
        if (offsets[i] % alignment)
            return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%s': offset %llu is no multiple of the alignment %llu", c->path, t->name,
                           (unsigned long long)offsets[i], (unsigned long long)alignment);
        if (offsets[i] > room || t->bytes > room - offsets[i])
            return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%s': needs bytes %llu .. +%llu of the data, the file has %llu; it is cut short or damaged", c->path,
                           t->name, (unsigned long long)offsets[i], (unsigned long long)t->bytes, (unsigned long long)room);
        t->data = room ? c->data + start + offsets[i] : c->data + c->bytes;
    }
    return LJ_OK;
}

lj_status lj_gguf_part_parse(lj_gguf *gguf, lj_gguf_part *part)
{
    cursor c = {part->path, part->file.data, part->file.bytes, 0};
    uint64_t tensors = 0, fields = 0, alignment = 1;
    LJ_TRY(header_take(&c, &part->version, &tensors, &fields));
    part->fields = lj_arena_alloc(&gguf->arena, (fields + 1) * sizeof *part->fields);
    part->tensors = lj_arena_alloc(&gguf->arena, (tensors + 1) * sizeof *part->tensors);
    uint64_t *offsets = lj_arena_alloc(&gguf->arena, (tensors + 1) * sizeof *offsets);
    if (!part->fields || !part->tensors || !offsets) return LJ_ERR_NOMEM;
    for (; part->field_count < fields; part->field_count++) LJ_TRY(take_field(&c, &gguf->arena, &part->fields[part->field_count]));
    for (; part->tensor_count < tensors; part->tensor_count++)
        LJ_TRY(take_tensor(&c, &gguf->arena, &part->tensors[part->tensor_count], &offsets[part->tensor_count]));
    LJ_TRY(lj_gguf_part_index(gguf, part));
    LJ_TRY(alignment_read(gguf, part, &alignment));
    LJ_TRY(tensors_place(&c, part, offsets, alignment));
    return overlap_check(part, &gguf->arena);
}
