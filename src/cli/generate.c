/* ljperf generate: continues a prompt, streaming whole characters. */
#include "base/clock.h"
#include "cli/commands.h"
#include "infer/sampler.h"
#include "infer/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const lj_config *config;
    lj_session session;
    lj_generator *generator;
    lj_sampler *sampler;
    lj_decode_stream stream;
    lj_ids ids;
    size_t prompt_count;
    lj_text shown;   /* all generated text */
    size_t printed;  /* bytes of it that are out */
    bool stopped;
    double prompt_s, generate_s;
} generation;

static lj_status stdin_read(lj_text *out)
{
    char piece[4096];
    if (isatty(STDIN_FILENO)) return lj_fail(LJ_ERR_INVALID, "no prompt: give --prompt TEXT, or text on standard input");
    for (ssize_t n; (n = read(STDIN_FILENO, piece, sizeof piece)) > 0;) lj_text_add_bytes(out, piece, (size_t)n);
    return lj_text_status(out);
}

static lj_status prompt_encode(generation *g)
{
    lj_text prompt;
    lj_text_init(&prompt);
    const char *given = lj_config_string(g->config, LJ_CFG_prompt);
    if (*given) lj_text_add(&prompt, "%s", given);
    lj_status status = *given ? lj_text_status(&prompt) : stdin_read(&prompt);
    lj_encode_options options = {.add_special = true, .parse_special = true};
    if (status == LJ_OK) status = lj_tokenizer_encode(g->session.tokenizer, prompt.data ? prompt.data : "", prompt.length, options, &g->ids);
    lj_text_release(&prompt);
    if (status == LJ_OK && g->ids.count == 0) status = lj_fail(LJ_ERR_INVALID, "the prompt is empty");
    g->prompt_count = g->ids.count;
    return status;
}

static lj_status sampler_open(generation *g)
{
    const lj_config *c = g->config;
    lj_sampler_options options = {.temperature = lj_config_float(c, LJ_CFG_temperature),
                                  .top_k = lj_config_int(c, LJ_CFG_top_k),
                                  .top_p = lj_config_float(c, LJ_CFG_top_p),
                                  .min_p = lj_config_float(c, LJ_CFG_min_p),
                                  .repetition_penalty = lj_config_float(c, LJ_CFG_repetition_penalty),
                                  .seed = (uint64_t)lj_config_int(c, LJ_CFG_seed)};
    return lj_sampler_create(&options, g->session.layout.config.vocab_size, &g->sampler);
}

static lj_status generator_open(generation *g)
{
    const lj_config *c = g->config;
    int64_t need = (int64_t)g->ids.count + lj_config_int(c, LJ_CFG_max_tokens), context = lj_config_int(c, LJ_CFG_context);
    int64_t most = g->session.layout.config.max_position_embeddings;
    if (context == 0) context = need < most ? need : most;
    if ((int64_t)g->ids.count > context)
        return lj_fail(LJ_ERR_LIMIT, "the prompt has %zu tokens, the context holds %lld; shorten it or raise --context", g->ids.count, (long long)context);
    lj_dtype dtype;
    LJ_TRY(lj_dtype_find(lj_config_string(c, LJ_CFG_dtype), &dtype));
    lj_generator_options options = {.dtype = dtype, .threads = (int)lj_config_int(c, LJ_CFG_threads), .context = context};
    return lj_generator_create(&g->session.layout, g->session.weights, &options, &g->generator);
}

/* Bytes that may still be the beginning of the stop text are held back. */
static size_t safe_length(const lj_text *text, const char *stop)
{
    size_t length = text->length, longest = strlen(stop);
    for (size_t n = longest ? longest - 1 : 0; n > 0; n--)
        if (n <= length && memcmp(text->data + length - n, stop, n) == 0) return length - n;
    return length;
}

static void print_new(generation *g, size_t until)
{
    if (until <= g->printed) return;
    fwrite(g->shown.data + g->printed, 1, until - g->printed, stdout);
    fflush(stdout);
    g->printed = until;
}

static void show(generation *g)
{
    const char *stop = lj_config_string(g->config, LJ_CFG_stop);
    if (lj_config_bool(g->config, LJ_CFG_ids) || !g->shown.data) return;
    const char *hit = *stop ? strstr(g->shown.data, stop) : NULL;
    g->stopped = hit != NULL;
    print_new(g, hit ? (size_t)(hit - g->shown.data) : safe_length(&g->shown, stop));
}

static lj_status token_take(generation *g, int32_t id)
{
    LJ_TRY(lj_ids_add(&g->ids, id));
    if (lj_config_bool(g->config, LJ_CFG_ids)) printf(g->ids.count == g->prompt_count + 1 ? "%d" : " %d", id), fflush(stdout);
    LJ_TRY(lj_decode_stream_add(&g->stream, id, &g->shown));
    show(g);
    return LJ_OK;
}

static lj_status tokens_generate(generation *g)
{
    double begin = lj_now_s();
    const float *logits;
    LJ_TRY(lj_generator_feed(g->generator, g->ids.data, (int64_t)g->ids.count, &logits));
    g->prompt_s = lj_now_s() - begin;
    begin = lj_now_s();
    for (int64_t n = lj_config_int(g->config, LJ_CFG_max_tokens); n > 0 && !g->stopped; n--) {
        int32_t id;
        LJ_TRY(lj_sampler_pick(g->sampler, logits, g->ids.data, (int64_t)g->ids.count, &id));
        if (lj_tokenizer_ends_turn(g->session.tokenizer, id)) break;
        LJ_TRY(token_take(g, id));
        if (n == 1 || g->stopped) break;
        LJ_TRY(lj_generator_feed(g->generator, &id, 1, &logits));
    }
    g->generate_s = lj_now_s() - begin;
    LJ_TRY(lj_decode_stream_end(&g->stream, &g->shown));
    show(g);
    if (!g->stopped && !lj_config_bool(g->config, LJ_CFG_ids) && g->shown.data) print_new(g, g->shown.length);
    return putchar('\n') == EOF ? lj_fail_errno("write", "standard output") : LJ_OK;
}

static lj_status generation_run(generation *g)
{
    lj_dtype dtype;
    LJ_TRY(lj_dtype_find(lj_config_string(g->config, LJ_CFG_dtype), &dtype));
    lj_session_options options = {.model = lj_config_string(g->config, LJ_CFG_model),
                                  .tokenizer = lj_config_string(g->config, LJ_CFG_tokenizer),
                                  .dtype = dtype,
                                  .random_weights = lj_config_bool(g->config, LJ_CFG_random_weights),
                                  .seed = (uint64_t)lj_config_int(g->config, LJ_CFG_seed)};
    LJ_TRY(lj_session_open(&options, &g->session));
    LJ_TRY(prompt_encode(g));
    LJ_TRY(sampler_open(g));
    LJ_TRY(generator_open(g));
    lj_decode_stream_init(&g->stream, g->session.tokenizer, true);
    LJ_TRY(tokens_generate(g));
    size_t made = g->ids.count - g->prompt_count;
    lj_log(LJ_LOG_INFO, "%zu prompt tokens in %.2f s (%.1f tokens/s), %zu generated in %.2f s (%.1f tokens/s)", g->prompt_count, g->prompt_s,
           (double)g->prompt_count / g->prompt_s, made, g->generate_s, (double)made / g->generate_s);
    return LJ_OK;
}

int lj_command_generate(const lj_command_input *input)
{
    generation g = {.config = input->config};
    if (!*lj_config_string(input->config, LJ_CFG_model)) {
        (void)lj_fail(LJ_ERR_INVALID, "which model? give --model DIR or FILE.gguf");
        return LJ_EXIT_USAGE;
    }
    lj_text_init(&g.shown);
    lj_status status = generation_run(&g);
    lj_text_release(&g.shown);
    lj_ids_release(&g.ids);
    lj_sampler_destroy(g.sampler);
    lj_generator_destroy(g.generator);
    lj_session_close(&g.session);
    return lj_exit(status);
}
