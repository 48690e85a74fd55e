/* Which engine runs. */
#include "kernels/tile/tile.h"

#include <stddef.h>

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

const lj_tile *lj_tile_get(lj_dtype operand)
{
    return lj_tile_for(lj_machine_get()->isa, operand);
}
