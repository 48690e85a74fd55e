/* Reading; writing is in megatron_write.c. */
#include "formats/megatron.h"

#include <stdio.h>
#include <string.h>

enum { HEADER_BYTES = 9 + 8 + 1 + 8 + 8, PATH_BYTES = 4096 };
static const char magic[9] = "MMIDIDX\0";

static const struct {
    const char *name;
    size_t bytes;
} types[] = {{"", 0}, {"uint8", 1}, {"int8", 1}, {"int16", 2}, {"int32", 4}, {"int64", 8}, {"float64", 8}, {"float32", 4}, {"uint16", 2}};

static bool known(lj_megatron_type type)
{
    return (size_t)type > 0 && (size_t)type < sizeof types / sizeof *types;
}

size_t lj_megatron_type_bytes(lj_megatron_type type)
{
    return known(type) ? types[type].bytes : 0;
}

const char *lj_megatron_type_name(lj_megatron_type type)
{
    return known(type) ? types[type].name : "unknown";
}

lj_megatron_type lj_megatron_type_for(size_t vocabulary)
{
    return vocabulary < 65500 ? LJ_MEGATRON_U16 : LJ_MEGATRON_I32;
}

static int64_t i64_at(const uint8_t *array, uint64_t index)
{
    int64_t value;
    memcpy(&value, array + 8 * index, 8);
    return value;
}

static int32_t i32_at(const uint8_t *array, uint64_t index)
{
    int32_t value;
    memcpy(&value, array + 4 * index, 4);
    return value;
}

uint64_t lj_megatron_length(const lj_megatron *set, uint64_t sequence)
{
    return (uint64_t)i32_at(set->lengths, sequence);
}

int lj_megatron_mode(const lj_megatron *set, uint64_t sequence)
{
    return set->modes ? (int8_t)set->modes[sequence] : 0;
}

uint64_t lj_megatron_document(const lj_megatron *set, uint64_t document)
{
    return (uint64_t)i64_at(set->documents, document);
}

static lj_status header_read(lj_megatron *set)
{
    const uint8_t *at = set->idx.data;
    uint64_t version, marks, arrays, per_sequence;
    if (set->idx.bytes < HEADER_BYTES)
        return lj_fail(LJ_ERR_FORMAT, "%s: %zu bytes, its header needs %d", set->path, set->idx.bytes, HEADER_BYTES);
    if (memcmp(at, magic, sizeof magic) != 0)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset 0: expected MMIDIDX, found %02x %02x %02x %02x", set->path, at[0], at[1], at[2], at[3]);
    memcpy(&version, at + 9, 8);
    if (version != 1) return lj_fail(LJ_ERR_FORMAT, "%s: offset 9: expected version 1, found %llu", set->path, (unsigned long long)version);
    set->type = (lj_megatron_type)at[17];
    if (!lj_megatron_type_bytes(set->type)) return lj_fail(LJ_ERR_FORMAT, "%s: offset 17: expected element code 1 .. 8, found %u", set->path, at[17]);
    memcpy(&set->sequence_count, at + 18, 8);
    memcpy(&marks, at + 26, 8);
    uint64_t room = set->idx.bytes - HEADER_BYTES, n = set->sequence_count;
    bool fits = n <= room / 12 && marks <= room / 8;
    per_sequence = fits ? 12 * n : 0, arrays = fits ? per_sequence + 8 * marks : 0;
    if (!fits || marks == 0 || (room != arrays && room != arrays + n))
        return lj_fail(LJ_ERR_FORMAT, "%s: %llu sequences and %llu document marks do not make its %zu bytes", set->path, (unsigned long long)n,
                       (unsigned long long)marks, set->idx.bytes);
    set->lengths = at + HEADER_BYTES;
    set->offsets = set->lengths + 4 * n;
    set->documents = set->offsets + 8 * n;
    set->modes = n && room == arrays + n ? set->documents + 8 * marks : NULL;
    set->document_count = marks - 1;
    return LJ_OK;
}

static lj_status sequences_check(lj_megatron *set)
{
    uint64_t each = lj_megatron_type_bytes(set->type);
    for (uint64_t i = 0; i < set->sequence_count; i++) {
        int64_t length = i32_at(set->lengths, i), offset = i64_at(set->offsets, i);
        if (length < 0 || offset < 0 || (uint64_t)offset > set->bin.bytes || (uint64_t)length * each > set->bin.bytes - (uint64_t)offset)
            return lj_fail(LJ_ERR_FORMAT, "%s: sequence %llu: %lld tokens of %llu bytes at offset %lld leave the %zu bytes of the .bin", set->path,
                           (unsigned long long)i, (long long)length, (unsigned long long)each, (long long)offset, set->bin.bytes);
        set->token_count += (uint64_t)length;
    }
    return LJ_OK;
}

static lj_status documents_check(const lj_megatron *set)
{
    int64_t before = 0;
    for (uint64_t i = 0; i <= set->document_count; i++) {
        int64_t mark = i64_at(set->documents, i);
        if (mark < before || (uint64_t)mark > set->sequence_count || (i == 0 && mark != 0))
            return lj_fail(LJ_ERR_FORMAT, "%s: document mark %llu is %lld; marks begin at 0 and rise to %llu", set->path, (unsigned long long)i,
                           (long long)mark, (unsigned long long)set->sequence_count);
        before = mark;
    }
    if ((uint64_t)before != set->sequence_count)
        return lj_fail(LJ_ERR_FORMAT, "%s: the last document mark is %lld, there are %llu sequences", set->path, (long long)before,
                       (unsigned long long)set->sequence_count);
    return LJ_OK;
}

static lj_status open_files(lj_megatron *set, const char *prefix)
{
    char path[PATH_BYTES];
    size_t length = strlen(prefix);
    if (length > 4 && (strcmp(prefix + length - 4, ".bin") == 0 || strcmp(prefix + length - 4, ".idx") == 0)) length -= 4;
    if (length + 5 > sizeof path) return lj_fail(LJ_ERR_LIMIT, "path of %zu characters: %.60s...", length, prefix);
    void *name;
    LJ_TRY(lj_alloc("formats.megatron", length + 5, &name));
    set->path = name;
    snprintf(set->path, length + 5, "%.*s.idx", (int)length, prefix);
    snprintf(path, sizeof path, "%.*s.bin", (int)length, prefix);
    LJ_TRY(lj_mapped_file_init(&set->idx, set->path));
    return lj_mapped_file_init(&set->bin, path);
}

lj_status lj_megatron_open(const char *prefix, lj_megatron **out)
{
    void *fresh;
    LJ_TRY(lj_alloc_zero("formats.megatron", sizeof(lj_megatron), &fresh));
    lj_megatron *set = fresh;
    lj_status status = open_files(set, prefix);
    if (status == LJ_OK) status = header_read(set);
    if (status == LJ_OK) status = sequences_check(set);
    if (status == LJ_OK) status = documents_check(set);
    if (status == LJ_OK)
        *out = set;
    else
        lj_megatron_close(set);
    return status;
}

void lj_megatron_close(lj_megatron *set)
{
    if (!set) return;
    lj_mapped_file_release(&set->bin);
    lj_mapped_file_release(&set->idx);
    lj_free(set->path);
    lj_free(set);
}

/* One stored value as a number; doubles hold every id exactly. */
static double value_at(const lj_megatron *set, const uint8_t *at)
{
    union {
        int8_t i8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } v = {0};
    memcpy(&v, at, lj_megatron_type_bytes(set->type));
    switch (set->type) {
    case LJ_MEGATRON_U8: return *at;
    case LJ_MEGATRON_I8: return v.i8;
    case LJ_MEGATRON_I16: return v.i16;
    case LJ_MEGATRON_U16: return v.u16;
    case LJ_MEGATRON_I32: return v.i32;
    case LJ_MEGATRON_I64: return (double)v.i64;
    case LJ_MEGATRON_F32: return v.f32;
    default: return v.f64;
    }
}

lj_status lj_megatron_read(const lj_megatron *set, uint64_t sequence, uint64_t first, uint64_t count, int32_t *out)
{
    if (sequence >= set->sequence_count || first > lj_megatron_length(set, sequence) || count > lj_megatron_length(set, sequence) - first)
        return lj_fail(LJ_ERR_INVALID, "%s: tokens %llu + %llu of sequence %llu are not there", set->path, (unsigned long long)first,
                       (unsigned long long)count, (unsigned long long)sequence);
    uint64_t each = lj_megatron_type_bytes(set->type);
    const uint8_t *at = set->bin.data + i64_at(set->offsets, sequence) + first * each;
    for (uint64_t i = 0; i < count; i++) {
        double value = value_at(set, at + i * each);
        if (!(value >= 0 && value <= INT32_MAX) || value != (double)(int32_t)value)
            return lj_fail(LJ_ERR_FORMAT, "%s: token %llu of sequence %llu is %g, no token id", set->path, (unsigned long long)(first + i),
                           (unsigned long long)sequence, value);
        out[i] = (int32_t)value;
    }
    return LJ_OK;
}
