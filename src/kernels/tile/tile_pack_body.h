/* Packing in vectors of 32-bit lanes, a lane being an f32 or a pair of bf16. The including file defines TILE_GROUP. Two orders of the source:
 * along the packed rows (each k is a stored row), which only interleaves, and across them (each packed row is a stored row), which transposes. */
#include "kernels/tile/tile.h"
#include "kernels/vec.h"

enum { PACK_K_CHUNK = 16 }; /* groups packed for all blocks before the next ones: source rows are read whole, few streams are written */

/* Up to VL lanes of stored row(s) of k-group g, from packed row r on. */
LJ_INLINE vec lanes_along(lj_dtype from, const void *source, int64_t ld, int64_t k, int64_t g, int64_t r, int n)
{
#if TILE_GROUP == 2
    const uint16_t *even = (const uint16_t *)source + 2 * g * ld + r;
    (void)from;
    return vec_pairs_of_rows(even, 2 * g + 1 < k ? even + ld : NULL, n);
#else
    (void)k;
    if (from == LJ_F32) return n == VL ? vec_load((const float *)source + g * ld + r) : vec_load_part((const float *)source + g * ld + r, n);
    const uint16_t *at = (const uint16_t *)source + g * ld + r;
    return n == VL ? vec_load_bf16(at) : vec_load_bf16_part(at, n);
#endif
}

/* Up to VL lanes of stored row r, from k-group g on; zeros beyond k. */
LJ_INLINE vec lanes_across(lj_dtype from, const void *source, int64_t ld, int64_t k, int64_t g, int64_t r)
{
    int64_t left = k - g * TILE_GROUP;
#if TILE_GROUP == 2
    (void)from;
    return vec_pairs_of_row((const uint16_t *)source + r * ld + 2 * g, left);
#else
    int n = left < VL ? (int)left : VL;
    if (from == LJ_F32) return n == VL ? vec_load((const float *)source + r * ld + g) : vec_load_part((const float *)source + r * ld + g, n);
    const uint16_t *at = (const uint16_t *)source + r * ld + g;
    return n == VL ? vec_load_bf16(at) : vec_load_bf16_part(at, n);
#endif
}

LJ_INLINE int lanes_clamp(int64_t count)
{
    return count <= 0 ? 0 : count < VL ? (int)count : VL;
}

LJ_INLINE void lanes_store(float *out, vec x, int64_t room)
{
    if (room >= VL)
        vec_store(out, x);
    else
        vec_store_part(out, x, (int)room);
}

/* Groups [chunk, last) of one block of packed rows. */
LJ_INLINE void block_along(lj_dtype from, const void *source, int64_t ld, int64_t k, int64_t chunk, int64_t last, int64_t base, int64_t rows,
                           int64_t width, float *block)
{
    for (int64_t g = chunk; g < last; g++)
        for (int64_t c = 0; c < width; c += VL) {
            int n = lanes_clamp(rows - base - c < width - c ? rows - base - c : width - c);
            if (n == VL)
                vec_store(block + g * width + c, lanes_along(from, source, ld, k, g, base + c, VL));
            else
                lanes_store(block + g * width + c, n ? lanes_along(from, source, ld, k, g, base + c, n) : vec_set(0), width - c);
        }
}

#if defined(__AVX512F__)
/* Two whole blocks of 8 packed rows from one vector. */
LJ_INLINE void block_pair_along(lj_dtype from, const void *source, int64_t ld, int64_t k, int64_t chunk, int64_t last, int64_t base, float *block,
                                int64_t block_lanes)
{
    for (int64_t g = chunk; g < last; g++) {
        vec x = lanes_along(from, source, ld, k, g, base, VL);
        _mm256_storeu_ps(block + g * 8, _mm512_castps512_ps256(x));
        _mm256_storeu_ps(block + block_lanes + g * 8, _mm512_extractf32x8_ps(x, 1));
    }
}
#endif

static void pack_along(lj_dtype from, const void *source, int64_t ld, int64_t rows, int64_t k, int64_t width, float *out)
{
    int64_t groups = (k + TILE_GROUP - 1) / TILE_GROUP;
    for (int64_t chunk = 0; chunk < groups; chunk += PACK_K_CHUNK) {
        int64_t last = groups - chunk < PACK_K_CHUNK ? groups : chunk + PACK_K_CHUNK, base = 0;
#if defined(__AVX512F__)
        for (; width == 8 && base + 16 <= rows; base += 16)
            block_pair_along(from, source, ld, k, chunk, last, base, out + base * groups, groups * 8);
#endif
        for (; base < rows; base += width) block_along(from, source, ld, k, chunk, last, base, rows, width, out + base * groups);
    }
}

/* A square of lanes: `rows` stored rows from r, `count` k-groups from g, transposed to `out` with `room` lanes a row. */
LJ_INLINE void square_across(lj_dtype from, const void *source, int64_t ld, int64_t k, int64_t g, int64_t r, int rows, int64_t count, float *out,
                             int64_t width, int64_t room)
{
    vec x[VL];
    LJ_UNROLL for (int i = 0; i < VL; i++) x[i] = i < rows ? lanes_across(from, source, ld, k, g, r + i) : vec_set(0);
    vec_transpose(x);
    LJ_UNROLL for (int i = 0; i < VL; i++) if (i < count) lanes_store(out + i * width, x[i], room);
}

static void pack_across(lj_dtype from, const void *source, int64_t ld, int64_t rows, int64_t k, int64_t width, float *out)
{
    int64_t groups = (k + TILE_GROUP - 1) / TILE_GROUP;
    for (int64_t base = 0; base < rows; base += width)
        for (int64_t c = 0; c < width; c += VL) {
            int n = lanes_clamp(rows - base - c < width - c ? rows - base - c : width - c);
            float *block = out + base / width * groups * width + c;
            int64_t g = 0;
            for (; n == VL && (g + VL) * TILE_GROUP <= k; g += VL) /* whole squares, with constants for the compiler */
                square_across(from, source, ld, INT64_MAX, g, base + c, VL, VL, block + g * width, width, VL);
            for (; g < groups; g += VL) square_across(from, source, ld, k, g, base + c, n, groups - g, block + g * width, width, width - c);
        }
}

static void pack_b(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t k, int64_t n, int64_t width, void *panels)
{
    (transposed ? pack_across : pack_along)(from, source, ld, n, k, width, panels);
}

#if !defined(TILE_OWN_PACK_A)
static void pack_a(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, void *blocks)
{
    (transposed ? pack_along : pack_across)(from, source, ld, m, k, rows, blocks);
}
#endif
