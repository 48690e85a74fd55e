/* One component of a manifest against what is installed; shared by the doctor, `image check` and `image
 * lint`. */
#ifndef LJ_HOST_PATCHED_H
#define LJ_HOST_PATCHED_H

#include "host/check.h"

/* `package` is a row of lj_python_packages or NULL. Fills f and returns its verdict: fail when a patched
 * package is another one or missing, warn when another version is there, ok when it is as stated. */
lj_verdict lj_patched_judge(const json_t *component, const json_t *package, lj_finding *f);

#endif
