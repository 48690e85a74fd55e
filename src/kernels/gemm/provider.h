/* Inside of the GEMM layer: what a provider is. Adding one is a file and a row in providers.c's table. */
#ifndef LJ_KERNELS_GEMM_PROVIDER_H
#define LJ_KERNELS_GEMM_PROVIDER_H

#include "kernels/gemm/gemm.h"

typedef struct lj_gemm_provider_row {
    const char *name; /* as LJPERF_GEMM spells it */
    /* May this provider run it at all? Cheap. */
    bool (*supports)(const lj_gemm_desc *desc);
    /* Fills gemm->state (and may read gemm->like). */
    lj_status (*create)(lj_gemm *gemm, const lj_gemm *like);
    void (*destroy)(lj_gemm *gemm);
    size_t (*scratch_bytes)(const lj_gemm *gemm);
    lj_status (*run)(const lj_gemm *gemm, const void *a, const void *b, void *c, void *scratch, const lj_gemm_tail *tail);
    size_t (*packed_bytes)(const lj_gemm *gemm); /* NULL: no packed form */
    lj_status (*pack_b)(const lj_gemm *gemm, const void *b, void *packed);
    bool runs_tail; /* run calls the tail itself; else it is called over the finished C */
} lj_gemm_provider_row;

struct lj_gemm {
    lj_gemm_desc desc; /* defaults resolved: ld's and strides set */
    int threads;
    const lj_gemm_provider_row *provider;
    const char *name; /* for reports */
    void *state;      /* the provider's */
};

extern const lj_gemm_provider_row lj_gemm_onednn, lj_gemm_own, lj_gemm_plain;

/* Copies rows x columns of B (one batch entry) as k x n, row-major, dense: the packed form of a provider that has no better one. */
#endif
