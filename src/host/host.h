/* What the doctor and the image commands look at: this machine, or a file tree (`--root DIR`: an image, a
 * fixture, a copy of another machine's /proc, /sys, /etc and /usr). Everything below reads through this view,
 * so that a check is the same code on a live host and on a tree, and a symbolic link in a tree never leads
 * out of it. */
#ifndef LJ_HOST_HOST_H
#define LJ_HOST_HOST_H

#include "base/memory.h"
#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { LJ_PATH_BYTES = 4096 };

typedef struct {
    const char *root; /* "" = this machine, else a folder without a slash at its end */
    const char
        *data_dir;  /* --data-dir, "" = none: looked at before the installed and the source data folder */
    lj_arena arena; /* texts that live as long as the view */
    json_t *env;    /* object name -> value: of this process, or what the tree says a process in it gets */
    const char *env_source; /* where env was read */
    json_t *rules;          /* object: file stem -> content of data/rules/STEM.yaml */
    json_t *manifest;       /* of --image; NULL: none */
    json_t *job;            /* normal form of --job (job.h); NULL: none */
    int ranks;              /* ranks of the job on this host, 0 unknown */
    int threads;            /* threads a rank will use, 0 = one for each processor */
    double time_scale;      /* factor of the checks' time-outs; 0 = 1 */
    double scan_seconds;    /* how long a check may look through a tree's files; 0 = the doctor's 0.7 s */
} lj_host;

/* Loads the rules; does not touch anything below root (that is left to children with a time-out). `root` and
 * `data_dir` are borrowed. LJ_ERR_NOT_FOUND: no data folder. Call lj_host_release also after a failure. */
lj_status lj_host_init(lj_host *host, const char *root, const char *data_dir);
void lj_host_release(lj_host *host);
static inline double lj_host_scan_seconds(const lj_host *host)
{
    return host->scan_seconds > 0 ? host->scan_seconds : 0.7;
}
static inline bool lj_host_live(const lj_host *host)
{
    return !*host->root;
}
/* Fills env (and follows an OCI bundle's DIR/rootfs + DIR/config.json). May block on a dead mount: call it in
 * the child. */
void lj_host_load_env(lj_host *host);
/* Value of a variable in the view, NULL when unset. */
const char *lj_host_env(const lj_host *host, const char *name);

/* --- files of the view (root.c). Texts are owned by the view's arena. --- */
/* The real path of `path` inside the root, links followed as chroot would; what does not exist is continued
 * by name. */
const char *lj_host_path(const lj_host *host, const char *path, char *out, size_t capacity);
bool lj_host_exists(const lj_host *host, const char *path);
bool lj_host_is_folder(const lj_host *host, const char *path);
/* The file's text (first 4 MiB, NULs of /proc kept as spaces between entries), NULL when it cannot be read.
 */
char *lj_host_read(lj_host *host, const char *path);
/* The same without the spaces and line ends at both sides; NULL too when nothing is left. */
char *lj_host_read_word(lj_host *host, const char *path);
/* Sorted names in a folder (no dots); an empty array when there is none. New reference. */
json_t *lj_host_list(const lj_host *host, const char *folder);
/* Sorted paths (in the view) that match a pattern whose components may hold * and ?. New reference. */
json_t *lj_host_glob(const lj_host *host, const char *pattern);
/* Path in the view of what a link finally names ("/usr/lib/libcuda.so.1" -> "/usr/lib/libcuda.so.535.54.03").
 */
const char *lj_host_final(const lj_host *host, const char *path, char *out, size_t capacity);

/* --- data files (data.c) --- */
/* Path of data file `name` ("rules/gpus.yaml"): --data-dir, then installed, then source. LJ_ERR_NOT_FOUND
 * names all three. */
lj_status lj_data_path(const char *data_dir, const char *name, char *out, size_t capacity);
/* Every *.yaml file of sub-folder `folder` in those places; a file of an earlier place hides the same name
 * later. New reference. */
json_t *lj_data_list(const char *data_dir, const char *folder);
/* host->rules' file `stem`, or an empty object. Borrowed. */
json_t *lj_rules(const lj_host *host, const char *stem);

/* --- small JSON helpers; never NULL results, so that a missing key reads as "" / 0 / empty --- */
const char *lj_json_text(const json_t *object, const char *key);
double lj_json_number(const json_t *object, const char *key, double otherwise);
json_t *lj_json_at(const json_t *object, const char *path); /* "requires.driver.minimum"; NULL when absent */
const char *lj_json_text_at(const json_t *object, const char *path);
/* A JSON string of any bytes: what is no UTF-8 becomes '?'. */
json_t *lj_json_string(const char *text);
void lj_json_append_text(json_t *array, const char *text);
bool lj_json_holds(const json_t *array, const char *text);
/* "a, b, c" of an array of strings (first `max`, then "and N more"). */
const char *lj_json_join(const json_t *array, size_t max, char *out, size_t capacity);

#define lj_say(buffer, ...) ((void)snprintf(buffer, sizeof(buffer), __VA_ARGS__))

#endif
