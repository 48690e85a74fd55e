/* The pure instruction peak: how fast this machine's multiply-add instructions run with their operands in registers. No program
 * reaches it; reports print it beside the best measured GEMM. */
#ifndef LJ_KERNELS_PEAK_H
#define LJ_KERNELS_PEAK_H

#include "tensor/dtype.h"

typedef struct {
    const char *name; /* "AMX bf16", "AVX-512 fp32": the instruction, static */
    double flops;     /* a second, all threads together: best of several short runs */
} lj_isa_peak;

/* f32 or bf16. For bf16 the faster of a bf16 instruction and fp32 multiply-adds. About 0.2 s. Master thread, outside any region. */
lj_isa_peak lj_isa_peak_measure(lj_dtype dtype, int threads);

/* One run: `rounds` rounds of the loop; returns floating-point operations done. */
typedef double (*lj_peak_loop)(int64_t rounds);
double lj_peak_loop_generic(int64_t rounds);
double lj_peak_loop_avx2(int64_t rounds);
double lj_peak_loop_avx512(int64_t rounds);
double lj_peak_loop_avx512bf16(int64_t rounds);
double lj_peak_loop_amx(int64_t rounds);

#endif
