/* 2^31 + 1 bytes, 2 ranks: sizes beyond 32 bits. Prints "right" or what was wrong. Takes 5 GB of memory, so no part of the usual tests: bench/accl runs it. */
#include "accl/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    size_t count = ((size_t)1 << 31) + 1;
    ncclUniqueId id;
    int status, failed = ncclGetUniqueId(&id) != ncclSuccess;
    for (int rank = 0; rank < 2 && !failed; rank++)
        if (fork() == 0) {
            ncclComm_t comm;
            signed char *data = malloc(count);
            if (!data || ncclCommInitRank(&comm, 2, id, rank)) _exit(1);
            for (size_t i = 0; i < count; i++) data[i] = (signed char)(i % 50 + (size_t)rank);
            if (ncclAllReduce(data, data, count, ncclInt8, ncclSum, comm, NULL)) _exit(2);
            for (size_t i = 0; i < count; i++)
                if (data[i] != (signed char)(2 * (i % 50) + 1)) {
                    printf("rank %d element %zu is %d\n", rank, i, data[i]);
                    _exit(3);
                }
            ncclCommDestroy(comm);
            _exit(0);
        }
    while (wait(&status) > 0) failed |= status;
    puts(failed ? "wrong" : "right");
    return failed != 0;
}
