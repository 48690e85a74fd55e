/* The two drawings. */
#include "train/plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 520, HEIGHT = 260, LEFT = 64, BELOW = 30, ABOVE = 26, COLUMNS = 72, ROWS = 12 };

static const char *const colours[LJ_PLOT_MAX_RUNS] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};
static const char marks[LJ_PLOT_MAX_RUNS] = {'*', '+', 'o', 'x', '#', '@', '%', '='};

typedef struct {
    double x[2], y[2];
    int left, top; /* of the panel */
} frame;

static void escaped_add(lj_text *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
        lj_text_add(out, entity ? "%s" : "%.1s", entity ? entity : text);
    }
}

static void line_svg(const frame *f, const lj_plot_line *line, const char *colour, bool dotted, lj_text *out)
{
    if (line->count == 0) return;
    lj_text_add(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.3\"%s points=\"", colour, dotted ? " stroke-dasharray=\"2 3\"" : "");
    for (size_t i = 0; i < line->count; i++)
        lj_text_add(out, "%.1f,%.1f ", f->left + LEFT + (line->x[i] - f->x[0]) / (f->x[1] - f->x[0]) * (WIDTH - LEFT - 16),
                    f->top + HEIGHT - BELOW - (line->y[i] - f->y[0]) / (f->y[1] - f->y[0]) * (HEIGHT - ABOVE - BELOW));
    lj_text_add(out, "\"/>\n");
}

static void axes_svg(const frame *f, const char *title, lj_text *out)
{
    lj_text_add(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", f->left + LEFT, f->top + 16, title);
    for (int tick = 0; tick <= 4; tick++) {
        double share = tick / 4.0, y = f->top + HEIGHT - BELOW - share * (HEIGHT - ABOVE - BELOW);
        lj_text_add(out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n",
                    f->left + LEFT, y, f->left + WIDTH - 16, y, f->left + LEFT - 6, y + 4, f->y[0] + share * (f->y[1] - f->y[0]));
        lj_text_add(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n", f->left + LEFT + share * (WIDTH - LEFT - 16),
                    f->top + HEIGHT - 12, f->x[0] + share * (f->x[1] - f->x[0]));
    }
}

static void panel_svg(const lj_plot *plot, int index, lj_text *out)
{
    const lj_plot_panel *panel = &lj_plot_panels[index];
    frame f = {.left = index % 2 * WIDTH, .top = index / 2 * HEIGHT};
    if (!lj_plot_range(plot, panel, f.x, f.y)) return;
    axes_svg(&f, panel->title, out);
    for (size_t i = 0; i < plot->count; i++) {
        line_svg(&f, &plot->runs[i].lines[panel->series], colours[i], false, out);
        if (panel->second < LJ_PLOT_SERIES) line_svg(&f, &plot->runs[i].lines[panel->second], colours[i], true, out);
    }
}

void lj_plot_svg(const lj_plot *plot, lj_text *out)
{
    int height = 2 * HEIGHT + 20 * (int)plot->count + 10;
    lj_text_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n", 2 * WIDTH, height);
    lj_text_add(out, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    for (int i = 0; i < LJ_PLOT_PANELS; i++) panel_svg(plot, i, out);
    for (size_t i = 0; i < plot->count; i++) {
        int y = 2 * HEIGHT + 20 * (int)i + 8;
        lj_text_add(out, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"3\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">", LEFT, y, colours[i], LEFT + 20, y + 6);
        escaped_add(out, plot->runs[i].name);
        lj_text_add(out, "</text>\n");
    }
    lj_text_add(out, "</svg>\n");
}

static void line_text(const frame *f, const lj_plot_line *line, char mark, char cells[ROWS][COLUMNS + 1])
{
    for (size_t i = 0; i < line->count; i++) {
        int column = (int)((line->x[i] - f->x[0]) / (f->x[1] - f->x[0]) * (COLUMNS - 1) + 0.5);
        int row = (int)((line->y[i] - f->y[0]) / (f->y[1] - f->y[0]) * (ROWS - 1) + 0.5);
        cells[ROWS - 1 - row][column] = mark;
    }
}

static void panel_text(const lj_plot *plot, const lj_plot_panel *panel, lj_text *out)
{
    frame f = {.left = 0};
    char cells[ROWS][COLUMNS + 1];
    if (!lj_plot_range(plot, panel, f.x, f.y)) return;
    for (int r = 0; r < ROWS; r++) memset(cells[r], ' ', COLUMNS), cells[r][COLUMNS] = 0;
    for (size_t i = 0; i < plot->count; i++) {
        line_text(&f, &plot->runs[i].lines[panel->series], marks[i], cells);
        if (panel->second < LJ_PLOT_SERIES) line_text(&f, &plot->runs[i].lines[panel->second], '.', cells);
    }
    lj_text_add(out, "%s\n", panel->title);
    for (int r = 0; r < ROWS; r++) {
        bool labelled = r == 0 || r == ROWS - 1 || r == ROWS / 2;
        double value = f.y[1] - (double)r / (ROWS - 1) * (f.y[1] - f.y[0]);
        if (labelled)
            lj_text_add(out, "%11.4g |%s\n", value, cells[r]);
        else
            lj_text_add(out, "%11s |%s\n", "", cells[r]);
    }
    lj_text_add(out, "%11s +%.*s\n%13s%-36.6g%36.6g\n\n", "", COLUMNS, "------------------------------------------------------------------------", "", f.x[0], f.x[1]);
}

void lj_plot_text(const lj_plot *plot, lj_text *out)
{
    for (int i = 0; i < LJ_PLOT_PANELS; i++) panel_text(plot, &lj_plot_panels[i], out);
    for (size_t i = 0; i < plot->count; i++) lj_text_add(out, "%c %s\n", marks[i], plot->runs[i].name);
}
