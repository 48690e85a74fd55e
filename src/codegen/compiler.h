/* The system's C compiler as a process. */
#ifndef LJ_CODEGEN_COMPILER_H
#define LJ_CODEGEN_COMPILER_H

#include "base/machine.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct {
    char path[1024];
    char identity[512]; /* resolved path, size, time of change and the first line of --version */
} lj_compiler;

/* LJPERF_CC, else the first of gcc, clang, cc in PATH. LJ_ERR_COMPILER with the remedy when there is none. */
lj_status lj_compiler_find(lj_compiler *compiler);
/* Flags as one line, for keys: what lj_compiler_start passes. */
const char *lj_compiler_flags(lj_isa isa);

typedef struct {
    pid_t pid;
    int log; /* descriptor of what it said */
} lj_compile_job;

/* Starts a process that makes shared object `object` of C file `source`. */
lj_status lj_compiler_start(const lj_compiler *compiler, lj_isa isa, const char *source, const char *object, lj_compile_job *job);
/* Waits for it, at most `seconds` (then it is killed: LJ_ERR_TIMEOUT). LJ_ERR_COMPILER with its first lines when it failed. */
lj_status lj_compiler_wait(lj_compile_job *job, double seconds);

#endif
