/* f32 engine, AVX-512: 8 x 48 blocks (24 accumulators, 3 vectors of B, a broadcast); 6 x 64 for short products. */
#include "kernels/tile/tile.h"

#define TILE_VECTORS 4
#include "kernels/tile/tile_f32.h"

MICRO_ROWS(1) MICRO(7, 1) MICRO(8, 1) MICRO_ROWS(2) MICRO(7, 2) MICRO(8, 2) MICRO_ROWS(3) MICRO(7, 3) MICRO(8, 3) MICRO_ROWS(4)
static const micro_fn micros[4][8] = {{MICRO_NAMES(1), micro_7_1, micro_8_1},
                                      {MICRO_NAMES(2), micro_7_2, micro_8_2},
                                      {MICRO_NAMES(3), micro_7_3, micro_8_3},
                                      {MICRO_NAMES(4)}};
#include "kernels/tile/tile_panel.h"

#include "kernels/tile/tile_pack_body.h"

const lj_tile lj_tile_avx512 = {.name = "avx512", .type = LJ_F32, .group = 1, .rows = 8, .width = 48, .wide_rows = 6, .wide_width = 64, .k_block = 512,
                             .a_k_multiple = 1, .panel = panel, .pack_b = pack_b, .pack_a = pack_a};
