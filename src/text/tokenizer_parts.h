/* What a tokenizer is made of; for the readers that fill it (tokenizer_json.c, tokenizer_spm.c, tokenizer_gguf.c). Not for users. */
#ifndef LJ_TEXT_TOKENIZER_PARTS_H
#define LJ_TEXT_TOKENIZER_PARTS_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"

#include <pthread.h>

/* What becomes of bytes that are no UTF-8. */
typedef enum {
    LJ_INVALID_KEEP,    /* travel as private code points, come out as their bytes */
    LJ_INVALID_REPLACE, /* each byte becomes U+FFFD */
    LJ_INVALID_RAW      /* normaliser and merges take bytes as they are */
} lj_invalid_rule;

enum { LJ_TOKEN_SPECIAL = 1, LJ_TOKEN_BYTE = 2, LJ_TOKEN_ADDED = 4, LJ_TOKEN_ENDS_TURN = 8 };

/* How tokens become text. */
typedef struct {
    bool byte_chars;     /* GPT-2's stand-ins */
    bool byte_tokens;    /* <0xNN> is a byte */
    bool fused;          /* the tokens have been joined: what follows concerns the whole */
    bool join_by_space;  /* no decoder in the file: Hugging Face puts spaces between tokens */
    const char *what[4], *with[4]; /* replacements in each token, terminated */
    size_t replacements;
    size_t strip;        /* leading spaces dropped from the whole */
} lj_decode_rule;

typedef struct {
    const char *text; /* decoded */
    uint32_t bytes;
    uint32_t flags;
} lj_token;

struct lj_tokenizer {
    lj_arena arena; /* strings */
    const char *name, *kind;
    char *description;
    char zero[4];         /* what stands for \\u0000 while a tokenizer.json is read */
    lj_vocab vocab;       /* id <-> string of the file, added tokens included */
    lj_vocab symbols;     /* what merges look up */
    lj_bpe bpe;
    lj_normalizer normalizer;
    lj_pretokenizer pretokenizer;
    bool unmap;           /* the pre-tokenizer leaves stand-ins that become bytes again */
    lj_added before, after; /* added tokens looked for before and after the normaliser */
    lj_added frozen;
    bool *unused;
    lj_invalid_rule invalid;
    lj_decode_rule decode;
    lj_token *tokens;     /* [vocab.limit] */
    lj_ids prefix, suffix;
    int32_t bos, eos, pad;
    char *chat_template;
    pthread_mutex_t lock; /* of spare */
    struct lj_encoder *spare;
};

/* Working memory of one running encode. */
typedef struct lj_encoder {
    struct lj_encoder *next;
    lj_pretokenize_scratch pretokenize;
    lj_normalize_scratch normalize;
    lj_bpe_scratch bpe;
    lj_text repaired, word;
} lj_encoder;

/* An empty tokenizer; readers fill it, then call lj_tokenizer_finish, or destroy it. */
lj_status lj_tokenizer_begin(const char *name, lj_tokenizer **out);
/* Sets flags of an id; it must be in the vocabulary. Call after vocab is complete and tokens allocated (lj_tokenizer_tokens_init). */
lj_status lj_tokenizer_tokens_init(lj_tokenizer *tokenizer);
/* Decodes every token by the rule, finds turn ends, writes the description. */
lj_status lj_tokenizer_finish(lj_tokenizer *tokenizer, const char *kind);
/* "<0x0A>" -> 10; -1: another string. */
int lj_byte_token_value(const char *text, size_t bytes);
/* Cuts before U+2581 are allowed when no symbol has one behind another character; sets bpe.split_at_mark. */
void lj_tokenizer_find_cuts(lj_tokenizer *tokenizer);

#endif
