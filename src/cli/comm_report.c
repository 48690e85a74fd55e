/* What `ljperf comm bench` says: a table, JSON, a drawing. */
#define _GNU_SOURCE
#include "cli/comm.h"

#include "base/file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* NaN entries do not count. */
double comm_median(const double *values, int count)
{
    double sorted[COMM_MAX_ROUNDS];
    int n = 0;
    for (int i = 0; i < count && n < COMM_MAX_ROUNDS; i++)
        if (!isnan(values[i])) sorted[n++] = values[i];
    if (!n) return NAN;
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* As nccl-tests defines them: the larger buffer over time, and what a link carries at least. GB/s. */
void comm_bandwidths(const comm_plan *plan, size_t bytes, double us, double *algbw, double *busbw)
{
    double n = plan->ranks, factor = 1, total = (double)bytes;
    switch (plan->collective) {
    case COMM_ALL_REDUCE: factor = 2 * (n - 1) / n; break;
    case COMM_ALL_GATHER:
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_TO_ALL:
        total *= n;
        factor = (n - 1) / n;
        break;
    default: break;
    }
    *algbw = total / us / 1e3;
    *busbw = *algbw * factor;
}

typedef struct {
    double mean, minimum, p99, algbw, busbw;
    double means[COMM_MAX_ROUNDS];
    uint64_t wrong;
} summary;

static void summarise(const comm_result *r, int size, summary *s)
{
    *s = (summary){.minimum = INFINITY};
    double p99[COMM_MAX_ROUNDS];
    for (int i = 0; i < r->rounds; i++) {
        const comm_sample *one = &r->ours[i][size];
        s->means[i] = one->best_mean_us;
        p99[i] = one->p99_us;
        if (one->min_us < s->minimum) s->minimum = one->min_us;
        s->wrong += one->wrong;
    }
    s->mean = comm_median(s->means, r->rounds);
    s->p99 = comm_median(p99, r->rounds);
    comm_bandwidths(&r->plan, r->plan.sizes[size], s->mean, &s->algbw, &s->busbw);
}

static void peer_means(const comm_result *r, int peer, int size, double *means)
{
    for (int i = 0; i < r->rounds; i++) means[i] = r->peer_us[peer][i][size];
}

void comm_print(const comm_result *r)
{
    double means[COMM_MAX_ROUNDS];
    printf("# %s, %d ranks (%s), %s buffers, %s, %d round%s\n", comm_names[r->plan.collective], r->plan.ranks, r->plan.processes ? "processes" : "threads",
           r->plan.shared ? "shared" : "ordinary", r->plan.in_place ? "in place" : "out of place", r->rounds, r->rounds == 1 ? "" : "s");
    printf("%12s %11s %11s %11s %9s %9s %6s  %-26s", "bytes", "min us", "mean us", "p99 us", "algbw", "busbw", "wrong", "algorithm");
    for (int p = 0; p < r->peer_count; p++) printf(" %15s", r->peer_names[p]);
    printf("\n");
    for (int s = 0; s < r->plan.size_count; s++) {
        summary sum;
        summarise(r, s, &sum);
        printf("%12zu %11.3f %11.3f %11.3f %9.2f %9.2f %6llu  %-26s", r->plan.sizes[s], sum.minimum, sum.mean, sum.p99, sum.algbw, sum.busbw, (unsigned long long)sum.wrong, r->ours[0][s].algorithm);
        for (int p = 0; p < r->peer_count; p++) {
            peer_means(r, p, s, means);
            printf(" %15.3f", comm_median(means, r->rounds));
        }
        printf("\n");
    }
    fflush(stdout);
}

static json_t *numbers(const double *values, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, isnan(values[i]) ? json_null() : json_real(values[i]));
    return list;
}

static json_t *row_make(const comm_result *r, int size)
{
    summary s;
    double means[COMM_MAX_ROUNDS];
    summarise(r, size, &s);
    json_t *peers = json_object();
    for (int p = 0; p < r->peer_count; p++) {
        peer_means(r, p, size, means);
        double median = comm_median(means, r->rounds);
        json_object_set_new(peers, r->peer_names[p], json_pack("{s:o, s:o}", "time_us_mean", isnan(median) ? json_null() : json_real(median), "rounds_us", numbers(means, r->rounds)));
    }
    return json_pack("{s:s, s:I, s:i, s:f, s:f, s:f, s:f, s:f, s:I, s:s, s:s, s:s, s:b, s:o, s:o}", "collective", comm_names[r->plan.collective], "bytes", (json_int_t)r->plan.sizes[size],
                     "ranks", r->plan.ranks, "time_us_min", s.minimum, "time_us_mean", s.mean, "time_us_p99", s.p99, "algbw", s.algbw, "busbw", s.busbw, "wrong", (json_int_t)s.wrong,
                     "algorithm", r->ours[0][size].algorithm, "mode", r->plan.processes ? "processes" : "threads", "buffers", r->plan.shared ? "shared" : "ordinary", "in_place",
                     r->plan.in_place, "rounds_us", numbers(s.means, r->rounds), "peers", peers);
}

lj_status comm_write_json(const comm_result *results, int count, const char *path)
{
    json_t *rows = json_array();
    for (int i = 0; i < count; i++)
        for (int s = 0; s < results[i].plan.size_count; s++) json_array_append_new(rows, row_make(&results[i], s));
    char *text = json_dumps(rows, JSON_INDENT(1) | JSON_REAL_PRECISION(8));
    json_decref(rows);
    if (!text) return lj_fail(LJ_ERR_NOMEM, "JSON report");
    lj_text whole;
    lj_text_init(&whole);
    lj_text_add(&whole, "%s\n", text);
    free(text);
    lj_status status = lj_text_status(&whole);
    if (status == LJ_OK) status = lj_file_write(path, whole.data, whole.length);
    lj_text_release(&whole);
    return status;
}

/* --- the drawing: latency left, bandwidth right, both over size, all axes logarithmic --- */

enum { PLOT_W = 520, PLOT_H = 360, MARGIN = 60, LINE_H = 18 };
static const char *const colours[] = {"#1b6ca8", "#c0392b", "#27864c", "#8e44ad", "#d08a10", "#16807a", "#7f5539", "#555555", "#aa3377"};

typedef struct {
    double low_x, high_x, low_y, high_y; /* log2, log10 */
    int left;
} axes;

static double x_of(const axes *a, double bytes)
{
    double span = a->high_x - a->low_x;
    return a->left + MARGIN + (log2(bytes) - a->low_x) / (span > 0 ? span : 1) * (PLOT_W - MARGIN - 20);
}
static double y_of(const axes *a, double value)
{
    double span = a->high_y - a->low_y;
    return 30 + (1 - (log10(value) - a->low_y) / (span > 0 ? span : 1)) * (PLOT_H - 70);
}

static double shown(const comm_result *r, double us, int size, bool bandwidth)
{
    double algbw, busbw;
    comm_bandwidths(&r->plan, r->plan.sizes[size], us, &algbw, &busbw);
    return bandwidth ? busbw : us;
}

/* Series -1 is ours. */
static double series_value(const comm_result *r, int series, int size, bool bandwidth)
{
    double means[COMM_MAX_ROUNDS];
    summary s;
    if (series < 0) {
        summarise(r, size, &s);
        return shown(r, s.mean, size, bandwidth);
    }
    peer_means(r, series, size, means);
    return shown(r, comm_median(means, r->rounds), size, bandwidth);
}

static void axes_fit(const comm_result *results, int count, bool bandwidth, axes *a)
{
    *a = (axes){.low_x = 1e9, .low_y = 1e9, .high_x = -1e9, .high_y = -1e9, .left = bandwidth ? PLOT_W : 0};
    for (int i = 0; i < count; i++)
        for (int series = -1; series < results[i].peer_count; series++)
            for (int s = 0; s < results[i].plan.size_count; s++) {
                double y = log10(series_value(&results[i], series, s, bandwidth)), x = log2((double)results[i].plan.sizes[s]);
                if (!isfinite(y)) continue;
                a->low_x = fmin(a->low_x, x), a->high_x = fmax(a->high_x, x);
                a->low_y = fmin(a->low_y, floor(y)), a->high_y = fmax(a->high_y, ceil(y));
            }
}

static void axes_draw(lj_text *out, const axes *a, const char *title)
{
    char size[32];
    lj_text_add(out, "<text x='%d' y='18' font-size='14'>%s</text>\n", a->left + MARGIN, title);
    for (double y = a->low_y; y <= a->high_y + 0.01; y++)
        lj_text_add(out, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/><text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", a->left + MARGIN, a->left + PLOT_W - 20, y_of(a, pow(10, y)),
                    y_of(a, pow(10, y)), a->left + MARGIN - 4, y_of(a, pow(10, y)) + 4, pow(10, y));
    for (double x = a->low_x; x <= a->high_x + 0.01; x += 4)
        lj_text_add(out, "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n", x_of(a, exp2(x)), PLOT_H - 22, lj_size_format(exp2(x), size, sizeof size));
}

static void series_draw(lj_text *out, const comm_result *r, int series, const axes *a, bool bandwidth, const char *colour)
{
    lj_text_add(out, "<polyline fill='none' stroke='%s' stroke-width='%s' points='", colour, series < 0 ? "2.5" : "1.5");
    for (int s = 0; s < r->plan.size_count; s++) {
        double value = series_value(r, series, s, bandwidth);
        if (isfinite(value) && value > 0) lj_text_add(out, "%.1f,%.1f ", x_of(a, (double)r->plan.sizes[s]), y_of(a, value));
    }
    lj_text_add(out, "'/>\n");
}

lj_status comm_write_svg(const comm_result *results, int count, const char *path)
{
    static const char *const titles[] = {"time of a call, us", "bus bandwidth, GB/s"};
    lj_text out;
    int line = 0, lines = 0;
    for (int i = 0; i < count; i++) lines += 1 + results[i].peer_count;
    lj_text_init(&out);
    lj_text_add(&out, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n", 2 * PLOT_W, PLOT_H + lines * LINE_H);
    for (int half = 0; half < 2; half++) {
        axes a;
        axes_fit(results, count, half, &a);
        axes_draw(&out, &a, titles[half]);
        int number = 0;
        for (int i = 0; i < count; i++)
            for (int series = -1; series < results[i].peer_count; series++) series_draw(&out, &results[i], series, &a, half, colours[number++ % 9]);
    }
    for (int i = 0; i < count; i++)
        for (int series = -1; series < results[i].peer_count; series++, line++)
            lj_text_add(&out, "<text x='%d' y='%d' fill='%s'>%s, %s, %d ranks</text>\n", MARGIN, PLOT_H + line * LINE_H, colours[line % 9], series < 0 ? "ACCL" : results[i].peer_names[series],
                        comm_names[results[i].plan.collective], results[i].plan.ranks);
    lj_text_add(&out, "</svg>\n");
    lj_status status = lj_text_status(&out);
    if (status == LJ_OK) status = lj_file_write(path, out.data, out.length);
    lj_text_release(&out);
    return status;
}
