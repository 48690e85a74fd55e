/* Drawings of metrics.jsonl: several runs over each other, a panel a quantity. */
#ifndef LJ_TRAIN_PLOT_H
#define LJ_TRAIN_PLOT_H

#include "base/text.h"

enum { LJ_PLOT_MAX_RUNS = 8 };

typedef enum { LJ_PLOT_LOSS, LJ_PLOT_EVAL, LJ_PLOT_LR, LJ_PLOT_NORM, LJ_PLOT_SPEED, LJ_PLOT_SERIES } lj_plot_series;

typedef struct {
    double *x, *y; /* steps, values; only finite ones */
    size_t count, capacity;
} lj_plot_line;

typedef struct {
    char *name; /* as given */
    lj_plot_line lines[LJ_PLOT_SERIES];
} lj_plot_run;

/* Zero-initialised = empty. One thread. */
typedef struct {
    lj_plot_run runs[LJ_PLOT_MAX_RUNS];
    size_t count;
} lj_plot;

/* Reads RUN/metrics.jsonl (or the file itself). LJ_ERR_IO, LJ_ERR_FORMAT (line), LJ_ERR_INVALID (no step yet), LJ_ERR_LIMIT (runs). A torn
 * last line, of a run that is still writing, is passed over. */
lj_status lj_plot_add(lj_plot *plot, const char *run);
void lj_plot_release(lj_plot *plot);

void lj_plot_svg(const lj_plot *plot, lj_text *out);
void lj_plot_text(const lj_plot *plot, lj_text *out);

/* Panels: what both drawings show, in order. A panel may hold a second series, drawn dotted (held-out loss beside loss). */
typedef struct {
    const char *title;
    lj_plot_series series, second; /* LJ_PLOT_SERIES: none */
} lj_plot_panel;
enum { LJ_PLOT_PANELS = 4 };
extern const lj_plot_panel lj_plot_panels[LJ_PLOT_PANELS];
/* Range of a panel over all runs, widened where it is a point. False when there is nothing to draw. */
bool lj_plot_range(const lj_plot *plot, const lj_plot_panel *panel, double x[2], double y[2]);

#endif
