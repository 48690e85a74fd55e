/* f32 engine, AVX2 with FMA: 6 x 16 blocks (12 accumulators, 2 vectors of B, a broadcast). */
#include "kernels/tile/tile.h"

#define TILE_VECTORS 2
#include "kernels/tile/tile_f32.h"

MICRO_ROWS(1) MICRO_ROWS(2)
static const micro_fn micros[2][6] = {{MICRO_NAMES(1)}, {MICRO_NAMES(2)}};
#include "kernels/tile/tile_panel.h"

static void pack_b(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t k, int64_t n, int64_t width, void *panels)
{
    lj_pack_plain(&lj_tile_avx2, from, source, transposed ? ld : 1, transposed ? 1 : ld, n, k, width, false, panels);
}

static void pack_a(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, void *blocks)
{
    lj_pack_plain(&lj_tile_avx2, from, source, transposed ? 1 : ld, transposed ? ld : 1, m, k, rows, false, blocks);
}

const lj_tile lj_tile_avx2 = {"avx2", LJ_F32, 1, 6, 16, 6, 16, 1, false, panel, pack_b, pack_a};
