/* Block decoders in plain C. A block is laid out as ggml's structs: half-precision scales first (last in Q6_K), little endian. Each
 * product and sum is rounded to float on its own, in numpy's order; contraction is off for the whole project. */
#include "formats/dequant_blocks.h"
#include "tensor/convert.h"

static inline float half_at(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, 2);
    return lj_half_to_float(bits);
}

static inline uint32_t u32_at(const uint8_t *at)
{
    uint32_t bits;
    memcpy(&bits, at, 4);
    return bits;
}

/* d, 16 bytes: low nibbles are elements 0..15, high nibbles 16..31. */
static void decode_q4_0(void *to, const uint8_t *block, size_t count)
{
    float *out = to;
    for (; count--; block += 18, out += 32) {
        float d = half_at(block);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((block[2 + i] & 15) - 8);
            out[16 + i] = d * (float)((block[2 + i] >> 4) - 8);
        }
    }
}

/* d, m, 16 bytes. */
static void decode_q4_1(void *to, const uint8_t *block, size_t count)
{
    float *out = to;
    for (; count--; block += 20, out += 32) {
        float d = half_at(block), m = half_at(block + 2);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)(block[4 + i] & 15) + m;
            out[16 + i] = d * (float)(block[4 + i] >> 4) + m;
        }
    }
}

/* d, 32 fifth bits, 16 bytes. */
static void decode_q5_0(void *to, const uint8_t *block, size_t count)
{
    float *out = to;
    for (; count--; block += 22, out += 32) {
        float d = half_at(block);
        uint32_t high = u32_at(block + 2);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((int)(block[6 + i] & 15) + (int)(high >> i << 4 & 16) - 16);
            out[16 + i] = d * (float)((int)(block[6 + i] >> 4) + (int)(high >> (i + 16) << 4 & 16) - 16);
        }
    }
}

/* d, m, 32 fifth bits, 16 bytes. */
static void decode_q5_1(void *to, const uint8_t *block, size_t count)
{
    float *out = to;
    for (; count--; block += 24, out += 32) {
        float d = half_at(block), m = half_at(block + 2);
        uint32_t high = u32_at(block + 4);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((int)(block[8 + i] & 15) + (int)(high >> i << 4 & 16)) + m;
            out[16 + i] = d * (float)((int)(block[8 + i] >> 4) + (int)(high >> (i + 16) << 4 & 16)) + m;
        }
    }
}

/* d, 32 signed bytes. */
static void decode_q8_0(void *to, const uint8_t *block, size_t count)
{
    float *out = to;
    for (; count--; block += 34, out += 32) {
        float d = half_at(block);
        for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)block[2 + i] * d;
    }
}

/* Scale and minimum of group `j` of 8, 6 bits each, packed in 12 bytes: the first four whole, the rest in two pieces. */
static inline void k_scale(const uint8_t *packed, int j, float *scale, float *minimum)
{
    if (j < 4) {
        *scale = (float)(packed[j] & 63), *minimum = (float)(packed[j + 4] & 63);
        return;
    }
    *scale = (float)((packed[j + 4] & 15) | (packed[j - 4] >> 2 & 48));
    *minimum = (float)((packed[j + 4] >> 4) | (packed[j] >> 2 & 48));
}

/* d, dmin, 12 bytes of scales, 128 bytes of nibbles: 32 bytes hold groups 2k (low) and 2k + 1 (high). */
static void decode_q4_k(void *to, const uint8_t *block, size_t count)
{
    float *out = to;
    for (; count--; block += 144, out += 256) {
        float d = half_at(block), dmin = half_at(block + 2);
        for (int j = 0; j < 8; j++) {
            const uint8_t *q = block + 16 + 32 * (j / 2);
            float scale, minimum;
            k_scale(block + 4, j, &scale, &minimum);
            scale = d * scale, minimum = dmin * minimum;
            for (int i = 0; i < 32; i++) out[32 * j + i] = scale * (float)(q[i] >> 4 * (j & 1) & 15) - minimum;
        }
    }
}

/* d, dmin, 12 bytes of scales, 32 bytes of fifth bits (bit j is group j), 128 bytes of nibbles. */
static void decode_q5_k(void *to, const uint8_t *block, size_t count)
{
    float *out = to;
    for (; count--; block += 176, out += 256) {
        float d = half_at(block), dmin = half_at(block + 2);
        const uint8_t *high = block + 16;
        for (int j = 0; j < 8; j++) {
            const uint8_t *q = block + 48 + 32 * (j / 2);
            float scale, minimum;
            k_scale(block + 4, j, &scale, &minimum);
            scale = d * scale, minimum = dmin * minimum;
            for (int i = 0; i < 32; i++)
                out[32 * j + i] = scale * (float)((q[i] >> 4 * (j & 1) & 15) | (high[i] >> j & 1) << 4) - minimum;
        }
    }
}

/* 128 bytes of low nibbles, 64 bytes of high pairs, 16 signed scales, d. Each half of 128 numbers: 64 low bytes (low nibbles, then
 * high nibbles) and 32 high bytes whose pairs 0..3 go with the four runs of 32. */
static void decode_q6_k(void *to, const uint8_t *block, size_t count)
{
    float *out = to;
    for (; count--; block += 210, out += 256) {
        float d = half_at(block + 208);
        for (int run = 0; run < 8; run++) {
            int half = run / 4, pair = run % 4;
            const uint8_t *low = block + 64 * half + 32 * (pair & 1), *high = block + 128 + 32 * half;
            const int8_t *scales = (const int8_t *)block + 192 + 2 * run;
            float scale[2] = {d * (float)scales[0], d * (float)scales[1]};
            for (int i = 0; i < 32; i++) {
                int q = (low[i] >> 4 * (pair / 2) & 15) | (high[i] >> 2 * pair & 3) << 4;
                out[32 * run + i] = scale[i / 16] * (float)(q - 32);
            }
        }
    }
}

const lj_decode_fn lj_decode_plain[LJ_BLOCK_DECODERS] = {
    [LJ_Q4_0] = decode_q4_0, [LJ_Q4_1] = decode_q4_1, [LJ_Q5_0] = decode_q5_0, [LJ_Q5_1] = decode_q5_1,
    [LJ_Q8_0] = decode_q8_0, [LJ_Q4_K] = decode_q4_k, [LJ_Q5_K] = decode_q5_k, [LJ_Q6_K] = decode_q6_k,
};
