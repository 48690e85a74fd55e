/* A rank's end of a communicator: what the rest of the engine works on. comm.c makes and ends it; public names are in api_*.c. */
#ifndef ACCL_COMM_H
#define ACCL_COMM_H

#include "accl/arith/arith.h"
#include "accl/boot/boot.h"
#include "accl/nccl.h"
#include "accl/segment.h"
#include "accl/settings.h"

#include <pthread.h>

typedef struct accl_step accl_step;
typedef struct accl_stream accl_stream;
typedef struct accl_vendor_comm accl_vendor_comm;

typedef struct {
    accl_rank_lines *lines;
    unsigned char *stage;     /* both halves */
    unsigned char *heap;      /* its heap as this process sees it; NULL: same process */
    bool same_process;
    pid_t pid;
} accl_peer;

/* A reduction operator made by the user: a sum of multiplied inputs. */
typedef struct {
    bool live, deferred; /* deferred: *address is read when the operation runs */
    lj_dtype type;
    uint64_t scale;
    const void *address;
} accl_user_op;

typedef struct accl_registration {
    void *base;
    size_t bytes;
    bool is_window;
    struct accl_registration *next;
} accl_registration;

enum { ACCL_COMM_MARK = 0x4143434c };
enum { ACCL_USER_OPS = 256, ACCL_SCRATCH = 1 << 18, ACCL_CHOICE_SIZES = 40 };

struct ncclComm {
    uint32_t mark;
    uint32_t rank, ranks;
    int32_t device;
    bool blocking, crowded; /* crowded: more ranks than processors, so waiting gives the processor away */
    bool reads_memory;      /* every rank may read and write every other's memory through the system */
    bool one_process;
    bool finalized;
    bool plain;             /* blocking host engine, nothing odd: the shortest way may be taken */
    char name[64];
    accl_settings settings;
    accl_boot_result boot;
    accl_rank_lines *mine;
    accl_peer *peers;

    uint64_t issued;              /* sequence of the collective issued last */
    _Atomic uint64_t done;        /* sequence of the one this rank finished last */
    uint64_t known;               /* stamp that all ranks are known to have reached; owned by the collective that runs */
    uint64_t *sent, *received;    /* messages issued, by peer */
    atomic_int pending;           /* operations issued and not finished */
    const char *last_algorithm;
    const struct accl_algorithm *choices[5][2][ACCL_CHOICE_SIZES]; /* by collective, mapped, log2 of the bytes */
    double cache_bytes;           /* of the last-level cache */
    /* Two ranks alone swap their stages from piece to piece: who has read a piece owns its lines and writes the next one there. A line then moves once a piece,
     * instead of once to be read and once more to be written again, which costs several times as much. */
    bool swaps;
    bool unordered_stage;         /* the last collective's algorithm lets a rank write its stage when the other is done */
    uint64_t turn;                /* staged pieces so far, the same on both ranks */

    atomic_int abort;             /* stop everything that waits */
    atomic_int error;             /* ncclResult_t, sticky */
    atomic_int state;             /* ncclInProgress while a set-up or a finalize runs */
    double checked_s;             /* when GetAsyncError last looked at the processes */
    pthread_mutex_t lock;         /* error text, registrations, operators, spare steps */
    char error_text[700];
    accl_user_op ops[ACCL_USER_OPS];
    accl_registration *registrations;
    accl_step *spare_steps;
    size_t spare_capacity;
    unsigned char *scratch; /* of the collective that runs: pieces read from other processes */
    uint64_t box_number; /* out-of-band rounds begun */

    pthread_t setup_thread;
    bool setup_started;
    accl_stream *background;      /* runs the NULL-stream operations of a non-blocking communicator */
    accl_vendor_comm *vendor;
};

/* Where a rank's staged piece lies: a half for odd and even operations each, or the pair's swapped stages. */
static inline unsigned char *accl_stage_of(const struct ncclComm *comm, uint32_t rank, uint64_t number, uint64_t turn)
{
    return comm->swaps ? comm->peers[(rank + turn) & 1].stage : comm->peers[rank].stage + (number & 1) * ACCL_STAGE_HALF;
}

typedef struct {
    accl_boot_id id;
    uint32_t ranks;
    int32_t rank, device;
    bool blocking;
    char name[64];
} accl_comm_plan;

/* Joins the rendezvous and fills a communicator made by accl_comm_new. Blocks. On failure comm->error and its text are set. */
ncclResult_t accl_comm_new(const accl_comm_plan *plan, ncclComm_t *out);
ncclResult_t accl_comm_connect(ncclComm_t comm, const accl_boot_id *id);
/* Waits until nothing is pending (not for other ranks). */
void accl_comm_drain(ncclComm_t comm);
/* Frees; told: 1 destroyed, 2 aborted, which other ranks that wait for this one then see. */
void accl_comm_free(ncclComm_t comm, uint32_t told);

/* Keeps the first failure and its text (printf style), tells the other ranks when `spread`, returns `result`. Also sets what ncclGetLastError gives. */
ncclResult_t accl_comm_fail(ncclComm_t comm, bool spread, ncclResult_t result, const char *format, ...) LJ_PRINTF(4, 5);
/* A failure that belongs to a call, not to a communicator. */
ncclResult_t accl_fail(ncclResult_t result, const char *format, ...) LJ_PRINTF(2, 3);
/* The same from this thread's lj message; the code follows the status. */
ncclResult_t accl_fail_status(lj_status status, const char *where);
ncclResult_t accl_result_of(lj_status status);
/* Copies the last failure's text of the process to the caller's thread, static per thread. */
const char *accl_last_text(void);

/* ncclSuccess, or why the handle cannot be used (NULL, freed, wrong library). */
ncclResult_t accl_comm_check(ncclComm_t comm, const char *function);

/* One round of small messages between ranks, outside the collectives: every rank of `with` (ranks of it, this one among them) passes `bytes`
 * (at most ACCL_BOX_BYTES - 8), all get everybody's, in the order of `with`. Ranks outside take no part. Ends early when *stop is set. */
ncclResult_t accl_box_exchange(ncclComm_t comm, const uint32_t *with, uint32_t count, const void *mine, size_t bytes, void *all, const atomic_int *stop);
/* Starts accl_comm_connect, or what `run` does, on a thread of the communicator. */
ncclResult_t accl_comm_background(ncclComm_t comm, void *(*run)(void *), void *argument);

#endif
