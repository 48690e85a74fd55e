/* Which provider runs a shape: forced by LJPERF_GEMM, read from disk, or measured now and kept. */
#ifndef LJ_KERNELS_GEMM_CHOICE_H
#define LJ_KERNELS_GEMM_CHOICE_H

#include "kernels/gemm/provider.h"

/* The provider for a resolved, non-empty description. Measures at clipped sizes when the shape is new on this machine class. */
lj_status lj_gemm_choose(const lj_gemm_desc *desc, int threads, const lj_gemm_provider_row **provider);

/* A handle of one provider, without choosing (tests, measurements). */
lj_status lj_gemm_create_with(const lj_gemm_desc *desc, int threads, const lj_gemm_provider_row *provider, lj_gemm **out);

/* All providers in order of preference; NULL-terminated. */
extern const lj_gemm_provider_row *const lj_gemm_providers[];

#endif
