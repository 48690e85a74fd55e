/* f32 engine in portable vectors: 4 x 8 blocks. */
#include "kernels/tile/tile.h"

#define TILE_VECTORS 2
#include "kernels/tile/tile_f32.h"

MICRO(1, 1) MICRO(2, 1) MICRO(3, 1) MICRO(4, 1) MICRO(1, 2) MICRO(2, 2) MICRO(3, 2) MICRO(4, 2)
static const micro_fn micros[2][4] = {{micro_1_1, micro_2_1, micro_3_1, micro_4_1}, {micro_1_2, micro_2_2, micro_3_2, micro_4_2}};
#include "kernels/tile/tile_panel.h"

static void pack_b(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t k, int64_t n, int64_t width, void *panels)
{
    lj_pack_plain(&lj_tile_generic, from, source, transposed ? ld : 1, transposed ? 1 : ld, n, k, width, false, panels);
}

static void pack_a(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, void *blocks)
{
    lj_pack_plain(&lj_tile_generic, from, source, transposed ? 1 : ld, transposed ? ld : 1, m, k, rows, false, blocks);
}

const lj_tile lj_tile_generic = {"generic", LJ_F32, 1, 4, 8, 4, 8, 1, false, panel, pack_b, pack_a};
