#include "train/plot.h"

#include "base/file.h"
#include "base/memory.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const lj_plot_panel lj_plot_panels[LJ_PLOT_PANELS] = {
    {"loss (dotted: held out)", LJ_PLOT_LOSS, LJ_PLOT_EVAL},
    {"learning rate", LJ_PLOT_LR, LJ_PLOT_SERIES},
    {"gradient norm", LJ_PLOT_NORM, LJ_PLOT_SERIES},
    {"tokens/s", LJ_PLOT_SPEED, LJ_PLOT_SERIES},
};

static const char *const keys[LJ_PLOT_SERIES] = {"loss", "eval_loss", "lr", "grad_norm", "tokens_per_s"};

static lj_status point_add(lj_plot_line *line, double x, double y)
{
    if (line->count == line->capacity) {
        size_t wanted = 2 * line->capacity + 64;
        double *xs = realloc(line->x, wanted * sizeof *xs);
        if (xs) line->x = xs;
        double *ys = realloc(line->y, wanted * sizeof *ys);
        if (ys) line->y = ys;
        if (!xs || !ys) return lj_fail(LJ_ERR_NOMEM, "%zu points", wanted);
        line->capacity = wanted;
    }
    line->x[line->count] = x, line->y[line->count++] = y;
    return LJ_OK;
}

static lj_status record_add(lj_plot_run *run, const json_t *record)
{
    const json_t *step = json_object_get(record, "step");
    if (!json_is_number(step)) return lj_fail(LJ_ERR_FORMAT, "no \"step\"");
    for (int s = 0; s < LJ_PLOT_SERIES; s++) {
        const json_t *value = json_object_get(record, keys[s]);
        if (json_is_number(value) && isfinite(json_number_value(value)))
            LJ_TRY(point_add(&run->lines[s], json_number_value(step), json_number_value(value)));
    }
    return LJ_OK;
}

static lj_status lines_read(lj_plot_run *run, const char *path, const char *data, size_t bytes)
{
    size_t number = 1;
    for (size_t at = 0; at < bytes; number++) {
        const char *end = memchr(data + at, '\n', bytes - at);
        if (!end) return LJ_OK; /* torn */
        size_t length = (size_t)(end - data) - at;
        json_error_t error;
        json_t *record = json_loadb(data + at, length, JSON_REJECT_DUPLICATES, &error);
        lj_status status = record ? record_add(run, record) : lj_fail(LJ_ERR_FORMAT, "%s", error.text);
        json_decref(record);
        LJ_TRY(lj_fail_in(status, "%s: line %zu", path, number));
        at += length + 1;
    }
    return LJ_OK;
}

lj_status lj_plot_add(lj_plot *plot, const char *run)
{
    char path[4096];
    struct stat info;
    lj_mapped_file file;
    if (plot->count == LJ_PLOT_MAX_RUNS) return lj_fail(LJ_ERR_LIMIT, "more than %d runs in one drawing", LJ_PLOT_MAX_RUNS);
    bool folder = stat(run, &info) == 0 && S_ISDIR(info.st_mode);
    snprintf(path, sizeof path, folder ? "%s/metrics.jsonl" : "%s", run);
    LJ_TRY(lj_mapped_file_init(&file, path));
    lj_plot_run *added = &plot->runs[plot->count++];
    added->name = strdup(run);
    lj_status status = added->name ? lines_read(added, path, (const char *)file.data, file.bytes) : lj_fail(LJ_ERR_NOMEM, "name of a run");
    lj_mapped_file_release(&file);
    LJ_TRY(status);
    return added->lines[LJ_PLOT_LOSS].count ? LJ_OK : lj_fail(LJ_ERR_INVALID, "%s: holds no training step yet", path);
}

void lj_plot_release(lj_plot *plot)
{
    for (size_t i = 0; i < plot->count; i++) {
        for (int s = 0; s < LJ_PLOT_SERIES; s++) free(plot->runs[i].lines[s].x), free(plot->runs[i].lines[s].y);
        free(plot->runs[i].name);
    }
    *plot = (lj_plot){0};
}

static void widen(const lj_plot_line *line, double x[2], double y[2])
{
    for (size_t i = 0; i < line->count; i++) {
        x[0] = fmin(x[0], line->x[i]), x[1] = fmax(x[1], line->x[i]);
        y[0] = fmin(y[0], line->y[i]), y[1] = fmax(y[1], line->y[i]);
    }
}

bool lj_plot_range(const lj_plot *plot, const lj_plot_panel *panel, double x[2], double y[2])
{
    x[0] = y[0] = INFINITY, x[1] = y[1] = -INFINITY;
    for (size_t i = 0; i < plot->count; i++) {
        widen(&plot->runs[i].lines[panel->series], x, y);
        if (panel->second < LJ_PLOT_SERIES) widen(&plot->runs[i].lines[panel->second], x, y);
    }
    if (x[0] > x[1]) return false;
    if (x[0] == x[1]) x[0] -= 0.5, x[1] += 0.5;
    if (y[0] == y[1]) y[0] -= 0.5 * fabs(y[0]) + 1e-12, y[1] += 0.5 * fabs(y[1]) + 1e-12;
    return true;
}
