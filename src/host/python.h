/* Python packages of the view, from their dist-info folders. */
#ifndef LJ_HOST_PYTHON_H
#define LJ_HOST_PYTHON_H

#include "host/host.h"

/* Folders that hold packages (site-packages, dist-packages) of every Python found. New reference (strings).
 */
json_t *lj_python_sites(lj_host *host);
/* Array of {name (normalised: lower case, '-'), version, folder (dist-info's path), site, installer}, sorted
 * by site. New reference. */
json_t *lj_python_packages(lj_host *host);
/* The package of that name (any spelling) in a list, NULL. Borrowed. */
json_t *lj_python_find(const json_t *packages, const char *name);
/* Lower case, runs of [-_.] as one '-'. */
const char *lj_python_normalise(const char *name, char *out, size_t capacity);
/* "NAME VERSION (Python package)" of a file below a site folder by the RECORD files; false when none lists
 * it. */
bool lj_python_owner(lj_host *host, const char *path, char *out, size_t capacity);
/* The value of `key` in a package's METADATA headers, in the arena; NULL. `nth` counts repeated keys from 0.
 */
const char *lj_python_metadata(lj_host *host, const json_t *package, const char *key, size_t nth);

/* Compares the package's files with RECORD until `deadline` (lj_now_s): counts, and the first wrong file in
 * `first`. */
typedef struct {
    size_t listed, checked, missing, changed;
    char first[512];
} lj_record_result;
void lj_python_check_record(lj_host *host, const json_t *package, double deadline, lj_record_result *result);

#endif
