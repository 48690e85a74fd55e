/* Named allocation with exact counters and fault hooks, checked size arithmetic, and arenas.
 *
 * Every allocation of a run that grows with the model goes through lj_alloc: the counters are what predicted bytes are
 * compared with. Small bookkeeping (graphs, strings) lives in arenas, which count under their own name. */
#ifndef LJ_BASE_MEMORY_H
#define LJ_BASE_MEMORY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Allocates `bytes` (64-byte aligned; 2 MiB aligned and advised for huge pages from 4 MiB up), not zeroed; 0 bytes give a
 * valid pointer. `name` must outlive the allocation. LJ_ERR_NOMEM names it. Any thread. */
lj_status lj_alloc(const char *name, size_t bytes, void **out);
/* The same, zeroed (fresh pages are not touched). */
lj_status lj_alloc_zero(const char *name, size_t bytes, void **out);
/* NULL is allowed. */
void lj_free(void *pointer);

typedef struct {
    const char *name;
    size_t live_bytes, peak_bytes, total_bytes; /* payload bytes as asked for */
    uint64_t count;                             /* allocations so far */
} lj_memory_row;

/* Counters of one name; zeros when never used. */
lj_memory_row lj_memory_get(const char *name);
/* Copies up to `capacity` rows, returns how many names there are. */
size_t lj_memory_rows(lj_memory_row *rows, size_t capacity);
/* Over all names: live now, and the highest it has been since the last reset. */
size_t lj_memory_live(void);
size_t lj_memory_peak(void);
void lj_memory_peak_reset(void);

/* Fault injection for tests: called before each fallible operation with its kind ("alloc", "open", "write", ...) and name;
 * true makes that operation fail as the world would. NULL: none. Process wide, set while no other thread runs. */
typedef bool (*lj_fault_fn)(void *user, const char *kind, const char *name);
void lj_fault_set(lj_fault_fn fn, void *user);
bool lj_fault(const char *kind, const char *name);

/* a * b and a + b; false on overflow, *out untouched then. */
bool lj_mul_size(size_t a, size_t b, size_t *out);
bool lj_add_size(size_t a, size_t b, size_t *out);

/* Arena: pointers stay valid until release; nothing is freed alone. One thread at a time. */
typedef struct lj_arena_block lj_arena_block;
typedef struct {
    const char *name;
    lj_arena_block *blocks;
    size_t used_bytes;
} lj_arena;

void lj_arena_init(lj_arena *arena, const char *name);
void lj_arena_release(lj_arena *arena);
/* 16-byte aligned, zeroed. NULL when memory is short (the thread's message is set). */
void *lj_arena_alloc(lj_arena *arena, size_t bytes);
char *lj_arena_strdup(lj_arena *arena, const char *text);
char *lj_arena_printf(lj_arena *arena, const char *format, ...) LJ_PRINTF(2, 3);

#endif
