/* Lowered kernels as source text. */
#ifndef LJ_CODEGEN_EMIT_H
#define LJ_CODEGEN_EMIT_H

#include "base/machine.h"
#include "codegen/helpers.h"
#include "codegen/lower.h"

/* One kernel's text with "@N" for its name, so that equal kernels have equal text. */
typedef struct {
    lj_text run, finish;   /* finish: "" when the kernel has one step only */
    lj_helper_set helpers;
    lj_dim scratch_bytes;  /* between the two steps; factor 0: none */
} lj_source;

void lj_source_init(lj_source *source);
void lj_source_release(lj_source *source);

/* Host C: the same text for each instruction set; the width of vectors is a matter of the helpers and of flags. */
lj_status lj_emit_host_c(const lj_lowered *lowered, lj_source *source);
/* CUDA C: the same kernel as __global__ functions. */
lj_status lj_emit_cuda_c(const lj_lowered *lowered, lj_source *source);

/* Bytes of a vector register. */
int lj_isa_vector_bytes(lj_isa isa);
/* `text` with the name put in. */
void lj_print_named(lj_text *out, const char *text, const char *name);
/* A whole translation unit of `count` kernels: kernel i is named names[i], its second step names[i]_finish. */
lj_status lj_print_unit(lj_text *out, lj_dialect dialect, const lj_source *const *sources, const char *const *names, size_t count, int vector_bytes);

#endif
