/* The rows, and what each costs a rank. Bytes are the call's: what one rank contributes to or gets of one block. */
#include "accl/algorithms.h"

#include <math.h>

static const double piece = ACCL_STAGE_HALF / 4.0;

static double pieces(double bytes)
{
    return ceil(bytes / piece) + (bytes == 0);
}
static double steps_up(double ranks)
{
    return ceil(log2(ranks));
}

static void work_all_reduce_flat(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = pieces(b), .copied = b, .crossed = (n - 1) * b, .reduced = n * b};
}
static void work_all_reduce_staged(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2 * pieces(b), .copied = b, .crossed = 2 * (n - 1) / n * b, .reduced = 2 * b};
}
static void work_all_reduce_mapped(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2, .copied = (n - 1) / n * b, .crossed = (n - 1) / n * b, .reduced = b};
}
static void work_all_reduce_system(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2, .reduced = b, .system = 2 * (n - 1) / n * b, .calls = 2 * (n - 1) * ceil(b / n / 65536)};
}
static void work_recursive_doubling(double b, double n, accl_work *w)
{
    double k = steps_up(n) + 1;
    *w = (accl_work){.syncs = k * pieces(b * 4), .copied = 2 * b, .crossed = k * b, .reduced = 2 * k * b};
}
static void work_all_reduce_ring(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2 * n * pieces(b / 4), .copied = 3 * b, .crossed = 2 * b, .reduced = 2 * b};
}
static void work_all_reduce_tree(double b, double n, accl_work *w)
{
    double k = steps_up(n);
    *w = (accl_work){.syncs = (2 * k + 1) * pieces(b / 4), .copied = 2 * b, .crossed = (k + 1) * b, .reduced = 2 * k * b};
}
static void work_all_gather_flat(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = pieces(b), .copied = 2 * b, .crossed = (n - 1) * b};
}
static void work_all_gather_mapped(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2, .copied = b, .crossed = (n - 1) * b};
}
static void work_all_gather_system(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2, .copied = b, .system = (n - 1) * b, .calls = n - 1};
}
static void work_all_gather_ring(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = n * pieces(b * n / 4), .copied = (n + 1) * b, .crossed = (n - 1) * b};
}
static void work_reduce_scatter_flat(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = pieces(b * n), .copied = (n - 1) * b, .crossed = (n - 1) * b, .reduced = n * b};
}
static void work_reduce_scatter_mapped(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2, .crossed = (n - 1) * b, .reduced = n * b};
}
static void work_reduce_scatter_system(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2, .reduced = n * b, .system = (n - 1) * b, .calls = (n - 1) * ceil(b / 65536)};
}
static void work_reduce_scatter_ring(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = (n + 1) * pieces(b * n / 4), .copied = n * b, .crossed = (n - 1) * b, .reduced = 2 * n * b};
}
static void work_reduce_scatter_pairwise(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2 * pieces(b * n / 4), .copied = n * b, .crossed = (n - 1) * b, .reduced = 2 * n * b};
}
static void work_broadcast_flat(double b, double n, accl_work *w)
{
    (void)n;
    *w = (accl_work){.syncs = 1 + pieces(b) / 2, .copied = b, .crossed = b};
}
static void work_broadcast_mapped(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2, .crossed = n == 2 ? b / 2 : b};
}
static void work_broadcast_system(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = 2, .system = n == 2 ? b / 2 : b, .calls = 1};
}
static void work_broadcast_tree(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = steps_up(n) + pieces(b) / 2, .copied = 2 * b, .crossed = b};
}
static void work_reduce_flat(double b, double n, accl_work *w)
{
    *w = (accl_work){.syncs = pieces(b), .copied = b, .crossed = (n - 1) * b, .reduced = n * b};
}
static void work_reduce_tree(double b, double n, accl_work *w)
{
    double k = steps_up(n);
    *w = (accl_work){.syncs = (k + 1) * pieces(b / 4), .copied = b, .crossed = k * b, .reduced = 2 * k * b};
}

const accl_algorithm accl_algorithms[] = {
    {ACCL_ALL_REDUCE, ACCL_BY_STAGE, "flat", "flat/staged", true, true, accl_all_reduce_flat, work_all_reduce_flat},
    {ACCL_ALL_REDUCE, ACCL_BY_STAGE, "scatter_gather", "scatter_gather/staged", true, false, accl_all_reduce_scatter_gather, work_all_reduce_staged},
    {ACCL_ALL_REDUCE, ACCL_BY_MAPPING, "scatter_gather", "scatter_gather/mapped", true, false, accl_all_reduce_scatter_gather, work_all_reduce_mapped},
    {ACCL_ALL_REDUCE, ACCL_BY_SYSTEM, "scatter_gather", "scatter_gather/system", true, false, accl_all_reduce_scatter_gather, work_all_reduce_system},
    {ACCL_ALL_REDUCE, ACCL_BY_STAGE, "recursive_doubling", "recursive_doubling/staged", false, false, accl_all_reduce_recursive_doubling, work_recursive_doubling},
    {ACCL_ALL_REDUCE, ACCL_BY_STAGE, "ring", "ring/staged", false, false, accl_all_reduce_ring, work_all_reduce_ring},
    {ACCL_ALL_REDUCE, ACCL_BY_STAGE, "tree", "tree/staged", false, false, accl_all_reduce_tree, work_all_reduce_tree},
    {ACCL_ALL_GATHER, ACCL_BY_STAGE, "flat", "flat/staged", true, true, accl_all_gather_flat, work_all_gather_flat},
    {ACCL_ALL_GATHER, ACCL_BY_MAPPING, "flat", "flat/mapped", true, false, accl_all_gather_flat, work_all_gather_mapped},
    {ACCL_ALL_GATHER, ACCL_BY_SYSTEM, "flat", "flat/system", true, false, accl_all_gather_flat, work_all_gather_system},
    {ACCL_ALL_GATHER, ACCL_BY_STAGE, "ring", "ring/staged", true, false, accl_all_gather_ring, work_all_gather_ring},
    {ACCL_REDUCE_SCATTER, ACCL_BY_STAGE, "flat", "flat/staged", true, true, accl_reduce_scatter_flat, work_reduce_scatter_flat},
    {ACCL_REDUCE_SCATTER, ACCL_BY_MAPPING, "flat", "flat/mapped", true, false, accl_reduce_scatter_flat, work_reduce_scatter_mapped},
    {ACCL_REDUCE_SCATTER, ACCL_BY_SYSTEM, "flat", "flat/system", true, false, accl_reduce_scatter_flat, work_reduce_scatter_system},
    {ACCL_REDUCE_SCATTER, ACCL_BY_STAGE, "ring", "ring/staged", false, false, accl_reduce_scatter_ring, work_reduce_scatter_ring},
    {ACCL_REDUCE_SCATTER, ACCL_BY_STAGE, "pairwise", "pairwise/staged", false, false, accl_reduce_scatter_pairwise, work_reduce_scatter_pairwise},
    {ACCL_BROADCAST, ACCL_BY_STAGE, "flat", "flat/staged", true, true, accl_broadcast_flat, work_broadcast_flat},
    {ACCL_BROADCAST, ACCL_BY_MAPPING, "flat", "flat/mapped", true, false, accl_broadcast_flat, work_broadcast_mapped},
    {ACCL_BROADCAST, ACCL_BY_SYSTEM, "flat", "flat/system", true, false, accl_broadcast_flat, work_broadcast_system},
    {ACCL_BROADCAST, ACCL_BY_STAGE, "tree", "tree/staged", true, false, accl_broadcast_tree, work_broadcast_tree},
    {ACCL_REDUCE, ACCL_BY_STAGE, "flat", "flat/staged", true, true, accl_reduce_flat, work_reduce_flat},
    {ACCL_REDUCE, ACCL_BY_MAPPING, "scatter_gather", "scatter_gather/mapped", true, false, accl_reduce_scatter_to_root, work_reduce_scatter_mapped},
    {ACCL_REDUCE, ACCL_BY_SYSTEM, "scatter_gather", "scatter_gather/system", true, false, accl_reduce_scatter_to_root, work_reduce_scatter_system},
    {ACCL_REDUCE, ACCL_BY_STAGE, "tree", "tree/staged", false, false, accl_reduce_tree, work_reduce_tree},
};
const size_t accl_algorithm_count = sizeof accl_algorithms / sizeof *accl_algorithms;
