/* A program of the interface that runs over whichever engine ACCL_ENGINE names; prints what it saw. */
#include "accl/accl.h"

#include <stdio.h>

int main(void)
{
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    float data = 1;
    int version = 0, count = 0;
    ncclGetVersion(&version);
    ncclResult_t result = ncclGetUniqueId(&id);
    if (result == ncclSuccess) result = ncclCommInitRank(&comm, 1, id, 0);
    if (result != ncclSuccess) {
        printf("failed %d: %s\n", (int)result, ncclGetLastError(NULL));
        return 1;
    }
    ncclGroupStart();
    ncclAllReduce(&data, &data, 1, ncclFloat, ncclSum, comm, NULL);
    ncclGroupEnd();
    ncclCommCount(comm, &count);
    ncclResult_t lacking = ncclCommFinalize(comm);
    printf("engine %s version %d count %d data %g finalize %d\n", acclCommEngine(comm), version, count, (double)data, (int)lacking);
    return ncclCommDestroy(comm) != ncclSuccess;
}
