/* One operation of one rank on its way: what was asked (a call), the steps that an algorithm made of it, and how far it has come. A task never
 * blocks: accl_task_advance does what can be done now. run.c drives any number of them; nothing here knows about waiting.
 *
 * Steps. An algorithm (all_reduce/ring.c and the like) is a function that appends steps for this rank. All ranks run the same algorithm.
 * Synchronisation is by phases: a rank's phase number grows with each post; phase 1 is the share (the rank's buffers or its first staged piece may be read).
 * Places are named by space, rank and byte offset; spaces of other ranks resolve to shared memory, to a mapped heap, or to calls that
 * read and write another process, as the peer's card says. */
#ifndef ACCL_TASK_H
#define ACCL_TASK_H

#include "accl/comm.h"

typedef enum { ACCL_ALL_REDUCE, ACCL_ALL_GATHER, ACCL_REDUCE_SCATTER, ACCL_BROADCAST, ACCL_REDUCE, ACCL_SEND, ACCL_RECV, ACCL_KIND_COUNT } accl_kind;

/* One row a kind: names, and how many elements each buffer holds. */
typedef struct {
    const char *name, *function; /* "all_reduce", "ncclAllReduce" */
    bool reduces, has_root, is_message;
    bool send_by_ranks, recv_by_ranks; /* the buffer has count * ranks elements */
} accl_kind_row;
extern const accl_kind_row accl_kinds[ACCL_KIND_COUNT];

typedef struct {
    accl_kind kind;
    const void *send;
    void *recv;
    size_t count; /* elements, as in the call */
    accl_arith arith;
    int32_t root; /* or the peer */
    uint64_t scale;
    const void *scale_address; /* not NULL: read the scale when the operation runs */
    bool grouped;
} accl_call;

/* STAGE_NEXT: of the next turn, for pieces of odd number (accl_stage_space). */
typedef enum { ACCL_AT_SEND, ACCL_AT_RECV, ACCL_AT_STAGE, ACCL_AT_STAGE_NEXT } accl_space;
typedef struct {
    uint32_t space, rank;
    size_t offset; /* bytes */
} accl_place;

typedef enum {
    ACCL_STEP_GUARD,      /* until the lines about to be written are free */
    ACCL_STEP_CARD,       /* show the card */
    ACCL_STEP_WAIT_CARDS, /* everybody's share */
    ACCL_STEP_WAIT_CARD,  /* one rank's share */
    ACCL_STEP_INLINE,     /* all payloads are in the cards: make the result of them */
    ACCL_STEP_DECIDE,     /* all cards are known: choose by what they say */
    ACCL_STEP_POST,
    ACCL_STEP_WAIT_ALL,
    ACCL_STEP_WAIT,
    ACCL_STEP_COPY,    /* to <- a, bytes */
    ACCL_STEP_REDUCE,  /* to (every rank's when fan_out) <- a of the others and b of this rank, in rank order, elements */
    ACCL_STEP_BEGIN,   /* work at `to` <- elements at a */
    ACCL_STEP_COMBINE, /* work at `to` <- work at a, work at b */
    ACCL_STEP_FINISH,  /* elements at `to` <- work at a */
    ACCL_STEP_KINDS
} accl_step_kind;

struct accl_step {
    uint8_t kind, fan_out;
    uint16_t peer;
    uint32_t phase;
    accl_place to, a, b;
    size_t amount;
};

/* How a rank's data reaches the others. */
typedef enum { ACCL_BY_STAGE, ACCL_BY_MAPPING, ACCL_BY_SYSTEM, ACCL_REACH_COUNT } accl_reach;

typedef struct accl_algorithm accl_algorithm;

typedef struct {
    ncclComm_t comm;
    accl_call call;
    uint64_t number; /* sequence of the collective, or number of the message to or from its peer */
    accl_stream *stream;
    int state;
    ncclResult_t result;
    bool finished;

    const accl_algorithm *algorithm;
    accl_step *steps;
    size_t count, capacity, at;
    uint32_t phase;   /* of the builder: last one posted */
    uint32_t peer_at; /* of a wait: ranks before it are there */
    uint64_t turn;    /* of the communicator's stage when it was built */
    bool shared;      /* the card is out */
    bool mapped;      /* this rank's card says ACCL_CARD_MAPPED */
    bool stream_stores;
    bool failed_memory;
    size_t piece; /* messages: pieces done */
    double begun_s; /* when it first had to wait long; 0: not yet */
} accl_task;

/* Numbers the operation: calls of one communicator in the order of this. */
void accl_task_init(accl_task *task, ncclComm_t comm, const accl_call *call, accl_stream *stream);
void accl_task_release(accl_task *task);
/* Does what can be done now; true when something was. Sets finished and result. */
bool accl_task_advance(accl_task *task);
/* Ends an unfinished task. */
void accl_task_fail(accl_task *task, ncclResult_t result);
/* Whether the task waits for this rank now. */
bool accl_task_needs(const accl_task *task, uint32_t rank);
/* Rank whose arguments contradict ours in the collective that the task runs, or -1. */
int32_t accl_task_contradiction(const accl_task *task);
ncclResult_t accl_task_contradicted(accl_task *task);

/* inline.c: operations so small that their data rides in the cards. Depends only on what all ranks know. */
bool accl_is_inline(const ncclComm_t comm, const accl_call *call);
bool accl_do_inline(accl_task *task, const accl_step *step);
void accl_inline_result(ncclComm_t comm, const accl_call *call, uint64_t number);
void accl_card_show(ncclComm_t comm, const accl_call *call, uint64_t number, bool inline_data, bool mapped, uint32_t flags);
/* quick.c: the shortest way through a small collective for a caller that waits: no task unless it takes long. False: not for this one. */
bool accl_quick_run(ncclComm_t comm, const accl_call *call, ncclResult_t *result);
/* Takes up a small collective whose card is out: what is left of its steps. */
void accl_task_resume(accl_task *task);

/* Messages (message.c) */
bool accl_message_advance(accl_task *task);
bool accl_message_needs(const accl_task *task);

/* Bytes that a rank puts in or gets out per rank: what thresholds and bandwidths are about. */
static inline size_t accl_call_bytes(const accl_call *call)
{
    return call->count * lj_dtype_bytes(call->arith.type);
}
/* Bytes of a buffer. */
size_t accl_call_send_bytes(const accl_call *call, uint32_t ranks);
size_t accl_call_recv_bytes(const accl_call *call, uint32_t ranks);

/* For algorithms. */
static inline accl_place accl_at(accl_space space, uint32_t rank, size_t offset)
{
    return (accl_place){space, rank, offset};
}
/* Announces what this rank has staged or written so far, or that its buffers may be read; returns the phase. The first one, phase 1, is the
 * share, which the card carries. Every rank of an algorithm counts alike; skip jumps over phases that only others have. */
uint32_t accl_add_post(accl_task *task);
void accl_skip_phases(accl_task *task, uint32_t phases);
void accl_add_wait(accl_task *task, uint32_t rank, uint32_t phase);
void accl_add_wait_all(accl_task *task, uint32_t phase);
void accl_add_copy(accl_task *task, accl_place to, accl_place from, size_t bytes);
/* `peers`: space and offset where every other rank has it; `own`: where this rank has it. fan_out: into `to` of every rank. */
void accl_add_reduce(accl_task *task, accl_place to, accl_place peers, accl_place own, size_t count, bool fan_out);
void accl_add_begin(accl_task *task, accl_place work, accl_place from, size_t count);
void accl_add_combine(accl_task *task, accl_place to, accl_place left, accl_place right, size_t count);
void accl_add_finish(accl_task *task, accl_place to, accl_place work, size_t count);
/* Must come before anything is written to this rank's stage; and before the card. Once a task. */
void accl_add_guard(accl_task *task, bool stage);

uint64_t accl_task_tag(const accl_call *call, uint64_t number);
void accl_record_begin(ncclComm_t comm, const accl_call *call, uint64_t number);

/* Part `index` of `parts` of `count` elements, cut so that parts are whole cache lines where they are long. */
void accl_part(size_t count, size_t element, uint32_t parts, uint32_t index, size_t *first, size_t *length);

/* Space and slot of piece `number` of a flat algorithm, and the count of its pieces: with swapped stages the pieces alternate between the two in one slot. */
accl_space accl_stage_space(const accl_task *task, uint32_t number);
static inline size_t accl_stage_slot(const accl_task *task, uint32_t number, size_t slots)
{
    return task->comm->swaps ? 0 : number % slots;
}
void accl_add_turns(accl_task *task, uint32_t pieces);

/* data.c: moves bytes between places. False: failed, the task says why. */
bool accl_do_copy(accl_task *task, const accl_step *step);
bool accl_do_reduce(accl_task *task, const accl_step *step);
bool accl_do_begin(accl_task *task, const accl_step *step);
bool accl_do_combine(accl_task *task, const accl_step *step);
bool accl_do_finish(accl_task *task, const accl_step *step);
/* Into this rank's stage, out of a peer's, and both ends' reduction: they take the lines over for writing where the pair swaps stages. */
void accl_stage_put(const ncclComm_t comm, void *stage, const void *from, size_t bytes);
void accl_stage_get(const ncclComm_t comm, void *to, const void *stage, size_t bytes, bool stream);
void accl_stage_reduce(const ncclComm_t comm, const accl_arith *a, void *to, const void *const *from, const uint64_t *scale, size_t count, bool stream);
/* Copies from or to another process; false with the task failed. */
bool accl_system_read(accl_task *task, uint32_t rank, void *to, uint64_t from, size_t bytes);
bool accl_system_write(accl_task *task, uint32_t rank, uint64_t to, const void *from, size_t bytes);
/* Wakes ranks that sleep, after something was announced to them. */
void accl_wake(ncclComm_t comm, uint32_t rank);
void accl_wake_all(ncclComm_t comm);

#endif
