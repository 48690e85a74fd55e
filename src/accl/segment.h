/* The memory that the ranks of one communicator share: who writes which line, and nothing about what is done with them.
 *
 * It lives in a memfd that no name leads to: when the last process goes, however it goes, the kernel frees it, and the size
 * of /dev/shm does not matter. Pages that are never touched cost nothing. Each line has one writer, named beside it. */
#ifndef ACCL_SEGMENT_H
#define ACCL_SEGMENT_H

#include "base/status.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ACCL_LINE = 64,
    ACCL_CARDS = 8,            /* operations that a rank may be ahead of the slowest, as far as cards go */
    ACCL_INLINE = 48,          /* payload bytes that ride in a card's first line */
    ACCL_STAGE_HALF = 1 << 19, /* staging bytes of a rank for one operation; odd and even operations have a half each */
    ACCL_MAIL_DEPTH = 4,       /* messages in flight from one rank to another */
    ACCL_MAIL_INLINE = 40,
    ACCL_MAIL_EAGER = 8192,   /* payload bytes of a message that need no meeting */
    ACCL_MAIL_PIPE = 1 << 16, /* two pieces of a message that is staged: one is written while the other is read */
    ACCL_BOX_BYTES = 192,
    ACCL_BOXES = 4,
    ACCL_MAX_RANKS = 1024,
};

/* What a rank says at the start of a collective. First line: the tag, written last, and a small payload; second line: where its buffers are. */
typedef struct {
    alignas(ACCL_LINE) _Atomic uint64_t tag; /* sequence number << 32 | signature of the arguments | flags in the last two bits */
    unsigned char payload[ACCL_INLINE];
    _Atomic uint64_t touched; /* written one operation ahead, only to have the line when the tag must go out */
    uint64_t send, recv;           /* addresses in the owner's process */
    uint64_t send_heap, recv_heap; /* 1 + offset in its heap; 0: not there */
    uint64_t scale; /* bits of the pre-multiplier */
    uint64_t unused[3];
    unsigned char apart[4096]; /* in a page of its own: a reader's prefetcher must not fetch the next card, which its owner is about to write */
} accl_card;

/* MAPPED: this rank's buffers are reachable by load and store from everywhere. EMPTY: it staged nothing yet, its phase 1 will say when. */
enum { ACCL_CARD_MAPPED = 1, ACCL_CARD_EMPTY = 2, ACCL_CARD_FLAGS = 3 };

/* The last collective of a rank, for messages and telemetry. */
typedef struct {
    _Atomic uint64_t sequence; /* of the collective begun last, from 1 */
    _Atomic uint64_t count;
    _Atomic uint32_t collective, dtype, op;
    _Atomic int32_t root;
    _Atomic uint64_t finished; /* sequence of the last one done */
} accl_record;

/* Out-of-band words of a rank: splits, shrinks, windows. */
typedef struct {
    alignas(ACCL_LINE) _Atomic uint64_t number; /* from 1 */
    unsigned char data[ACCL_BOX_BYTES - 8];
} accl_box;

/* Lines of one rank. All are written by that rank, except where said. */
typedef struct {
    alignas(ACCL_LINE) _Atomic uint64_t stamp; /* sequence << 24 | phase: what this rank has reached */
    alignas(ACCL_LINE) _Atomic uint32_t sleeping; /* it waits in the kernel on `doorbell` */
    _Atomic uint32_t doorbell;                    /* written by whoever wakes it */
    _Atomic uint32_t ready;                       /* 1: it has mapped everything, 2: and cannot read other processes' memory, 3: it can */
    _Atomic uint32_t gone;                        /* it destroyed or aborted the communicator */
    alignas(ACCL_LINE) accl_record record;
    accl_card cards[ACCL_CARDS];
    accl_box boxes[ACCL_BOXES];
} accl_rank_lines;

/* A message from one rank to another. `posted` is the sender's; `taken` the receiver's. */
typedef struct {
    alignas(ACCL_LINE) _Atomic uint64_t posted; /* number of the message, from 1 */
    uint64_t bytes;
    uint32_t kind, dtype;
    unsigned char inline_data[ACCL_MAIL_INLINE];
    uint64_t address, heap; /* where the sender's buffer is, as in a card */
    _Atomic uint64_t pieces_posted; /* sender: pieces written to the pipe (kind staged) */
    uint64_t spare[5];
    alignas(ACCL_LINE) _Atomic uint64_t taken; /* number of the last message taken from this slot */
    _Atomic uint64_t pieces_taken;             /* receiver: pieces read from the pipe */
    _Atomic uint64_t wants_pipe;               /* receiver: number of the message that must come through the pipe */
    _Atomic uint64_t begun;                    /* receiver: number of the message it is reading */
} accl_mail_slot;

typedef struct {
    alignas(ACCL_LINE) _Atomic uint32_t error; /* first failure of any rank, an ncclResult_t; by that rank */
    _Atomic int32_t error_rank;
    uint32_t ranks;
    uint64_t magic; /* of this set-up; written by its creator */
} accl_segment_head;

typedef struct {
    unsigned char *base;
    size_t bytes;
    uint32_t ranks;
} accl_segment;

size_t accl_segment_bytes(uint32_t ranks);
/* Creates the memfd (close-on-exec) and its head. *fd is the caller's. */
lj_status accl_segment_create(uint32_t ranks, uint64_t magic, int *fd);
/* Maps it; checks size and magic. The fd may be closed afterwards. */
lj_status accl_segment_map(accl_segment *segment, int fd, uint32_t ranks, uint64_t magic);
void accl_segment_unmap(accl_segment *segment);

static inline accl_segment_head *accl_segment_head_get(const accl_segment *s)
{
    return (accl_segment_head *)(void *)s->base;
}
static inline accl_rank_lines *accl_segment_lines(const accl_segment *s, uint32_t rank)
{
    return (accl_rank_lines *)(void *)(s->base + 4096 + (size_t)rank * sizeof(accl_rank_lines));
}
/* Both staging halves of a rank, ACCL_STAGE_HALF bytes each, page aligned. */
unsigned char *accl_segment_stage(const accl_segment *s, uint32_t rank);
/* The ACCL_MAIL_DEPTH slots from one rank to another, and the bytes behind a slot (ACCL_MAIL_PIPE of them). */
accl_mail_slot *accl_segment_mail(const accl_segment *s, uint32_t from, uint32_t to);
unsigned char *accl_segment_mail_bytes(const accl_segment *s, uint32_t from, uint32_t to, uint32_t slot);

#endif
