/* f32 engine in portable vectors: 4 x 8 blocks. */
#include "kernels/tile/tile.h"

#define TILE_VECTORS 2
#include "kernels/tile/tile_f32.h"

MICRO(1, 1) MICRO(2, 1) MICRO(3, 1) MICRO(4, 1) MICRO(1, 2) MICRO(2, 2) MICRO(3, 2) MICRO(4, 2)
static const micro_fn micros[2][4] = {{micro_1_1, micro_2_1, micro_3_1, micro_4_1}, {micro_1_2, micro_2_2, micro_3_2, micro_4_2}};
#include "kernels/tile/tile_panel.h"

#include "kernels/tile/tile_pack_body.h"

const lj_tile lj_tile_generic = {.name = "generic", .type = LJ_F32, .group = 1, .rows = 4, .width = 8, .wide_rows = 4, .wide_width = 8, .k_block = 512,
                             .a_k_multiple = 1, .panel = panel, .pack_b = pack_b, .pack_a = pack_a};
