/* f32 engine, AVX2 with FMA: 6 x 16 blocks (12 accumulators, 2 vectors of B, a broadcast). */
#include "kernels/tile/tile.h"

#define TILE_VECTORS 2
#include "kernels/tile/tile_f32.h"

MICRO_ROWS(1) MICRO_ROWS(2)
static const micro_fn micros[2][6] = {{MICRO_NAMES(1)}, {MICRO_NAMES(2)}};
#include "kernels/tile/tile_panel.h"

#include "kernels/tile/tile_pack_body.h"

const lj_tile lj_tile_avx2 = {.name = "avx2", .type = LJ_F32, .group = 1, .rows = 6, .width = 16, .wide_rows = 6, .wide_width = 16, .k_block = 512,
                             .a_k_multiple = 1, .panel = panel, .pack_b = pack_b, .pack_a = pack_a};
