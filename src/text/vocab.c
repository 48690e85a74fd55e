#include "text/vocab.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

lj_status lj_vocab_init(lj_vocab *vocab, size_t limit)
{
    *vocab = (lj_vocab){.limit = limit};
    lj_arena_init(&vocab->arena, "text.vocab");
    if (limit >= 1u << 30) return lj_fail(LJ_ERR_LIMIT, "vocabulary: %zu ids, at most %u are allowed", limit, 1u << 30);
    size_t slots = 16;
    while (slots < 2 * limit) slots *= 2;
    vocab->mask = slots - 1;
    void *entries, *table;
    LJ_TRY(lj_alloc_zero("text.vocab", (limit ? limit : 1) * sizeof(lj_span), &entries));
    vocab->entries = entries;
    LJ_TRY(lj_alloc_zero("text.vocab", slots * sizeof(uint32_t), &table));
    vocab->slots = table;
    return LJ_OK;
}

void lj_vocab_release(lj_vocab *vocab)
{
    lj_free(vocab->entries);
    lj_free(vocab->slots);
    lj_arena_release(&vocab->arena);
    *vocab = (lj_vocab){0};
}

/* Slot of the string, or the free one where it belongs. */
static uint32_t *slot_of(const lj_vocab *vocab, const char *text, size_t bytes)
{
    for (size_t at = XXH3_64bits(text, bytes) & vocab->mask;; at = (at + 1) & vocab->mask) {
        uint32_t *slot = &vocab->slots[at];
        if (!*slot) return slot;
        const lj_span *entry = &vocab->entries[*slot - 1];
        if (entry->bytes == bytes && memcmp(entry->data, text, bytes) == 0) return slot;
    }
}

lj_status lj_vocab_set_hidden(lj_vocab *vocab, int32_t id, const char *text, size_t bytes)
{
    if (id < 0 || (size_t)id >= vocab->limit)
        return lj_fail(LJ_ERR_FORMAT, "token '%.*s': id %d is outside 0 .. %zu", (int)(bytes < 80 ? bytes : 80), text, id, vocab->limit - 1);
    lj_span *entry = &vocab->entries[id];
    if (entry->data && (entry->bytes != bytes || memcmp(entry->data, text, bytes) != 0))
        return lj_fail(LJ_ERR_FORMAT, "token id %d is given twice: '%.*s' and '%.*s'", id, (int)(entry->bytes < 80 ? entry->bytes : 80),
                       entry->data, (int)(bytes < 80 ? bytes : 80), text);
    if (entry->data) return LJ_OK;
    char *copy = lj_arena_alloc(&vocab->arena, bytes + 1);
    if (!copy) return LJ_ERR_NOMEM;
    memcpy(copy, text, bytes);
    *entry = (lj_span){copy, bytes};
    vocab->count++;
    return LJ_OK;
}

lj_status lj_vocab_set(lj_vocab *vocab, int32_t id, const char *text, size_t bytes)
{
    uint32_t *slot = slot_of(vocab, text, bytes);
    if (*slot && (int32_t)(*slot - 1) != id)
        return lj_fail(LJ_ERR_FORMAT, "token '%.*s' is given twice: ids %u and %d", (int)(bytes < 80 ? bytes : 80), text, *slot - 1, id);
    LJ_TRY(lj_vocab_set_hidden(vocab, id, text, bytes));
    *slot = (uint32_t)id + 1;
    return LJ_OK;
}

int32_t lj_vocab_find(const lj_vocab *vocab, const char *text, size_t bytes)
{
    return vocab->slots ? (int32_t)*slot_of(vocab, text, bytes) - 1 : -1;
}
