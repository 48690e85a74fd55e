/* Packing in plain loops, for any element type, group and order: correct everywhere; the vector engines replace the orders that cost time. */
#ifndef LJ_KERNELS_TILE_PACK_H
#define LJ_KERNELS_TILE_PACK_H

#include "kernels/tile/tile.h"

static inline float lj_pack_load_f32(lj_dtype from, const void *source, int64_t index)
{
    return from == LJ_F32 ? ((const float *)source)[index] : lj_bf16_to_float(((const uint16_t *)source)[index]);
}

/* Panels [ceil(rows / width)][k_padded / group][width][group] of element (r, kk), found at r * row_step + kk * k_step. Both packings are this: B with
 * r = column of B, A with r = row of A. `rows_first`: [width][k_padded] inside a block instead. */
void lj_pack_plain(const lj_tile *tile, lj_dtype from, const void *source, int64_t row_step, int64_t k_step, int64_t rows, int64_t k,
                   int64_t width, bool rows_first, void *packed);

#endif
