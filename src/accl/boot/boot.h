/* How ranks find each other: an id names a rendezvous (root.c); each rank joins it (join.c) and comes back with the shared segment, the
 * views of its peers' heaps, and a table of who is where. Nothing of it stays open afterwards. */
#ifndef ACCL_BOOT_H
#define ACCL_BOOT_H

#include "accl/boot/net.h"
#include "accl/heap.h"
#include "accl/segment.h"
#include "accl/settings.h"

#include <sys/types.h>

enum { ACCL_MASK_WORDS = 16 }; /* processors that an affinity mask here can name: 1024 */

/* What each rank tells about itself. */
typedef struct {
    int32_t rank, device;
    int64_t pid;
    uint64_t start_time;     /* of the process, so that a reused pid is not taken for it */
    uint64_t pid_namespace;  /* two that differ cannot look at each other's processes */
    uint64_t process;        /* random name of the process (a thread of the same has the same) */
    uint64_t heap_key, heap_bytes;
    uint64_t probe;          /* address of a word that holds `process`, to try reading its memory */
    uint64_t processors[ACCL_MASK_WORDS];
} accl_identity;

/* The id's bytes, at most 128. */
typedef struct {
    uint64_t mark, magic;
    accl_address address;
    uint32_t fixed; /* from NCCL_COMM_ID: rank 0 listens when it joins */
} accl_boot_id;

lj_status accl_boot_id_create(accl_boot_id *id);
/* Ends the rendezvous of an id of this process that no communicator was made with. No effect for others. */
void accl_boot_id_cancel(const accl_boot_id *id);

typedef struct {
    accl_segment segment;
    accl_identity *table;     /* ranks of them */
    accl_heap_view **views;   /* ranks of them; NULL: same process */
    uint32_t ranks;
} accl_boot_result;

/* Blocks until all ranks came, the timeout, or *stop. On failure nothing is left behind. */
lj_status accl_boot_join(const accl_boot_id *id, uint32_t ranks, int32_t rank, int32_t device, const accl_settings *settings,
                         const atomic_int *stop, accl_boot_result *result);
void accl_boot_result_release(accl_boot_result *result);

/* This process, as identities name it. */
uint64_t accl_process_name(void);
uint64_t accl_process_probe(void); /* address of a word that holds the name */
uint64_t accl_process_start(void); /* start time, 0 unknown */
uint64_t accl_process_namespace(void);
/* False when the process of that identity is gone or a zombie; true when it lives or cannot be seen. */
bool accl_process_alive(const accl_identity *identity);

/* Messages of the rendezvous, between root.c and join.c. */
enum { ACCL_BOOT_TEXT = 400, ACCL_BOOT_VERSION = 1 };
#define ACCL_BOOT_MARK 0x4c4343414c4a5031u
typedef struct {
    uint64_t mark, magic, host;
    uint32_t version, ranks;
    int32_t rank, spare;
} accl_boot_hello;
typedef struct {
    uint64_t session; /* 0: refused, the text says why */
    char text[ACCL_BOOT_TEXT];
} accl_boot_answer;
typedef struct {
    uint64_t session;
    accl_identity identity;
} accl_boot_entry;
void accl_boot_session_name(uint64_t session, char *buffer, size_t capacity);
uint64_t accl_boot_host(void); /* the same for all processes of this host */
uint64_t accl_random(void);
/* Starts the rendezvous at a listening fd (taken over). `magic` names it. */
lj_status accl_root_start(int listener, const accl_address *address, uint64_t magic, double timeout_s);
/* Waits for the end of a rendezvous of this process whose work is done. */
void accl_root_finish(uint64_t magic);
/* Waits until no rendezvous of this process listens at a fixed address. */
void accl_root_finish_at(const accl_address *address);
void accl_root_cancel(uint64_t magic);

#endif
