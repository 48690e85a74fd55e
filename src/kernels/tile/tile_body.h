/* The micro-kernel in vector operations, for the instruction set of the including file, which defines first:
 *   TILE_GROUP            1 (f32) or 2 (bf16 pairs)
 *   operand               a vector of B
 *   operand_load(p), operand_broadcast(p), operand_broadcast_last(p), dot(a, b, sum)
 *   TILE_VECTORS          most vectors of a panel
 * A block of C stays in registers over all of k: rows x vectors accumulators, constants after inlining. */
#include "kernels/tile/tile.h"
#include "kernels/vec.h"

#define UNROLL _Pragma("GCC unroll 8")

typedef struct {
    const char *a;
    int64_t row_bytes, group_bytes, k;
    const char *b;
    int64_t b_step; /* bytes from one k-group of the panel to the next */
    void *c;
    int64_t ldc;
    int n;
    lj_tile_store store;
} micro_args;

LJ_INLINE void micro_store(const micro_args *t, vec sum, int row, int column)
{
    int left = t->n - column;
    if (t->store == LJ_TILE_SET_BF16) {
        uint16_t *c = (uint16_t *)t->c + row * t->ldc + column;
        if (left >= VL)
            vec_store_bf16(c, sum);
        else
            vec_store_bf16_part(c, sum, left);
        return;
    }
    float *c = (float *)t->c + row * t->ldc + column;
    if (left >= VL)
        vec_store(c, t->store == LJ_TILE_ADD ? (vec)(vec_load(c) + sum) : sum);
    else
        vec_store_part(c, t->store == LJ_TILE_ADD ? (vec)(vec_load_part(c, left) + sum) : sum, left);
}

LJ_INLINE void micro(const micro_args *t, const int rows, const int vectors)
{
    vec sum[8][TILE_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = vec_set(0);
    const char *a = t->a, *b = t->b;
    for (int64_t g = t->k / TILE_GROUP; g > 0; g--, a += t->group_bytes, b += t->b_step) {
        operand part[TILE_VECTORS];
        UNROLL for (int j = 0; j < vectors; j++) part[j] = operand_load(b + j * (int)sizeof(vec));
        UNROLL for (int i = 0; i < rows; i++)
        {
            operand x = operand_broadcast(a + i * t->row_bytes);
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = dot(x, part[j], sum[i][j]);
        }
    }
    if (t->k % TILE_GROUP)
        UNROLL for (int i = 0; i < rows; i++)
        {
            operand x = operand_broadcast_last(a + i * t->row_bytes);
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = dot(x, operand_load(b + j * (int)sizeof(vec)), sum[i][j]);
        }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) micro_store(t, sum[i][j], i, j * VL);
}

typedef void (*micro_fn)(const micro_args *t);
#define MICRO(rows, vectors)                                                                                                     \
    static void micro_##rows##_##vectors(const micro_args *t)                                                                    \
    {                                                                                                                            \
        micro(t, rows, vectors);                                                                                                 \
    }
#define MICRO_ROWS(vectors)                                                                                                      \
    MICRO(1, vectors) MICRO(2, vectors) MICRO(3, vectors) MICRO(4, vectors) MICRO(5, vectors) MICRO(6, vectors)
#define MICRO_NAMES(vectors)                                                                                                     \
    micro_1_##vectors, micro_2_##vectors, micro_3_##vectors, micro_4_##vectors, micro_5_##vectors, micro_6_##vectors
