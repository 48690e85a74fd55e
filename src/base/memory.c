/* Named allocation. A header in front of each block keeps its row, so that free needs no name. */
#define _GNU_SOURCE
#include "base/memory.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN_BYTES = 64, MAX_NAMES = 512, ARENA_BLOCK = 64 << 10 };
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_FROM ((size_t)4 << 20)

typedef struct {
    size_t bytes; /* payload */
    void *base;   /* what the system gave */
    size_t mapped_bytes; /* 0: from the heap */
    uint32_t row;
} block_header;
_Static_assert(sizeof(block_header) <= ALIGN_BYTES, "the header must fit before an aligned payload");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lj_memory_row rows[MAX_NAMES];
static size_t row_count, live_bytes, peak_bytes;
static lj_fault_fn fault_fn;
static void *fault_user;

void lj_fault_set(lj_fault_fn fn, void *user)
{
    fault_fn = fn, fault_user = user;
}

bool lj_fault(const char *kind, const char *name)
{
    return fault_fn && fault_fn(fault_user, kind, name);
}

bool lj_mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

bool lj_add_size(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

/* Row of a name, made when new; the last row collects what no longer fits. The row keeps a copy: the name may be the caller's for
 * the time of an allocation only. Caller holds the lock. */
static uint32_t row_find(const char *name)
{
    for (size_t i = 0; i < row_count; i++)
        if (strcmp(rows[i].name, name) == 0) return (uint32_t)i;
    if (row_count == MAX_NAMES) return MAX_NAMES - 1;
    char *copy = row_count == MAX_NAMES - 1 ? NULL : strdup(name);
    rows[row_count] = (lj_memory_row){.name = copy ? copy : "other"};
    return (uint32_t)row_count++;
}

static uint32_t count_in(const char *name, size_t bytes)
{
    pthread_mutex_lock(&lock);
    uint32_t index = row_find(name);
    lj_memory_row *row = &rows[index];
    row->live_bytes += bytes, row->total_bytes += bytes, row->count++;
    if (row->live_bytes > row->peak_bytes) row->peak_bytes = row->live_bytes;
    live_bytes += bytes;
    if (live_bytes > peak_bytes) peak_bytes = live_bytes;
    pthread_mutex_unlock(&lock);
    return index;
}

static void *map_huge(size_t bytes, size_t *mapped_bytes)
{
    size_t want = bytes + HUGE_PAGE + ALIGN_BYTES;
    void *base = mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return NULL;
    madvise(base, want, MADV_HUGEPAGE);
    *mapped_bytes = want;
    return base;
}

/* Payload address inside the system's block: room for the header, then the alignment. */
static char *place(char *base, size_t align)
{
    uintptr_t at = (uintptr_t)base + ALIGN_BYTES;
    return base + (((at + align - 1) & ~(uintptr_t)(align - 1)) - (uintptr_t)base);
}

static lj_status alloc_block(const char *name, size_t bytes, bool zero, void **out)
{
    size_t heap_bytes, mapped_bytes = 0, align = ALIGN_BYTES;
    void *base = NULL;
    if (lj_add_size(bytes, 2 * HUGE_PAGE, &heap_bytes) && !lj_fault("alloc", name)) {
        if (bytes >= HUGE_FROM)
            align = HUGE_PAGE, base = map_huge(bytes, &mapped_bytes);
        else
            base = zero ? calloc(1, bytes + 2 * ALIGN_BYTES) : malloc(bytes + 2 * ALIGN_BYTES);
    }
    if (!base) return lj_fail(LJ_ERR_NOMEM, "%s: could not get %zu bytes of memory", name, bytes);
    char *payload = place(base, align);
    *(block_header *)(payload - ALIGN_BYTES) = (block_header){bytes, base, mapped_bytes, count_in(name, bytes)};
    *out = payload;
    return LJ_OK;
}

lj_status lj_alloc(const char *name, size_t bytes, void **out)
{
    return alloc_block(name, bytes, false, out);
}

lj_status lj_alloc_zero(const char *name, size_t bytes, void **out)
{
    return alloc_block(name, bytes, true, out);
}

void lj_free(void *pointer)
{
    if (!pointer) return;
    block_header header = *(block_header *)((char *)pointer - ALIGN_BYTES);
    pthread_mutex_lock(&lock);
    rows[header.row].live_bytes -= header.bytes;
    live_bytes -= header.bytes;
    pthread_mutex_unlock(&lock);
    if (header.mapped_bytes)
        munmap(header.base, header.mapped_bytes);
    else
        free(header.base);
}

lj_memory_row lj_memory_get(const char *name)
{
    lj_memory_row found = {.name = name};
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < row_count; i++)
        if (strcmp(rows[i].name, name) == 0) found = rows[i];
    pthread_mutex_unlock(&lock);
    return found;
}

size_t lj_memory_rows(lj_memory_row *out, size_t capacity)
{
    pthread_mutex_lock(&lock);
    size_t n = row_count;
    for (size_t i = 0; i < n && i < capacity; i++) out[i] = rows[i];
    pthread_mutex_unlock(&lock);
    return n;
}

size_t lj_memory_live(void)
{
    return live_bytes;
}

size_t lj_memory_peak(void)
{
    return peak_bytes;
}

void lj_memory_peak_reset(void)
{
    pthread_mutex_lock(&lock);
    peak_bytes = live_bytes;
    for (size_t i = 0; i < row_count; i++) rows[i].peak_bytes = rows[i].live_bytes;
    pthread_mutex_unlock(&lock);
}

struct lj_arena_block {
    lj_arena_block *next;
    size_t capacity, used;
    _Alignas(16) char data[];
};

void lj_arena_init(lj_arena *arena, const char *name)
{
    *arena = (lj_arena){.name = name};
}

void lj_arena_release(lj_arena *arena)
{
    while (arena->blocks) {
        lj_arena_block *next = arena->blocks->next;
        lj_free(arena->blocks);
        arena->blocks = next;
    }
    arena->used_bytes = 0;
}

void *lj_arena_alloc(lj_arena *arena, size_t bytes)
{
    size_t want = (bytes + 15) & ~(size_t)15;
    lj_arena_block *block = arena->blocks;
    if (!block || block->capacity - block->used < want) {
        size_t capacity = want > ARENA_BLOCK ? want : ARENA_BLOCK;
        void *fresh;
        if (want < bytes || lj_alloc(arena->name, sizeof *block + capacity, &fresh) != LJ_OK) return NULL;
        block = fresh;
        *block = (lj_arena_block){.next = arena->blocks, .capacity = capacity};
        arena->blocks = block;
    }
    void *out = block->data + block->used;
    block->used += want, arena->used_bytes += want;
    return memset(out, 0, want);
}

char *lj_arena_strdup(lj_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = lj_arena_alloc(arena, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *lj_arena_printf(lj_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : lj_arena_alloc(arena, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
