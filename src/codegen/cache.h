/* Shared objects of kernels on disk.
 *
 * An entry is a file NAME.so in the folder: an ELF shared object followed by a trailer with a checksum of what stands before it.
 * Entries of kernels that were compiled together are hard links of one file. Files appear complete, by link and rename; a
 * damaged one is removed and reads as absent. Folders are refused that others than the owner (or root) may write to. */
#ifndef LJ_CODEGEN_CACHE_H
#define LJ_CODEGEN_CACHE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    char folder[1024];
    bool read_only;  /* a pack */
    bool temporary;  /* removed by lj_kernel_cache_close: the real folder could not be written */
} lj_kernel_cache;

/* Opens (and creates) the cache's folder. A folder that cannot be written gives, through lj_fallback, a temporary one. */
lj_status lj_kernel_cache_open(lj_kernel_cache *cache);
/* The pack of LJPERF_KERNEL_PACK; *present false when there is none. */
lj_status lj_kernel_pack_open(lj_kernel_cache *cache, bool *present);
void lj_kernel_cache_close(lj_kernel_cache *cache);

/* Path of the sound entry `key` in `path`; *found false: absent (or damaged and removed). Marks it as used now. */
lj_status lj_kernel_cache_find(const lj_kernel_cache *cache, const char *key, char *path, size_t capacity, bool *found);
/* Appends the trailer to shared object `object` and makes it the entry of each key. `object` is removed. */
lj_status lj_kernel_cache_add(const lj_kernel_cache *cache, const char *object, const char *const *keys, size_t count);
/* Removes the entries that were used longest ago until `limit` bytes hold. */
lj_status lj_kernel_cache_trim(const lj_kernel_cache *cache, uint64_t limit);

/* One process makes an entry, the others wait. *fd = -1 when another holds it. */
lj_status lj_kernel_cache_try_lock(const lj_kernel_cache *cache, const char *key, int *fd);
/* Waits until nobody holds it, at most `seconds`: LJ_ERR_TIMEOUT. */
lj_status lj_kernel_cache_wait(const lj_kernel_cache *cache, const char *key, double seconds);
void lj_kernel_cache_unlock(const lj_kernel_cache *cache, const char *key, int fd);

/* A small text beside the entries: the last compiler's identity. */
lj_status lj_kernel_cache_note(const lj_kernel_cache *cache, const char *name, const char *text);
bool lj_kernel_cache_noted(const lj_kernel_cache *cache, const char *name, char *text, size_t capacity);

#endif
