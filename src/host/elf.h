/* What a shared object or program says about itself: soname, needed libraries, search paths, needed symbol
 * versions. */
#ifndef LJ_HOST_ELF_H
#define LJ_HOST_ELF_H

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct {
    char soname[256];
    json_t *needed;   /* sonames */
    json_t *paths;    /* RUNPATH, else RPATH, split at ':' ($ORIGIN left as it is) */
    json_t *versions; /* needed symbol versions: "GLIBC_2.34", in file order */
    json_t *defined;  /* defined symbol versions */
    int machine;      /* e_machine */
} lj_elf;

/* Reads a 64-bit little-endian ELF file; every offset is checked against the file's size. LJ_ERR_FORMAT: not
 * such a file or broken (the message has the place). Release after success. */
lj_status lj_elf_read(const char *path, lj_elf *elf);
/* Names of the dynamic symbols: those that are needed (undefined and not weak) or those that are defined.
 * Errors as lj_elf_read; a file whose section headers were removed has none to tell. */
lj_status lj_elf_symbols(const char *path, bool defined, void (*each)(void *user, const char *name),
                         void *user);
void lj_elf_release(lj_elf *elf);

#endif
