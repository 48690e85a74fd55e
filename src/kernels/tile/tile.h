/* Products of tiles held in cache: the inner engine of our GEMM and of attention, one table an instruction set.
 *
 * C[m,n] (+)= A[m,k] * B[k,n] where n fits one panel. `group` neighbours along k lie together (2 for bf16 dot products, else 1).
 * A is read through strides, so plain rows and packed blocks both serve. B is a panel [ceil(k / group)][width][group], rows beyond k and columns
 * beyond n zero. Nothing here knows of threads, types of tensors beyond two, or caches. */
#ifndef LJ_KERNELS_TILE_H
#define LJ_KERNELS_TILE_H

#include "base/machine.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* Where rows of A are: row i, k-group g at data + (i / block_rows) * block_bytes + (i % block_rows) * row_bytes + g * group_bytes (engines with a_rows:
 * the groups of one step of a_k_multiple are adjacent, and steps are that many groups times group_bytes apart). */
typedef struct {
    const void *data;
    int64_t row_bytes, group_bytes, block_bytes;
    int block_rows;
} lj_tile_a;

typedef enum { LJ_TILE_SET, LJ_TILE_ADD, LJ_TILE_SET_BF16 } lj_tile_store; /* C f32 written / added to; C bf16 written */

typedef struct lj_tile {
    const char *name; /* "avx512bf16" */
    lj_dtype type;    /* of A and packed B: LJ_F32 or LJ_BF16 */
    int group;
    int rows, width;           /* block of rows and panel width that GEMM runs best with */
    int wide_rows, wide_width; /* the same for short products (attention) */
    int k_block;               /* length along k that GEMM keeps in cache */
    int a_k_multiple;          /* k of packed A is padded with zeros to this; a k offset into it must be a multiple */
    bool a_rows;               /* packed A is [k / a_k_multiple][rows][a_k_multiple] (tile registers load rows) */

    /* One panel: n <= width columns. ldc in elements of C. */
    void (*panel)(const lj_tile_a *a, int64_t m, int64_t n, int64_t k, const void *b, int64_t width, void *c, int64_t ldc, lj_tile_store store);
    /* Packs rows [0,k) x columns [0,n) (any n: panel after panel) of a row-major matrix (transposed: stored n x k), element type `from` (bf16 or f32; bf16 tiles take
     * bf16 only), into panels of `width`. */
    void (*pack_b)(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t k, int64_t n, int64_t width, void *panels);
    /* Packs A (m x k row-major; transposed: stored k x m) into blocks of `rows`; read it through lj_tile_packed_a. */
    void (*pack_a)(lj_dtype from, const void *source, int64_t ld, bool transposed, int64_t m, int64_t k, int64_t rows, void *blocks);
} lj_tile;

/* The best tile engine for operands of this type under the machine's (capped) instruction set. bf16 without bf16 instructions
 * widens to f32 while packing: then the engine's type is f32. */
const lj_tile *lj_tile_get(lj_dtype operand);
bool lj_tile_widens(void); /* this CPU's bf16 instructions are slower than its f32 ones, so they are passed over */
/* The engine of one instruction set, or NULL when this machine cannot run it (tests iterate). */
const lj_tile *lj_tile_for(lj_isa isa, lj_dtype operand);

/* Tests: this engine serves bf16 operands from now on (NULL: the machine's again). Set while nothing runs. */
void lj_tile_force(const lj_tile *engine);

extern const lj_tile lj_tile_generic, lj_tile_avx2, lj_tile_avx512, lj_tile_avx512bf16, lj_tile_amx;

static inline int64_t lj_round_up(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}
/* Bytes of one panel of B, of all its panels, and of packed A. */
static inline int64_t lj_tile_panel_bytes(const lj_tile *tile, int64_t k, int64_t width)
{
    return lj_round_up(k, tile->group) * width * (int64_t)lj_dtype_bytes(tile->type);
}
static inline int64_t lj_tile_b_bytes(const lj_tile *tile, int64_t k, int64_t n, int64_t width)
{
    return lj_tile_panel_bytes(tile, k, width) * ((n + width - 1) / width);
}
static inline int64_t lj_tile_a_bytes(const lj_tile *tile, int64_t m, int64_t k, int64_t rows)
{
    return lj_round_up(k, tile->a_k_multiple) * lj_round_up(m, rows) * (int64_t)lj_dtype_bytes(tile->type);
}

/* Plain rows of the engine's own type, `ld` elements apart. */
static inline lj_tile_a lj_tile_plain_a(const lj_tile *tile, const void *data, int64_t ld, int rows)
{
    int64_t bytes = (int64_t)lj_dtype_bytes(tile->type);
    return (lj_tile_a){data, ld * bytes, tile->group * bytes, rows * ld * bytes, rows};
}
static inline lj_tile_a lj_tile_packed_a(const lj_tile *tile, const void *blocks, int64_t k, int rows)
{
    int64_t size = (int64_t)lj_dtype_bytes(tile->type), block_bytes = rows * lj_round_up(k, tile->a_k_multiple) * size;
    int64_t row_bytes = (tile->a_rows ? tile->a_k_multiple : tile->group) * size;
    return (lj_tile_a){blocks, row_bytes, rows * tile->group * size, block_bytes, rows};
}

#endif
