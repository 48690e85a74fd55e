#include "infer/generator.h"

#include "base/memory.h"
#include "model/graphs.h"
#include "model/params.h"
#include "model/rope.h"

#include <stdio.h>

struct lj_generator {
    const lj_param_layout *layout;
    lj_generator_options options;
    lj_program *program;
    char *cache;
    float *cosines, *sines, *logits;
    int32_t *tokens, *positions; /* [chunk] */
    int32_t start, last;
    int64_t length;
};

/* One layer's keys or values, padded to 64 bytes. */
static size_t layer_bytes(const lj_model_config *config, lj_dtype dtype, int64_t context)
{
    size_t bytes = (size_t)(context * config->num_key_value_heads * config->head_dim) * lj_dtype_bytes(dtype);
    return (bytes + 63) / 64 * 64;
}

size_t lj_generator_cache_bytes(const lj_model_config *config, lj_dtype dtype, int64_t context)
{
    return 2 * (size_t)config->num_hidden_layers * layer_bytes(config, dtype, context);
}

static lj_status buffers_create(lj_generator *g)
{
    const lj_model_config *c = &g->layout->config;
    size_t table = (size_t)(g->options.context * c->head_dim) * 4, chunk = (size_t)g->options.chunk * 4;
    LJ_TRY(lj_alloc_zero("kv cache", lj_generator_cache_bytes(c, g->options.dtype, g->options.context), (void **)&g->cache));
    LJ_TRY(lj_alloc("rotary tables", table, (void **)&g->cosines));
    LJ_TRY(lj_alloc("rotary tables", table, (void **)&g->sines));
    LJ_TRY(lj_alloc("logits", (size_t)c->vocab_size * 4, (void **)&g->logits));
    LJ_TRY(lj_alloc("prompt chunk", chunk, (void **)&g->tokens));
    LJ_TRY(lj_alloc("prompt chunk", chunk, (void **)&g->positions));
    lj_rope_tables(c, g->options.context, g->cosines, g->sines);
    return LJ_OK;
}

static lj_status cache_bind(lj_generator *g)
{
    const lj_model_config *c = &g->layout->config;
    size_t each = layer_bytes(c, g->options.dtype, g->options.context);
    for (int64_t layer = 0; layer < c->num_hidden_layers; layer++)
        for (int which = 0; which < 2; which++) {
            char name[48];
            snprintf(name, sizeof name, "cache.%c.%lld", which ? 'v' : 'k', (long long)layer);
            LJ_TRY(lj_program_bind(g->program, name, g->cache + (size_t)(2 * layer + which) * each));
        }
    return LJ_OK;
}

static lj_status program_create(lj_generator *g, const void *weights)
{
    lj_model_graph_options options = {.dtype = g->options.dtype};
    lj_program_options compile = {.threads = g->options.threads, .eager = g->options.eager, .name = "decode"};
    lj_graph *graph;
    LJ_TRY(lj_model_graph_decode(g->layout, &options, &graph));
    lj_status status = lj_program_compile(graph, &compile, &g->program);
    lj_graph_destroy(graph);
    LJ_TRY(status);
    LJ_TRY(lj_params_bind(g->program, g->layout, "", g->options.dtype, (void *)weights));
    LJ_TRY(cache_bind(g));
    struct {
        const char *name;
        void *data;
    } rows[] = {{"tokens", g->tokens}, {"positions", g->positions}, {"cosines", g->cosines}, {"sines", g->sines},
                {"start", &g->start},  {"last", &g->last},          {"logits", g->logits}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) LJ_TRY(lj_program_bind(g->program, rows[i].name, rows[i].data));
    return LJ_OK;
}

lj_status lj_generator_create(const lj_param_layout *layout, const void *weights, const lj_generator_options *options, lj_generator **generator)
{
    void *memory;
    if (layout->config.num_hidden_layers == 0) return lj_fail(LJ_ERR_UNSUPPORTED, "a model without layers cannot be continued");
    LJ_TRY(lj_alloc_zero("generator", sizeof(lj_generator), &memory));
    lj_generator *g = memory;
    *g = (lj_generator){.layout = layout, .options = *options};
    if (g->options.chunk == 0) g->options.chunk = 256;
    lj_status status = buffers_create(g);
    if (status == LJ_OK) status = program_create(g, weights);
    if (status == LJ_OK)
        *generator = g;
    else
        lj_generator_destroy(g);
    return status;
}

void lj_generator_destroy(lj_generator *generator)
{
    if (!generator) return;
    if (generator->program) lj_program_destroy(generator->program);
    void *buffers[] = {generator->cache, generator->cosines, generator->sines, generator->logits, generator->tokens, generator->positions, generator};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) lj_free(buffers[i]);
}

static lj_status chunk_run(lj_generator *g, const int32_t *tokens, int64_t count)
{
    const lj_size sizes[] = {{"B", 1}, {"T", count}, {"P", g->options.context}, {"S", g->options.context}};
    for (int64_t i = 0; i < count; i++) g->tokens[i] = tokens[i], g->positions[i] = (int32_t)(g->length + i);
    g->start = (int32_t)g->length, g->last = (int32_t)(count - 1);
    LJ_TRY(lj_program_run(g->program, sizes, sizeof sizes / sizeof *sizes));
    g->length += count;
    return LJ_OK;
}

lj_status lj_generator_feed(lj_generator *generator, const int32_t *tokens, int64_t count, const float **logits)
{
    if (count < 1) return lj_fail(LJ_ERR_INVALID, "no token to continue from; the prompt is empty");
    if (generator->length + count > generator->options.context)
        return lj_fail(LJ_ERR_LIMIT, "%lld tokens after %lld do not fit the context of %lld; use a larger --context", (long long)count,
                       (long long)generator->length, (long long)generator->options.context);
    for (int64_t at = 0; at < count; at += generator->options.chunk)
        LJ_TRY(chunk_run(generator, tokens + at, count - at < generator->options.chunk ? count - at : generator->options.chunk));
    *logits = generator->logits;
    return LJ_OK;
}

void lj_generator_rewind(lj_generator *generator, int64_t length)
{
    if (length < generator->length) generator->length = length;
}

int64_t lj_generator_length(const lj_generator *generator)
{
    return generator->length;
}
