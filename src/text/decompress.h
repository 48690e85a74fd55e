/* .gz and .zst files as a stream of bytes. */
#ifndef LJ_TEXT_DECOMPRESS_H
#define LJ_TEXT_DECOMPRESS_H

#include "base/status.h"

#include <stddef.h>

typedef lj_status (*lj_bytes_fn)(void *user, const char *data, size_t bytes);

/* Hands the content to fn in pieces, members and frames one after the other. LJ_ERR_FORMAT: damaged, cut short, or neither kind (by its
 * first bytes); fn's failure ends it. */
lj_status lj_decompress(const char *path, lj_bytes_fn fn, void *user);

#endif
