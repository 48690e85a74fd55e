/* Which engine runs, and packing in plain loops. */
#include "kernels/tile/tile.h"

#include "kernels/tile/tile_pack.h"

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
    [LJ_ISA_AMX] = {LJ_ISA_AMX, &lj_tile_avx512, &lj_tile_avx512bf16},
#endif
};

const lj_tile *lj_tile_for(lj_isa isa, lj_dtype operand)
{
    if (isa > lj_machine_get()->isa) return NULL;
    return operand == LJ_BF16 ? engines[isa].bf16 : engines[isa].f32;
}

const lj_tile *lj_tile_get(lj_dtype operand)
{
    return lj_tile_for(lj_machine_get()->isa, operand);
}

static void store(lj_dtype type, void *packed, int64_t at, lj_dtype from, const void *source, int64_t index)
{
    if (type == LJ_BF16)
        ((uint16_t *)packed)[at] = index < 0 ? 0 : ((const uint16_t *)source)[index];
    else
        ((float *)packed)[at] = index < 0 ? 0 : lj_pack_load_f32(from, source, index);
}

void lj_pack_plain(const lj_tile *tile, lj_dtype from, const void *source, int64_t row_step, int64_t k_step, int64_t rows, int64_t k,
                   int64_t width, bool rows_first, void *packed)
{
    int64_t packed_k = lj_tile_packed_k(tile, k), group = tile->group, at = 0;
    for (int64_t base = 0; base < rows; base += width, at += packed_k * width)
        for (int64_t kk = 0; kk < packed_k; kk++)
            for (int64_t r = 0; r < width; r++) {
                int64_t inside = rows_first ? r * packed_k + kk : (kk / group * width + r) * group + kk % group;
                bool real = kk < k && base + r < rows;
                store(tile->type, packed, at + inside, from, source, real ? (base + r) * row_step + kk * k_step : -1);
            }
}
