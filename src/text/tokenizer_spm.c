/* tokenizer.model: SentencePiece's protocol buffer, read field by field. Ids as sentencepiece gives them for BPE models. */
#include "text/pieces.h"
#include "text/protobuf.h"

#include <string.h>

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

typedef struct {
    lj_span text;
    float score;
    uint64_t type;
} piece;

/* What of the file matters here; defaults as the format has them. */
typedef struct {
    piece *pieces;
    size_t count, capacity;
    uint64_t model_type;
    bool byte_fallback, suffix;
    bool add_prefix, remove_extra, escape;
    int64_t bos, eos, pad;
    lj_span charsmap;
} model;

static lj_status piece_read(lj_span message, piece *out)
{
    lj_proto proto = lj_proto_begin(message);
    lj_proto_field field;
    *out = (piece){.text = {"", 0}, .type = TYPE_NORMAL};
    while (lj_proto_next(&proto, &field)) {
        if (field.number == 1 && field.kind == LJ_PROTO_BYTES) out->text = field.bytes;
        if (field.number == 2 && field.kind == LJ_PROTO_FIXED32) out->score = lj_proto_float(&field);
        if (field.number == 3 && field.kind == LJ_PROTO_VARINT) out->type = field.value;
    }
    return lj_proto_status(&proto);
}

static lj_status piece_add(model *m, lj_span message)
{
    if (m->count == m->capacity) {
        void *grown;
        size_t capacity = 2 * m->capacity + 256;
        LJ_TRY(lj_alloc("text.pieces", capacity * sizeof(piece), &grown));
        if (m->count) memcpy(grown, m->pieces, m->count * sizeof(piece));
        lj_free(m->pieces);
        m->pieces = grown, m->capacity = capacity;
    }
    LJ_TRY(lj_fail_in(piece_read(message, &m->pieces[m->count]), "piece %zu", m->count));
    if (!m->pieces[m->count].text.bytes) return lj_fail(LJ_ERR_FORMAT, "piece %zu is an empty string", m->count);
    m->count++;
    return LJ_OK;
}

static lj_status trainer_read(model *m, lj_span message)
{
    lj_proto proto = lj_proto_begin(message);
    lj_proto_field field;
    while (lj_proto_next(&proto, &field)) {
        if (field.kind != LJ_PROTO_VARINT) continue;
        switch (field.number) {
        case 3: m->model_type = field.value; break;
        case 24: m->suffix = field.value; break;
        case 35: m->byte_fallback = field.value; break;
        case 41: m->bos = (int32_t)field.value; break;
        case 42: m->eos = (int32_t)field.value; break;
        case 43: m->pad = (int32_t)field.value; break;
        default: break;
        }
    }
    return lj_proto_status(&proto);
}

static lj_status normalizer_read(model *m, lj_span message)
{
    lj_proto proto = lj_proto_begin(message);
    lj_proto_field field;
    while (lj_proto_next(&proto, &field)) {
        if (field.number == 2 && field.kind == LJ_PROTO_BYTES) m->charsmap = field.bytes;
        if (field.kind != LJ_PROTO_VARINT) continue;
        if (field.number == 3) m->add_prefix = field.value;
        if (field.number == 4) m->remove_extra = field.value;
        if (field.number == 5) m->escape = field.value;
    }
    return lj_proto_status(&proto);
}

static lj_status model_read(model *m, lj_span message)
{
    lj_proto proto = lj_proto_begin(message);
    lj_proto_field field;
    while (lj_proto_next(&proto, &field)) {
        if (field.kind != LJ_PROTO_BYTES) continue;
        if (field.number == 1) LJ_TRY(piece_add(m, field.bytes));
        if (field.number == 2) LJ_TRY(lj_fail_in(trainer_read(m, field.bytes), "trainer settings"));
        if (field.number == 3) LJ_TRY(lj_fail_in(normalizer_read(m, field.bytes), "normaliser settings"));
    }
    LJ_TRY(lj_proto_status(&proto));
    if (!m->count) return lj_fail(LJ_ERR_FORMAT, "holds no pieces; is it a SentencePiece model?");
    if (m->model_type != MODEL_BPE)
        return lj_fail(LJ_ERR_UNSUPPORTED, "model type %llu (%s) is not known here; BPE (2) is", (unsigned long long)m->model_type,
                       m->model_type == MODEL_UNIGRAM ? "unigram" : "word or character");
    return LJ_OK;
}

/* Control and unknown pieces are special; they are found only when the caller parses them, never by sentencepiece itself. */
static lj_status vocab_fill(lj_tokenizer *tokenizer, const model *m)
{
    LJ_TRY(lj_vocab_init(&tokenizer->vocab, m->count));
    for (size_t i = 0; i < m->count; i++)
        LJ_TRY(lj_vocab_set(&tokenizer->vocab, (int32_t)i, m->pieces[i].text.data, m->pieces[i].text.bytes));
    LJ_TRY(lj_tokenizer_tokens_init(tokenizer));
    for (size_t i = 0; i < m->count; i++) {
        lj_span text = tokenizer->vocab.entries[i];
        lj_added_token token = {.text = text.data, .bytes = text.bytes, .id = (int32_t)i, .special = true};
        bool special = m->pieces[i].type == TYPE_CONTROL || m->pieces[i].type == TYPE_UNKNOWN;
        if (special) tokenizer->tokens[i].flags |= LJ_TOKEN_ADDED | LJ_TOKEN_SPECIAL;
        if (special) LJ_TRY(lj_added_add(&tokenizer->before, &token));
        if (m->pieces[i].type == TYPE_USER) LJ_TRY(lj_added_add(&tokenizer->frozen, &token));
    }
    return LJ_OK;
}

static lj_status merges_fill(lj_tokenizer *tokenizer, const model *m)
{
    void *fresh;
    LJ_TRY(lj_alloc("text.pieces", m->count * sizeof(lj_piece), &fresh));
    lj_piece *pieces = fresh;
    for (size_t i = 0; i < m->count; i++) {
        uint64_t type = m->pieces[i].type;
        pieces[i] = (lj_piece){m->pieces[i].text, m->pieces[i].score, type == TYPE_NORMAL || type == TYPE_USER || type == TYPE_UNUSED};
    }
    lj_status status = lj_pieces_to_bpe(tokenizer, pieces, m->count);
    lj_free(pieces);
    return status;
}

/* Unused pieces, byte pieces, the unknown piece. */
static lj_status roles_fill(lj_tokenizer *tokenizer, const model *m)
{
    lj_bpe *bpe = &tokenizer->bpe;
    void *unused;
    bool any = false;
    LJ_TRY(lj_alloc_zero("text.pieces", m->count * sizeof(bool), &unused));
    tokenizer->unused = unused;
    for (size_t i = 0; i < m->count; i++) {
        int value = m->pieces[i].type == TYPE_BYTE ? lj_byte_token_value(m->pieces[i].text.data, m->pieces[i].text.bytes) : -1;
        if (m->pieces[i].type == TYPE_BYTE && value < 0) return lj_fail(LJ_ERR_FORMAT, "piece %zu is a byte, but not written <0xNN>", i);
        if (value >= 0) bpe->byte_token[value] = (int32_t)i;
        if (m->pieces[i].type == TYPE_UNKNOWN) bpe->unknown = (int32_t)i;
        any |= tokenizer->unused[i] = m->pieces[i].type == TYPE_UNUSED;
    }
    bpe->unused = any ? tokenizer->unused : NULL;
    if (any) bpe->split_at_mark = false; /* how an unused piece is taken apart depends on the whole text */
    bpe->frozen = tokenizer->frozen.count ? &tokenizer->frozen : NULL;
    bpe->byte_fallback = m->byte_fallback;
    bpe->fuse_unknown = true;
    return LJ_OK;
}

static bool in_vocabulary(const model *m, int64_t id)
{
    return id >= 0 && (uint64_t)id < m->count;
}

static lj_status fill(lj_tokenizer *tokenizer, const model *m)
{
    LJ_TRY(vocab_fill(tokenizer, m));
    LJ_TRY(merges_fill(tokenizer, m));
    LJ_TRY(roles_fill(tokenizer, m));
    lj_norm_step step = {.kind = LJ_NORM_SENTENCEPIECE,
                         .spaces = {m->add_prefix, m->remove_extra, m->escape, m->suffix, tokenizer->bpe.frozen}};
    LJ_TRY(lj_charsmap_init(&step.charsmap, m->charsmap.data, m->charsmap.bytes));
    LJ_TRY(lj_normalizer_add(&tokenizer->normalizer, step));
    tokenizer->invalid = LJ_INVALID_RAW;
    tokenizer->bos = in_vocabulary(m, m->bos) ? (int32_t)m->bos : -1;
    tokenizer->eos = in_vocabulary(m, m->eos) ? (int32_t)m->eos : -1;
    tokenizer->pad = in_vocabulary(m, m->pad) ? (int32_t)m->pad : -1;
    if (tokenizer->bos >= 0) LJ_TRY(lj_ids_add(&tokenizer->prefix, tokenizer->bos));
    bool strip = (m->add_prefix || m->remove_extra) && !m->suffix;
    tokenizer->decode = (lj_decode_rule){.byte_tokens = true, .what = {"\xe2\x96\x81"}, .with = {" "}, .replacements = 1, .strip = strip};
    return lj_tokenizer_finish(tokenizer, "SentencePiece BPE");
}

lj_status lj_tokenizer_create_spm(const char *name, const void *data, size_t bytes, lj_tokenizer **out)
{
    lj_tokenizer *tokenizer;
    model m = {.model_type = MODEL_UNIGRAM, .add_prefix = true, .remove_extra = true, .escape = true, .bos = 1, .eos = 2, .pad = -1};
    LJ_TRY(lj_tokenizer_begin(name, &tokenizer));
    lj_status status = model_read(&m, (lj_span){data, bytes});
    if (status == LJ_OK) status = fill(tokenizer, &m);
    lj_free(m.pieces);
    if (status == LJ_OK)
        *out = tokenizer;
    else
        lj_tokenizer_destroy(tokenizer);
    return lj_fail_in(status, "%s", name);
}
