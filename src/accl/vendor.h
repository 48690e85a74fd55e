/* The other engine: the accelerator vendor's own library behind the same calls.
 *
 * ACCL_ENGINE=host: never. vendor: always, and an error when it cannot be had. auto (default): when ACCL_VENDOR_LIBRARY names one, or this machine
 * has an accelerator's device file and one is found where vendors install it; else the host engine. The library is opened by absolute path with a scope of its own, and refused when it is
 * this library. Its communicator lives inside ours; calls go through a table of its functions, filled by name with the vendor's prefix. */
#ifndef ACCL_VENDOR_H
#define ACCL_VENDOR_H

#include "accl/task.h"

/* Loads it as ACCL_ENGINE says. *use: new communicators go to the vendor. */
lj_status accl_vendor_load(bool *use);
bool accl_vendor_loaded(void);
const char *accl_vendor_path(void);

ncclResult_t accl_vendor_unique_id(ncclUniqueId *id);
ncclResult_t accl_vendor_init(int nranks, ncclUniqueId id, int rank, ncclConfig_t *config, ncclComm_t *out);
ncclResult_t accl_vendor_init_all(ncclComm_t *comms, int count, const int *devices);
ncclResult_t accl_vendor_init_scalable(ncclComm_t *out, int nranks, int rank, int ids, ncclUniqueId *id, ncclConfig_t *config);
ncclResult_t accl_vendor_collective(accl_vendor_comm *comm, const accl_call *call, const ncclRedOp_t *op, cudaStream_t stream);
ncclResult_t accl_vendor_op_create(accl_vendor_comm *comm, ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence);
ncclResult_t accl_vendor_op_destroy(accl_vendor_comm *comm, ncclRedOp_t op);
ncclResult_t accl_vendor_finalize(accl_vendor_comm *comm);
ncclResult_t accl_vendor_destroy(accl_vendor_comm *comm, bool abort_it); /* frees comm */
ncclResult_t accl_vendor_split(accl_vendor_comm *comm, int color, int key, ncclConfig_t *config, ncclComm_t *out);
ncclResult_t accl_vendor_shrink(accl_vendor_comm *comm, int *exclude, int count, ncclConfig_t *config, int flags, ncclComm_t *out);
ncclResult_t accl_vendor_async_error(accl_vendor_comm *comm, ncclResult_t *error);
ncclResult_t accl_vendor_number(accl_vendor_comm *comm, const char *what, int *value); /* "Count", "CuDevice", "UserRank" */
ncclResult_t accl_vendor_register(accl_vendor_comm *comm, void *buffer, size_t bytes, void **handle);
ncclResult_t accl_vendor_deregister(accl_vendor_comm *comm, void *handle);
ncclResult_t accl_vendor_window_register(accl_vendor_comm *comm, void *buffer, size_t bytes, ncclWindow_t *window, int flags);
ncclResult_t accl_vendor_window_deregister(accl_vendor_comm *comm, ncclWindow_t window);
/* Memory of the vendor's allocator. */
ncclResult_t accl_vendor_mem_alloc(void **pointer, size_t bytes);
ncclResult_t accl_vendor_mem_free(void *pointer);
const char *accl_vendor_last_error(accl_vendor_comm *comm);
ncclResult_t accl_vendor_group_start(void);
ncclResult_t accl_vendor_group_end(void);
ncclResult_t accl_vendor_group_simulate(ncclSimInfo_t *info);

#endif
