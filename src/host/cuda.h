/* What a view shows of NVIDIA: driver, cards, CUDA runtimes, compatibility packages, and which libcuda.so.1
 * would be loaded. */
#ifndef LJ_HOST_CUDA_H
#define LJ_HOST_CUDA_H

#include "host/host.h"
#include "host/loader.h"

typedef enum {
    LJ_CARDS_UNKNOWN,
    LJ_CARDS_CONSUMER,
    LJ_CARDS_WORKSTATION,
    LJ_CARDS_DATA_CENTRE
} lj_card_class;

typedef struct {
    char driver[48];        /* kernel module's version, "" = not found */
    char driver_place[256]; /* the file it was read from */
    char looked_at[512];    /* all places, for the message when there is none */
    bool hardware;          /* the view shows an NVIDIA card or its driver */
    json_t *cards;          /* product names */
    lj_card_class card_class;
    char first_card[128];
    json_t *runtimes; /* array of {soname, path, version, major, owner}: every libcudart */
    char runtime[48]; /* the runtime that counts, "" = none */
    char runtime_place[512];
    json_t *compat;     /* array of {folder, path, version} */
    lj_resolved loaded; /* libcuda.so.1 */
    char loaded_version[48];
    bool loaded_is_compat;
} lj_cuda_view;

/* `runtimes` also looks through Python's site-packages (slower). Release with lj_cuda_release. */
void lj_cuda_look(lj_host *host, lj_cuda_view *view);
void lj_cuda_release(lj_cuda_view *view);
lj_card_class lj_card_class_of(lj_host *host, const char *name);
/* Version in a library's file name: "libcuda.so.535.54.03" -> "535.54.03"; "" when it has none beyond the
 * soname. */
void lj_library_version(const char *path, char *out, size_t capacity);
/* Who brought a file: a Python package (RECORD), a Debian package (dpkg's lists) or the folder's meaning. */
void lj_file_owner(lj_host *host, const char *path, char *out, size_t capacity);

#endif
