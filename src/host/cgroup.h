/* Limits of the cgroup that a process of the view lives in, version 1 and 2, and the sizes and counts they
 * are compared with. */
#ifndef LJ_HOST_CGROUP_H
#define LJ_HOST_CGROUP_H

#include "host/host.h"

typedef struct {
    bool set;
    double value;    /* bytes, processors, tasks */
    char place[512]; /* the file that says so */
    int version;     /* 1 or 2 */
} lj_limit;

/* The tightest limit from the process's group up to the root; set = false: none. */
lj_limit lj_cgroup_memory(lj_host *host); /* bytes */
lj_limit lj_cgroup_cpu(lj_host *host);    /* processors: quota / period */
lj_limit lj_cgroup_tasks(lj_host *host);  /* pids.max */

/* Processors a process may use: affinity of this process, or what the tree's cpuset and /proc/cpuinfo say; 0
 * unknown. */
int lj_host_processors(lj_host *host);
/* Value of a line "Name:   123 kB" of a file, in the unit of the file; false when it is not there. */
bool lj_host_field(lj_host *host, const char *path, const char *name, double *value);
/* Ranks on this host: --ranks, launchers' variables, the number of cards, else 1. `from` says which. */
int lj_host_ranks(lj_host *host, const char **from);
/* Hosts of the job as far as launchers' variables or the job file tell; 1 when nothing does. */
int lj_host_nodes(lj_host *host);
bool lj_host_in_container(lj_host *host);

#endif
