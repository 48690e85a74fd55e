#include "kernels/peak/peak.h"

#include <immintrin.h>

/* Palette 1, eight tiles of 16 rows of 64 bytes. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t columns[16];
    uint8_t rows[16];
} tile_config;

double lj_peak_loop_amx(int64_t rounds)
{
    tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.columns[i] = 64, config.rows[i] = 16;
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return (double)rounds * 4 * 16 * 16 * 32 * 2;
}
