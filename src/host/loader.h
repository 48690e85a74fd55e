/* Where the dynamic loader would find a library: LD_LIBRARY_PATH, /etc/ld.so.cache (or, without one,
 * /etc/ld.so.conf), default folders. */
#ifndef LJ_HOST_LOADER_H
#define LJ_HOST_LOADER_H

#include "host/host.h"

typedef struct {
    char path[1024];  /* as the loader would open it; "" = not found */
    char final[1024]; /* what links lead to */
    char why[256]; /* "LD_LIBRARY_PATH", "/etc/ld.so.cache", "/etc/ld.so.conf.d/x.conf", "default folder" */
    bool pinned;   /* chosen by a setting, not by a default folder */
} lj_resolved;

/* First match of soname. Any verdict needs host->env loaded. */
bool lj_loader_resolve(lj_host *host, const char *soname, lj_resolved *out);
/* Folders of /etc/ld.so.conf and its includes, in order: array of {folder, file}. New reference. */
json_t *lj_loader_conf(lj_host *host);
/* Entries of /etc/ld.so.cache: array of {soname, path} in its order; NULL: no (readable) cache. New
 * reference. */
json_t *lj_loader_cache(lj_host *host);
/* Folders the loader searches for everything, in order, without LD_LIBRARY_PATH. New reference (strings). */
json_t *lj_loader_folders(lj_host *host);

#endif
