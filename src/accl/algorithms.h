/* The table of algorithms, and which one an operation takes.
 *
 * An algorithm is a row: the collective it does, how data reaches the others, whether it adds in rank order, a builder of steps (a file in
 * the collective's folder), and what it costs in terms that the machine's measured costs are multiplied with. */
#ifndef ACCL_ALGORITHMS_H
#define ACCL_ALGORITHMS_H

#include "accl/task.h"

/* What one rank does in an operation: counts of things, per rank, bytes as fp64 so that sums stay simple. */
typedef struct {
    double syncs;   /* times it waits for others */
    double copied;  /* bytes copied within what this core has touched */
    double crossed; /* bytes read that another core wrote */
    double reduced; /* bytes read and combined */
    double system;  /* bytes moved by the system between processes */
    double calls;   /* system calls for that */
} accl_work;

enum { ACCL_COSTS = 6 };
/* Seconds per sync, copied, crossed, reduced and system byte, and call; in the order of accl_work. One set for ranks that have a processor each, one for crowds. */
typedef struct {
    double cost[2][ACCL_COSTS];
} accl_cost_model;

struct accl_algorithm {
    accl_kind kind;
    accl_reach reach;
    const char *name;  /* as NCCL_ALGO and tuner files name it */
    const char *label; /* with its way: "ring/staged" */
    bool ordered;
    bool is_flat_staged; /* one piece of it is what quick.c does by hand */
    void (*build)(accl_task *task);
    void (*work)(double bytes, double ranks, accl_work *work); /* bytes of the call (per rank) */
};

extern const accl_algorithm accl_algorithms[];
extern const size_t accl_algorithm_count;

/* The algorithm of an operation. `mapped`: every rank's buffers are mapped everywhere. Depends only on what all ranks know. */
const accl_algorithm *accl_choose(ncclComm_t comm, const accl_call *call, bool mapped);
/* Seconds, by the model. */
double accl_estimate(ncclComm_t comm, const accl_algorithm *algorithm, size_t bytes);
/* Whether results are so large that they should not go through the caches. */
bool accl_streams_pay(ncclComm_t comm, const accl_call *call);
/* Call bytes from which mapped buffers are worth a meeting first. */
size_t accl_mapped_from(ncclComm_t comm, const accl_call *call);
/* False when the user named algorithms for this collective: then even the smallest takes one of them. */
bool accl_inline_allowed(accl_kind kind);

/* Reads NCCL_ALGO, NCCL_PROTO, the tuner file and this machine's measured costs, once a process; LJ_ERR_INVALID names what is wrong. */
lj_status accl_choice_load(void);
void accl_choice_reload(void); /* forget them: the next load reads again (tests, tune) */
/* Path of the measured costs; written by `ljperf comm tune`. */
lj_status accl_costs_path(char *buffer, size_t capacity);
lj_status accl_costs_write(const accl_cost_model *model);
const accl_cost_model *accl_costs(void);
accl_cost_model accl_costs_default(void);

/* Pieces of staged operations: bytes of one, and how many a half of the stage holds. `share`: ways the half is divided among first. */
size_t accl_piece_bytes(const accl_task *task, size_t share, size_t *slots);

/* Builders. */
void accl_all_reduce_flat(accl_task *task);
void accl_all_reduce_scatter_gather(accl_task *task);
void accl_all_reduce_recursive_doubling(accl_task *task);
void accl_all_reduce_ring(accl_task *task);
void accl_all_reduce_tree(accl_task *task);
void accl_all_gather_flat(accl_task *task);
void accl_all_gather_ring(accl_task *task);
void accl_reduce_scatter_flat(accl_task *task);
void accl_reduce_scatter_ring(accl_task *task);
void accl_reduce_scatter_pairwise(accl_task *task);
void accl_broadcast_flat(accl_task *task);
void accl_broadcast_tree(accl_task *task);
void accl_reduce_flat(accl_task *task);
void accl_reduce_scatter_to_root(accl_task *task);
void accl_reduce_tree(accl_task *task);

#endif
