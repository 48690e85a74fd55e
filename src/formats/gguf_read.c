/* Opening (all parts of a split file), looking up, and typed values. */
#define _GNU_SOURCE
#include "formats/gguf_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PARTS = 10000, SPLIT_TAIL = sizeof "-00001-of-00002.gguf" - 1 };

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const lj_gguf_field *const *)a)->key, (*(const lj_gguf_field *const *)b)->key);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const lj_gguf_tensor *const *)a)->name, (*(const lj_gguf_tensor *const *)b)->name);
}

lj_status lj_gguf_part_index(lj_gguf *gguf, lj_gguf_part *part)
{
    part->fields_by_key = lj_arena_alloc(&gguf->arena, (part->field_count + 1) * sizeof *part->fields_by_key);
    if (!part->fields_by_key) return LJ_ERR_NOMEM;
    for (size_t i = 0; i < part->field_count; i++) part->fields_by_key[i] = &part->fields[i];
    qsort(part->fields_by_key, part->field_count, sizeof *part->fields_by_key, by_key);
    for (size_t i = 1; i < part->field_count; i++)
        if (strcmp(part->fields_by_key[i - 1]->key, part->fields_by_key[i]->key) == 0)
            return lj_fail(LJ_ERR_FORMAT, "%s: key '%.200s' is there twice", part->path, part->fields_by_key[i]->key);
    return LJ_OK;
}

const lj_gguf_field *lj_gguf_part_find(const lj_gguf_part *part, const char *key)
{
    const lj_gguf_field wanted = {.key = key}, *at = &wanted;
    const lj_gguf_field *const *found = bsearch(&at, part->fields_by_key, part->field_count, sizeof *part->fields_by_key, by_key);
    return found ? *found : NULL;
}

static lj_status part_open(lj_gguf *gguf, const char *path)
{
    lj_gguf_part *part = &gguf->parts[gguf->part_count];
    part->path = lj_arena_strdup(&gguf->arena, path);
    if (!part->path) return LJ_ERR_NOMEM;
    LJ_TRY(lj_mapped_file_init(&part->file, path));
    gguf->part_count++;
    LJ_TRY(lj_gguf_part_parse(gguf, part));
    for (size_t i = 0; i < part->tensor_count; i++) part->tensors[i].part = gguf->part_count - 1;
    return LJ_OK;
}

/* One flat list over the parts, and a sorted one; the same name twice is an error. */
static lj_status tensors_index(lj_gguf *gguf)
{
    for (size_t p = 0; p < gguf->part_count; p++) gguf->tensor_count += gguf->parts[p].tensor_count;
    gguf->tensors = lj_arena_alloc(&gguf->arena, (gguf->tensor_count + 1) * sizeof *gguf->tensors);
    gguf->tensors_by_name = lj_arena_alloc(&gguf->arena, (gguf->tensor_count + 1) * sizeof *gguf->tensors);
    if (!gguf->tensors || !gguf->tensors_by_name) return LJ_ERR_NOMEM;
    size_t n = 0;
    for (size_t p = 0; p < gguf->part_count; p++)
        for (size_t i = 0; i < gguf->parts[p].tensor_count; i++) gguf->tensors[n] = gguf->tensors_by_name[n] = &gguf->parts[p].tensors[i], n++;
    qsort(gguf->tensors_by_name, n, sizeof *gguf->tensors, by_name);
    for (size_t i = 1; i < n; i++)
        if (strcmp(gguf->tensors_by_name[i - 1]->name, gguf->tensors_by_name[i]->name) == 0)
            return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%.200s' is there twice", gguf->parts[gguf->tensors_by_name[i]->part].path,
                           gguf->tensors_by_name[i]->name);
    return LJ_OK;
}

static bool digits(const char *text, int count)
{
    for (int i = 0; i < count; i++)
        if (!isdigit((unsigned char)text[i])) return false;
    return true;
}

/* Length of PREFIX in PREFIX-00001-of-00003.gguf, or 0 when the name has no such end. */
static size_t split_prefix(const char *path)
{
    size_t length = strlen(path);
    if (length <= SPLIT_TAIL) return 0;
    const char *tail = path + length - SPLIT_TAIL;
    bool fits = tail[0] == '-' && digits(tail + 1, 5) && memcmp(tail + 6, "-of-", 4) == 0 && digits(tail + 10, 5) && strcmp(tail + 15, ".gguf") == 0;
    return fits ? length - SPLIT_TAIL : 0;
}

static lj_status split_numbers(const lj_gguf *gguf, const lj_gguf_part *part, int64_t *number, int64_t *count)
{
    *number = 0, *count = 1;
    LJ_TRY(lj_gguf_part_int(gguf, part, "split.no", number));
    LJ_TRY(lj_gguf_part_int(gguf, part, "split.count", count));
    if (*count == 0) *count = 1; /* what a merged file says */
    if (*count < 1 || *count > MAX_PARTS || *number < 0 || *number >= *count)
        return lj_fail(LJ_ERR_FORMAT, "%s: split.no %lld of split.count %lld; allowed are 0 .. count - 1 of at most %d", part->path, (long long)*number,
                       (long long)*count, MAX_PARTS);
    return LJ_OK;
}

static lj_status split_totals_check(const lj_gguf *gguf)
{
    int64_t total = -1, have = 0;
    LJ_TRY(lj_gguf_part_int(gguf, &gguf->parts[0], "split.tensors.count", &total));
    for (size_t p = 0; p < gguf->part_count; p++) have += (int64_t)gguf->parts[p].tensor_count;
    if (total >= 0 && total != have)
        return lj_fail(LJ_ERR_FORMAT, "%s: split.tensors.count is %lld, the %zu parts hold %lld tensors", gguf->parts[0].path, (long long)total,
                       gguf->part_count, (long long)have);
    return LJ_OK;
}

static void parts_release(lj_gguf *gguf)
{
    for (size_t p = 0; p < gguf->part_count; p++) lj_mapped_file_release(&gguf->parts[p].file);
    gguf->part_count = 0;
    lj_arena_release(&gguf->arena);
}

/* Room for `count` parts in a fresh arena: what was parsed before is dropped. */
static lj_status parts_restart(lj_gguf *gguf, size_t count)
{
    parts_release(gguf);
    lj_arena_init(&gguf->arena, "gguf");
    gguf->parts = lj_arena_alloc(&gguf->arena, count * sizeof *gguf->parts);
    return gguf->parts ? LJ_OK : LJ_ERR_NOMEM;
}

/* All parts in order, whichever of them `path` is. */
static lj_status split_open(lj_gguf *gguf, const char *path, int64_t count)
{
    size_t prefix = split_prefix(path);
    char name[4096];
    if (!prefix) return lj_fail(LJ_ERR_FORMAT, "%s: is one of %lld parts but not named NAME-00001-of-%05lld.gguf; rename the parts back", path, (long long)count, (long long)count);
    LJ_TRY(parts_restart(gguf, (size_t)count));
    for (int64_t i = 0; i < count; i++) {
        int64_t number, parts;
        if (snprintf(name, sizeof name, "%.*s-%05lld-of-%05lld.gguf", (int)prefix, path, (long long)i + 1, (long long)count) >= (int)sizeof name)
            return lj_fail(LJ_ERR_INVALID, "%.80s...: path is too long", path);
        LJ_TRY(lj_fail_in(part_open(gguf, name), "part %lld of %lld", (long long)i + 1, (long long)count));
        LJ_TRY(split_numbers(gguf, &gguf->parts[i], &number, &parts));
        if (number != i || parts != count)
            return lj_fail(LJ_ERR_FORMAT, "%s: expected split.no %lld of %lld, found %lld of %lld", name, (long long)i, (long long)count, (long long)number,
                           (long long)parts);
    }
    return split_totals_check(gguf);
}

static lj_status open_into(lj_gguf *gguf, const char *path)
{
    int64_t number, count;
    LJ_TRY(parts_restart(gguf, 1));
    LJ_TRY(part_open(gguf, path));
    LJ_TRY(split_numbers(gguf, &gguf->parts[0], &number, &count));
    if (count > 1) LJ_TRY(split_open(gguf, path, count));
    return tensors_index(gguf);
}

lj_status lj_gguf_open(const char *path, lj_gguf **out)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("gguf", sizeof(lj_gguf), &memory));
    lj_status status = open_into(memory, path);
    if (status == LJ_OK)
        *out = memory;
    else
        lj_gguf_close(memory);
    return status;
}

void lj_gguf_close(lj_gguf *gguf)
{
    if (!gguf) return;
    parts_release(gguf);
    lj_free(gguf);
}

uint32_t lj_gguf_version(const lj_gguf *gguf)
{
    return gguf->parts[0].version;
}

size_t lj_gguf_part_count(const lj_gguf *gguf)
{
    return gguf->part_count;
}

const char *lj_gguf_part_path(const lj_gguf *gguf, size_t part)
{
    return gguf->parts[part].path;
}

size_t lj_gguf_field_count(const lj_gguf *gguf)
{
    return gguf->parts[0].field_count;
}

const lj_gguf_field *lj_gguf_field_get(const lj_gguf *gguf, size_t index)
{
    return &gguf->parts[0].fields[index];
}

const lj_gguf_field *lj_gguf_find(const lj_gguf *gguf, const char *key)
{
    return lj_gguf_part_find(&gguf->parts[0], key);
}

size_t lj_gguf_tensor_count(const lj_gguf *gguf)
{
    return gguf->tensor_count;
}

const lj_gguf_tensor *lj_gguf_tensor_get(const lj_gguf *gguf, size_t index)
{
    return gguf->tensors[index];
}

const lj_gguf_tensor *lj_gguf_tensor_find(const lj_gguf *gguf, const char *name)
{
    const lj_gguf_tensor wanted = {.name = name}, *at = &wanted;
    const lj_gguf_tensor *const *found = bsearch(&at, gguf->tensors_by_name, gguf->tensor_count, sizeof *gguf->tensors_by_name, by_name);
    return found ? *found : NULL;
}

static lj_status wrong_type(const char *path, const lj_gguf_field *field, const char *wanted)
{
    bool array = field->type == LJ_GGUF_ARRAY;
    return lj_fail(LJ_ERR_FORMAT, "%s: key '%s' is %s%s, it must be %s", path, field->key, array ? "an array of " : "",
                   lj_gguf_type_name(array ? field->element_type : field->type), wanted);
}

/* An integer field of any width as signed 64 bits. */
static bool integer_value(const lj_gguf_field *field, int64_t *out)
{
    bool is_signed = field->type == LJ_GGUF_I8 || field->type == LJ_GGUF_I16 || field->type == LJ_GGUF_I32 || field->type == LJ_GGUF_I64;
    bool is_unsigned = field->type == LJ_GGUF_U8 || field->type == LJ_GGUF_U16 || field->type == LJ_GGUF_U32 || field->type == LJ_GGUF_U64;
    if (!is_signed && !is_unsigned) return false;
    uint64_t bits = 0;
    size_t bytes = lj_gguf_type_bytes(field->type), unused = 64 - 8 * bytes;
    memcpy(&bits, field->data, bytes);
    if (is_unsigned && bits > INT64_MAX) return false;
    *out = is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
    return true;
}

lj_status lj_gguf_part_int(const lj_gguf *gguf, const lj_gguf_part *part, const char *key, int64_t *out)
{
    (void)gguf;
    const lj_gguf_field *field = lj_gguf_part_find(part, key);
    if (!field || integer_value(field, out)) return LJ_OK;
    return wrong_type(part->path, field, "a whole number below 2^63");
}

lj_status lj_gguf_get_int(const lj_gguf *gguf, const char *key, int64_t *out)
{
    return lj_gguf_part_int(gguf, &gguf->parts[0], key, out);
}

lj_status lj_gguf_get_double(const lj_gguf *gguf, const char *key, double *out)
{
    const lj_gguf_field *field = lj_gguf_find(gguf, key);
    float narrow;
    if (!field) return LJ_OK;
    if (field->type == LJ_GGUF_F64) {
        memcpy(out, field->data, 8);
    } else if (field->type == LJ_GGUF_F32) {
        memcpy(&narrow, field->data, 4);
        *out = (double)narrow;
    } else {
        return wrong_type(gguf->parts[0].path, field, "f32 or f64");
    }
    return LJ_OK;
}

lj_status lj_gguf_get_bool(const lj_gguf *gguf, const char *key, bool *out)
{
    const lj_gguf_field *field = lj_gguf_find(gguf, key);
    if (!field) return LJ_OK;
    if (field->type != LJ_GGUF_BOOL) return wrong_type(gguf->parts[0].path, field, "bool");
    *out = field->data[0];
    return LJ_OK;
}

/* The string whose length stands at `*at`; checked when the file was opened. */
static lj_gguf_string string_at(const uint8_t **at)
{
    uint64_t bytes;
    memcpy(&bytes, *at, 8);
    lj_gguf_string string = {(const char *)*at + 8, bytes};
    *at += 8 + bytes;
    return string;
}

lj_status lj_gguf_get_string(const lj_gguf *gguf, const char *key, lj_gguf_string *out)
{
    const lj_gguf_field *field = lj_gguf_find(gguf, key);
    if (!field) return LJ_OK;
    if (field->type != LJ_GGUF_STRING) return wrong_type(gguf->parts[0].path, field, "string");
    const uint8_t *at = field->data;
    *out = string_at(&at);
    return LJ_OK;
}

lj_status lj_gguf_get_array(const lj_gguf *gguf, const char *key, lj_gguf_type element_type, const uint8_t **data, uint64_t *count)
{
    const lj_gguf_field *field = lj_gguf_find(gguf, key);
    char wanted[64];
    if (!field) return LJ_OK;
    snprintf(wanted, sizeof wanted, "an array of %s", lj_gguf_type_name(element_type));
    if (field->type != LJ_GGUF_ARRAY || field->element_type != element_type) return wrong_type(gguf->parts[0].path, field, wanted);
    *data = field->data, *count = field->count;
    return LJ_OK;
}

lj_status lj_gguf_get_strings(const lj_gguf *gguf, const char *key, lj_gguf_string **out, uint64_t *count)
{
    const uint8_t *at = NULL;
    uint64_t n = 0;
    void *memory;
    LJ_TRY(lj_gguf_get_array(gguf, key, LJ_GGUF_STRING, &at, &n));
    if (!at) return LJ_OK;
    LJ_TRY(lj_alloc("gguf strings", n * sizeof **out, &memory)); /* n strings took at least 8 n bytes of the file */
    lj_gguf_string *strings = memory;
    for (uint64_t i = 0; i < n; i++) strings[i] = string_at(&at);
    *out = strings, *count = n;
    return LJ_OK;
}
