/* Documents of files, and whole sets to Megatron's files: order, accounting, resuming, wrong input. */
#define _GNU_SOURCE
#include "support/testing.h"

#include "base/file.h"
#include "formats/megatron.h"
#include "text/tokenize_files.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

typedef struct {
    char folder[256], path[512];
    lj_text seen;
} place;

static place place_make(void)
{
    place p;
    test_folder_create(p.folder, sizeof p.folder);
    lj_text_init(&p.seen);
    return p;
}

static void place_remove(place *p)
{
    lj_text_release(&p->seen);
    test_folder_remove(p->folder);
}

static const char *at(place *p, const char *name)
{
    snprintf(p->path, sizeof p->path, "%s/%s", p->folder, name);
    return p->path;
}

static lj_status see(void *user, const lj_document *d)
{
    lj_text *seen = user;
    lj_span text = d->kind == LJ_DOCUMENT_PAIR ? d->prompt : d->kind == LJ_DOCUMENT_CHAT ? (lj_span){"chat", 4} : d->text;
    lj_text_add(seen, "%llu:", (unsigned long long)d->line);
    lj_text_add_bytes(seen, text.data, text.bytes);
    lj_text_add_bytes(seen, "|", 1);
    return LJ_OK;
}

static lj_status read_path(place *p, const char *path, uint64_t from, uint64_t to)
{
    lj_arena arena;
    lj_document_file *files;
    size_t count, passed;
    p->seen.length = 0;
    lj_text_add_bytes(&p->seen, "", 0);
    lj_arena_init(&arena, "test");
    lj_status status = lj_document_files(&path, 1, &arena, &files, &count, &passed);
    for (size_t i = 0; i < count && status == LJ_OK; i++) status = lj_documents_read(&files[i], from, to, see, &p->seen);
    lj_arena_release(&arena);
    return status;
}

static const char lines[] = "\xef\xbb\xbf{\"text\": \"a\\u0000b\"}\n\n{\"prompt\": \"p\", \"completion\": \"c\"}\r\n{\"messages\": []}\n{\"text\": \"last\"}";
static const char seen_lines[] = "1:a\0b|3:p|4:chat|5:last|";

static void kinds_are_read(void **state)
{
    (void)state;
    place p = place_make();
    assert_ok(lj_file_write(at(&p, "a.jsonl"), lines, sizeof lines - 1));
    assert_ok(read_path(&p, p.path, 0, 0));
    assert_int_equal(p.seen.length, sizeof seen_lines - 1);
    assert_memory_equal(p.seen.data, seen_lines, sizeof seen_lines - 1);
    assert_ok(lj_file_write(at(&p, "b.txt"), "one\ntwo", 7));
    assert_ok(read_path(&p, p.path, 0, 0));
    assert_string_equal(p.seen.data, "0:one\ntwo|");
    assert_ok(lj_file_write(at(&p, "c.bin"), "x", 1));
    assert_fails(read_path(&p, p.path, 0, 0), LJ_ERR_UNSUPPORTED, "c.bin");
    assert_ok(lj_folder_create(at(&p, "deep"), 0755));
    assert_ok(lj_file_write(at(&p, "deep/z.md"), "z", 1));
    assert_ok(lj_file_write(at(&p, "deep/.hidden.txt"), "h", 1));
    assert_int_equal(symlink("..", at(&p, "deep/loop")), 0);
    assert_ok(read_path(&p, p.folder, 0, 0));
    assert_non_null(memmem(p.seen.data, p.seen.length, "last|0:one\ntwo|0:z|", 19)); /* by name; c.bin passed over, the loop not followed */
    place_remove(&p);
}

/* Ranges that meet cover each line once, wherever they are cut. */
static void ranges_cover_each_line_once(void **state)
{
    (void)state;
    place p = place_make();
    lj_text whole, parts;
    lj_text_init(&whole);
    lj_text_init(&parts);
    assert_ok(lj_file_write(at(&p, "a.jsonl"), lines, sizeof lines - 1));
    assert_ok(read_path(&p, p.path, 0, 0));
    lj_text_add_bytes(&whole, p.seen.data, p.seen.length);
    for (uint64_t cut = 1; cut < sizeof lines - 1; cut++) {
        parts.length = 0;
        assert_ok(read_path(&p, p.path, 0, cut));
        lj_text_add_bytes(&parts, p.seen.data, p.seen.length);
        assert_ok(read_path(&p, p.path, cut, 0));
        lj_text_add_bytes(&parts, p.seen.data, p.seen.length);
        assert_int_equal(parts.length, whole.length);
        assert_memory_equal(parts.data, whole.data, whole.length);
    }
    lj_text_release(&whole);
    lj_text_release(&parts);
    place_remove(&p);
}

static size_t compress_gz(const char *data, size_t bytes, char *out, size_t capacity)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)data, z.avail_in = (uInt)bytes, z.next_out = (Bytef *)out, z.avail_out = (uInt)capacity;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t made = capacity - z.avail_out;
    deflateEnd(&z);
    return made;
}

static void compressed_files_are_read(void **state)
{
    (void)state;
    place p = place_make();
    char packed[4096];
    for (int kind = 0; kind < 2; kind++) {
        const char *name = kind ? "a.jsonl.zst" : "a.jsonl.gz";
        size_t half = kind ? ZSTD_compress(packed, sizeof packed, lines, 40, 3) : compress_gz(lines, 40, packed, sizeof packed);
        size_t rest = kind ? ZSTD_compress(packed + half, sizeof packed - half, lines + 40, sizeof lines - 41, 3)
                           : compress_gz(lines + 40, sizeof lines - 41, packed + half, sizeof packed - half);
        assert_ok(lj_file_write(at(&p, name), packed, half + rest)); /* two members, two frames */
        assert_ok(read_path(&p, p.path, 0, 0));
        assert_int_equal(p.seen.length, sizeof seen_lines - 1);
        assert_memory_equal(p.seen.data, seen_lines, sizeof seen_lines - 1);
        for (size_t cut = 1; cut < half + rest; cut++) {
            if (cut == half) continue; /* a whole member, a line cut in two */
            assert_ok(lj_file_write(at(&p, name), packed, cut));
            assert_fails(read_path(&p, p.path, 0, 0), LJ_ERR_FORMAT, name);
        }
    }
    assert_ok(lj_file_write(at(&p, "b.txt.gz"), "plain", 5));
    assert_fails(read_path(&p, p.path, 0, 0), LJ_ERR_FORMAT, "neither as gzip");
    place_remove(&p);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    place p = place_make();
    static const struct {
        const char *text, *part;
    } wrong[] = {{"{\"text\": \"a\"}\n{\"text\": 1}", "line 2"},
                 {"{\"text\": \"a\"}\n\nnot json", "line 3"},
                 {"[1]", "must be an object"},
                 {"{\"text\": \"a\", \"text\": \"b\"}", "line 1"},
                 {"{\"prompt\": \"a\"}", "completion"},
                 {"{\"text\": \"\xff\"}", "line 1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_ok(lj_file_write(at(&p, "a.jsonl"), wrong[i].text, strlen(wrong[i].text)));
        assert_fails(read_path(&p, p.path, 0, 0), LJ_ERR_FORMAT, "a.jsonl");
        assert_non_null(strstr(lj_error_message(), wrong[i].part));
    }
    place_remove(&p);
}

/* A text of n documents whose tokens tell their number. */
static void write_documents(const char *path, int count)
{
    lj_text text;
    lj_text_init(&text);
    for (int i = 0; i < count; i++) lj_text_add(&text, "{\"text\": \"%d%s\"}\n", i, i % 3 ? " and so on with the words" : "");
    assert_ok(lj_file_write(path, text.data, text.length));
    lj_text_release(&text);
}

static void check_documents(const lj_tokenizer *tokenizer, const char *prefix, int count)
{
    lj_megatron *set;
    int32_t tokens[64];
    assert_ok(lj_megatron_open(prefix, &set));
    assert_int_equal(set->document_count, count);
    for (int i = 0; i < count; i++) {
        char expected[64];
        uint64_t length = lj_megatron_length(set, (uint64_t)i);
        lj_text text;
        lj_text_init(&text);
        assert_in_range(length, 1, 64);
        assert_ok(lj_megatron_read(set, (uint64_t)i, 0, length, tokens));
        assert_ok(lj_tokenizer_decode(tokenizer, tokens, length, false, &text));
        snprintf(expected, sizeof expected, "%d%s", i, i % 3 ? " and so on with the words" : "");
        assert_string_equal(text.data, expected);
        lj_text_release(&text);
    }
    lj_megatron_close(set);
}

static bool fail_second_commit(void *user, const char *kind, const char *name)
{
    int *left = user;
    (void)name;
    return strcmp(kind, "rename") == 0 && --*left < 0;
}

static void sets_are_written_in_order_and_resumed(void **state)
{
    (void)state;
    place p = place_make();
    lj_tokenizer *tokenizer;
    lj_tokenize_result result;
    char prefix[300], parts[320];
    assert_ok(lj_tokenizer_create(LJ_TEST_DATA "/text/gpt2.json", &tokenizer));
    write_documents(at(&p, "a.jsonl"), 500);
    snprintf(prefix, sizeof prefix, "%s/out", p.folder);
    snprintf(parts, sizeof parts, "%s.parts", prefix);
    const char *paths[] = {p.path, p.path, p.path};
    lj_tokenize_job job = {.encoder = {.tokenizer = tokenizer}, .paths = paths, .path_count = 1, .prefix = prefix, .threads = 3};
    assert_ok(lj_tokenize_files(&job, &result));
    assert_int_equal(result.documents, 500);
    assert_int_equal(result.resumed, 0);
    check_documents(tokenizer, prefix, 500);
    assert_int_not_equal(access(parts, F_OK), 0);
    /* One of three parts is written, then the disk fails; the second run makes the other two. */
    int left = 1;
    job.path_count = 3, job.threads = 1;
    lj_fault_set(fail_second_commit, &left);
    assert_int_equal(lj_tokenize_files(&job, &result), LJ_ERR_IO);
    lj_fault_set(NULL, NULL);
    check_documents(tokenizer, prefix, 500); /* the old files are as they were */
    assert_ok(lj_tokenize_files(&job, &result));
    assert_int_equal(result.resumed, 1);
    assert_int_equal(result.documents, 1500);
    lj_tokenizer_destroy(tokenizer);
    place_remove(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_read),        cmocka_unit_test(ranges_cover_each_line_once), cmocka_unit_test(compressed_files_are_read),
        cmocka_unit_test(wrong_lines_are_named), cmocka_unit_test(sets_are_written_in_order_and_resumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
