#define _GNU_SOURCE
#include "text/tokenize_files.h"

#include "base/file.h"
#include "formats/megatron.h"
#include "formats/model_folder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { PATH_BYTES = 4096 };
static const uint64_t part_bytes = 16 << 20, part_magic = 0x31747261706a6c00u;

/* Some documents of one file. */
typedef struct {
    size_t file;
    uint64_t from, to, bytes;
    uint64_t made_from; /* what its content depends on */
} part;

/* The end of a part's file; before it the tokens (i32), then the lengths of its documents (u64). */
typedef struct {
    uint64_t magic, made_from, documents, tokens;
} part_end;

typedef struct {
    const lj_tokenize_job *job;
    lj_arena arena;
    lj_document_file *files;
    size_t file_count;
    part *parts;
    size_t part_count, part_capacity;
    char folder[PATH_BYTES];
    lj_progress progress;
    uint64_t resumed;
} work;

/* One part being made. */
typedef struct {
    lj_document_encoder encoder;
    lj_file_writer out;
    lj_ids ids;
    lj_text learnt, lengths;
    part_end end;
} making;

static lj_status part_add(work *w, part p)
{
    if (w->part_count == w->part_capacity) {
        size_t capacity = 2 * w->part_capacity + 64;
        part *grown = lj_arena_alloc(&w->arena, capacity * sizeof *grown);
        if (!grown) return LJ_ERR_NOMEM;
        if (w->part_count) memcpy(grown, w->parts, w->part_count * sizeof *grown);
        w->parts = grown, w->part_capacity = capacity;
    }
    w->parts[w->part_count++] = p;
    return LJ_OK;
}

static uint64_t settings_hash(const lj_tokenize_job *job)
{
    const char *format = job->encoder.format ? lj_chat_format_name(job->encoder.format) : "";
    uint64_t hash = XXH3_64bits_withSeed(format, strlen(format), lj_tokenizer_fingerprint(job->encoder.tokenizer));
    return hash * 2 + job->encoder.end_token;
}

static lj_status parts_cut(work *w)
{
    uint64_t settings = settings_hash(w->job);
    for (size_t i = 0; i < w->file_count; i++) {
        const lj_document_file *file = &w->files[i];
        struct stat info;
        if (stat(file->path, &info) != 0) return lj_fail_errno("open", file->path);
        uint64_t facts[4] = {file->bytes, (uint64_t)info.st_mtim.tv_sec, (uint64_t)info.st_mtim.tv_nsec, settings};
        uint64_t made_from = XXH3_64bits_withSeed(file->path, strlen(file->path), XXH3_64bits(facts, sizeof facts));
        bool whole = file->compressed || !file->lines;
        for (uint64_t at = 0; at == 0 || (!whole && at < file->bytes); at += part_bytes) {
            uint64_t to = whole || at + part_bytes >= file->bytes ? 0 : at + part_bytes;
            LJ_TRY(part_add(w, (part){i, at, to, (to ? to : file->bytes) - at, made_from + at}));
        }
        w->progress.total += file->bytes;
    }
    return LJ_OK;
}

static void part_path(const work *w, size_t index, char path[PATH_BYTES + 32])
{
    snprintf(path, PATH_BYTES + 32, "%s/%08zu", w->folder, index);
}

/* Maps a finished part; false: not there, or made from something else. */
static bool part_open(const work *w, size_t index, lj_mapped_file *map, part_end *end)
{
    char path[PATH_BYTES + 32];
    part_path(w, index, path);
    if (!lj_path_exists(path) || lj_mapped_file_init(map, path) != LJ_OK) return false;
    bool good = map->bytes >= sizeof *end;
    if (good) memcpy(end, map->data + map->bytes - sizeof *end, sizeof *end);
    good = good && end->magic == part_magic && end->made_from == w->parts[index].made_from && end->tokens <= map->bytes / 4 &&
           end->documents <= map->bytes / 8 && end->tokens * 4 + end->documents * 8 + sizeof *end == map->bytes;
    if (!good) lj_mapped_file_release(map);
    return good;
}

static lj_status document_add(void *user, const lj_document *document)
{
    making *m = user;
    m->ids.count = 0, m->learnt.length = 0;
    LJ_TRY(lj_document_encode(&m->encoder, document, &m->ids, &m->learnt));
    uint64_t length = m->ids.count;
    if (length == 0) return LJ_OK;
    lj_text_add_bytes(&m->lengths, &length, sizeof length);
    m->end.documents++, m->end.tokens += length;
    return lj_file_writer_write(&m->out, m->ids.data, length * sizeof *m->ids.data);
}

static lj_status part_write(work *w, size_t index, making *m)
{
    const part *p = &w->parts[index];
    LJ_TRY(lj_documents_read(&w->files[p->file], p->from, p->to, document_add, m));
    LJ_TRY(lj_text_status(&m->lengths));
    if (m->lengths.length) LJ_TRY(lj_file_writer_write(&m->out, m->lengths.data, m->lengths.length));
    return lj_file_writer_write(&m->out, &m->end, sizeof m->end);
}

static lj_status part_make(void *user, size_t index)
{
    work *w = user;
    char path[PATH_BYTES + 32];
    lj_mapped_file map;
    making m = {.encoder = w->job->encoder, .end = {.magic = part_magic, .made_from = w->parts[index].made_from}};
    if (part_open(w, index, &map, &m.end)) {
        lj_mapped_file_release(&map);
        __atomic_add_fetch(&w->resumed, 1, __ATOMIC_RELAXED);
        lj_progress_add(&w->progress, w->parts[index].bytes);
        return LJ_OK;
    }
    m.end = (part_end){.magic = part_magic, .made_from = w->parts[index].made_from};
    part_path(w, index, path);
    LJ_TRY(lj_file_writer_begin(&m.out, path));
    lj_status status = part_write(w, index, &m);
    if (status == LJ_OK)
        status = lj_file_writer_commit(&m.out);
    else
        lj_file_writer_abort(&m.out);
    lj_ids_release(&m.ids);
    lj_text_release(&m.learnt);
    lj_text_release(&m.lengths);
    if (status == LJ_OK) lj_progress_add(&w->progress, w->parts[index].bytes);
    return status;
}

static lj_status part_join(const work *w, size_t index, lj_megatron_writer *writer, lj_tokenize_result *result)
{
    lj_mapped_file map;
    part_end end;
    uint64_t length, at = 0;
    if (!part_open(w, index, &map, &end)) return lj_fail(LJ_ERR_FORMAT, "%s: part %zu is damaged; remove the folder and start again", w->folder, index);
    lj_status status = LJ_OK;
    for (uint64_t d = 0; d < end.documents && status == LJ_OK; d++, at += length) {
        memcpy(&length, map.data + end.tokens * 4 + d * 8, sizeof length);
        if (length > end.tokens - at) {
            status = lj_fail(LJ_ERR_FORMAT, "%s: part %zu is damaged; remove the folder and start again", w->folder, index);
            break;
        }
        status = lj_megatron_writer_add(writer, (const int32_t *)(const void *)(map.data + at * 4), length, 0);
        if (status == LJ_OK) status = lj_megatron_writer_end_document(writer);
    }
    result->documents += end.documents, result->tokens += end.tokens;
    lj_mapped_file_release(&map);
    return status;
}

static lj_status join(const work *w, lj_tokenize_result *result)
{
    lj_megatron_writer *writer;
    lj_megatron_type type = lj_megatron_type_for(lj_tokenizer_size(w->job->encoder.tokenizer));
    LJ_TRY(lj_megatron_writer_begin(w->job->prefix, type, false, &writer));
    lj_status status = LJ_OK;
    for (size_t i = 0; i < w->part_count && status == LJ_OK; i++) status = part_join(w, i, writer, result);
    if (status == LJ_OK) return lj_megatron_writer_commit(writer);
    lj_megatron_writer_abort(writer);
    return status;
}

static void parts_remove(const work *w)
{
    char path[PATH_BYTES + 32];
    for (size_t i = 0; i < w->part_count; i++) {
        part_path(w, i, path);
        unlink(path);
    }
    rmdir(w->folder); /* stays when something else is in it */
}

static lj_status run(work *w, lj_tokenize_result *result)
{
    size_t passed = 0;
    if (snprintf(w->folder, sizeof w->folder, "%s.parts", w->job->prefix) >= (int)sizeof w->folder)
        return lj_fail(LJ_ERR_LIMIT, "prefix is longer than %d characters", PATH_BYTES - 7);
    LJ_TRY(lj_document_files(w->job->paths, w->job->path_count, &w->arena, &w->files, &w->file_count, &passed));
    LJ_TRY(parts_cut(w));
    LJ_TRY(lj_folder_create(w->folder, 0755));
    LJ_TRY(lj_parallel_for(w->job->threads, w->part_count, part_make, w));
    *result = (lj_tokenize_result){.files = w->file_count, .passed = passed, .bytes = w->progress.total, .parts = w->part_count, .resumed = w->resumed};
    LJ_TRY(join(w, result));
    parts_remove(w);
    return LJ_OK;
}

lj_status lj_tokenize_files(const lj_tokenize_job *job, lj_tokenize_result *result)
{
    work w = {.job = job, .progress = {.fn = job->progress, .user = job->user}};
    lj_arena_init(&w.arena, "text.tokenize_files");
    lj_status status = run(&w, result);
    lj_arena_release(&w.arena);
    return status;
}
