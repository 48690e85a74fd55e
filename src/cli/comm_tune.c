/* Fits the cost model: every algorithm that can be named is measured over sizes, alone (as many ranks as processors) and crowded (four times as many), and the six costs are those that
 * explain the times best: relative least squares with no cost below zero. */
#define _GNU_SOURCE
#include "cli/comm.h"

#include "accl/algorithms.h"
#include "base/log.h"
#include "base/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 512 };

/* One measured time and the counts behind it. */
typedef struct {
    double work[ACCL_COSTS], seconds;
} point;

static const struct {
    accl_kind kind;
    comm_collective collective;
    const char *variable;
} measured[] = {{ACCL_ALL_REDUCE, COMM_ALL_REDUCE, "allreduce"}, {ACCL_ALL_GATHER, COMM_ALL_GATHER, "allgather"}, {ACCL_REDUCE_SCATTER, COMM_REDUCE_SCATTER, "reducescatter"}, {ACCL_BROADCAST, COMM_BROADCAST, "broadcast"}};

/* Points of one row: the algorithm and its way are forced by the same variables that a user has. */
static lj_status row_measure(const accl_algorithm *row, comm_collective collective, const char *variable, const comm_plan *base, point *points, int *count)
{
    comm_plan plan = *base;
    comm_sample samples[COMM_MAX_SIZES];
    char algorithm[64];
    snprintf(algorithm, sizeof algorithm, "%s:%s", variable, row->name);
    setenv("NCCL_ALGO", algorithm, 1);
    setenv("NCCL_PROTO", row->reach == ACCL_BY_STAGE ? "LL" : "Simple", 1);
    accl_choice_reload();
    plan.collective = collective;
    plan.shared = row->reach == ACCL_BY_MAPPING;
    lj_status status = comm_run(&plan, samples);
    unsetenv("NCCL_ALGO");
    unsetenv("NCCL_PROTO");
    accl_choice_reload();
    if (status != LJ_OK) return status;
    double share = plan.ranks > lj_machine_get()->cores ? (double)plan.ranks / lj_machine_get()->cores : 1;
    for (int s = 0; s < plan.size_count && *count < MAX_POINTS; s++) {
        accl_work w;
        if (strcmp(samples[s].algorithm, row->label) != 0) continue; /* it was not possible at this size */
        row->work((double)plan.sizes[s], plan.ranks, &w);
        double counts[ACCL_COSTS] = {w.syncs, w.copied, w.crossed, w.reduced, w.system, w.calls};
        point *p = &points[(*count)++];
        for (int i = 0; i < ACCL_COSTS; i++) p->work[i] = counts[i] * share;
        p->seconds = samples[s].best_mean_us * 1e-6;
    }
    return LJ_OK;
}

/* Coordinate descent on the sum of squared relative errors; converges because the sum is convex and each cost is bounded below. */
static void fit(const point *points, int count, double *cost)
{
    for (int turn = 0; turn < 4000; turn++)
        for (int c = 0; c < ACCL_COSTS; c++) {
            double up = 0, down = 0;
            for (int p = 0; p < count; p++) {
                double a = points[p].work[c] / points[p].seconds, rest = 1;
                for (int i = 0; i < ACCL_COSTS; i++)
                    if (i != c) rest -= cost[i] * points[p].work[i] / points[p].seconds;
                up += a * rest;
                down += a * a;
            }
            if (down > 0) cost[c] = fmax(up / down, 0);
        }
}

static double typical_error(const point *points, int count, const double *cost)
{
    double sum = 0;
    for (int p = 0; p < count; p++) {
        double model = 0;
        for (int i = 0; i < ACCL_COSTS; i++) model += cost[i] * points[p].work[i];
        sum += fabs(log(fmax(model, 1e-12) / points[p].seconds));
    }
    return count ? exp(sum / count) - 1 : 0;
}

static lj_status situation_fit(comm_plan *plan, double *cost)
{
    static point points[MAX_POINTS];
    int count = 0;
    for (size_t i = 0; i < accl_algorithm_count; i++)
        for (size_t m = 0; m < sizeof measured / sizeof *measured; m++)
            if (accl_algorithms[i].kind == measured[m].kind) LJ_TRY(row_measure(&accl_algorithms[i], measured[m].collective, measured[m].variable, plan, points, &count));
    if (count < 2 * ACCL_COSTS) return lj_fail(LJ_ERR_LIMIT, "comm tune: %d measurements, %d needed; widen --min-bytes and --max-bytes", count, 2 * ACCL_COSTS);
    fit(points, count, cost);
    printf("%d ranks: %d measurements, sync %.3g us, GB/s: copied %.3g, crossed %.3g, reduced %.3g, system %.3g, call %.3g us; typical error %.0f %%\n", plan->ranks, count, cost[0] * 1e6,
           1e-9 / cost[1], 1e-9 / cost[2], 1e-9 / cost[3], 1e-9 / cost[4], cost[5] * 1e6, typical_error(points, count, cost) * 100);
    return LJ_OK;
}

lj_status comm_tune(const comm_plan *base)
{
    accl_cost_model model = accl_costs_default();
    comm_plan plan = *base;
    char path[1200];
    int cores = lj_machine_get()->cores;
    /* small sizes show the cost of a sync, large ones those of a byte: every other power of two is enough */
    plan.size_count = 0;
    for (int s = 0; s < base->size_count; s += 2) plan.sizes[plan.size_count++] = base->sizes[s];
    plan.effort *= 0.1;
    plan.ranks = cores < 2 ? 2 : cores < COMM_MAX_RANKS / 4 ? cores : COMM_MAX_RANKS / 4;
    if (plan.ranks <= cores) LJ_TRY(situation_fit(&plan, model.cost[0]));
    else lj_log(LJ_LOG_INFO, "one processor: every set of ranks is crowded, the costs of the other case stay the built-in ones");
    plan.ranks *= 4;
    while (plan.size_count > 1 && plan.sizes[plan.size_count - 1] > (size_t)8 << 20) plan.size_count--;
    LJ_TRY(situation_fit(&plan, model.cost[1]));
    LJ_TRY(accl_costs_write(&model));
    LJ_TRY(accl_costs_path(path, sizeof path));
    printf("written to %s; communicators made from now on use it\n", path);
    return LJ_OK;
}
