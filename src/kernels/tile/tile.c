/* Which engine runs. */
#include "kernels/tile/tile.h"

#include <stddef.h>
#include <string.h>

typedef struct {
    lj_isa needs;
    const lj_tile *f32, *bf16; /* operands of that type */
} tile_row;

static const tile_row engines[LJ_ISA_COUNT] = {
    [LJ_ISA_GENERIC] = {LJ_ISA_GENERIC, &lj_tile_generic, &lj_tile_generic},
#if defined(__x86_64__)
    [LJ_ISA_AVX2] = {LJ_ISA_AVX2, &lj_tile_avx2, &lj_tile_avx2},
    [LJ_ISA_AVX512] = {LJ_ISA_AVX512, &lj_tile_avx512, &lj_tile_avx512},
    [LJ_ISA_AVX512_BF16] = {LJ_ISA_AVX512_BF16, &lj_tile_avx512, &lj_tile_avx512bf16},
    [LJ_ISA_AMX] = {LJ_ISA_AMX, &lj_tile_avx512, &lj_tile_amx},
#endif
};

static const lj_tile *forced;

void lj_tile_force(const lj_tile *engine)
{
    forced = engine;
}

const lj_tile *lj_tile_for(lj_isa isa, lj_dtype operand)
{
    if (forced && operand == LJ_BF16) return forced;
    if (isa > lj_machine_get()->isa) return NULL;
    return operand == LJ_BF16 ? engines[isa].bf16 : engines[isa].f32;
}

/* Intel's cores run the bf16 dot product at a quarter of the rate of AMD's (measured: 171 GFLOPS against 331 of f32 multiply-adds on the same two
 * cores): there bf16 is widened to f32 while packing. A fact of the family rather than a measurement, so that every run rounds alike. */
bool lj_tile_widens(void)
{
    return lj_machine_get()->isa == LJ_ISA_AVX512_BF16 && strncmp(lj_machine_class(), "intel", 5) == 0;
}

const lj_tile *lj_tile_get(lj_dtype operand)
{
    return lj_tile_for(lj_tile_widens() ? LJ_ISA_AVX512 : lj_machine_get()->isa, operand);
}
