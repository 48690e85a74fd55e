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

static void pack_b(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t k, int64_t n, int64_t width, void *panels)
{
    lj_pack_plain(&lj_tile_avx512, from, source, transposed ? ld : 1, transposed ? 1 : ld, n, k, width, false, panels);
}

static void pack_a(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, void *blocks)
{
    lj_pack_plain(&lj_tile_avx512, from, source, transposed ? 1 : ld, transposed ? ld : 1, m, k, rows, false, blocks);
}

const lj_tile lj_tile_avx512 = {"avx512", LJ_F32, 1, 8, 48, 6, 64, 1, false, panel, pack_b, pack_a};
