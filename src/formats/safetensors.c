/* Reading safetensors: the header's proof is one function, whatever brought the bytes. */
#define _GNU_SOURCE
#include "formats/safetensors.h"

#include "base/file.h"
#include "base/memory.h"
#include "formats/strict_json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_RANGE = 100000 }; /* bytes asked for first by the ranged reader: most headers fit */

struct lj_safetensors {
    lj_arena arena;
    lj_mapped_file file; /* mapping NULL when ranged */
    const char *path;
    size_t count, metadata_count;
    lj_safetensors_tensor *tensors; /* by offset */
    const lj_safetensors_tensor **by_name;
    lj_safetensors_entry *metadata;
};

/* Where the header is and how much data the file has behind it. */
typedef struct {
    const char *text;
    uint64_t header_bytes, data_bytes;
} header_view;

static lj_status fail_tensor(const lj_safetensors *file, const char *name, const char *expected, const char *found)
{
    return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%.200s': expected %s, found %s", file->path, name, expected, found);
}

static lj_status dtype_read(const lj_safetensors *file, const char *name, const json_t *value, lj_dtype *dtype)
{
    const char *word = json_string_value(value);
    if (!word) return fail_tensor(file, name, "a string as dtype", "something else");
    for (int i = 0; i < LJ_DTYPE_COUNT; i++)
        if (strcmp(word, lj_dtype_rows[i].safetensors) == 0) {
            *dtype = (lj_dtype)i;
            return LJ_OK;
        }
    return lj_fail(LJ_ERR_UNSUPPORTED, "%s: tensor '%.200s' has dtype '%.40s', which is not read here (F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I8..U64 BOOL are)",
                   file->path, name, word);
}

static lj_status shape_read(const lj_safetensors *file, lj_safetensors_tensor *t, const json_t *value, uint64_t *bytes)
{
    uint64_t size = lj_dtype_bytes(t->dtype);
    if (!json_is_array(value)) return fail_tensor(file, t->name, "an array as shape", "something else");
    if (json_array_size(value) > LJ_SAFETENSORS_MAX_RANK)
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: tensor '%.200s' has %zu dimensions, at most %d are read", file->path, t->name, json_array_size(value),
                       LJ_SAFETENSORS_MAX_RANK);
    t->rank = (int)json_array_size(value);
    for (int i = 0; i < t->rank; i++) {
        const json_t *dim = json_array_get(value, (size_t)i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) return fail_tensor(file, t->name, "whole numbers from 0 in shape", "something else");
        t->shape[i] = json_integer_value(dim);
        if (__builtin_mul_overflow(size, (uint64_t)t->shape[i], &size) || size > INT64_MAX)
            return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%.200s': dimension %d is %lld: the size does not fit 63 bits", file->path, t->name, i,
                           (long long)t->shape[i]);
    }
    *bytes = size;
    return LJ_OK;
}

static lj_status offsets_read(const lj_safetensors *file, const header_view *view, lj_safetensors_tensor *t, const json_t *value, uint64_t bytes)
{
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return fail_tensor(file, t->name, "data_offsets [begin, end]", "something else");
    json_int_t b = json_integer_value(begin), e = json_integer_value(end);
    if (b < 0 || e < b || (uint64_t)e > view->data_bytes)
        return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%.200s': expected data_offsets within 0 .. %llu, found [%lld, %lld]; the file is cut short or damaged",
                       file->path, t->name, (unsigned long long)view->data_bytes, (long long)b, (long long)e);
    if ((uint64_t)(e - b) != bytes)
        return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%.200s': expected %llu bytes by dtype and shape, found %lld by data_offsets", file->path, t->name,
                       (unsigned long long)bytes, (long long)(e - b));
    t->offset = 8 + view->header_bytes + (uint64_t)b, t->bytes = bytes;
    t->data = file->file.data ? file->file.data + t->offset : NULL;
    return LJ_OK;
}

static lj_status tensor_read(lj_safetensors *file, const header_view *view, const char *name, const json_t *value)
{
    lj_safetensors_tensor *t = &file->tensors[file->count];
    uint64_t bytes = 0;
    if (!json_is_object(value) || json_object_size(value) != 3)
        return fail_tensor(file, name, "an object with dtype, shape and data_offsets", "something else");
    t->name = lj_arena_strdup(&file->arena, name);
    if (!t->name) return LJ_ERR_NOMEM;
    LJ_TRY(dtype_read(file, name, json_object_get(value, "dtype"), &t->dtype));
    LJ_TRY(shape_read(file, t, json_object_get(value, "shape"), &bytes));
    LJ_TRY(offsets_read(file, view, t, json_object_get(value, "data_offsets"), bytes));
    file->count++;
    return LJ_OK;
}

static lj_status metadata_read(lj_safetensors *file, json_t *object)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object)) return lj_fail(LJ_ERR_FORMAT, "%s: expected __metadata__ to be an object, found something else", file->path);
    file->metadata = lj_arena_alloc(&file->arena, (json_object_size(object) + 1) * sizeof *file->metadata);
    if (!file->metadata) return LJ_ERR_NOMEM;
    json_object_foreach(object, key, value) {
        if (!json_is_string(value))
            return lj_fail(LJ_ERR_FORMAT, "%s: __metadata__: expected a string at '%.200s', found something else", file->path, key);
        lj_safetensors_entry entry = {lj_arena_strdup(&file->arena, key), lj_arena_strdup(&file->arena, json_string_value(value))};
        if (!entry.key || !entry.value) return LJ_ERR_NOMEM;
        file->metadata[file->metadata_count++] = entry;
    }
    return LJ_OK;
}

static int by_offset(const void *a, const void *b)
{
    const lj_safetensors_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes); /* empty tensors before the one that starts there */
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const lj_safetensors_tensor *const *)a)->name, (*(const lj_safetensors_tensor *const *)b)->name);
}

/* Tensors in the order of the data must touch each other, from the first byte to the last. */
static lj_status cover_check(const lj_safetensors *file, const header_view *view)
{
    uint64_t start = 8 + view->header_bytes, at = start;
    for (size_t i = 0; i < file->count; i++) {
        const lj_safetensors_tensor *t = &file->tensors[i];
        if (t->offset != at)
            return lj_fail(LJ_ERR_FORMAT, "%s: tensor '%.200s': expected it to start at data offset %llu, found %llu: a gap or an overlap", file->path, t->name,
                           (unsigned long long)(at - start), (unsigned long long)(t->offset - start));
        at += t->bytes;
    }
    if (at - start != view->data_bytes)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset %llu: expected the end of the file after the last tensor, found %llu more bytes", file->path,
                       (unsigned long long)at, (unsigned long long)(view->data_bytes - (at - start)));
    return LJ_OK;
}

static lj_status entries_read(lj_safetensors *file, const header_view *view, json_t *root)
{
    const char *name;
    json_t *value;
    if (!json_is_object(root)) return lj_fail(LJ_ERR_FORMAT, "%s: offset 8: expected a JSON object, found something else", file->path);
    size_t entries = json_object_size(root);
    file->tensors = lj_arena_alloc(&file->arena, (entries + 1) * sizeof *file->tensors);
    file->by_name = lj_arena_alloc(&file->arena, (entries + 1) * sizeof *file->by_name);
    if (!file->tensors || !file->by_name) return LJ_ERR_NOMEM;
    json_object_foreach(root, name, value)
        LJ_TRY(strcmp(name, "__metadata__") == 0 ? metadata_read(file, value) : tensor_read(file, view, name, value));
    qsort(file->tensors, file->count, sizeof *file->tensors, by_offset);
    for (size_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, by_name);
    return cover_check(file, view);
}

static lj_status header_read(lj_safetensors *file, const header_view *view)
{
    char where[4200];
    json_t *root;
    if (view->text[0] != '{') return lj_fail(LJ_ERR_FORMAT, "%s: offset 8: expected '{', found byte %02x", file->path, (uint8_t)view->text[0]);
    snprintf(where, sizeof where, "%s: header (starts at offset 8)", file->path);
    LJ_TRY(lj_json_parse(where, view->text, view->header_bytes, &root));
    lj_status status = entries_read(file, view, root);
    json_decref(root);
    return status;
}

/* Length of the header from the first eight bytes, against the whole file. */
static lj_status length_read(const char *path, const uint8_t *start, size_t have, uint64_t file_bytes, header_view *view)
{
    if (have < 8 || file_bytes < 8)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset 0: expected 8 bytes of header length, found %llu before the end of the file", path,
                       (unsigned long long)(file_bytes < have ? file_bytes : have));
    memcpy(&view->header_bytes, start, 8);
    if (view->header_bytes < 2 || view->header_bytes > LJ_SAFETENSORS_MAX_HEADER)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset 0: expected a header of 2 .. %d bytes, found %llu", path, LJ_SAFETENSORS_MAX_HEADER,
                       (unsigned long long)view->header_bytes);
    if (view->header_bytes > file_bytes - 8)
        return lj_fail(LJ_ERR_FORMAT, "%s: offset 8: expected %llu bytes of header, found %llu before the end of the file", path,
                       (unsigned long long)view->header_bytes, (unsigned long long)(file_bytes - 8));
    view->data_bytes = file_bytes - 8 - view->header_bytes;
    return LJ_OK;
}

static lj_status handle_create(const char *path, lj_safetensors **out)
{
    void *memory;
    LJ_TRY(lj_alloc_zero("safetensors", sizeof(lj_safetensors), &memory));
    lj_safetensors *file = memory;
    lj_arena_init(&file->arena, "safetensors");
    file->path = lj_arena_strdup(&file->arena, path);
    if (file->path) {
        *out = file;
        return LJ_OK;
    }
    lj_safetensors_close(file);
    return LJ_ERR_NOMEM;
}

static lj_status open_mapped(lj_safetensors *file)
{
    header_view view;
    LJ_TRY(lj_mapped_file_init(&file->file, file->path));
    LJ_TRY(length_read(file->path, file->file.data, file->file.bytes, file->file.bytes, &view));
    view.text = (const char *)file->file.data + 8;
    return header_read(file, &view);
}

lj_status lj_safetensors_open(const char *path, lj_safetensors **out)
{
    lj_safetensors *file;
    LJ_TRY(handle_create(path, &file));
    lj_status status = open_mapped(file);
    if (status == LJ_OK)
        *out = file;
    else
        lj_safetensors_close(file);
    return status;
}

/* Reads `bytes` at `offset` or fails; a reader may give less than asked at a time. */
static lj_status range_fill(const char *name, lj_range_read_fn read, void *user, uint64_t offset, uint8_t *buffer, size_t bytes)
{
    for (size_t have = 0, got = 0; have < bytes; have += got) {
        LJ_TRY(read(user, offset + have, bytes - have, buffer + have, &got));
        if (got == 0 || got > bytes - have)
            return lj_fail(LJ_ERR_FORMAT, "%s: offset %llu: expected %zu bytes, found %zu", name, (unsigned long long)(offset + have), bytes - have, got);
    }
    return LJ_OK;
}

/* The first range holds the length and usually the whole header; what it really held decides how much is still to be read. */
static lj_status open_ranged(lj_safetensors *file, uint64_t file_bytes, lj_range_read_fn read, void *user)
{
    header_view view;
    void *memory;
    size_t first = file_bytes < FIRST_RANGE ? (size_t)file_bytes : FIRST_RANGE;
    uint8_t *start = lj_arena_alloc(&file->arena, FIRST_RANGE);
    if (!start) return LJ_ERR_NOMEM;
    LJ_TRY(range_fill(file->path, read, user, 0, start, first));
    LJ_TRY(length_read(file->path, start, first, file_bytes, &view));
    LJ_TRY(lj_alloc("safetensors header", view.header_bytes, &memory));
    uint8_t *text = memory;
    size_t here = first - 8 < view.header_bytes ? first - 8 : (size_t)view.header_bytes;
    memcpy(text, start + 8, here);
    lj_status status = range_fill(file->path, read, user, 8 + here, text + here, view.header_bytes - here);
    view.text = (const char *)text;
    if (status == LJ_OK) status = header_read(file, &view);
    lj_free(memory);
    return status;
}

lj_status lj_safetensors_open_ranged(const char *name, uint64_t file_bytes, lj_range_read_fn read, void *user, lj_safetensors **out)
{
    lj_safetensors *file;
    LJ_TRY(handle_create(name, &file));
    lj_status status = open_ranged(file, file_bytes, read, user);
    if (status == LJ_OK)
        *out = file;
    else
        lj_safetensors_close(file);
    return status;
}

typedef struct {
    int fd;
    const char *path;
} descriptor;

static lj_status descriptor_read(void *user, uint64_t offset, size_t bytes, void *buffer, size_t *got)
{
    const descriptor *d = user;
    ssize_t done;
    do done = pread(d->fd, buffer, bytes, (off_t)offset);
    while (done < 0 && errno == EINTR);
    if (done < 0) return lj_fail_errno("read", d->path);
    *got = (size_t)done;
    return LJ_OK;
}

lj_status lj_safetensors_open_header(const char *path, lj_safetensors **out)
{
    struct stat info;
    if (lj_fault("open", path)) return lj_fail(LJ_ERR_IO, "open %s: injected fault", path);
    descriptor d = {open(path, O_RDONLY | O_CLOEXEC), path};
    if (d.fd < 0) return lj_fail_errno("open", path);
    lj_status status;
    if (fstat(d.fd, &info) != 0)
        status = lj_fail_errno("stat", path);
    else if (S_ISDIR(info.st_mode))
        status = lj_fail(LJ_ERR_IO, "open %s: is a folder, a file is needed", path);
    else
        status = lj_safetensors_open_ranged(path, (uint64_t)info.st_size, descriptor_read, &d, out);
    close(d.fd);
    return status;
}

void lj_safetensors_close(lj_safetensors *file)
{
    if (!file) return;
    lj_mapped_file_release(&file->file);
    lj_arena_release(&file->arena);
    lj_free(file);
}

const char *lj_safetensors_path(const lj_safetensors *file)
{
    return file->path;
}

size_t lj_safetensors_count(const lj_safetensors *file)
{
    return file->count;
}

const lj_safetensors_tensor *lj_safetensors_get(const lj_safetensors *file, size_t index)
{
    return &file->tensors[index];
}

const lj_safetensors_tensor *lj_safetensors_find(const lj_safetensors *file, const char *name)
{
    const lj_safetensors_tensor wanted = {.name = name}, *at = &wanted;
    const lj_safetensors_tensor *const *found = bsearch(&at, file->by_name, file->count, sizeof *file->by_name, by_name);
    return found ? *found : NULL;
}

size_t lj_safetensors_metadata_count(const lj_safetensors *file)
{
    return file->metadata_count;
}

const lj_safetensors_entry *lj_safetensors_metadata_get(const lj_safetensors *file, size_t index)
{
    return &file->metadata[index];
}
