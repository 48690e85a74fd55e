/* Two ranks, a core each: an all-reduce of 16 MiB on a host stream beside a matrix product in the caller. Prints medians in milliseconds:
 * "product collective together late_alone late_together": late is with the peer coming 100 ms late. */
#define _GNU_SOURCE
#include "accl/accl.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N = 320, COUNT = 4 << 20, ROUNDS = 7 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void product(float *c, const float *a, const float *b, int times)
{
    for (int round = 0; round < times; round++)
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++) c[i * N + j] += a[i * N + k] * b[k * N + j];
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *v)
{
    qsort(v, ROUNDS, sizeof *v, compare);
    return v[ROUNDS / 2];
}

static void run(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    cudaStream_t stream;
    float *data, *a = calloc(N * N, 4), *b = calloc(N * N, 4), *c = calloc(N * N, 4), word = 0;
    double alone[ROUNDS], reduce[ROUNDS], both[ROUNDS], late[ROUNDS], late_both[ROUNDS];
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank, &set);
    sched_setaffinity(0, sizeof set, &set);
    if (ncclCommInitRank(&comm, 2, id, rank) || acclStreamCreate(&stream) || ncclMemAlloc((void **)&data, COUNT * 4)) exit(1);
    for (int i = 0; i < COUNT; i++) data[i] = 0;
    for (int round = 0; round < ROUNDS; round++) {
#define TOGETHER() ncclAllReduce(&word, &word, 1, ncclFloat, ncclSum, comm, NULL)
#define BEGIN(times) double t_##times = now_ms()
        TOGETHER();
        BEGIN(alone);
        product(c, a, b, 4);
        alone[round] = now_ms() - t_alone;
        TOGETHER();
        BEGIN(reduce);
        for (int i = 0; i < 8; i++) ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, stream);
        acclStreamSynchronize(stream);
        reduce[round] = now_ms() - t_reduce;
        TOGETHER();
        BEGIN(both);
        for (int i = 0; i < 8; i++) ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, stream);
        product(c, a, b, 4);
        acclStreamSynchronize(stream);
        both[round] = now_ms() - t_both;
        TOGETHER();
        if (rank == 1) usleep(100000);
        BEGIN(late);
        ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, stream);
        acclStreamSynchronize(stream);
        late[round] = now_ms() - t_late;
        TOGETHER();
        if (rank == 1) usleep(100000);
        BEGIN(late_both);
        ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, stream);
        if (rank == 0) product(c, a, b, 4);
        acclStreamSynchronize(stream);
        late_both[round] = now_ms() - t_late_both;
    }
    if (rank == 0) printf("%.3f %.3f %.3f %.3f %.3f\n", median(alone), median(reduce), median(both), median(late), median(late_both));
    acclStreamDestroy(stream);
    ncclMemFree(data);
    ncclCommDestroy(comm);
}

int main(void)
{
    ncclUniqueId id;
    if (ncclGetUniqueId(&id)) return 1;
    for (int rank = 0; rank < 2; rank++)
        if (fork() == 0) {
            run(rank, id);
            exit(0);
        }
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status;
    return failed != 0;
}
