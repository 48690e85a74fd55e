/* bf16 engine, Intel AMX. A is read in rows of 32 k: plain, or packed as [k / 32][32 rows][32]. */
#include <immintrin.h>

#define AMX_CONFIG(p) _tile_loadconfig(p)
#define AMX_ZERO(t) _tile_zero(t)
#define AMX_LOAD(t, p, stride) _tile_loadd(t, p, (size_t)(stride))
#define AMX_STORE(t, p, stride) _tile_stored(t, p, (size_t)(stride))
#define AMX_DP(c, a, b) _tile_dpbf16ps(c, a, b)
#define AMX_RELEASE() _tile_release()
#include "kernels/tile/tile_amx_body.h"

#define TILE_GROUP 2
#define TILE_OWN_PACK_A
#include "kernels/tile/tile_pack_body.h"

/* 16 packed rows from r, 16 pairs of k from g: a line of 64 bytes for each row. */
LJ_INLINE void lines_pack(const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t r, int64_t g, uint16_t *out)
{
    vec x[VL];
    int rows = lanes_clamp(m - r);
    LJ_UNROLL for (int i = 0; i < VL; i++)
    {
        if (transposed)
            x[i] = rows && 2 * (g + i) < k ? lanes_along(LJ_BF16, source, ld, k, g + i, r, rows) : vec_set(0);
        else
            x[i] = i < rows && 2 * g < k ? lanes_across(LJ_BF16, source, ld, k, g, r + i) : vec_set(0);
    }
    if (transposed) vec_transpose(x);
    LJ_UNROLL for (int i = 0; i < VL; i++) vec_store((float *)(void *)(out + i * AMX_K), x[i]);
}

static void pack_a(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, void *blocks)
{
    int64_t packed_k = lj_round_up(k, AMX_K);
    uint16_t *out = blocks;
    (void)from;
    for (int64_t step = 0; step < packed_k; step += AMX_K)
        for (int64_t r = 0; r < m; r += AMX_ROWS)
            lines_pack(source, ld, transposed, m, k, r, step / 2, out + r / rows * rows * packed_k + step * rows + r % rows * AMX_K);
}

const lj_tile lj_tile_amx = {.name = "amx", .type = LJ_BF16, .group = 2, .rows = 32, .width = 32, .wide_rows = 32, .wide_width = 64, .k_block = 512,
                             .a_k_multiple = AMX_K, .a_rows = true, .panel = panel, .pack_b = pack_b, .pack_a = pack_a};
