#include "text/ids.h"

#include "base/memory.h"

#include <string.h>

lj_status lj_ids_reserve(lj_ids *ids, size_t more)
{
    size_t need, bytes;
    if (ids->capacity - ids->count >= more) return LJ_OK;
    if (!lj_add_size(ids->count, more, &need) || !lj_mul_size(need < 32 ? 64 : 2 * need, sizeof *ids->data, &bytes))
        return lj_fail(LJ_ERR_LIMIT, "token ids: %zu + %zu entries overflow", ids->count, more);
    void *grown;
    LJ_TRY(lj_alloc("text.ids", bytes, &grown));
    if (ids->count) memcpy(grown, ids->data, ids->count * sizeof *ids->data);
    lj_free(ids->data);
    ids->data = grown, ids->capacity = bytes / sizeof *ids->data;
    return LJ_OK;
}

lj_status lj_ids_add(lj_ids *ids, int32_t id)
{
    if (ids->count == ids->capacity) LJ_TRY(lj_ids_reserve(ids, 1));
    ids->data[ids->count++] = id;
    return LJ_OK;
}

lj_status lj_ids_add_many(lj_ids *ids, const int32_t *more, size_t count)
{
    LJ_TRY(lj_ids_reserve(ids, count));
    if (count) memcpy(ids->data + ids->count, more, count * sizeof *more);
    ids->count += count;
    return LJ_OK;
}

void lj_ids_release(lj_ids *ids)
{
    lj_free(ids->data);
    *ids = (lj_ids){0};
}
