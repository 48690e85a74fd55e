#include "host/sha256.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void block_add(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3,
                 b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25),
                 choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + e + choose + rounds[i] + w[i];
        uint32_t a = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22),
                 majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + a + majority;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

void lj_sha256_begin(lj_sha256 *hash)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    *hash = (lj_sha256){0};
    memcpy(hash->state, start, sizeof start);
}

void lj_sha256_add(lj_sha256 *hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    while (bytes) {
        size_t used = hash->bytes % 64, take = 64 - used < bytes ? 64 - used : bytes;
        memcpy(hash->block + used, at, take);
        hash->bytes += take, at += take, bytes -= take;
        if (hash->bytes % 64 == 0) block_add(hash->state, hash->block);
    }
}

void lj_sha256_end(lj_sha256 *hash, uint8_t digest[32])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t bits = hash->bytes * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    size_t used = hash->bytes % 64;
    lj_sha256_add(hash, padding, used < 56 ? 56 - used : 120 - used);
    lj_sha256_add(hash, length, 8);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void lj_sha256_hex(const void *data, size_t bytes, char out[65])
{
    lj_sha256 hash;
    uint8_t digest[32];
    lj_sha256_begin(&hash);
    lj_sha256_add(&hash, data, bytes);
    lj_sha256_end(&hash, digest);
    for (int i = 0; i < 32; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

static void base64url(const uint8_t *data, size_t bytes, char *out, size_t capacity)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t used = 0;
    for (size_t i = 0; i < bytes; i += 3) {
        uint32_t three = (uint32_t)data[i] << 16 | (i + 1 < bytes ? (uint32_t)data[i + 1] << 8 : 0) |
                         (i + 2 < bytes ? data[i + 2] : 0);
        size_t count = i + 2 < bytes ? 4 : i + 1 < bytes ? 3 : 2;
        for (size_t k = 0; k < count && used + 1 < capacity; k++)
            out[used++] = letters[three >> (18 - 6 * k) & 63];
    }
    out[used] = 0;
}

lj_status lj_sha256_file_base64(const char *path, char *out, size_t capacity)
{
    lj_mapped_file file;
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_sha256 hash;
    uint8_t digest[32];
    lj_sha256_begin(&hash);
    lj_sha256_add(&hash, file.data, file.bytes);
    lj_sha256_end(&hash, digest);
    lj_mapped_file_release(&file);
    base64url(digest, sizeof digest, out, capacity);
    return LJ_OK;
}
