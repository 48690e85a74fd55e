/* How far a long command is, on standard error: a bar on a terminal, a line every ten seconds elsewhere, nothing under --quiet. */
#ifndef LJ_CLI_PROGRESS_H
#define LJ_CLI_PROGRESS_H

#include "base/parallel.h"

#include <stdbool.h>

typedef struct {
    const char *what; /* "convert" */
    double started, shown;
    bool quiet, terminal, drawn;
} lj_progress_bar;

void lj_progress_bar_begin(lj_progress_bar *bar, const char *what, bool quiet);
/* An lj_progress_fn over bytes; user is the bar. */
void lj_progress_bar_update(void *bar, uint64_t done, uint64_t total);
/* Ends the bar's line. */
void lj_progress_bar_end(lj_progress_bar *bar);

#endif
