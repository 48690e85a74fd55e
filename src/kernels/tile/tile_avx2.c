/* f32 engine, AVX2 with FMA: 6 x 16 blocks (12 accumulators, 2 vectors of B, a broadcast). */
#include "kernels/tile/tile.h"

#define TILE_VECTORS 2
#include "kernels/tile/tile_f32.h"

MICRO_ROWS(1) MICRO_ROWS(2)
static const micro_fn micros[2][6] = {{MICRO_NAMES(1)}, {MICRO_NAMES(2)}};
#include "kernels/tile/tile_panel.h"

#include "kernels/tile/tile_pack_body.h"

const lj_tile lj_tile_avx2 = {"avx2", LJ_F32, 1, 6, 16, 6, 16, 1, false, panel, pack_b, pack_a};
