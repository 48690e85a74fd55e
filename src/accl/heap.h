/* The memory behind ncclMemAlloc: one sparse memfd a process, which peers map whole when a communicator is made. So any buffer
 * in it is reachable by any peer as base + offset, with no message when it is allocated. A forked child starts a heap of its own. */
#ifndef ACCL_HEAP_H
#define ACCL_HEAP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed, page aligned. LJ_ERR_NOMEM names the bytes. Any thread. */
lj_status accl_heap_alloc(size_t bytes, void **out);
/* LJ_ERR_INVALID for an address that accl_heap_alloc did not give. */
lj_status accl_heap_free(void *pointer);
/* 1 + offset of a range that lies wholly in one live allocation or in several adjoining ones; 0 when not. No lock is taken when nothing was ever allocated. */
uint64_t accl_heap_find(const void *pointer, size_t bytes);

/* The heap's fd and size, creating it when needed. The fd stays the heap's. */
lj_status accl_heap_share(int *fd, size_t *bytes);

/* Another process's heap, mapped once a process however many communicators use it. `key` names that heap. */
typedef struct accl_heap_view accl_heap_view;
lj_status accl_heap_view_get(uint64_t key, int fd, size_t bytes, accl_heap_view **out);
void accl_heap_view_put(accl_heap_view *view); /* NULL allowed */
unsigned char *accl_heap_view_base(const accl_heap_view *view);

/* Names this process's heap: random, new after a fork. */
uint64_t accl_heap_key(void);

#endif
