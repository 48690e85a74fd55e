/* The loop over blocks of rows; the including file has `micros[vectors - 1][rows - 1]`. */
static void panel(const lj_tile_a *a, int64_t m, int64_t n, int64_t k, const void *b, int64_t width, void *c, int64_t ldc, lj_tile_store store)
{
    int64_t vectors = (n + VL - 1) / VL, c_bytes = store == LJ_TILE_SET_BF16 ? 2 : 4;
    micro_args t = {.row_bytes = a->row_bytes, .group_bytes = a->group_bytes, .k = k, .b = b, .b_step = width * TILE_GROUP * (4 / TILE_GROUP),
                    .ldc = ldc, .n = (int)n, .store = store};
    const char *block = a->data;
    char *out = c;
    for (int64_t i = 0; i < m; i += a->block_rows) {
        int64_t rows = m - i < a->block_rows ? m - i : a->block_rows;
        t.a = block, t.c = out;
        micros[vectors - 1][rows - 1](&t);
        block += a->block_bytes, out += rows * ldc * c_bytes;
    }
}
