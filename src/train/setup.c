#include "train/setup.h"

#include "base/log.h"
#include "model/params.h"
#include "train/corpus.h"
#include "train/folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static lj_status recipe_check(const lj_recipe *r)
{
    if (!*r->model) return lj_fail(LJ_ERR_INVALID, "which model? give --model DIR, FILE.gguf or PRESET");
    if (!*r->out) return lj_fail(LJ_ERR_INVALID, "where to? give --out DIR for checkpoints and metrics");
    if (r->steps == 0 && r->epochs == 0) return lj_fail(LJ_ERR_INVALID, "nothing to do: --steps is 0 and --epochs is 0");
    if (r->warmup > r->steps && r->epochs == 0)
        return lj_fail(LJ_ERR_INVALID, "--warmup %lld is more than --steps %lld", (long long)r->warmup, (long long)r->steps);
    return LJ_OK;
}

static lj_status vocabulary_check(const lj_train_setup *s)
{
    int64_t model = s->source.config.vocab_size, words = (int64_t)lj_tokenizer_size(s->tokenizer);
    if (words <= model) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "the tokenizer has %lld ids, the model's vocabulary %lld; they do not belong together", (long long)words,
                   (long long)model);
}

static lj_status corpora_read(lj_train_setup *s)
{
    const lj_chat_format *format;
    LJ_TRY(lj_corpus_format(s->recipe.chat_format, &format));
    LJ_TRY(lj_corpus_read(s->recipe.data, s->tokenizer, format, &s->corpus));
    return *s->recipe.eval_data ? lj_corpus_read(s->recipe.eval_data, s->tokenizer, format, &s->eval_corpus) : LJ_OK;
}

/* A running text is cut once: training before, evaluation behind. Documents need a file of their own to be held out. */
static lj_status rows_make(lj_train_setup *s)
{
    const lj_recipe *r = &s->recipe;
    int64_t tokens = s->corpus.token_count, held = 0;
    bool stream = s->corpus.document_count == 1 && !s->corpus.marks;
    if (!*r->eval_data && stream) held = (int64_t)(r->eval_fraction * (double)tokens);
    if (held <= r->seq) held = 0;
    if (held == 0 && !*r->eval_data) lj_log(LJ_LOG_INFO, "note: nothing is held out%s; --eval-data FILE evaluates on another file",
                                            stream ? " (the held-out share is shorter than one row)" : "");
    LJ_TRY(lj_fail_in(lj_rows_init(&s->rows, &s->corpus, 0, tokens - held, r->seq), "%s", r->data));
    if (r->shuffle) lj_rows_shuffle(&s->rows, (uint64_t)r->seed);
    if (*r->eval_data) return lj_fail_in(lj_rows_init(&s->eval_rows, &s->eval_corpus, 0, s->eval_corpus.token_count, r->seq), "%s", r->eval_data);
    return held ? lj_rows_init(&s->eval_rows, &s->corpus, tokens - held, tokens, r->seq) : LJ_OK;
}

static lj_status trainer_make(lj_train_setup *s)
{
    const lj_recipe *r = &s->recipe;
    lj_dtype dtype;
    LJ_TRY(lj_dtype_find(r->dtype, &dtype));
    lj_trainer_options options = {.dtype = dtype,
                                  .threads = (int)r->threads,
                                  .eager = !r->compile,
                                  .recompute = r->recompute,
                                  .documents = s->rows.packed || s->eval_rows.packed,
                                  .accumulate = r->accum > 1,
                                  .rows = r->batch,
                                  .length = r->seq,
                                  .adamw = {r->beta1, r->beta2, r->adam_eps, r->weight_decay}};
    LJ_TRY(lj_recompute_resolve(&s->layout, &options, s->limit_bytes, &s->recompute));
    LJ_TRY(lj_trainer_create(&s->layout, &options, &s->trainer));
    LJ_TRY(lj_trainer_plan(s->trainer, &s->bytes));
    if (s->limit_bytes && s->bytes.peak > s->limit_bytes)
        return lj_fail(LJ_ERR_NOMEM, "the run needs %zu bytes, --memory allows %llu; --recompute auto finds what fits", s->bytes.peak,
                       (unsigned long long)s->limit_bytes);
    return lj_trainer_commit(s->trainer);
}

static lj_status weights_fill(lj_train_setup *s)
{
    const lj_recipe *r = &s->recipe;
    float *master = lj_trainer_master(s->trainer);
    if (r->random_weights) {
        lj_params_random(&s->layout, (uint64_t)r->seed, LJ_F32, master);
    } else if (!s->source.weights) {
        return lj_fail(LJ_ERR_NOT_FOUND, "%s has numbers but no weights; --random-weights starts from random ones", s->source.name);
    } else {
        LJ_TRY(lj_params_load(&s->layout, s->source.weights, r->allow_missing, (uint64_t)r->seed, LJ_F32, master));
    }
    lj_trainer_refresh(s->trainer);
    return LJ_OK;
}

static int64_t planned_steps(const lj_train_setup *s)
{
    const lj_recipe *r = &s->recipe;
    int64_t per_step = r->batch * r->accum;
    return r->epochs > 0 ? (s->rows.count * r->epochs + per_step - 1) / per_step : r->steps;
}

static lj_status schedule_make(lj_train_setup *s, lj_schedule *schedule)
{
    const lj_recipe *r = &s->recipe;
    *schedule = (lj_schedule){.peak = r->lr, .floor = r->min_lr, .warmup = r->warmup, .total = planned_steps(s), .decay_fraction = r->decay_fraction};
    LJ_TRY(lj_schedule_find(r->schedule, &schedule->kind));
    if (!r->decay) schedule->total = 0; /* WarmupLR */
    return LJ_OK;
}

static lj_status resume_or_start(lj_train_setup *s, bool resume)
{
    char *path;
    if (!resume) return weights_fill(s);
    LJ_TRY(lj_checkpoint_newest(s->recipe.out, &path));
    lj_status status = lj_checkpoint_load(path, &s->recipe, s->trainer, &s->loop.state);
    if (status == LJ_OK)
        lj_log(LJ_LOG_INFO, "resuming from %s: step %lld, row %lld of epoch %lld", path, (long long)s->loop.state.step,
               (long long)(s->loop.state.position % s->rows.count), (long long)(s->loop.state.position / s->rows.count + 1));
    free(path);
    return status;
}

static lj_status data_same(const lj_train_setup *s, uint64_t hash)
{
    if (s->loop.state.data_hash == 0 || s->loop.state.data_hash == hash) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s: the data is not what the checkpoint was trained on (its tokens hash to %016llx, now %016llx)", s->recipe.data,
                   (unsigned long long)s->loop.state.data_hash, (unsigned long long)hash);
}

static lj_status out_is_free(const lj_recipe *r)
{
    int64_t *steps;
    size_t count;
    LJ_TRY(lj_folder_steps(r->out, &steps, &count));
    free(steps);
    if (count == 0) return LJ_OK;
    return lj_fail(LJ_ERR_INVALID, "%s already holds %zu checkpoint%s; go on with --resume, or choose another --out", r->out, count, count == 1 ? "" : "s");
}

/* The tokenizer that was trained with is the one to save: a folder named by --tokenizer, or the model's own. */
static lj_tokenizer_origin tokenizer_origin(const lj_train_setup *s)
{
    struct stat info;
    const char *named = s->recipe.tokenizer;
    if (*named) return (lj_tokenizer_origin){stat(named, &info) == 0 && S_ISDIR(info.st_mode) ? named : "", NULL};
    return (lj_tokenizer_origin){s->source.folder, s->source.weights ? lj_weights_gguf(s->source.weights) : NULL};
}

static lj_status open_all(lj_train_setup *s, bool resume)
{
    LJ_TRY(recipe_check(&s->recipe));
    if (!resume) LJ_TRY(out_is_free(&s->recipe));
    LJ_TRY(lj_model_source_open(s->recipe.model, &s->source));
    if (s->source.config.attention_dropout > 0)
        return lj_fail(LJ_ERR_UNSUPPORTED, "attention_dropout %g: dropout inside attention is not built; set it to 0 in config.json",
                       s->source.config.attention_dropout);
    LJ_TRY(lj_layout_init(&s->layout, &s->source.config, lj_model_whole(&s->source.config)));
    LJ_TRY(lj_model_source_tokenizer(&s->source, s->recipe.tokenizer, &s->tokenizer));
    LJ_TRY(vocabulary_check(s));
    LJ_TRY(corpora_read(s));
    LJ_TRY(rows_make(s));
    s->loop.recipe = &s->recipe;
    LJ_TRY(schedule_make(s, &s->loop.schedule));
    LJ_TRY(trainer_make(s));
    LJ_TRY(resume_or_start(s, resume));
    uint64_t hash = lj_corpus_fingerprint(&s->corpus);
    LJ_TRY(data_same(s, hash));
    s->loop.state.data_hash = hash;
    s->loop.trainer = s->trainer;
    s->loop.rows = &s->rows, s->loop.eval_rows = s->eval_rows.count ? &s->eval_rows : NULL;
    s->loop.tokenizer = tokenizer_origin(s);
    s->loop.last_step = planned_steps(s);
    return LJ_OK;
}

lj_status lj_train_setup_open(const lj_recipe *recipe, bool resume, uint64_t limit_bytes, lj_train_setup *setup)
{
    *setup = (lj_train_setup){.recipe = *recipe, .limit_bytes = limit_bytes};
    return open_all(setup, resume);
}

void lj_train_setup_close(lj_train_setup *setup)
{
    lj_trainer_destroy(setup->trainer);
    lj_rows_release(&setup->rows);
    lj_rows_release(&setup->eval_rows);
    lj_corpus_release(&setup->corpus);
    lj_corpus_release(&setup->eval_corpus);
    lj_tokenizer_destroy(setup->tokenizer);
    lj_layout_release(&setup->layout);
    lj_model_source_close(&setup->source);
    *setup = (lj_train_setup){0};
}
