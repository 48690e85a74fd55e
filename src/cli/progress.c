#include "cli/progress.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_CELLS = 30 };

void lj_progress_bar_begin(lj_progress_bar *bar, const char *what, bool quiet)
{
    double now = lj_now_s();
    *bar = (lj_progress_bar){.what = what, .started = now, .shown = now, .quiet = quiet, .terminal = isatty(STDERR_FILENO)};
}

static void draw(lj_progress_bar *bar, uint64_t done, uint64_t total, double seconds)
{
    char have[32], all[32], rate[32], cells[BAR_CELLS + 1];
    double share = total ? (double)done / (double)total : 1;
    memset(cells, ' ', BAR_CELLS);
    memset(cells, '#', (size_t)(share * BAR_CELLS));
    cells[BAR_CELLS] = 0;
    lj_size_format((double)done, have, sizeof have);
    lj_size_format((double)total, all, sizeof all);
    lj_size_format(seconds > 0 ? (double)done / seconds : 0, rate, sizeof rate);
    double left = done ? seconds * (double)(total - done) / (double)done : 0;
    if (bar->terminal)
        fprintf(stderr, "\r%s [%s] %3.0f%%  %s of %s  %s/s  %.0f s left \033[K", bar->what, cells, 100 * share, have, all, rate, left);
    else
        fprintf(stderr, "%s: %3.0f%%, %s of %s, %s/s, %.0f s left\n", bar->what, 100 * share, have, all, rate, left);
    bar->drawn = true;
}

void lj_progress_bar_update(void *user, uint64_t done, uint64_t total)
{
    lj_progress_bar *bar = user;
    double now = lj_now_s(), pause = bar->terminal ? 0.1 : 10;
    if (bar->quiet || (now - bar->shown < pause && !(bar->drawn && done == total))) return;
    bar->shown = now;
    draw(bar, done, total, now - bar->started);
}

void lj_progress_bar_end(lj_progress_bar *bar)
{
    if (bar->drawn && bar->terminal) fputc('\n', stderr);
}
