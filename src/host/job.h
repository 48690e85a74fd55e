/* Kubernetes job files, brought to one form. */
#ifndef LJ_HOST_JOB_H
#define LJ_HOST_JOB_H

#include "base/status.h"

#include <jansson.h>

/* Reads the first workload of a YAML file (Pod, Deployment, StatefulSet, DaemonSet, Job, CronJob, PyTorchJob
 * and the other training-operator kinds, MPIJob, JobSet) into {kind, name, image, cards, resource, nodes,
 * memory_bytes, cpu, shm_bytes (-1: no volume, 0: no limit), host_ipc, host_network, environment, labels}.
 * Cards are those of one pod; nodes is the number of pods that have cards (or all of them when none has). New
 * reference. LJ_ERR_FORMAT: no workload in it. */
lj_status lj_job_load(const char *path, json_t **job);
/* "1.5Gi", "500M", "100m" (milli) -> number; negative when it is no quantity. */
double lj_quantity_parse(const char *text);

#endif
