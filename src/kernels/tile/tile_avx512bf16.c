/* bf16 engine, AVX-512 with bf16 dot products: pairs along k, 8 x 48 blocks. The instruction treats denormal inputs as zero. */
#include "kernels/tile/tile.h"

#include <immintrin.h>

#define TILE_GROUP 2
#define TILE_VECTORS 4
#include "kernels/vec.h"

typedef __m512i operand;
LJ_INLINE operand operand_load(const char *p)
{
    return _mm512_loadu_si512(p);
}
LJ_INLINE operand operand_broadcast(const char *p)
{
    int32_t pair;
    memcpy(&pair, p, 4);
    return _mm512_set1_epi32(pair);
}
/* The last element of an odd k has no partner to read. */
LJ_INLINE operand operand_broadcast_last(const char *p)
{
    uint16_t alone;
    memcpy(&alone, p, 2);
    return _mm512_set1_epi32(alone);
}
LJ_INLINE vec dot(operand a, operand b, vec sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

#include "kernels/tile/tile_body.h"

MICRO_ROWS(1) MICRO(7, 1) MICRO(8, 1) MICRO_ROWS(2) MICRO(7, 2) MICRO(8, 2) MICRO_ROWS(3) MICRO(7, 3) MICRO(8, 3) MICRO_ROWS(4)
static const micro_fn micros[4][8] = {{MICRO_NAMES(1), micro_7_1, micro_8_1},
                                      {MICRO_NAMES(2), micro_7_2, micro_8_2},
                                      {MICRO_NAMES(3), micro_7_3, micro_8_3},
                                      {MICRO_NAMES(4)}};
#include "kernels/tile/tile_panel.h"

#include "kernels/tile/tile_pack_body.h"

const lj_tile lj_tile_avx512bf16 = {.name = "avx512bf16", .type = LJ_BF16, .group = 2, .rows = 8, .width = 48, .wide_rows = 6, .wide_width = 64, .k_block = 1024,
                             .a_k_multiple = 2, .panel = panel, .pack_b = pack_b, .pack_a = pack_a};
