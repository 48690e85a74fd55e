#include "kernels/loss_rows.h"

#include "base/machine.h"

lj_loss_row_fn lj_loss_row_get(void)
{
#if defined(__x86_64__)
    if (lj_machine_get()->isa >= LJ_ISA_AVX512) return lj_loss_row_avx512;
    if (lj_machine_get()->isa >= LJ_ISA_AVX2) return lj_loss_row_avx2;
#endif
    return lj_loss_row_generic;
}
