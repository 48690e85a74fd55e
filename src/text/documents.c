#define _GNU_SOURCE
#include "text/documents.h"

#include "base/file.h"
#include "base/text.h"
#include "formats/strict_json.h"
#include "text/decompress.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 32 };
static const size_t longest_line = (size_t)1 << 30;

static const struct {
    const char *suffix;
    bool lines;
} kinds[] = {{".jsonl", true}, {".ndjson", true}, {".txt", false}, {".md", false}, {".text", false}};

/* What the file's name says; false: nothing. */
static bool kind_of(const char *path, bool *lines, bool *compressed)
{
    size_t length = strlen(path), cut = 0;
    if (length > 3 && strcmp(path + length - 3, ".gz") == 0) cut = 3;
    if (length > 4 && strcmp(path + length - 4, ".zst") == 0) cut = 4;
    *compressed = cut > 0;
    length -= cut;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].suffix);
        if (length > n && strncmp(path + length - n, kinds[i].suffix, n) == 0) return *lines = kinds[i].lines, true;
    }
    return false;
}

typedef struct {
    lj_arena *arena;
    lj_document_file *files;
    size_t count, capacity, passed;
} listing;

static lj_status list_add(listing *l, lj_document_file file)
{
    if (l->count == l->capacity) {
        size_t capacity = 2 * l->capacity + 64;
        lj_document_file *grown = lj_arena_alloc(l->arena, capacity * sizeof *grown);
        if (!grown) return LJ_ERR_NOMEM;
        if (l->count) memcpy(grown, l->files, l->count * sizeof *grown);
        l->files = grown, l->capacity = capacity;
    }
    l->files[l->count++] = file;
    return LJ_OK;
}

static lj_status list_path(listing *l, const char *path, bool named, int depth);

static lj_status list_folder(listing *l, const char *path, int depth)
{
    struct dirent **entries;
    if (depth == MAX_DEPTH) return lj_fail(LJ_ERR_LIMIT, "%s: folders deeper than %d levels", path, MAX_DEPTH);
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) return lj_fail_errno("read folder", path);
    lj_status status = LJ_OK;
    for (int i = 0; i < count; i++) {
        if (status == LJ_OK && entries[i]->d_name[0] != '.') {
            char *child = lj_arena_printf(l->arena, "%s/%s", path, entries[i]->d_name);
            status = child ? list_path(l, child, false, depth + 1) : LJ_ERR_NOMEM;
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static lj_status list_path(listing *l, const char *path, bool named, int depth)
{
    struct stat info;
    if ((named ? stat(path, &info) : lstat(path, &info)) != 0) return lj_fail_errno("open", path);
    if (S_ISLNK(info.st_mode)) {
        if (stat(path, &info) != 0) return lj_fail_errno("open", path);
        if (S_ISDIR(info.st_mode)) return LJ_OK; /* could lead back to where we are */
    }
    if (S_ISDIR(info.st_mode)) return list_folder(l, path, depth);
    lj_document_file file = {.bytes = (uint64_t)info.st_size};
    if (!kind_of(path, &file.lines, &file.compressed)) {
        if (!named) return l->passed++, LJ_OK;
        return lj_fail(LJ_ERR_UNSUPPORTED, "%s: its kind is not known by its name (.txt .md .text .jsonl .ndjson, also with .gz or .zst)", path);
    }
    file.path = lj_arena_strdup(l->arena, path);
    return file.path ? list_add(l, file) : LJ_ERR_NOMEM;
}

lj_status lj_document_files(const char *const *paths, size_t count, lj_arena *arena, lj_document_file **out, size_t *out_count, size_t *passed)
{
    listing l = {.arena = arena};
    for (size_t i = 0; i < count; i++) LJ_TRY(list_path(&l, paths[i], true, 0));
    if (!l.count) return lj_fail(LJ_ERR_NOT_FOUND, "%s: no .txt, .md, .text, .jsonl or .ndjson file there", count ? paths[0] : "(no path)");
    *out = l.files, *out_count = l.count, *passed = l.passed;
    return LJ_OK;
}

typedef struct {
    const lj_document_file *file;
    lj_document_fn fn;
    void *user;
    uint64_t line;
    lj_text pending; /* the beginning of a line whose end has not come, or of a whole document */
} reading;

static bool string_field(const json_t *record, const char *key, lj_span *out)
{
    const json_t *value = json_object_get(record, key);
    if (!json_is_string(value)) return false;
    *out = (lj_span){json_string_value(value), json_string_length(value)};
    return true;
}

static lj_status record_read(reading *r, const json_t *record)
{
    lj_document d = {.record = record, .line = r->line};
    if (!json_is_object(record)) return lj_fail(LJ_ERR_FORMAT, "must be an object");
    if (string_field(record, "text", &d.text)) {
        d.kind = LJ_DOCUMENT_TEXT;
    } else if (json_is_array(json_object_get(record, "messages"))) {
        d.kind = LJ_DOCUMENT_CHAT, d.messages = json_object_get(record, "messages");
    } else if (string_field(record, "prompt", &d.prompt) && string_field(record, "completion", &d.completion)) {
        d.kind = LJ_DOCUMENT_PAIR;
    } else {
        return lj_fail(LJ_ERR_FORMAT, "has neither \"text\" (a string) nor \"messages\" (an array) nor \"prompt\" and \"completion\" (strings)");
    }
    return r->fn(r->user, &d);
}

static bool blank(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') return false;
    return true;
}

static lj_status line_read(reading *r, const char *text, size_t bytes)
{
    json_t *record;
    r->line++;
    if (r->line == 1 && bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, bytes -= 3;
    if (blank(text, bytes)) return LJ_OK;
    lj_status status = lj_json_parse_text("JSON", text, bytes, &record);
    if (status == LJ_OK) {
        status = record_read(r, record);
        json_decref(record);
    }
    return lj_fail_in(status, "%s: line %llu", r->file->path, (unsigned long long)r->line);
}

/* Takes the next bytes of a jsonl. */
static lj_status lines_feed(void *user, const char *data, size_t bytes)
{
    reading *r = user;
    for (const char *end; bytes > 0; data = end + 1) {
        end = memchr(data, '\n', bytes);
        size_t length = end ? (size_t)(end - data) : bytes;
        if (r->pending.length + length > longest_line)
            return lj_fail(LJ_ERR_LIMIT, "%s: line %llu is longer than %zu bytes", r->file->path, (unsigned long long)r->line + 1, longest_line);
        if (!end || r->pending.length) lj_text_add_bytes(&r->pending, data, length);
        LJ_TRY(lj_text_status(&r->pending));
        if (!end) return LJ_OK;
        bool joined = r->pending.length > 0;
        LJ_TRY(line_read(r, joined ? r->pending.data : data, joined ? r->pending.length : length));
        r->pending.length = 0;
        bytes -= length + 1;
    }
    return LJ_OK;
}

static lj_status lines_end(reading *r)
{
    return r->pending.length ? line_read(r, r->pending.data, r->pending.length) : LJ_OK;
}

static lj_status whole_read(reading *r, const char *data, size_t bytes)
{
    lj_document d = {.kind = LJ_DOCUMENT_TEXT, .text = {data, bytes}};
    return lj_fail_in(r->fn(r->user, &d), "%s", r->file->path);
}

static lj_status gather(void *user, const char *data, size_t bytes)
{
    reading *r = user;
    lj_text_add_bytes(&r->pending, data, bytes);
    return lj_text_status(&r->pending);
}

static lj_status compressed_read(reading *r)
{
    LJ_TRY(lj_decompress(r->file->path, r->file->lines ? lines_feed : gather, r));
    if (r->file->lines) return lines_end(r);
    return whole_read(r, r->pending.data ? r->pending.data : "", r->pending.length);
}

/* Start of the first line that begins at `from` or later. */
static uint64_t line_start(const lj_mapped_file *map, uint64_t from)
{
    if (from == 0 || from >= map->bytes) return from < map->bytes ? from : map->bytes;
    const uint8_t *end = memchr(map->data + from - 1, '\n', map->bytes - from + 1);
    return end ? (uint64_t)(end - map->data) + 1 : map->bytes;
}

static uint64_t lines_before(const lj_mapped_file *map, uint64_t end)
{
    uint64_t count = 0;
    for (const uint8_t *at = map->data, *stop = map->data + end; at < stop && (at = memchr(at, '\n', (size_t)(stop - at))); at++) count++;
    return count;
}

static lj_status plain_read(reading *r, uint64_t from, uint64_t to)
{
    lj_mapped_file map;
    LJ_TRY(lj_mapped_file_init(&map, r->file->path));
    lj_status status;
    if (r->file->lines) {
        uint64_t start = line_start(&map, from), end = to ? line_start(&map, to) : map.bytes;
        r->line = lines_before(&map, start);
        status = lines_feed(r, (const char *)map.data + start, (size_t)(end - start));
        if (status == LJ_OK) status = lines_end(r);
    } else {
        status = whole_read(r, (const char *)map.data, map.bytes);
    }
    lj_mapped_file_release(&map);
    return status;
}

lj_status lj_documents_read(const lj_document_file *file, uint64_t from, uint64_t to, lj_document_fn fn, void *user)
{
    reading r = {.file = file, .fn = fn, .user = user};
    lj_text_init(&r.pending);
    lj_status status = file->compressed ? compressed_read(&r) : plain_read(&r, from, to);
    lj_text_release(&r.pending);
    return status;
}
