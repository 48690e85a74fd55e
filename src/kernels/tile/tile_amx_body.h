/* The bf16 engine on tile registers. The including file defines the instructions:
 *   AMX_CONFIG(p)  AMX_ZERO(t)  AMX_LOAD(t, p, stride)  AMX_STORE(t, p, stride)  AMX_DP(c, a, b)  AMX_RELEASE()
 * (tile_amx.c: the CPU's; the tests: a model in C, so that packing, tails and stores are checked where there is no AMX).
 *
 * Tiles 0..3 are C (2 x 2 blocks of 16 x 16 f32), 4 and 5 A (16 rows x 32 k), 6 and 7 B (16 pairs of k x 16 columns). */
#include "kernels/tile/tile.h"
#include "kernels/vec.h"

enum { AMX_ROWS = 16, AMX_K = 32, AMX_LINE = 64 };

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t line_bytes[16];
    uint8_t rows[16];
} amx_config;

/* Where one block of up to 2 x 2 tiles is; a1 and b1 are NULL when there is no second one. */
typedef struct {
    const char *a0, *a1, *b0, *b1;
    int64_t a_row, a_step; /* bytes between rows of A, and between steps of 32 along k */
    int64_t b_row;         /* bytes between pairs of k in B */
} amx_operands;

static void amx_steps(amx_operands o, int64_t steps)
{
    int64_t b_step = o.b_row * AMX_ROWS;
    for (; steps > 0; steps--) {
        AMX_LOAD(6, o.b0, o.b_row);
        AMX_LOAD(4, o.a0, o.a_row);
        AMX_DP(0, 4, 6);
        if (o.b1) {
            AMX_LOAD(7, o.b1, o.b_row);
            AMX_DP(1, 4, 7);
            o.b1 += b_step;
        }
        if (o.a1) {
            AMX_LOAD(5, o.a1, o.a_row);
            AMX_DP(2, 5, 6);
            if (o.b1) AMX_DP(3, 5, 7);
            o.a1 += o.a_step;
        }
        o.a0 += o.a_step, o.b0 += b_step;
    }
}

/* The last k % 32: copied with zeros behind, since A may end there and an odd k has half a pair. */
static void amx_tail(const amx_operands *o, int rows0, int rows1, int64_t k)
{
    _Alignas(64) char a[2][AMX_ROWS * AMX_LINE], b[2][AMX_ROWS * AMX_LINE];
    memset(a, 0, sizeof a), memset(b, 0, sizeof b);
    for (int i = 0; i < rows0; i++) memcpy(a[0] + i * AMX_LINE, o->a0 + i * o->a_row, (size_t)k * 2);
    for (int i = 0; i < rows1; i++) memcpy(a[1] + i * AMX_LINE, o->a1 + i * o->a_row, (size_t)k * 2);
    for (int64_t i = 0; i < (k + 1) / 2; i++) {
        memcpy(b[0] + i * AMX_LINE, o->b0 + i * o->b_row, AMX_LINE);
        if (o->b1) memcpy(b[1] + i * AMX_LINE, o->b1 + i * o->b_row, AMX_LINE);
    }
    amx_steps((amx_operands){a[0], rows1 ? a[1] : NULL, b[0], o->b1 ? b[1] : NULL, AMX_LINE, 0, AMX_LINE}, 1);
}

typedef struct {
    void *c;
    int64_t ldc;
    lj_tile_store store;
} amx_target;

static char *amx_c_at(const amx_target *t, int64_t row, int64_t column)
{
    return (char *)t->c + (row * t->ldc + column) * (t->store == LJ_TILE_SET_BF16 ? 2 : 4);
}

/* One 16 x 16 result that cannot be stored as it is: columns are missing, or the type is bf16. */
static void amx_edge_store(const float *sums, const amx_target *t, int64_t row, int64_t column, int rows, int columns)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j += VL) {
            int n = columns - j < VL ? columns - j : VL;
            vec x = vec_load(sums + i * AMX_ROWS + j);
            char *at = amx_c_at(t, row + i, column + j);
            if (t->store == LJ_TILE_SET_BF16)
                vec_store_bf16_part((uint16_t *)(void *)at, x, n);
            else
                vec_store_part((float *)(void *)at, t->store == LJ_TILE_ADD ? (vec)(vec_load_part((float *)(void *)at, n) + x) : x, n);
        }
}

static bool amx_is_direct(const amx_target *t, int columns)
{
    return columns == AMX_ROWS && t->store != LJ_TILE_SET_BF16;
}

/* C of one tile before the sum: its value when added to directly, else zero. */
#define AMX_START(tile, row, column, columns)                                                                                    \
    do {                                                                                                                         \
        if (amx_is_direct(t, columns) && t->store == LJ_TILE_ADD)                                                                \
            AMX_LOAD(tile, amx_c_at(t, row, column), t->ldc * 4);                                                                \
        else                                                                                                                     \
            AMX_ZERO(tile);                                                                                                      \
    } while (0)

#define AMX_FINISH(tile, row, column, tile_rows, columns)                                                                        \
    do {                                                                                                                         \
        if (amx_is_direct(t, columns)) {                                                                                         \
            AMX_STORE(tile, amx_c_at(t, row, column), t->ldc * 4);                                                               \
        } else {                                                                                                                 \
            AMX_STORE(tile, sums, AMX_LINE);                                                                                     \
            amx_edge_store(sums, t, row, column, tile_rows, columns);                                                            \
        }                                                                                                                        \
    } while (0)

/* Up to 32 x 32 of C at (row, column). */
static void amx_block(const amx_operands *o, const amx_target *t, int64_t k, int64_t row, int64_t column, int rows, int columns)
{
    _Alignas(64) float sums[AMX_ROWS * AMX_ROWS];
    int rows0 = rows < AMX_ROWS ? rows : AMX_ROWS, rows1 = rows - rows0;
    int columns0 = columns < AMX_ROWS ? columns : AMX_ROWS, columns1 = columns - columns0;
    amx_operands rest = *o;
    int64_t steps = k / AMX_K;
    AMX_START(0, row, column, columns0);
    if (columns1) AMX_START(1, row, column + AMX_ROWS, columns1);
    if (rows1) AMX_START(2, row + AMX_ROWS, column, columns0);
    if (rows1 && columns1) AMX_START(3, row + AMX_ROWS, column + AMX_ROWS, columns1);
    amx_steps(*o, steps);
    rest.a0 += steps * o->a_step, rest.b0 += steps * AMX_ROWS * o->b_row;
    if (rest.a1) rest.a1 += steps * o->a_step;
    if (rest.b1) rest.b1 += steps * AMX_ROWS * o->b_row;
    if (k % AMX_K) amx_tail(&rest, rows0, rows1, k % AMX_K);
    AMX_FINISH(0, row, column, rows0, columns0);
    if (columns1) AMX_FINISH(1, row, column + AMX_ROWS, rows0, columns1);
    if (rows1) AMX_FINISH(2, row + AMX_ROWS, column, rows1, columns0);
    if (rows1 && columns1) AMX_FINISH(3, row + AMX_ROWS, column + AMX_ROWS, rows1, columns1);
}

/* Rows of the A and C tiles follow the block; loads must not touch rows that are not there. */
static void amx_configure(int rows)
{
    _Alignas(64) amx_config config;
    int rows0 = rows < AMX_ROWS ? rows : AMX_ROWS, rows1 = rows - rows0 ? rows - rows0 : 1;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) config.line_bytes[i] = AMX_LINE;
    config.rows[0] = config.rows[1] = config.rows[4] = (uint8_t)rows0;
    config.rows[2] = config.rows[3] = config.rows[5] = (uint8_t)rows1;
    config.rows[6] = config.rows[7] = AMX_ROWS;
    AMX_CONFIG(&config);
}

/* A's k-groups are adjacent within a step of 32; steps are 16 groups apart. */
static void panel(const lj_tile_a *a, int64_t m, int64_t n, int64_t k, const void *b, int64_t width, void *c, int64_t ldc, lj_tile_store store)
{
    amx_target target = {c, ldc, store};
    int configured = 0;
    for (int64_t row = 0; row < m; row += 2 * AMX_ROWS) {
        int rows = m - row < 2 * AMX_ROWS ? (int)(m - row) : 2 * AMX_ROWS;
        const char *a0 = (const char *)a->data + row / a->block_rows * a->block_bytes;
        if (rows != configured) amx_configure(rows);
        configured = rows;
        for (int64_t column = 0; column < n; column += 2 * AMX_ROWS) {
            int columns = n - column < 2 * AMX_ROWS ? (int)(n - column) : 2 * AMX_ROWS;
            const char *b0 = (const char *)b + column * 4;
            amx_operands o = {a0, rows > AMX_ROWS ? a0 + AMX_ROWS * a->row_bytes : NULL, b0, columns > AMX_ROWS ? b0 + AMX_LINE : NULL,
                              a->row_bytes, 16 * a->group_bytes, width * 4};
            amx_block(&o, &target, k, row, column, rows, columns);
        }
    }
    AMX_RELEASE();
}
