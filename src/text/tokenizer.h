/* Tokenizers: text to token ids and back, exactly as the model's own files say.
 *
 * A tokenizer is made once from what a model comes with (tokenizer.json, tokenizer.model, a GGUF file's metadata), never changes, and
 * may be used by any number of threads; each call borrows working memory from a pool inside. Text is bytes: it need not be valid UTF-8.
 * What a broken byte becomes follows the file's kind: byte-level and byte-fallback tokenizer.json keep it as its byte token; a byte-level
 * GGUF replaces it by U+FFFD as llama.cpp does, a "llama" GGUF keeps it; tokenizer.model replaces it as sentencepiece does.
 *
 * Life: create -> encode, decode, stream in any order -> destroy. */
#ifndef LJ_TEXT_TOKENIZER_H
#define LJ_TEXT_TOKENIZER_H

#include "base/text.h"
#include "base/utf8.h"
#include "text/ids.h"

#include <stdbool.h>

typedef struct lj_tokenizer lj_tokenizer;

/* From whatever `model` is: a folder (its tokenizer.json, else its tokenizer.model, with tokenizer_config.json beside), a .gguf file, a
 * .json or a .model file. LJ_ERR_NOT_FOUND lists what was looked for. The other errors: LJ_ERR_IO, LJ_ERR_FORMAT (file and place),
 * LJ_ERR_UNSUPPORTED (the file's kind or a step in it, by name), LJ_ERR_NOMEM. */
lj_status lj_tokenizer_create(const char *model, lj_tokenizer **out);

/* Vocabulary as GGUF metadata carries it (keys tokenizer.ggml.*). Everything is copied. */
typedef struct {
    const char *name;            /* for messages: the file */
    const char *model;           /* "gpt2" (byte-level BPE) or "llama" (scores, byte fallback) */
    const char *pre;             /* "smollm", "llama-bpe", "qwen2", ...: which expressions cut words; unused by "llama" */
    const lj_span *tokens;       /* [token_count] */
    const float *scores;         /* [token_count], "llama" needs them; else may be NULL */
    const int32_t *types;        /* [token_count]: 1 normal 2 unknown 3 control 4 user defined 5 unused 6 byte; NULL: all normal */
    size_t token_count;
    const lj_span *merges;       /* [merge_count] "left right" */
    size_t merge_count;
    int32_t bos, eos, unknown, pad; /* -1: none */
    int add_bos, add_eos, add_space_prefix; /* 0, 1, or -1: not said */
    const char *chat_template;   /* or NULL */
} lj_gguf_vocab;
lj_status lj_tokenizer_create_gguf_vocab(const lj_gguf_vocab *vocab, lj_tokenizer **out);

/* Bytes of a tokenizer.json or a tokenizer.model already in memory; `name` for messages. */
lj_status lj_tokenizer_create_json(const char *name, const char *text, size_t bytes, lj_tokenizer **out);
lj_status lj_tokenizer_create_spm(const char *name, const void *data, size_t bytes, lj_tokenizer **out);

void lj_tokenizer_destroy(lj_tokenizer *tokenizer); /* NULL is allowed */

typedef struct {
    bool add_special;   /* what the model puts round a text: BOS, EOS */
    bool parse_special; /* strings such as <|im_end|> become their tokens; false: plain text */
} lj_encode_options;

/* Appends the ids of text to *ids (left as it was on failure). Cost n log n in the worst case, linear in practice. */
lj_status lj_tokenizer_encode(const lj_tokenizer *tokenizer, const char *text, size_t bytes, lj_encode_options options, lj_ids *ids);

/* Encodes texts[i] to ids[i] (each appended to) over `threads` threads (0: all processors); an order of work that depends on nothing
 * but load, results that depend on nothing but the text. On failure the first one's message; ids then hold some of the results. */
lj_status lj_tokenizer_encode_batch(const lj_tokenizer *tokenizer, const lj_span *texts, size_t count, lj_encode_options options, int threads,
                                    lj_ids *ids);

/* Appends the text of ids: exact bytes, broken UTF-8 included. `skip_special` drops the tokens that the file marks as special (and only
 * those: an ordinary entry that looks like one stays). LJ_ERR_INVALID: an id that the vocabulary does not have. */
lj_status lj_tokenizer_decode(const lj_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, lj_text *out);

/* Token by token decoding that never shows half a character: bytes wait until their character is complete; bytes that can no longer
 * become one appear as U+FFFD, so what comes out is valid UTF-8 at any time. Caller's struct, one thread. */
typedef struct {
    const lj_tokenizer *tokenizer;
    bool skip_special, started;
    size_t strip; /* leading spaces still to drop */
    char held[4];
    size_t held_bytes;
} lj_decode_stream;

void lj_decode_stream_init(lj_decode_stream *stream, const lj_tokenizer *tokenizer, bool skip_special);
/* Appends what became complete (perhaps nothing). LJ_ERR_INVALID as above; the stream stays usable. */
lj_status lj_decode_stream_add(lj_decode_stream *stream, int32_t id, lj_text *out);
/* The end: what still waits comes out as U+FFFD. */
lj_status lj_decode_stream_end(lj_decode_stream *stream, lj_text *out);

/* One more than the highest id. */
size_t lj_tokenizer_size(const lj_tokenizer *tokenizer);
/* Id of a token by its string in the file ("<|im_end|>", "Ġthe"), -1: none. */
int32_t lj_tokenizer_find(const lj_tokenizer *tokenizer, const char *text, size_t bytes);
/* The string in the file; data NULL: no such id. Owned by the tokenizer. */
lj_span lj_tokenizer_token(const lj_tokenizer *tokenizer, int32_t id);
bool lj_tokenizer_is_special(const lj_tokenizer *tokenizer, int32_t id);
/* The roles; -1: the file names none. */
int32_t lj_tokenizer_bos(const lj_tokenizer *tokenizer);
int32_t lj_tokenizer_eos(const lj_tokenizer *tokenizer);
int32_t lj_tokenizer_pad(const lj_tokenizer *tokenizer);
/* True for EOS and for the control tokens that end a turn (<|im_end|>, <|eot_id|>, ...): a generation stops there. */
bool lj_tokenizer_ends_turn(const lj_tokenizer *tokenizer, int32_t id);
/* The model's chat template (Jinja text), NULL: it has none. Owned by the tokenizer. */
const char *lj_tokenizer_chat_template(const lj_tokenizer *tokenizer);
/* A number that tells two tokenizers apart: of their tokens, merges and rules. */
uint64_t lj_tokenizer_fingerprint(const lj_tokenizer *tokenizer);
/* "byte-level BPE, 49152 tokens" and the like, for reports. Owned by the tokenizer. */
const char *lj_tokenizer_describe(const lj_tokenizer *tokenizer);

#endif
