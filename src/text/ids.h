/* A growing list of token ids. */
#ifndef LJ_TEXT_IDS_H
#define LJ_TEXT_IDS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Zero-initialised = empty. One thread at a time. */
typedef struct {
    int32_t *data;
    size_t count, capacity;
} lj_ids;

/* Room for `more` entries after the present ones; LJ_ERR_NOMEM leaves the list as it was. */
lj_status lj_ids_reserve(lj_ids *ids, size_t more);
lj_status lj_ids_add(lj_ids *ids, int32_t id);
lj_status lj_ids_add_many(lj_ids *ids, const int32_t *more, size_t count);
void lj_ids_release(lj_ids *ids);

#endif
