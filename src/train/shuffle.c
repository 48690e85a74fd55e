/* A four-round Feistel network over the next even power of two, walked until it falls inside (Black and Rogaway 2002). */
#include "train/shuffle.h"

enum { ROUNDS = 4 };

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int half_bits(int64_t count)
{
    int bits = 1;
    while (((int64_t)1 << (2 * bits)) < count) bits++;
    return bits;
}

static uint64_t feistel(uint64_t value, int bits, uint64_t key)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1, left = value >> bits, right = value & mask;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (mix(right + mix(key + (uint64_t)round + 1)) & mask);
        left = right, right = next;
    }
    return left << bits | right;
}

int64_t lj_shuffle_at(uint64_t seed, int64_t epoch, int64_t count, int64_t index)
{
    uint64_t key = mix(seed + 0x9e3779b97f4a7c15u * ((uint64_t)epoch + 1)), at = (uint64_t)index;
    int bits = half_bits(count);
    do at = feistel(at, bits, key);
    while ((int64_t)at >= count);
    return (int64_t)at;
}
