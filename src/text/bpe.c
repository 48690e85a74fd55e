/* The merge table, the heap merge, and a small cache of recent words. Knows nothing of files, normalisers or special tokens. */
#define _GNU_SOURCE
#include "text/bpe.h"

#include "text/added.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Two caches of recent words: one line a word for the short ones, four for runs of spaces, long names, non-Latin words. */
enum { FEW_SYMBOLS = 48, CACHES = 2, CACHE_EMPTY = 0xff, DIRECT_CODES = 0x3000 };
static const struct cache_shape {
    size_t entries, stride, word_bytes, ids;
} cache_shapes[CACHES] = {{1 << 16, 64, 30, 6}, {1 << 12, 256, 180, 16}};
static const char word_mark[] = "\xe2\x96\x81"; /* U+2581 */

typedef struct lj_bpe_symbol {
    int32_t id;         /* -1: cannot be written; ABSORBED: merged into its left neighbour */
    int32_t prev, next; /* -1: end */
    uint32_t start, bytes;
    uint32_t rank;      /* of the merge with the next symbol; NO_MERGE: none */
    int32_t joined;     /* what that makes */
    bool frozen;
} symbol;

#define NO_MERGE UINT32_MAX

/* An entry: this, then ids, then the word. */
typedef struct {
    uint64_t hash;
    uint8_t bytes, count;
} cache_entry;

/* Where an unused token came from last, in the round (word) it was seen. */
typedef struct lj_bpe_split {
    uint32_t round;
    int32_t left, right;
    uint32_t left_bytes;
} split;

enum { ABSORBED = -2 };

static uint64_t mix(uint64_t pair)
{
    pair *= 0x9e3779b97f4a7c15u;
    return pair ^ pair >> 29;
}

lj_status lj_bpe_init(lj_bpe *bpe, size_t count)
{
    *bpe = (lj_bpe){.unknown = -1};
    memset(bpe->byte_symbol, 0xff, sizeof bpe->byte_symbol);
    memset(bpe->byte_token, 0xff, sizeof bpe->byte_token);
    if (count >= 1u << 30) return lj_fail(LJ_ERR_LIMIT, "merges: %zu, at most %u are allowed", count, 1u << 30);
    size_t slots = 16;
    while (slots < 2 * count) slots *= 2;
    void *table;
    LJ_TRY(lj_alloc("text.merges", slots * sizeof(lj_bpe_merge), &table));
    bpe->merges = table, bpe->merge_mask = slots - 1;
    for (size_t i = 0; i < slots; i++) bpe->merges[i] = (lj_bpe_merge){LJ_BPE_FREE, 0, -1};
    return LJ_OK;
}

void lj_bpe_release(lj_bpe *bpe)
{
    lj_free(bpe->merges);
    lj_free(bpe->direct);
    *bpe = (lj_bpe){0};
}

static lj_bpe_merge *merge_slot(const lj_bpe *bpe, uint64_t pair)
{
    size_t at = mix(pair) & bpe->merge_mask;
    while (bpe->merges[at].pair != pair && bpe->merges[at].pair != LJ_BPE_FREE) at = (at + 1) & bpe->merge_mask;
    return &bpe->merges[at];
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

void lj_bpe_add(lj_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t joined, bool replace)
{
    lj_bpe_merge *slot = merge_slot(bpe, pair_of(left, right));
    if (slot->pair != LJ_BPE_FREE && !replace) return;
    bpe->merge_count += slot->pair == LJ_BPE_FREE;
    *slot = (lj_bpe_merge){pair_of(left, right), rank, joined};
}

const lj_bpe_merge *lj_bpe_find(const lj_bpe *bpe, int32_t left, int32_t right)
{
    if (left < 0 || right < 0) return NULL;
    const lj_bpe_merge *slot = merge_slot(bpe, pair_of(left, right));
    return slot->pair == LJ_BPE_FREE ? NULL : slot;
}

/* The heap holds rank << 32 | position: the least rank first, the leftmost among equals. */
static void heap_rise(uint64_t *heap, size_t at, uint64_t key)
{
    for (; at > 0 && heap[(at - 1) / 2] > key; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = key;
}

static void heap_push(lj_bpe_scratch *scratch, uint64_t key)
{
    heap_rise(scratch->heap, scratch->heap_count++, key);
}

/* The hole goes down to a leaf without a look at the last entry, which mostly belongs near there: no branch that cannot be foreseen. */
static uint64_t heap_pop(lj_bpe_scratch *scratch)
{
    uint64_t *heap = scratch->heap, top = heap[0], last = heap[--scratch->heap_count];
    size_t at = 0, count = scratch->heap_count;
    for (size_t child; (child = 2 * at + 1) + 1 < count; at = child) {
        child += heap[child + 1] < heap[child];
        heap[at] = heap[child];
    }
    if (2 * at + 1 < count) heap[at] = heap[2 * at + 1], at = 2 * at + 1;
    heap_rise(heap, at, last);
    return top;
}

static lj_status grow(const char *name, void **array, size_t *capacity, size_t need, size_t size)
{
    if (*capacity >= need) return LJ_OK;
    size_t bytes;
    void *fresh;
    if (!lj_mul_size(need + need / 2 + 64, size, &bytes)) return lj_fail(LJ_ERR_LIMIT, "%s: %zu entries", name, need);
    LJ_TRY(lj_alloc(name, bytes, &fresh));
    lj_free(*array);
    *array = fresh, *capacity = bytes / size;
    return LJ_OK;
}

/* Symbols and heap for a word of at most `count` symbols: every merge pops one entry and pushes at most two, and each removes
 * a symbol, so 3 * count entries are enough. */
static lj_status scratch_reserve(lj_bpe_scratch *scratch, size_t count)
{
    if (count >= INT32_MAX) return lj_fail(LJ_ERR_LIMIT, "a word of %zu symbols, at most %d fit; split the document", count, INT32_MAX - 1);
    void *symbols = scratch->symbols, *heap = scratch->heap;
    lj_status status = grow("text.symbols", &symbols, &scratch->symbol_capacity, count, sizeof(symbol));
    scratch->symbols = symbols;
    LJ_TRY(status);
    status = grow("text.heap", &heap, &scratch->heap_capacity, 3 * count, sizeof(uint64_t));
    scratch->heap = heap;
    return status;
}

void lj_bpe_scratch_release(lj_bpe_scratch *scratch)
{
    lj_free(scratch->symbols);
    lj_free(scratch->heap);
    for (size_t i = 0; i < CACHES; i++) lj_free(scratch->cache[i]);
    lj_free(scratch->splits);
    *scratch = (lj_bpe_scratch){0};
}

static void symbol_add(lj_bpe_scratch *scratch, size_t *count, int32_t id, size_t start, size_t bytes, bool frozen)
{
    int32_t at = (int32_t)*count;
    scratch->symbols[(*count)++] = (symbol){id, at - 1, at + 1, (uint32_t)start, (uint32_t)bytes, NO_MERGE, -1, frozen};
}

static size_t symbols_of_bytes(const lj_bpe *bpe, lj_bpe_scratch *scratch, const char *word, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        int32_t id = bpe->byte_symbol[(unsigned char)word[i]];
        if (id >= 0 || bpe->keep_absent) symbol_add(scratch, &count, id, i, 1, false);
    }
    return count;
}

/* Symbol of a character, -1: none. Most are looked up by their code. */
static int32_t character_symbol(const lj_bpe *bpe, const char *text, size_t bytes, uint32_t code)
{
    return bpe->direct && code < DIRECT_CODES ? bpe->direct[code] : lj_vocab_find(bpe->symbols, text, bytes);
}

lj_status lj_bpe_index(lj_bpe *bpe)
{
    void *fresh;
    char text[4];
    LJ_TRY(lj_alloc("text.merges", DIRECT_CODES * sizeof(int32_t), &fresh));
    lj_free(bpe->direct);
    bpe->direct = fresh;
    for (uint32_t code = 0; code < DIRECT_CODES; code++) bpe->direct[code] = lj_vocab_find(bpe->symbols, text, lj_utf8_encode(code, text));
    return LJ_OK;
}

/* A character that has no token: its bytes' tokens when the model has all of them. */
static bool add_byte_tokens(const lj_bpe *bpe, lj_bpe_scratch *scratch, size_t *count, const char *text, size_t start, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (bpe->byte_token[(unsigned char)text[start + i]] < 0) return false;
    for (size_t i = 0; i < bytes; i++)
        symbol_add(scratch, count, bpe->byte_token[(unsigned char)text[start + i]], start + i, 1, false);
    return true;
}

/* Hugging Face's order: unknown characters wait (and fuse) until a known one or the end comes. */
static size_t symbols_of_characters(const lj_bpe *bpe, lj_bpe_scratch *scratch, const char *word, size_t bytes)
{
    size_t count = 0, waiting_start = 0, waiting = 0;
    uint32_t code;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = lj_utf8_decode(word + at, bytes - at, &code);
        if (!length) length = 1, code = UINT32_MAX;
        int32_t id = character_symbol(bpe, word + at, length, code);
        if (id >= 0) {
            if (waiting) symbol_add(scratch, &count, bpe->unknown, waiting_start, waiting, false);
            waiting = 0;
            symbol_add(scratch, &count, id, at, length, false);
        } else if (!bpe->byte_fallback || !add_byte_tokens(bpe, scratch, &count, word, at, length)) {
            if (bpe->unknown < 0) continue;
            if (waiting && !bpe->fuse_unknown) symbol_add(scratch, &count, bpe->unknown, waiting_start, waiting, false), waiting = 0;
            if (!waiting) waiting_start = at;
            waiting += length;
        }
    }
    if (waiting) symbol_add(scratch, &count, bpe->unknown, waiting_start, waiting, false);
    return count;
}

/* How many bytes a character that begins so claims, whatever follows. */
static size_t claimed_length(const char *text, size_t bytes)
{
    unsigned char first = (unsigned char)*text;
    size_t length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    return length < bytes ? length : bytes;
}

/* SentencePiece's: every character is a symbol, known or not; user defined pieces are taken first, as long as possible. */
static size_t symbols_of_pieces(const lj_bpe *bpe, lj_bpe_scratch *scratch, const char *word, size_t bytes)
{
    size_t count = 0;
    uint32_t code;
    for (size_t at = 0, length; at < bytes; at += length) {
        int32_t id = -1;
        length = bpe->frozen ? lj_added_prefix(bpe->frozen, word + at, bytes - at, &id) : 0;
        bool frozen = length > 0;
        if (!frozen) {
            length = lj_utf8_decode(word + at, bytes - at, &code);
            if (!length) length = bpe->loose ? claimed_length(word + at, bytes - at) : 1, code = UINT32_MAX;
            id = character_symbol(bpe, word + at, length, code);
        }
        symbol_add(scratch, &count, id, at, length, frozen);
    }
    return count;
}

/* Looks up what the symbol and the next one make. */
static void pair_find(const lj_bpe *bpe, lj_bpe_scratch *scratch, int32_t left)
{
    symbol *a = &scratch->symbols[left];
    a->rank = NO_MERGE;
    if (a->next < 0) return;
    const symbol *b = &scratch->symbols[a->next];
    if (a->frozen || b->frozen) return;
    const lj_bpe_merge *merge = lj_bpe_find(bpe, a->id, b->id);
    if (!merge) return;
    a->rank = merge->rank, a->joined = merge->joined;
    if (bpe->unused && merge->joined < bpe->token_count && bpe->unused[merge->joined])
        scratch->splits[merge->joined] = (split){scratch->round, a->id, b->id, a->bytes};
}

/* Puts the symbol's merge into the heap. */
static void pair_push(const lj_bpe *bpe, lj_bpe_scratch *scratch, int32_t left)
{
    pair_find(bpe, scratch, left);
    if (scratch->symbols[left].rank != NO_MERGE) heap_push(scratch, (uint64_t)scratch->symbols[left].rank << 32 | (uint32_t)left);
}

static void symbols_join(lj_bpe_scratch *scratch, int32_t left)
{
    symbol *a = &scratch->symbols[left], *b = &scratch->symbols[a->next];
    a->id = a->joined, a->bytes += b->bytes, a->next = b->next, b->id = ABSORBED, b->rank = NO_MERGE;
    if (a->next >= 0) scratch->symbols[a->next].prev = left;
}

/* An entry counts only while its symbol still has that merge; what has changed since left another entry. */
static void merge_by_heap(const lj_bpe *bpe, lj_bpe_scratch *scratch, size_t count)
{
    scratch->heap_count = 0;
    for (size_t i = 0; i + 1 < count; i++) pair_push(bpe, scratch, (int32_t)i);
    while (scratch->heap_count) {
        uint64_t key = heap_pop(scratch);
        int32_t left = (int32_t)(uint32_t)key;
        if (scratch->symbols[left].rank != key >> 32) continue;
        symbols_join(scratch, left);
        if (scratch->symbols[left].prev >= 0) pair_push(bpe, scratch, scratch->symbols[left].prev);
        pair_push(bpe, scratch, left);
    }
}

/* The same for few symbols, where looking through all is quicker than keeping a heap. */
static void merge_by_scan(const lj_bpe *bpe, lj_bpe_scratch *scratch, size_t count)
{
    symbol *symbols = scratch->symbols;
    for (size_t i = 0; i + 1 < count; i++) pair_find(bpe, scratch, (int32_t)i);
    for (;;) {
        uint32_t best = NO_MERGE;
        int32_t left = -1;
        for (int32_t i = 0; i >= 0; i = symbols[i].next)
            if (symbols[i].rank < best) best = symbols[i].rank, left = i;
        if (left < 0) return;
        symbols_join(scratch, left);
        if (symbols[left].prev >= 0) pair_find(bpe, scratch, symbols[left].prev);
        pair_find(bpe, scratch, left);
    }
}

static void merge_all(const lj_bpe *bpe, lj_bpe_scratch *scratch, size_t count)
{
    if (count == 0) return;
    scratch->symbols[count - 1].next = -1;
    if (count <= FEW_SYMBOLS)
        merge_by_scan(bpe, scratch, count);
    else
        merge_by_heap(bpe, scratch, count);
}

/* Tokens of a stretch that no token covers. */
static lj_status emit_absent(const lj_bpe *bpe, const char *text, size_t bytes, bool *was_unknown, lj_ids *out)
{
    bool all = bpe->byte_fallback || bpe->byte_level;
    const int32_t *table = bpe->byte_level ? bpe->byte_symbol : bpe->byte_token;
    for (size_t i = 0; i < bytes && all && !bpe->byte_level; i++) all = table[(unsigned char)text[i]] >= 0;
    for (size_t i = 0; i < bytes && all; i++)
        if (table[(unsigned char)text[i]] >= 0) LJ_TRY(lj_ids_add(out, table[(unsigned char)text[i]]));
    if (all || bpe->unknown < 0 || (*was_unknown && bpe->fuse_unknown)) return LJ_OK;
    *was_unknown = true;
    return lj_ids_add(out, bpe->unknown);
}

/* An unused token is written as what it was last joined from, down to used ones. */
static lj_status emit_split(const lj_bpe *bpe, const lj_bpe_scratch *scratch, int32_t id, const char *text, size_t bytes, bool *was_unknown,
                            lj_ids *out)
{
    if (id < 0 || id >= bpe->token_count) return emit_absent(bpe, text, bytes, was_unknown, out);
    if (!bpe->unused || !bpe->unused[id] || scratch->splits[id].round != scratch->round) {
        *was_unknown = false;
        return lj_ids_add(out, id);
    }
    split from = scratch->splits[id];
    LJ_TRY(emit_split(bpe, scratch, from.left, text, from.left_bytes, was_unknown, out));
    return emit_split(bpe, scratch, from.right, text + from.left_bytes, bytes - from.left_bytes, was_unknown, out);
}

static lj_status emit_all(const lj_bpe *bpe, const lj_bpe_scratch *scratch, size_t count, const char *word, lj_ids *out)
{
    bool was_unknown = false;
    for (int32_t i = count ? 0 : -1; i >= 0; i = scratch->symbols[i].next) {
        const symbol *s = &scratch->symbols[i];
        if (s->frozen) was_unknown = false;
        LJ_TRY(s->frozen ? lj_ids_add(out, s->id) : emit_split(bpe, scratch, s->id, word + s->start, s->bytes, &was_unknown, out));
    }
    return LJ_OK;
}

static lj_status splits_reserve(const lj_bpe *bpe, lj_bpe_scratch *scratch)
{
    if (!bpe->unused || scratch->splits) return LJ_OK;
    void *fresh;
    LJ_TRY(lj_alloc_zero("text.splits", (size_t)bpe->token_count * sizeof(split), &fresh));
    scratch->splits = fresh;
    return LJ_OK;
}

static lj_status encode_word(const lj_bpe *bpe, lj_bpe_scratch *scratch, const char *word, size_t bytes, lj_ids *out)
{
    int32_t whole = bpe->whole_words ? lj_vocab_find(bpe->symbols, word, bytes) : -1;
    if (whole >= 0 && whole < bpe->token_count) return lj_ids_add(out, whole);
    LJ_TRY(scratch_reserve(scratch, bytes));
    LJ_TRY(splits_reserve(bpe, scratch));
    scratch->round++;
    size_t count = bpe->byte_level    ? symbols_of_bytes(bpe, scratch, word, bytes)
                   : bpe->keep_absent ? symbols_of_pieces(bpe, scratch, word, bytes)
                                      : symbols_of_characters(bpe, scratch, word, bytes);
    merge_all(bpe, scratch, count);
    return emit_all(bpe, scratch, count, word, out);
}

static int32_t *entry_ids(cache_entry *entry)
{
    return (int32_t *)(void *)((char *)entry + 12);
}

static char *entry_word(cache_entry *entry, const struct cache_shape *shape)
{
    return (char *)entry + 12 + 4 * shape->ids;
}

static lj_status cache_make(lj_bpe_scratch *scratch, size_t which)
{
    const struct cache_shape *shape = &cache_shapes[which];
    void *fresh;
    LJ_TRY(lj_alloc("text.word_cache", shape->entries * shape->stride, &fresh));
    scratch->cache[which] = fresh;
    for (size_t i = 0; i < shape->entries; i++) ((cache_entry *)(void *)(scratch->cache[which] + i * shape->stride))->count = CACHE_EMPTY;
    return LJ_OK;
}

static lj_status encode_cached(const lj_bpe *bpe, lj_bpe_scratch *scratch, const char *word, size_t bytes, lj_ids *out)
{
    size_t which = 0;
    while (which < CACHES && bytes > cache_shapes[which].word_bytes) which++;
    if (which == CACHES) return encode_word(bpe, scratch, word, bytes, out);
    if (!scratch->cache[which]) LJ_TRY(cache_make(scratch, which));
    const struct cache_shape *shape = &cache_shapes[which];
    uint64_t hash = XXH3_64bits(word, bytes);
    cache_entry *entry = (cache_entry *)(void *)(scratch->cache[which] + (hash & (shape->entries - 1)) * shape->stride);
    if (entry->count != CACHE_EMPTY && entry->hash == hash && entry->bytes == bytes && memcmp(entry_word(entry, shape), word, bytes) == 0)
        return lj_ids_add_many(out, entry_ids(entry), entry->count);
    size_t before = out->count;
    LJ_TRY(encode_word(bpe, scratch, word, bytes, out));
    size_t count = out->count - before;
    if (count > shape->ids) return LJ_OK;
    *entry = (cache_entry){hash, (uint8_t)bytes, (uint8_t)count};
    memcpy(entry_word(entry, shape), word, bytes);
    if (count) memcpy(entry_ids(entry), out->data + before, count * sizeof *out->data);
    return LJ_OK;
}

/* End of the part that starts at `at`: the next mark that follows something else. */
static size_t part_end(const char *word, size_t bytes, size_t at)
{
    const char *start = word + at;
    for (;;) {
        const char *found = bytes - (size_t)(start - word) < 3 ? NULL : memmem(start, bytes - (size_t)(start - word), word_mark, 3);
        if (!found) return bytes;
        if (found > word + at && (found < word + at + 3 || memcmp(found - 3, word_mark, 3) != 0)) return (size_t)(found - word);
        start = found + 3;
    }
}

lj_status lj_bpe_encode(const lj_bpe *bpe, lj_bpe_scratch *scratch, const char *word, size_t bytes, lj_ids *out)
{
    if (bytes == 0) return LJ_OK;
    bool cut = bpe->split_at_mark && (!bpe->loose || lj_utf8_valid_prefix(word, bytes) == bytes);
    if (!cut) return encode_cached(bpe, scratch, word, bytes, out);
    for (size_t at = 0, end; at < bytes; at = end) {
        end = part_end(word, bytes, at);
        LJ_TRY(encode_cached(bpe, scratch, word + at, end - at, out));
    }
    return LJ_OK;
}
