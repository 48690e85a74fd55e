/* Inside of attention: sizes of blocks, what a query may see, and where things lie in scratch. Shared by forward and backward. */
#ifndef LJ_KERNELS_ATTENTION_LAYOUT_H
#define LJ_KERNELS_ATTENTION_LAYOUT_H

#include "kernels/attention.h"
#include "kernels/attention/steps.h"
#include "kernels/tile/tile.h"

enum { LJ_KEY_BLOCK = 64 };

typedef struct {
    const lj_attention_desc *d;
    const lj_tile *tile;
    const lj_attention_steps *steps;
    int64_t width;                      /* queries in a block */
    int64_t query_blocks, key_blocks;   /* of the described sizes */
    int64_t group;                      /* heads that share a kv head */
    bool widen;                         /* storage type is not the engine's */
    int64_t element;                    /* bytes of the storage type */
} lj_attention_layout;

lj_attention_layout lj_attention_layout_of(const lj_attention_desc *desc);

/* What the queries of one block see: keys [low, high) for each lane; lanes past the last query see nothing. */
typedef struct {
    int32_t least_low, most_low, least_high, most_high; /* over the real queries */
} lj_attention_bounds;

typedef struct {
    const int32_t *first_key, *kv_lens; /* as in the arguments */
} lj_attention_masks;

/* Keys that entry b has. */
int64_t lj_attention_keys(const lj_attention_desc *d, const lj_attention_masks *masks, int64_t b);
/* Fills low and high (width entries) and returns the bounds of block `qb` of entry b. */
lj_attention_bounds lj_attention_block_bounds(const lj_attention_layout *l, const lj_attention_masks *masks, int64_t b, int64_t qb, int32_t *low,
                                              int32_t *high);

static inline bool lj_attention_sees(lj_attention_bounds x, int64_t begin, int64_t end)
{
    return begin < x.most_high && end > x.least_low;
}
static inline bool lj_attention_sees_all(lj_attention_bounds x, int64_t begin, int64_t end)
{
    return begin >= x.most_low && end <= x.least_high;
}

/* Where a tile that is only partly seen has work: for each quarter of the key block the lanes [first, end) that see any of its keys, in whole
 * vectors of 16. A full tile has all lanes everywhere. */
enum { LJ_KEY_QUARTER = LJ_KEY_BLOCK / 4 };
typedef struct {
    int64_t first[4], end[4];
} lj_attention_shape;

lj_attention_shape lj_attention_shape_of(const int32_t *low, const int32_t *high, int64_t first_key, int64_t keys, int64_t width);

/* scores[keys][width] = A (keys x depth) B (one panel of queries), where the shape has work. */
void lj_attention_by_keys(const lj_attention_layout *l, const lj_attention_shape *shape, const lj_tile_a *a, int64_t keys, int64_t depth,
                          const void *b, float *scores);
/* sums[rows][width] (+)= A (rows x keys) B (keys x queries). */
void lj_attention_by_queries(const lj_attention_layout *l, const lj_attention_shape *shape, const lj_tile_a *a, int64_t rows, int64_t keys,
                             const void *b, float *sums, bool add);
/* sums[keys][columns] += A (keys x queries) B (queries x columns, panels of wide_width). */
void lj_attention_to_keys(const lj_attention_layout *l, const lj_attention_shape *shape, const void *a_rows, int64_t keys, int64_t queries,
                          const void *b, int64_t columns, float *sums);

static inline char *lj_attention_at(const lj_attention_view *view, int64_t element, int64_t b, int64_t t, int64_t h)
{
    return (char *)view->data + (b * view->batch_stride + t * view->row_stride + h * view->head_stride) * element;
}

static inline int64_t lj_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
