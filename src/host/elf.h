/* What a shared object or program says about itself: soname, needed libraries, search paths, needed symbol versions. */
#ifndef LJ_HOST_ELF_H
#define LJ_HOST_ELF_H

#include "base/status.h"

#include <jansson.h>

typedef struct {
    char soname[256];
    json_t *needed;   /* sonames */
    json_t *paths;    /* RUNPATH, else RPATH, split at ':' ($ORIGIN left as it is) */
    json_t *versions; /* needed symbol versions: "GLIBC_2.34", in file order */
    json_t *defined;  /* defined symbol versions */
    int machine;      /* e_machine */
} lj_elf;

/* Reads a 64-bit little-endian ELF file; every offset is checked against the file's size. LJ_ERR_FORMAT: not such a file or
 * broken (the message has the place). Release after success. */
lj_status lj_elf_read(const char *path, lj_elf *elf);
void lj_elf_release(lj_elf *elf);

#endif
