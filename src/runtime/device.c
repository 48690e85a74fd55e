#include "runtime/device.h"

#include "base/memory.h"

#include <string.h>

typedef struct {
    char *to;
    const char *from;
    size_t bytes;
} copy_args;

enum { COPY_ALONE = 256 << 10 }; /* below this, waking the team costs more than the copy */

static void copy_share(void *arg, int thread, int threads)
{
    const copy_args *copy = arg;
    int64_t begin, end;
    lj_team_share((int64_t)(copy->bytes + 63) / 64, thread, threads, &begin, &end);
    size_t first = (size_t)begin * 64, last = (size_t)end * 64 < copy->bytes ? (size_t)end * 64 : copy->bytes;
    if (first < last) memcpy(copy->to + first, copy->from + first, last - first);
}

static void host_copy(void *to, const void *from, size_t bytes, int threads)
{
    copy_args copy = {to, from, bytes};
    if (to == from || bytes == 0) return;
    lj_team_run(bytes < COPY_ALONE ? 1 : threads, copy_share, &copy);
}

const lj_device lj_devices[] = {
    {"host", lj_alloc, lj_free, host_copy, lj_team_run},
};
const size_t lj_device_count = sizeof lj_devices / sizeof *lj_devices;
