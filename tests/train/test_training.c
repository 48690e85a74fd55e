/* The loop on a small model: accumulation is exact, resuming is bit-equal, failures leave a checkpoint. */
#include "support/testing.h"

#include "base/file.h"
#include "formats/weights.h"
#include "model/params.h"
#include "train/loop.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { SEQ = 16 };

typedef struct {
    lj_param_layout layout;
    lj_corpus corpus;
    lj_rows rows;
    lj_recipe recipe;
    lj_trainer *trainer;
    lj_train_loop loop;
    char out[512];
} run;

/* 23 documents of 3 to 20 tokens with marks, or one text of 400 tokens. */
static lj_corpus corpus_make(bool packed)
{
    uint64_t state = 11;
    lj_corpus c = {.document_count = packed ? 23 : 1, .ends = calloc(24, sizeof(int64_t))};
    for (int64_t d = 0; d < c.document_count; d++) c.ends[d] = c.token_count += packed ? test_random_range(&state, 3, 20) : 400;
    assert_ok(lj_alloc("tokens", (size_t)c.token_count * sizeof *c.tokens, (void **)&c.tokens));
    c.marks = packed ? malloc((size_t)c.token_count) : NULL;
    for (int64_t i = 0; i < c.token_count; i++) {
        c.tokens[i] = (int32_t)(test_random(&state) % 61);
        if (packed) c.marks[i] = test_random(&state) % 4 != 0;
    }
    return c;
}

static lj_recipe recipe_of(const char *out, const char *dtype, int64_t batch, int64_t accum)
{
    return (lj_recipe){.model = "fixture", .data = "memory", .eval_data = "", .tokenizer = "", .chat_format = "", .out = out, .dtype = dtype,
                       .schedule = "cosine", .recompute = "none",
                       .steps = 20, .batch = batch, .seq = SEQ, .accum = accum, .threads = 2, .seed = 1, .warmup = 3, .keep = 2, .lr = 1e-3,
                       .decay_fraction = 0.2, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .adam_eps = 1e-8, .clip = 1.0, .shuffle = true,
                       .decay = true, .compile = true};
}

static void run_open(run *r, const lj_recipe *recipe, bool packed)
{
    char folder[512];
    lj_weights *weights;
    lj_trainer_options options = {.dtype = strcmp(recipe->dtype, "fp32") == 0 ? LJ_F32 : LJ_BF16,
                                  .threads = 2,
                                  .documents = packed,
                                  .accumulate = recipe->accum > 1,
                                  .rows = recipe->batch,
                                  .length = SEQ,
                                  .adamw = {0.9, 0.95, 1e-8, 0.1}};
    *r = (run){.recipe = *recipe};
    snprintf(folder, sizeof folder, "%s/model/llama3", LJ_TEST_DATA);
    assert_ok(lj_weights_open(folder, &weights));
    const lj_model_config *config = lj_weights_config(weights);
    assert_ok(lj_layout_init(&r->layout, config, lj_model_whole(config)));
    assert_ok(lj_trainer_create(&r->layout, &options, &r->trainer));
    assert_ok(lj_trainer_commit(r->trainer));
    assert_ok(lj_params_load(&r->layout, weights, false, 0, LJ_F32, lj_trainer_master(r->trainer)));
    lj_weights_close(weights);
    lj_trainer_refresh(r->trainer);
    r->corpus = corpus_make(packed);
    assert_ok(lj_rows_init(&r->rows, &r->corpus, 0, r->corpus.token_count, SEQ));
    lj_rows_shuffle(&r->rows, 1);
    r->loop = (lj_train_loop){.trainer = r->trainer, .recipe = &r->recipe, .rows = &r->rows, .eval_rows = &r->rows,
                              .schedule = {LJ_SCHEDULE_COSINE, 1e-3, 0, 3, 20, 0}, .last_step = recipe->steps};
}

static void run_close(run *r)
{
    lj_trainer_destroy(r->trainer);
    lj_rows_release(&r->rows);
    lj_corpus_release(&r->corpus);
    lj_layout_release(&r->layout);
}

/* Case 2: the same eight rows as 1, 2, 4 and 8 micro-batches. */
static void accumulation_is_exact(void **unused)
{
    (void)unused;
    double loss[4], norm[4];
    for (int k = 0; k < 4; k++) {
        int64_t accum = 1 << k, batch = 8 >> k;
        run r;
        lj_recipe recipe = recipe_of("", "fp32", batch, accum);
        run_open(&r, &recipe, true);
        lj_batch b[8];
        int64_t total = 0;
        loss[k] = 0;
        for (int64_t i = 0; i < accum; i++) {
            assert_ok(lj_batch_init(&b[i], batch, SEQ));
            lj_rows_fill(&r.rows, i * batch, batch, &b[i]);
            total += lj_batch_target_count(&b[i]);
        }
        for (int64_t i = 0; i < accum; i++) {
            double part;
            lj_batch_weigh(&b[i], total);
            assert_ok(lj_trainer_micro(r.trainer, &b[i], i == 0, &part));
            loss[k] += part;
            lj_batch_release(&b[i]);
        }
        assert_ok(lj_trainer_update(r.trainer, 1, 1e-3, 1, &norm[k]));
        run_close(&r);
        if (fabs(loss[k] / loss[0] - 1) > 1e-6 || fabs(norm[k] / norm[0] - 1) > 1e-5)
            fail_msg("accumulation %lld: loss %.9g norm %.9g; without: %.9g %.9g", (long long)accum, loss[k], norm[k], loss[0], norm[0]);
    }
}

static void loop_run(run *r, int64_t stop_after)
{
    r->loop.stop_after = stop_after;
    assert_ok(lj_train_loop_run(&r->loop));
}

static void same_bytes(const char *a, const char *b, const char *file)
{
    char path[2][600];
    lj_mapped_file files[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/step-000020/%s", i ? b : a, file);
        assert_ok(lj_mapped_file_init(&files[i], path[i]));
    }
    if (files[0].bytes != files[1].bytes || memcmp(files[0].data, files[1].data, files[0].bytes) != 0) fail_msg("%s differs after the resume", file);
    for (int i = 0; i < 2; i++) lj_mapped_file_release(&files[i]);
}

/* Loss, lr and gradient norm of every step; times differ. */
static void same_metrics(const char *a, const char *b)
{
    char path[2][600], line[2][512];
    FILE *files[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/metrics.jsonl", i ? b : a);
        files[i] = fopen(path[i], "r");
        assert_non_null(files[i]);
    }
    int lines = 0;
    for (;;) {
        char *got[2];
        for (int i = 0; i < 2; i++)
            do got[i] = fgets(line[i], sizeof line[i], files[i]);
            while (got[i] && strstr(line[i], "eval_loss"));
        if (!got[0] && !got[1]) break;
        assert_true(got[0] && got[1]);
        for (int i = 0; i < 2; i++) *strstr(line[i], ", \"seconds\"") = 0;
        assert_string_equal(line[0], line[1]);
        lines++;
    }
    assert_int_equal(lines, 20);
    for (int i = 0; i < 2; i++) fclose(files[i]);
}

/* 20 steps in one go, and 13 + 7: packed, shuffled, accumulation 3, over the end of an epoch. */
static void resume_check(const char *dtype)
{
    char base[256], whole[300], halves[300], *path;
    run r;
    test_folder_create(base, sizeof base);
    snprintf(whole, sizeof whole, "%s/whole", base);
    snprintf(halves, sizeof halves, "%s/halves", base);
    lj_recipe recipe = recipe_of(whole, dtype, 2, 3);
    run_open(&r, &recipe, true);
    assert_true(r.rows.count < 13 * 6); /* the stop comes after an epoch's end */
    loop_run(&r, 0);
    run_close(&r);
    recipe.out = halves;
    run_open(&r, &recipe, true);
    loop_run(&r, 13);
    assert_true(r.loop.stopped);
    assert_int_equal(r.loop.state.step, 13);
    run_close(&r);
    run_open(&r, &recipe, true);
    assert_ok(lj_checkpoint_newest(halves, &path));
    assert_ok(lj_checkpoint_load(path, &recipe, r.trainer, &r.loop.state));
    free(path);
    loop_run(&r, 0);
    run_close(&r);
    same_bytes(whole, halves, "model.safetensors");
    same_bytes(whole, halves, "optimizer.safetensors");
    same_metrics(whole, halves);
    test_folder_remove(base);
}

static void resume_is_bit_equal_fp32(void **unused)
{
    (void)unused;
    resume_check("fp32");
}
static void resume_is_bit_equal_bf16(void **unused)
{
    (void)unused;
    resume_check("bf16");
}

static void other_recipes_are_refused(void **unused)
{
    (void)unused;
    char base[256], *path;
    run r;
    test_folder_create(base, sizeof base);
    lj_recipe recipe = recipe_of(base, "fp32", 2, 1);
    run_open(&r, &recipe, true);
    loop_run(&r, 1);
    assert_ok(lj_checkpoint_newest(base, &path));
    recipe.lr = 2e-3;
    assert_fails(lj_checkpoint_load(path, &recipe, r.trainer, &r.loop.state), LJ_ERR_INVALID, "lr 0.001");
    recipe.lr = 1e-3, recipe.steps = 30, recipe.keep = 5;
    assert_ok(lj_checkpoint_load(path, &recipe, r.trainer, &r.loop.state));
    free(path);
    run_close(&r);
    test_folder_remove(base);
}

/* Every write, open and rename of a save fails once: the older checkpoint stays the newest. */
typedef struct {
    int count, fail_at;
} fault_state;

static bool fault(void *user, const char *kind, const char *name)
{
    fault_state *f = user;
    (void)name;
    if (strcmp(kind, "alloc") == 0) return false;
    return f->count++ == f->fail_at;
}

static void failing_saves_keep_the_older_checkpoint(void **unused)
{
    (void)unused;
    char base[256], *path;
    run r;
    test_folder_create(base, sizeof base);
    lj_recipe recipe = recipe_of(base, "fp32", 2, 1);
    run_open(&r, &recipe, true);
    loop_run(&r, 1);
    for (int at = 0;; at++) {
        fault_state f = {0, at};
        lj_train_state state = r.loop.state;
        state.step = 2;
        lj_fault_set(fault, &f);
        lj_status status = lj_checkpoint_save(r.trainer, &state, &recipe, &(lj_tokenizer_origin){0}, &path);
        lj_fault_set(NULL, NULL);
        if (status == LJ_OK) {
            assert_true(at > 10);
            free(path);
            break;
        }
        assert_ok(lj_checkpoint_newest(base, &path));
        assert_non_null(strstr(path, "step-000001"));
        lj_train_state loaded;
        assert_ok(lj_checkpoint_load(path, &recipe, r.trainer, &loaded));
        free(path);
    }
    assert_ok(lj_checkpoint_newest(base, &path));
    assert_non_null(strstr(path, "step-000002"));
    free(path);
    run_close(&r);
    test_folder_remove(base);
}

static void nan_stops_with_a_report(void **unused)
{
    (void)unused;
    char base[256], path[600];
    run r;
    test_folder_create(base, sizeof base);
    lj_recipe recipe = recipe_of(base, "fp32", 2, 1);
    run_open(&r, &recipe, true);
    lj_trainer_master(r.trainer)[lj_layout_find(&r.layout, LJ_PARAM_FINAL_NORM, -1)->offset] = NAN;
    assert_fails(lj_train_loop_run(&r.loop), LJ_ERR_INVALID, "loss is nan at step 1");
    snprintf(path, sizeof path, "%s/stopped/tensors.jsonl", base);
    assert_int_equal(access(path, R_OK), 0);
    snprintf(path, sizeof path, "%s/stopped/batch.jsonl", base);
    assert_int_equal(access(path, R_OK), 0);
    run_close(&r);
    test_folder_remove(base);
}

/* Case 13, one rank: each row is counted once although the last batch is smaller. */
static void evaluation_counts_each_row_once(void **unused)
{
    (void)unused;
    lj_eval_metrics by_one, by_many;
    run r;
    lj_recipe recipe = recipe_of("", "fp32", 5, 1);
    run_open(&r, &recipe, false);
    assert_int_equal(r.rows.count, 24);
    assert_ok(lj_train_evaluate(r.trainer, &r.rows, 5, &by_many));
    assert_ok(lj_train_evaluate(r.trainer, &r.rows, 1, &by_one));
    assert_int_equal(by_many.rows, 24);
    assert_int_equal(by_many.tokens, 24 * SEQ);
    assert_int_equal(by_one.tokens, by_many.tokens);
    assert_true(fabs(by_one.loss - by_many.loss) < 1e-6);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(accumulation_is_exact),
                                       cmocka_unit_test(resume_is_bit_equal_fp32),
                                       cmocka_unit_test(resume_is_bit_equal_bf16),
                                       cmocka_unit_test(other_recipes_are_refused),
                                       cmocka_unit_test(failing_saves_keep_the_older_checkpoint),
                                       cmocka_unit_test(nan_stops_with_a_report),
                                       cmocka_unit_test(evaluation_counts_each_row_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
