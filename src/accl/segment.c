#define _GNU_SOURCE
#include "accl/segment.h"

#include "base/memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t page_round(size_t bytes)
{
    return (bytes + 4095) & ~(size_t)4095;
}

/* Offsets of the parts, in order: head page, lines, stages, mail slots, mail bytes. */
static size_t stages_at(uint32_t ranks)
{
    return 4096 + page_round((size_t)ranks * sizeof(accl_rank_lines));
}
static size_t mail_at(uint32_t ranks)
{
    return stages_at(ranks) + (size_t)ranks * 2 * ACCL_STAGE_HALF;
}
static size_t mail_bytes_at(uint32_t ranks)
{
    return mail_at(ranks) + page_round((size_t)ranks * ranks * ACCL_MAIL_DEPTH * sizeof(accl_mail_slot));
}

size_t accl_segment_bytes(uint32_t ranks)
{
    return mail_bytes_at(ranks) + (size_t)ranks * ranks * ACCL_MAIL_DEPTH * ACCL_MAIL_PIPE;
}

unsigned char *accl_segment_stage(const accl_segment *s, uint32_t rank)
{
    return s->base + stages_at(s->ranks) + (size_t)rank * 2 * ACCL_STAGE_HALF;
}

accl_mail_slot *accl_segment_mail(const accl_segment *s, uint32_t from, uint32_t to)
{
    size_t pair = (size_t)from * s->ranks + to;
    return (accl_mail_slot *)(void *)(s->base + mail_at(s->ranks)) + pair * ACCL_MAIL_DEPTH;
}

unsigned char *accl_segment_mail_bytes(const accl_segment *s, uint32_t from, uint32_t to, uint32_t slot)
{
    size_t pair = (size_t)from * s->ranks + to;
    return s->base + mail_bytes_at(s->ranks) + (pair * ACCL_MAIL_DEPTH + slot) * ACCL_MAIL_PIPE;
}

lj_status accl_segment_create(uint32_t ranks, uint64_t magic, int *fd)
{
    if (lj_fault("memfd", "segment")) return lj_fail(LJ_ERR_NOMEM, "shared segment: injected failure");
    int made = memfd_create("accl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0) return lj_fail_errno("create", "shared segment (memfd)");
    accl_segment_head head = {.ranks = ranks, .magic = magic, .error_rank = -1};
    if (ftruncate(made, (off_t)accl_segment_bytes(ranks)) != 0 || pwrite(made, &head, sizeof head, 0) != sizeof head) {
        lj_fail_errno("size", "shared segment (memfd)");
        close(made);
        return LJ_ERR_IO;
    }
    *fd = made;
    return LJ_OK;
}

lj_status accl_segment_map(accl_segment *segment, int fd, uint32_t ranks, uint64_t magic)
{
    struct stat info;
    size_t bytes = accl_segment_bytes(ranks);
    if (fstat(fd, &info) != 0) return lj_fail_errno("stat", "shared segment");
    if (info.st_size != (off_t)bytes)
        return lj_fail(LJ_ERR_INVALID, "shared segment has %lld bytes, %zu expected for %u ranks: another version of the library? use one on all ranks",
                       (long long)info.st_size, bytes, ranks);
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) return lj_fail_errno("map", "shared segment");
    madvise(base, bytes, MADV_DONTDUMP);
    *segment = (accl_segment){base, bytes, ranks};
    if (accl_segment_head_get(segment)->magic == magic) return LJ_OK;
    accl_segment_unmap(segment);
    return lj_fail(LJ_ERR_INVALID, "shared segment belongs to another set-up");
}

void accl_segment_unmap(accl_segment *segment)
{
    if (segment->base) munmap(segment->base, segment->bytes);
    *segment = (accl_segment){0};
}
