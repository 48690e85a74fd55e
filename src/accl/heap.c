#define _GNU_SOURCE
#include "accl/heap.h"

#include "base/machine.h"
#include "base/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

enum { PAGE = 4096, BIG_ALIGN = 2 << 20 };

typedef struct {
    size_t offset, bytes;
} extent;

static struct {
    pthread_mutex_t lock;
    pid_t owner; /* 0: not made yet */
    int fd;
    unsigned char *base;
    size_t bytes;
    uint64_t key;
    extent *live; /* sorted by offset, no overlaps */
    size_t count, capacity;
    _Atomic size_t used; /* live allocations; read without the lock */
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

struct accl_heap_view {
    uint64_t key;
    unsigned char *base;
    size_t bytes;
    size_t users;
    accl_heap_view *next;
};

static accl_heap_view *views; /* under heap.lock */

/* The child of a fork may use what its parent allocated, but must not allocate from it: the two would hand out the same offsets. */
static void heap_forget_in_child(void)
{
    if (heap.fd >= 0) close(heap.fd);
    free(heap.live);
    pthread_mutex_init(&heap.lock, NULL);
    heap.owner = 0;
    heap.fd = -1;
    heap.live = NULL;
    heap.count = heap.capacity = 0;
    heap.used = 0;
}

/* Address space for everything this machine could hold, halved while the system refuses. */
static lj_status heap_reserve(int fd)
{
    size_t bytes = (size_t)1 << 30;
    while (bytes < lj_machine_get()->memory_bytes * 2) bytes *= 2;
    for (; bytes >= (size_t)64 << 20; bytes /= 2) {
        if (ftruncate(fd, (off_t)bytes) != 0) continue;
        void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (base == MAP_FAILED) continue;
        madvise(base, bytes, MADV_DONTDUMP);
        madvise(base, bytes, MADV_HUGEPAGE); /* where the system lets shared memory have them */
        heap.base = base;
        heap.bytes = bytes;
        return LJ_OK;
    }
    return lj_fail_errno("map", "shared heap");
}

/* Under the lock. */
static lj_status heap_make(void)
{
    static bool hooked;
    if (heap.owner) return LJ_OK;
    if (lj_fault("memfd", "heap")) return lj_fail(LJ_ERR_NOMEM, "shared heap: injected failure");
    int fd = memfd_create("accl-heap", MFD_CLOEXEC);
    if (fd < 0) return lj_fail_errno("create", "shared heap (memfd)");
    lj_status status = heap_reserve(fd);
    if (status != LJ_OK) return close(fd), status;
    if (getrandom(&heap.key, sizeof heap.key, 0) != sizeof heap.key) heap.key = (uint64_t)getpid() << 32 ^ (uintptr_t)heap.base;
    heap.fd = fd;
    heap.owner = getpid();
    if (!hooked) pthread_atfork(NULL, NULL, heap_forget_in_child);
    hooked = true;
    return LJ_OK;
}

/* First fit: the index in `live` before which `bytes` fit, and where. */
static bool heap_place(size_t bytes, size_t align, size_t *index, size_t *offset)
{
    size_t at = 0;
    for (size_t i = 0; i <= heap.count; i++) {
        size_t start = (at + align - 1) / align * align, end = i < heap.count ? heap.live[i].offset : heap.bytes;
        if (start <= end && end - start >= bytes) {
            *index = i;
            *offset = start;
            return true;
        }
        if (i < heap.count) at = heap.live[i].offset + heap.live[i].bytes;
    }
    return false;
}

static lj_status live_insert(size_t index, extent e)
{
    if (heap.count == heap.capacity) {
        size_t capacity = heap.capacity ? heap.capacity * 2 : 32;
        extent *grown = realloc(heap.live, capacity * sizeof *grown);
        if (!grown) return lj_fail(LJ_ERR_NOMEM, "shared heap's table: %zu entries", capacity);
        heap.live = grown;
        heap.capacity = capacity;
    }
    memmove(heap.live + index + 1, heap.live + index, (heap.count - index) * sizeof *heap.live);
    heap.live[index] = e;
    heap.count++;
    heap.used = heap.count;
    return LJ_OK;
}

static lj_status heap_alloc_locked(size_t bytes, void **out)
{
    LJ_TRY(heap_make());
    size_t whole = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1), index, offset;
    if (whole < bytes || whole > lj_memory_available())
        return lj_fail(LJ_ERR_NOMEM, "shared buffer of %zu bytes: %llu available; free some or ask for less", bytes,
                       (unsigned long long)lj_memory_available());
    if (!whole) whole = PAGE;
    if (!heap_place(whole, whole >= BIG_ALIGN ? BIG_ALIGN : PAGE, &index, &offset))
        return lj_fail(LJ_ERR_NOMEM, "shared buffer of %zu bytes: no hole that long in a heap of %zu", bytes, heap.bytes);
    LJ_TRY(live_insert(index, (extent){offset, whole}));
    *out = heap.base + offset;
    return LJ_OK;
}

lj_status accl_heap_alloc(size_t bytes, void **out)
{
    pthread_mutex_lock(&heap.lock);
    lj_status status = lj_fault("alloc", "shared buffer") ? lj_fail(LJ_ERR_NOMEM, "shared buffer of %zu bytes: injected failure", bytes)
                                                          : heap_alloc_locked(bytes, out);
    pthread_mutex_unlock(&heap.lock);
    return status;
}

static bool live_find(size_t offset, size_t *index)
{
    size_t low = 0, high = heap.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (heap.live[middle].offset + heap.live[middle].bytes <= offset) low = middle + 1;
        else high = middle;
    }
    *index = low;
    return low < heap.count && heap.live[low].offset <= offset;
}

lj_status accl_heap_free(void *pointer)
{
    pthread_mutex_lock(&heap.lock);
    size_t offset = (size_t)((unsigned char *)pointer - heap.base), index;
    bool known = heap.count && (unsigned char *)pointer >= heap.base && live_find(offset, &index) && heap.live[index].offset == offset;
    if (known) {
        /* gives the pages back and leaves zeros for the next owner */
        if (fallocate(heap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)heap.live[index].bytes) != 0)
            memset(pointer, 0, heap.live[index].bytes);
        memmove(heap.live + index, heap.live + index + 1, (heap.count - index - 1) * sizeof *heap.live);
        heap.count--;
        heap.used = heap.count;
    }
    pthread_mutex_unlock(&heap.lock);
    return known ? LJ_OK : lj_fail(LJ_ERR_INVALID, "%p did not come from ncclMemAlloc of this process, or was freed", pointer);
}

static bool covered(size_t offset, size_t bytes)
{
    size_t index;
    if (!live_find(offset, &index)) return false;
    size_t end = offset + bytes, reached = offset;
    for (; index < heap.count && heap.live[index].offset <= reached && reached < end; index++)
        reached = heap.live[index].offset + heap.live[index].bytes;
    return reached >= end;
}

uint64_t accl_heap_find(const void *pointer, size_t bytes)
{
    if (!atomic_load_explicit(&heap.used, memory_order_relaxed)) return 0;
    const unsigned char *at = pointer;
    if (at < heap.base || at >= heap.base + heap.bytes) return 0;
    size_t offset = (size_t)(at - heap.base);
    if (bytes > heap.bytes - offset) return 0;
    pthread_mutex_lock(&heap.lock);
    bool inside = covered(offset, bytes ? bytes : 1);
    pthread_mutex_unlock(&heap.lock);
    return inside ? 1 + (uint64_t)offset : 0;
}

lj_status accl_heap_share(int *fd, size_t *bytes)
{
    pthread_mutex_lock(&heap.lock);
    lj_status status = heap_make();
    if (status == LJ_OK) {
        *fd = heap.fd;
        *bytes = heap.bytes;
    }
    pthread_mutex_unlock(&heap.lock);
    return status;
}

uint64_t accl_heap_key(void)
{
    pthread_mutex_lock(&heap.lock);
    uint64_t key = heap.owner ? heap.key : 0;
    pthread_mutex_unlock(&heap.lock);
    return key;
}

static lj_status view_map(uint64_t key, int fd, size_t bytes, accl_heap_view **out)
{
    accl_heap_view *view = calloc(1, sizeof *view);
    if (!view) return lj_fail(LJ_ERR_NOMEM, "view of a peer's heap: %zu bytes", sizeof *view);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        free(view);
        return lj_fail_errno("map", "a peer's shared heap");
    }
    madvise(base, bytes, MADV_DONTDUMP);
    *view = (accl_heap_view){key, base, bytes, 1, views};
    *out = views = view;
    return LJ_OK;
}

lj_status accl_heap_view_get(uint64_t key, int fd, size_t bytes, accl_heap_view **out)
{
    lj_status status = LJ_OK;
    pthread_mutex_lock(&heap.lock);
    accl_heap_view *view = views;
    while (view && view->key != key) view = view->next;
    if (view) {
        view->users++;
        *out = view;
    } else status = view_map(key, fd, bytes, out);
    pthread_mutex_unlock(&heap.lock);
    return status;
}

void accl_heap_view_put(accl_heap_view *view)
{
    if (!view) return;
    pthread_mutex_lock(&heap.lock);
    if (--view->users == 0) {
        accl_heap_view **at = &views;
        while (*at != view) at = &(*at)->next;
        *at = view->next;
        munmap(view->base, view->bytes);
        free(view);
    }
    pthread_mutex_unlock(&heap.lock);
}

unsigned char *accl_heap_view_base(const accl_heap_view *view)
{
    return view->base;
}
