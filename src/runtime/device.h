/* The one way to memory, copies and launches. A device is a row of a table; the host is its first. */
#ifndef LJ_RUNTIME_DEVICE_H
#define LJ_RUNTIME_DEVICE_H

#include "base/status.h"
#include "kernels/team.h"

typedef struct {
    const char *name;
    lj_status (*alloc)(const char *what, size_t bytes, void **out);
    void (*free)(void *memory);
    void (*copy)(void *to, const void *from, size_t bytes, int threads); /* may be the same place; else no overlap */
    void (*launch)(int threads, lj_team_fn fn, void *arg);               /* returns when all threads have */
} lj_device;

extern const lj_device lj_devices[];
extern const size_t lj_device_count;

#endif
