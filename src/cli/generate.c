#define _GNU_SOURCE
/* ljperf generate: continues a prompt, streaming whole characters. */
#include "base/clock.h"
#include "cli/commands.h"
#include "infer/sampler.h"
#include "infer/session.h"
#include "text/chat.h"

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
    lj_ids ids;          /* all tokens: prompt, then what was generated */
    lj_ids held;         /* tokens whose keys and values the cache holds */
    size_t prompt_count;
    const lj_chat_format *format; /* --chat */
    json_t *messages;
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

static lj_status message_add(generation *g, const char *role, const char *content, size_t bytes)
{
    json_t *text = json_stringn(content, bytes);
    if (!text) return lj_fail(LJ_ERR_INVALID, "the %s's words are not UTF-8", role);
    return json_array_append_new(g->messages, json_pack("{s:s, s:o}", "role", role, "content", text)) == 0 ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "messages");
}

/* The conversation so far as tokens, ending where the assistant begins. */
static lj_status conversation_encode(generation *g)
{
    lj_chat_message *messages;
    size_t count;
    lj_text learnt;
    lj_text_init(&learnt);
    g->ids.count = 0;
    LJ_TRY(lj_chat_messages(g->messages, &messages, &count));
    lj_chat_options options = {.generation = true};
    lj_status status = lj_chat_encode(g->format, g->session.tokenizer, messages, count, options, &g->ids, &learnt);
    lj_free(messages);
    lj_text_release(&learnt);
    return status;
}

static lj_status conversation_open(generation *g)
{
    const char *name = lj_config_string(g->config, LJ_CFG_chat_format), *system = lj_config_string(g->config, LJ_CFG_system);
    LJ_TRY(*name ? lj_chat_format_find(name, &g->format) : lj_chat_format_of(g->session.tokenizer, &g->format));
    g->messages = json_array();
    return *system ? message_add(g, "system", system, strlen(system)) : LJ_OK;
}

static lj_status text_encode(generation *g, const lj_text *prompt)
{
    lj_encode_options options = {.add_special = true, .parse_special = true};
    const char *text = prompt->data ? prompt->data : "";
    if (!g->format) return lj_tokenizer_encode(g->session.tokenizer, text, prompt->length, options, &g->ids);
    LJ_TRY(message_add(g, "user", text, prompt->length));
    return conversation_encode(g);
}

static lj_status prompt_encode(generation *g)
{
    lj_text prompt;
    lj_text_init(&prompt);
    const char *given = lj_config_string(g->config, LJ_CFG_prompt);
    if (*given) lj_text_add(&prompt, "%s", given);
    lj_status status = *given ? lj_text_status(&prompt) : stdin_read(&prompt);
    if (status == LJ_OK) status = text_encode(g, &prompt);
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

/* A conversation at a terminal. */
static bool interactive(const generation *g)
{
    return g->format && !*lj_config_string(g->config, LJ_CFG_prompt) && isatty(STDIN_FILENO);
}

static lj_status generator_open(generation *g)
{
    const lj_config *c = g->config;
    int64_t need = (int64_t)g->ids.count + lj_config_int(c, LJ_CFG_max_tokens), context = lj_config_int(c, LJ_CFG_context);
    int64_t most = g->session.layout.config.max_position_embeddings;
    if (interactive(g)) need = 4096;
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

/* Brings the cache to g->ids: what it already holds of them stays. */
static lj_status feed_all(generation *g, const float **logits)
{
    size_t same = 0;
    while (same < g->held.count && same + 1 < g->ids.count && g->held.data[same] == g->ids.data[same]) same++;
    lj_generator_rewind(g->generator, (int64_t)same);
    g->held.count = same;
    LJ_TRY(lj_generator_feed(g->generator, g->ids.data + same, (int64_t)(g->ids.count - same), logits));
    return lj_ids_add_many(&g->held, g->ids.data + same, g->ids.count - same);
}

static lj_status tokens_generate(generation *g)
{
    double begin = lj_now_s();
    const float *logits;
    g->prompt_count = g->ids.count, g->printed = 0, g->stopped = false, g->shown.length = 0;
    if (g->shown.data) g->shown.data[0] = 0;
    lj_decode_stream_init(&g->stream, g->session.tokenizer, true);
    LJ_TRY(feed_all(g, &logits));
    g->prompt_s = lj_now_s() - begin;
    begin = lj_now_s();
    for (int64_t n = lj_config_int(g->config, LJ_CFG_max_tokens); n > 0 && !g->stopped; n--) {
        int32_t id;
        LJ_TRY(lj_sampler_pick(g->sampler, logits, g->ids.data, (int64_t)g->ids.count, &id));
        if (lj_tokenizer_ends_turn(g->session.tokenizer, id)) break;
        LJ_TRY(token_take(g, id));
        if (n == 1 || g->stopped) break;
        LJ_TRY(lj_generator_feed(g->generator, &id, 1, &logits));
        LJ_TRY(lj_ids_add(&g->held, id));
    }
    g->generate_s = lj_now_s() - begin;
    LJ_TRY(lj_decode_stream_end(&g->stream, &g->shown));
    show(g);
    if (!g->stopped && !lj_config_bool(g->config, LJ_CFG_ids) && g->shown.data) print_new(g, g->shown.length);
    return putchar('\n') == EOF || fflush(stdout) != 0 ? lj_fail_errno("write", "standard output") : LJ_OK;
}

static void rates_say(const generation *g)
{
    size_t made = g->ids.count - g->prompt_count;
    lj_log(LJ_LOG_INFO, "%zu prompt tokens in %.2f s (%.1f tokens/s), %zu generated in %.2f s (%.1f tokens/s)", g->prompt_count, g->prompt_s,
           (double)g->prompt_count / g->prompt_s, made, g->generate_s, (double)made / g->generate_s);
}

/* Turn by turn at a terminal, until the end of input. */
static lj_status conversation_run(generation *g)
{
    char *line = NULL;
    size_t capacity = 0;
    lj_status status = LJ_OK;
    for (ssize_t n; status == LJ_OK && (fputs("> ", stderr), n = getline(&line, &capacity, stdin)) > 0;) {
        if (n > 1) status = message_add(g, "user", line, (size_t)n - 1);
        if (n <= 1 || status != LJ_OK) continue;
        status = conversation_encode(g);
        if (status == LJ_OK) status = tokens_generate(g);
        if (status == LJ_OK) status = message_add(g, "assistant", g->shown.data ? g->shown.data : "", g->shown.length);
    }
    free(line);
    return status;
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
    LJ_TRY(sampler_open(g));
    if (lj_config_bool(g->config, LJ_CFG_chat)) LJ_TRY(conversation_open(g));
    if (!interactive(g)) LJ_TRY(prompt_encode(g));
    LJ_TRY(generator_open(g));
    if (interactive(g)) return conversation_run(g);
    LJ_TRY(tokens_generate(g));
    rates_say(g);
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
    lj_ids_release(&g.held);
    json_decref(g.messages);
    lj_sampler_destroy(g.sampler);
    lj_generator_destroy(g.generator);
    lj_session_close(&g.session);
    return lj_exit(status);
}
