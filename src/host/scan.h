/* The binaries of a tree: programs in the usual places and the shared objects of Python packages, as far as
 * the time goes. */
#ifndef LJ_HOST_SCAN_H
#define LJ_HOST_SCAN_H

#include "host/check.h"
#include "host/elf.h"

typedef struct {
    lj_host *host;
    lj_findings *out;
    double deadline;
    json_t *binaries; /* paths in the view */
    bool cut;         /* time or number ran out */
} lj_scan;

/* Gathers the paths; the host's scan time counts from here on. */
void lj_scan_begin(lj_scan *s, lj_host *host, lj_findings *out);
/* Reads one of them; false when it is no ELF file or the time is over. */
bool lj_scan_elf(lj_scan *s, const char *path, lj_elf *elf);
void lj_scan_end(lj_scan *s);

#endif
