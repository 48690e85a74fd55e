/* `ljperf comm`: measures collectives, ours and peers', and fits the cost model. The parts: comm_run.c runs ranks, comm_peers.c runs other libraries,
 * comm_report.c prints, comm_tune.c fits. */
#ifndef LJ_CLI_COMM_H
#define LJ_CLI_COMM_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMM_MAX_SIZES = 32, COMM_MAX_ROUNDS = 64, COMM_MAX_PEERS = 8, COMM_MAX_RANKS = 64 };

typedef enum { COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_BROADCAST, COMM_REDUCE, COMM_ALL_TO_ALL, COMM_COLLECTIVES } comm_collective;
extern const char *const comm_names[COMM_COLLECTIVES];
/* LJ_ERR_NOT_FOUND with the nearest name. */
lj_status comm_collective_find(const char *name, comm_collective *out);

/* What is measured. Bytes are those of the call's count: what a rank contributes (all_gather, all_to_all: to each rank), or gets (reduce_scatter). */
typedef struct {
    comm_collective collective;
    int ranks;
    bool processes, shared, in_place;
    size_t sizes[COMM_MAX_SIZES];
    int size_count;
    double effort;
} comm_plan;

/* One size, one round. */
typedef struct {
    double best_mean_us; /* best of 5 repetitions of the mean over calls back to back, on rank 0 */
    double min_us, p99_us; /* of calls timed one by one, on rank 0 */
    uint64_t wrong;      /* elements of all ranks that differ from the plain result */
    char algorithm[40];
} comm_sample;

/* Runs ranks and fills a sample a size. LJ_ERR_PEER: a rank failed (its message in the status text). */
lj_status comm_run(const comm_plan *plan, comm_sample *samples);
/* Calls per repetition, as the peers' yardsticks choose them. */
int comm_iterations(size_t bytes, double effort);

/* Another library, found on this machine. */
typedef struct {
    char name[40];        /* "openmpi", "openmpi-tuned" ... */
    char **command;       /* argv up to the arguments that name collective, sizes and effort */
    char **environment;   /* NAME=VALUE beside the current ones; NULL-ended */
} comm_peer;
/* families: "mpi,gloo". Builds their programs into the cache folder where needed. A family that is not installed is noted and left out. */
lj_status comm_peers_find(const char *families, const comm_plan *plan, const char *python, comm_peer *peers, int *count);
void comm_peers_release(comm_peer *peers, int count);
/* Best means in microseconds, one a size; NaN where it gave none. */
lj_status comm_peer_run(const comm_peer *peer, const comm_plan *plan, double *best_mean_us);

/* All rounds of one collective. */
typedef struct {
    comm_plan plan;
    int rounds, peer_count;
    comm_sample ours[COMM_MAX_ROUNDS][COMM_MAX_SIZES];
    double peer_us[COMM_MAX_PEERS][COMM_MAX_ROUNDS][COMM_MAX_SIZES];
    char peer_names[COMM_MAX_PEERS][40];
} comm_result;

double comm_median(const double *values, int count);
/* Bytes that nccl-tests' algbw and busbw are about. */
void comm_bandwidths(const comm_plan *plan, size_t bytes, double us, double *algbw, double *busbw);
void comm_print(const comm_result *result);
lj_status comm_write_json(const comm_result *results, int count, const char *path);
lj_status comm_write_svg(const comm_result *results, int count, const char *path);

/* Measures algorithms and writes the cost model. */
lj_status comm_tune(const comm_plan *plan);

#endif
