/* Runs a function on every rank of a communicator, as threads of this process or as child processes, and gathers what went wrong. */
#ifndef LJ_TESTS_RANKS_H
#define LJ_TESTS_RANKS_H

#include "accl/nccl.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    int rank, ranks;
    ncclComm_t comm; /* NULL when the runner was asked not to make one */
    ncclUniqueId id;
    void *argument;
    int failures;
    char message[400]; /* first failure */
} test_rank;

typedef void (*test_rank_fn)(test_rank *r);

/* Notes a failure of this rank (printf style); the first message is kept. */
void test_rank_fail(test_rank *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define rank_expect(r, condition, ...)                                                                                           \
    do {                                                                                                                         \
        if (!(condition)) test_rank_fail(r, __VA_ARGS__);                                                                        \
    } while (0)
#define rank_ok(r, call)                                                                                                         \
    do {                                                                                                                         \
        ncclResult_t rank_result = (call);                                                                                       \
        if (rank_result != ncclSuccess) test_rank_fail(r, "%s:%d %s: %d %s", __FILE__, __LINE__, #call, (int)rank_result, ncclGetLastError(NULL)); \
    } while (0)

typedef struct {
    bool processes, no_comm; /* no_comm: fn makes its own from r->id */
    double timeout_s;        /* 0: 120 */
} test_ranks_how;

/* Fails the cmocka test with the first failing rank's message, also when a rank does not come back in time (children are killed). */
void test_ranks_run(int ranks, test_ranks_how how, test_rank_fn fn, void *argument);

/* Open file descriptors, threads of this process. */
int test_open_files(void);
int test_threads(void);

#endif
