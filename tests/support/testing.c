#define _GNU_SOURCE
#include "support/testing.h"

#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double test_random_unit(uint64_t *state)
{
    return (double)(test_random(state) >> 11) * 0x1p-53;
}

int64_t test_random_range(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(test_random(state) % (uint64_t)(high - low + 1));
}

double test_random_normal(uint64_t *state)
{
    double u = test_random_unit(state), v = test_random_unit(state);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

char *test_folder_create(char *buffer, size_t capacity)
{
    const char *base = getenv("TMPDIR");
    snprintf(buffer, capacity, "%s/ljperf-test-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(buffer));
    return buffer;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

void test_folder_remove(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
