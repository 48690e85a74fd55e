/* Memory bandwidth: the STREAM triad a = b + s * c over arrays far larger than the caches (McCalpin 1995), counted as 3 arrays moved. */
#ifndef LJ_KERNELS_BANDWIDTH_H
#define LJ_KERNELS_BANDWIDTH_H

#include "base/status.h"

/* Bytes a second with `threads` threads, median of several runs; about 0.2 s and 192 MiB for the time of the call. */
lj_status lj_bandwidth_measure(int threads, double *bytes_per_s);

#endif
