/* One view over folders, shards and GGUF: the same model three ways, tied heads, missing and misshapen tensors, path tricks. */
#include "support/gguf_build.h"
#include "support/testing.h"

#include "base/file.h"
#include "base/log.h"
#include "formats/gguf_config.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"
#include "formats/weights.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIXTURES LJ_TEST_DATA "/formats/"

static char folder[256], path[600];
static lj_weights *w;
static lj_weights_report report;

static int setup(void **state)
{
    (void)state;
    test_folder_create(folder, sizeof folder);
    w = NULL;
    report = (lj_weights_report){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lj_weights_close(w);
    lj_weights_report_release(&report);
    test_folder_remove(folder);
    return lj_memory_live() == 0 ? 0 : -1;
}

/* The same weights as a folder, as shards and as a GGUF with q and k interleaved: every element of every tensor equal. */
static void three_ways_agree(void **state)
{
    (void)state;
    lj_weights *folder_w, *other;
    static const char *const others[] = {FIXTURES "tiny_sharded", FIXTURES "tiny.gguf", FIXTURES "tiny_sharded/model.safetensors.index.json", FIXTURES "tiny/model.safetensors"};
    assert_ok(lj_weights_open(FIXTURES "tiny", &folder_w));
    assert_ok(lj_weights_check_model(folder_w, lj_weights_config(folder_w), false, &report));
    assert_int_equal(report.found, 21);
    assert_int_equal(report.unused, 0);
    lj_weights_report_release(&report);
    for (size_t o = 0; o < 4; o++) {
        assert_ok(lj_weights_open(others[o], &other));
        assert_int_equal(lj_weights_count(other), lj_weights_count(folder_w));
        const lj_model_config *a = lj_weights_config(folder_w), *b = lj_weights_config(other);
        assert_true(a->hidden_size == b->hidden_size && a->head_dim == b->head_dim && a->rms_norm_eps == b->rms_norm_eps && a->vocab_size == b->vocab_size);
        assert_true(a->max_position_embeddings == b->max_position_embeddings && a->eos_token_ids[0] == b->eos_token_ids[0] && a->dtype == b->dtype);
        for (size_t i = 0; i < lj_weights_count(folder_w); i++) {
            lj_weight *x = lj_weights_get(folder_w, i), *y = lj_weights_find(other, x->name);
            float from_folder[4096], from_other[4096];
            assert_non_null(y);
            assert_true(x->rows == y->rows && x->columns == y->columns && x->rank == y->rank);
            assert_ok(lj_weights_read(folder_w, x, 0, x->rows, LJ_F32, from_folder));
            assert_ok(lj_weights_read(other, y, 0, y->rows, LJ_F32, from_other));
            assert_memory_equal(from_folder, from_other, (size_t)(4 * x->rows * x->columns));
            float row[64];
            assert_ok(lj_weights_read(other, y, x->rows / 2, 1, LJ_F32, row)); /* a range alone */
            assert_memory_equal(row, from_folder + x->rows / 2 * x->columns, (size_t)(4 * x->columns));
            assert_int_equal(y->used, 1);
        }
        lj_weights_close(other);
    }
    lj_weights_close(folder_w);
}

static void ranges_and_types_are_checked(void **state)
{
    (void)state;
    float out[4096];
    assert_ok(lj_weights_open(FIXTURES "tiny", &w));
    lj_weight *q = lj_weights_find(w, "model.layers.0.self_attn.q_proj.weight");
    assert_fails(lj_weights_read(w, q, 30, 3, LJ_F32, out), LJ_ERR_INVALID, "has 32 rows, 30 .. 33 asked for");
    assert_fails(lj_weights_read(w, q, -1, 1, LJ_F32, out), LJ_ERR_INVALID, "rows");
    assert_fails(lj_weights_read(w, q, 0, INT64_MAX, LJ_F32, out), LJ_ERR_INVALID, "rows");
    assert_fails(lj_weights_read(w, q, 0, 1, LJ_I8, out), LJ_ERR_UNSUPPORTED, "is stored as F16 and cannot be read as i8");
    assert_ok(lj_weights_read(w, q, 32, 0, LJ_F32, out));
}

/* A folder with a config and one safetensors of the named F32 tensors, each filled with its index. */
typedef struct {
    const char *name;
    int64_t rows, columns; /* columns 0: a vector */
} stored;

static void folder_write(bool tied, const stored *tensors, size_t count)
{
    char config[600];
    lj_safetensors_writer *writer;
    int length = snprintf(config, sizeof config,
                          "{\"model_type\":\"llama\",\"vocab_size\":4,\"hidden_size\":8,\"intermediate_size\":8,\"num_hidden_layers\":0,"
                          "\"num_attention_heads\":2,\"tie_word_embeddings\":%s}",
                          tied ? "true" : "false");
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_ok(lj_file_write(path, config, (size_t)length));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_ok(lj_safetensors_writer_create(path, &writer));
    for (size_t i = 0; i < count; i++)
        assert_ok(lj_safetensors_writer_tensor(writer, tensors[i].name, LJ_F32, tensors[i].columns ? 2 : 1, (int64_t[]){tensors[i].rows, tensors[i].columns}));
    for (size_t i = 0; i < count; i++)
        for (int64_t e = 0; e < tensors[i].rows * (tensors[i].columns ? tensors[i].columns : 1); e++) {
            float value = (float)i;
            assert_ok(lj_safetensors_writer_write(writer, &value, 4));
        }
    assert_ok(lj_safetensors_writer_commit(writer));
    lj_weights_close(w), w = NULL;
    lj_weights_report_release(&report);
    assert_ok(lj_weights_open(folder, &w));
}

#define NORM {"model.norm.weight", 8, 0}
#define EMBEDDING {"model.embed_tokens.weight", 4, 8}
#define HEAD {"lm_head.weight", 4, 8}

/* training.md case 19. */
static void tied_heads(void **state)
{
    (void)state;
    const stored head_only[] = {NORM, HEAD}, embedding_only[] = {NORM, EMBEDDING}, neither[] = {NORM}, both[] = {NORM, EMBEDDING, HEAD};
    folder_write(true, head_only, 2);
    assert_ok(lj_weights_check_model(w, lj_weights_config(w), false, &report));
    assert_int_equal(report.unused + report.missing, 0);
    assert_ptr_equal(lj_weights_find(w, "lm_head.weight"), lj_weights_find(w, "model.embed_tokens.weight"));
    assert_non_null(lj_weights_find(w, "model.embed_tokens.weight"));
    folder_write(true, embedding_only, 2);
    assert_ok(lj_weights_check_model(w, lj_weights_config(w), false, &report));
    assert_ptr_equal(lj_weights_find(w, "lm_head.weight"), lj_weights_find(w, "model.embed_tokens.weight"));
    folder_write(true, neither, 1);
    assert_fails(lj_weights_check_model(w, lj_weights_config(w), false, &report), LJ_ERR_NOT_FOUND, "neither 'model.embed_tokens.weight' nor 'lm_head.weight'");
    lj_weights_report_release(&report);
    assert_fails(lj_weights_check_model(w, lj_weights_config(w), true, &report), LJ_ERR_NOT_FOUND, "neither"); /* never random values */
    assert_int_equal(report.missing, 1); /* written on this failure too */
    lj_weights_report_release(&report);
    folder_write(true, both, 3); /* filled with 1 and 2 */
    assert_fails(lj_weights_check_model(w, lj_weights_config(w), false, &report), LJ_ERR_INVALID, "set tie_word_embeddings to false");
}

static int warnings;
static void count_warnings(void *user, lj_log_level level, const char *line)
{
    (void)user;
    warnings += level == LJ_LOG_WARN && strstr(line, "model.norm.weight") != NULL;
}

/* training.md case 20. */
static void missing_tensors(void **state)
{
    (void)state;
    const stored no_norm[] = {EMBEDDING, HEAD, {"extra.bias", 3, 0}};
    folder_write(false, no_norm, 3);
    assert_fails(lj_weights_check_model(w, lj_weights_config(w), false, &report), LJ_ERR_NOT_FOUND, "tensor 'model.norm.weight' [8] is missing");
    assert_non_null(strstr(report.text.data, "missing: model.norm.weight [8]\n"));
    assert_non_null(strstr(report.text.data, "unused: extra.bias F32 [3]\n"));
    assert_int_equal(report.missing, 1);
    lj_weights_report_release(&report);
    warnings = 0;
    lj_log_set(count_warnings, NULL, LJ_LOG_INFO);
    assert_ok(lj_weights_check_model(w, lj_weights_config(w), true, &report));
    lj_log_set(NULL, NULL, LJ_LOG_INFO);
    assert_int_equal(report.missing, 1);
    assert_int_equal(warnings, 1);
}

static void misshapen_tensors(void **state)
{
    (void)state;
    const stored wrong[] = {EMBEDDING, {"lm_head.weight", 8, 4}, {"model.norm.weight", 7, 0}};
    folder_write(false, wrong, 3);
    assert_fails(lj_weights_check_model(w, lj_weights_config(w), true, &report), LJ_ERR_INVALID, "has shape [7], the model needs [8]");
    assert_non_null(strstr(report.text.data, "misshapen: lm_head.weight have [8, 4] need [4, 8]\n"));
    assert_int_equal(report.misshapen, 2);
}

static void bare_names_get_their_prefix(void **state)
{
    (void)state;
    const stored bare[] = {{"embed_tokens.weight", 4, 8}, {"norm.weight", 8, 0}};
    folder_write(true, bare, 2);
    assert_ok(lj_weights_check_model(w, lj_weights_config(w), false, &report));
    assert_string_equal(lj_weights_find(w, "model.norm.weight")->stored_name, "norm.weight");
}

static void text_write(const char *name, const char *text)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(lj_file_write(path, text, strlen(text)));
}

static void index_tricks_are_refused(void **state)
{
    (void)state;
    const stored all[] = {NORM, EMBEDDING, HEAD};
    char outside[256], target[600], link_path[600];
    static const char *const names[] = {"../x.safetensors", "/etc/passwd", "a/b.safetensors", ".hidden", "", "..", "bad\\nname"};
    folder_write(false, all, 3);
    lj_weights_close(w), w = NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(target, sizeof target, "%s/part.safetensors", folder);
    assert_int_equal(rename(path, target), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char index[400];
        snprintf(index, sizeof index, "{\"weight_map\":{\"lm_head.weight\":\"%s\"}}", names[i]);
        text_write("model.safetensors.index.json", index);
        assert_fails(lj_weights_open(folder, &w), LJ_ERR_FORMAT, "no plain file name");
    }
    static const struct {
        const char *text;
        lj_status status;
        const char *part;
    } rows[] = {
        {"{\"weight_map\":{\"lm_head.weight\":\"gone.safetensors\"}}", LJ_ERR_IO, "gone.safetensors"},
        {"{\"weight_map\":{\"other\":\"part.safetensors\"}}", LJ_ERR_FORMAT, "'other' should be in part.safetensors"},
        {"{\"weight_map\":{\"a\":\"part.safetensors\",\"a\":\"part.safetensors\"}}", LJ_ERR_FORMAT, "duplicate"},
        {"{\"weight_map\":{\"a\":3}}", LJ_ERR_FORMAT, "is no string"},
        {"{\"weight_map\":[]}", LJ_ERR_FORMAT, "'weight_map' is missing"},
        {"{}", LJ_ERR_FORMAT, "'weight_map' is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        text_write("model.safetensors.index.json", rows[i].text);
        assert_fails(lj_weights_open(folder, &w), rows[i].status, rows[i].part);
    }
    /* A link that leaves the folder, and one that does not. */
    test_folder_create(outside, sizeof outside);
    snprintf(link_path, sizeof link_path, "%s/outside.safetensors", outside);
    assert_int_equal(rename(target, link_path), 0);
    assert_int_equal(symlink(link_path, target), 0);
    text_write("model.safetensors.index.json", "{\"weight_map\":{\"lm_head.weight\":\"part.safetensors\"}}");
    assert_fails(lj_weights_open(folder, &w), LJ_ERR_FORMAT, "symbolic link out of its folder");
    unlink(target);
    snprintf(path, sizeof path, "%s/real.bin", folder);
    assert_int_equal(rename(link_path, path), 0);
    assert_int_equal(symlink("real.bin", target), 0);
    assert_ok(lj_weights_open(folder, &w));
    test_folder_remove(outside);
}

/* The layout of the Hugging Face cache: REPOSITORY/snapshots/REVISION/file -> ../../blobs/HASH. */
static void cache_links_are_followed(void **state)
{
    (void)state;
    const stored all[] = {NORM, EMBEDDING, HEAD};
    char blobs[400], snapshot[400], from[700], to[700];
    folder_write(false, all, 3);
    lj_weights_close(w), w = NULL;
    snprintf(blobs, sizeof blobs, "%s/models--a--b/blobs", folder);
    snprintf(snapshot, sizeof snapshot, "%s/models--a--b/snapshots/abc", folder);
    assert_ok(lj_folder_create(blobs, 0755));
    assert_ok(lj_folder_create(snapshot, 0755));
    static const char *const names[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/%s", folder, names[i]);
        snprintf(to, sizeof to, "%s/hash%zu", blobs, i);
        assert_int_equal(rename(from, to), 0);
        snprintf(from, sizeof from, "../../blobs/hash%zu", i);
        snprintf(to, sizeof to, "%s/%s", snapshot, names[i]);
        assert_int_equal(symlink(from, to), 0);
    }
    assert_ok(lj_weights_open(snapshot, &w));
    assert_ok(lj_weights_check_model(w, lj_weights_config(w), false, &report));
}

static void duplicate_over_shards_is_refused(void **state)
{
    (void)state;
    const stored all[] = {NORM, EMBEDDING, HEAD}, again[] = {HEAD};
    char a[600], b[600];
    folder_write(false, again, 1);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(a, sizeof a, "%s/a.safetensors", folder);
    snprintf(b, sizeof b, "%s/b.safetensors", folder);
    assert_int_equal(rename(path, a), 0);
    folder_write(false, all, 3);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(rename(path, b), 0);
    lj_weights_close(w), w = NULL;
    text_write("model.safetensors.index.json", "{\"weight_map\":{\"lm_head.weight\":\"a.safetensors\",\"model.norm.weight\":\"b.safetensors\"}}");
    assert_fails(lj_weights_open(folder, &w), LJ_ERR_FORMAT, "tensor 'lm_head.weight' is in");
}

static void other_paths_are_explained(void **state)
{
    (void)state;
    assert_fails(lj_weights_open("/nowhere/at/all", &w), LJ_ERR_NOT_FOUND, "no such file or folder");
    assert_fails(lj_weights_open("", &w), LJ_ERR_INVALID, "bad model path");
    assert_fails(lj_weights_open(folder, &w), LJ_ERR_NOT_FOUND, "no config.json");
    text_write("config.json", "{\"model_type\":\"llama\",\"vocab_size\":4,\"hidden_size\":8,\"intermediate_size\":8,\"num_hidden_layers\":0,\"num_attention_heads\":2}");
    assert_fails(lj_weights_open(folder, &w), LJ_ERR_NOT_FOUND, "neither model.safetensors nor");
    text_write("pytorch_model.bin", "x");
    assert_fails(lj_weights_open(folder, &w), LJ_ERR_UNSUPPORTED, "pytorch_model.bin");
    text_write("notes.txt", "x");
    assert_fails(lj_weights_open(path, &w), LJ_ERR_UNSUPPORTED, "is no model");
}

/* files.md case 28, and other metadata that does not fit the tensors. */
static void gguf_metadata_is_bounded(void **state)
{
    (void)state;
    gguf_build b;
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    gguf_build_init(&b);
    gguf_build_string(&b, "general.architecture", "llama");
    gguf_build_u32(&b, "llama.block_count", 100000);
    gguf_build_write(&b, path);
    assert_fails(lj_weights_open(path, &w), LJ_ERR_LIMIT, "'llama.block_count' is 100000; allowed are 1 .. 4096");
    gguf_build_release(&b);
    gguf_build_init(&b);
    gguf_build_string(&b, "general.architecture", "gpt2");
    gguf_build_write(&b, path);
    assert_fails(lj_weights_open(path, &w), LJ_ERR_UNSUPPORTED, "architecture 'gpt2'");
    gguf_build_release(&b);
    gguf_build_init(&b);
    gguf_build_llama(&b, true);
    gguf_build_tensor(&b, "blk.0.unknown.weight", 0, 1, (uint64_t[]){8}, NULL, 32);
    gguf_build_write(&b, path);
    assert_ok(lj_weights_open(path, &w));
    assert_true(lj_weights_config(w)->tie_word_embeddings);
    assert_ok(lj_weights_check_model(w, lj_weights_config(w), false, &report));
    assert_non_null(strstr(report.text.data, "unused: blk.0.unknown.weight F32 [8]"));
    gguf_build_release(&b);
}

static float llama3_divisor(double theta, int i, int head_dim, double factor, double low, double high, double original)
{
    double wavelength = 2 * 3.14159265358979323846 * pow(theta, 2.0 * i / head_dim), smooth = (original / wavelength - low) / (high - low);
    smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
    return (float)(1 / ((1 - smooth) / factor + smooth));
}

/* GGUF keeps the llama3 scaling only as a tensor of divisors; its numbers are solved for. Llama 3.1, 3.2, and an invented one. */
static void rope_scaling_is_recovered(void **state)
{
    (void)state;
    static const struct {
        double theta, factor, low, high;
        int head_dim, original;
    } rows[] = {{5e5, 8, 1, 4, 128, 8192}, {5e5, 32, 1, 4, 64, 8192}, {1e4, 5.5, 1, 3, 32, 300}};
    for (size_t r = 0; r < 3; r++) {
        gguf_build b;
        float divisors[64];
        int half = rows[r].head_dim / 2;
        for (int i = 0; i < half; i++)
            divisors[i] = llama3_divisor(rows[r].theta, i, rows[r].head_dim, rows[r].factor, rows[r].low, rows[r].high, rows[r].original);
        snprintf(path, sizeof path, "%s/x.gguf", folder);
        gguf_build_init(&b);
        gguf_build_llama(&b, true);
        gguf_build_u32(&b, "llama.attention.key_length", (uint32_t)rows[r].head_dim);
        gguf_build_f32(&b, "llama.rope.freq_base", (float)rows[r].theta);
        gguf_build_tensor(&b, "rope_freqs.weight", 0, 1, (uint64_t[]){(uint64_t)half}, divisors, 4 * (size_t)half);
        gguf_build_write(&b, path);
        assert_ok(lj_weights_open_any(path, &w)); /* q and k do not fit this head_dim */
        lj_gguf *gguf;
        lj_model_config c;
        assert_ok(lj_gguf_open(path, &gguf));
        assert_ok(lj_gguf_config_read(gguf, &c));
        assert_int_equal(c.rope_scaling.type, LJ_ROPE_LLAMA3);
        assert_true(c.rope_scaling.factor == (double)(float)rows[r].factor && c.rope_scaling.low_freq_factor == rows[r].low && c.rope_scaling.high_freq_factor == rows[r].high);
        assert_int_equal(c.rope_scaling.original_max_position_embeddings, rows[r].original);
        lj_gguf_close(gguf);
        lj_weights_close(w), w = NULL;
        gguf_build_release(&b);
    }
}

/* Jobs of odd sizes on several threads write what single reads write, and progress ends at the total. */
typedef struct {
    uint64_t last, total;
    int calls;
} seen_progress;

static void see_progress(void *user, uint64_t done, uint64_t total)
{
    seen_progress *seen = user;
    assert_true(done >= seen->last && done <= total);
    *seen = (seen_progress){done, total, seen->calls + 1};
}

static void parallel_load_equals_reads(void **state)
{
    (void)state;
    gguf_build b;
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    gguf_build_init(&b);
    gguf_build_llama(&b, true);
    uint8_t *blocks = calloc(1, 34 * 8 * 20000);
    for (size_t i = 0; i < 8 * 20000; i++) blocks[34 * i + 1] = 0x3c, blocks[34 * i + 2 + i % 32] = (uint8_t)i;
    gguf_build_tensor(&b, "big", 8, 2, (uint64_t[]){256, 20000}, blocks, 34 * 8 * 20000);
    gguf_build_tensor(&b, "vector", 8, 1, (uint64_t[]){32 * 70000}, blocks, 34 * 70000);
    gguf_build_write(&b, path);
    gguf_build_release(&b);
    free(blocks);
    assert_ok(lj_weights_open(path, &w));
    lj_weight *big = lj_weights_find(w, "big"), *vector = lj_weights_find(w, "vector"), *q = lj_weights_find(w, "model.layers.0.self_attn.q_proj.weight");
    size_t counts[] = {256 * 19990, 32 * 70000, 32 * 16}, total = counts[0] + counts[1] + counts[2];
    uint16_t *single = malloc(2 * total), *loaded = malloc(2 * total);
    assert_ok(lj_weights_read(w, big, 7, 19990, LJ_BF16, single));
    assert_ok(lj_weights_read(w, vector, 0, 32 * 70000, LJ_BF16, single + counts[0]));
    assert_ok(lj_weights_read(w, q, 16, 16, LJ_BF16, single + counts[0] + counts[1]));
    for (int threads = 1; threads <= 4; threads++) {
        seen_progress seen = {0};
        lj_weight_job jobs[] = {{big, 7, 19990, LJ_BF16, loaded}, {vector, 0, 32 * 70000, LJ_BF16, loaded + counts[0]}, {q, 16, 16, LJ_BF16, loaded + counts[0] + counts[1]}};
        memset(loaded, 0, 2 * total);
        assert_ok(lj_weights_load(w, jobs, 3, threads, see_progress, &seen));
        assert_memory_equal(single, loaded, 2 * total);
        assert_true(seen.last == 2 * total && seen.total == 2 * total && seen.calls > 5);
        jobs[1].rows++;
        assert_fails(lj_weights_load(w, jobs, 3, threads, NULL, NULL), LJ_ERR_INVALID, "rows");
    }
    assert_fails(lj_weights_read(w, vector, 16, 32, LJ_BF16, loaded), LJ_ERR_INVALID, "cut a block of 32");
    free(single), free(loaded);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(three_ways_agree),         TEST(ranges_and_types_are_checked),     TEST(tied_heads),                TEST(missing_tensors),          TEST(misshapen_tensors),
        TEST(bare_names_get_their_prefix), TEST(index_tricks_are_refused),      TEST(cache_links_are_followed),  TEST(duplicate_over_shards_is_refused),
        TEST(other_paths_are_explained), TEST(gguf_metadata_is_bounded),        TEST(rope_scaling_is_recovered), TEST(parallel_load_equals_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
