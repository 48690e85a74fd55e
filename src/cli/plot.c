/* ljperf plot: loss, learning rate, gradient norm and speed of runs, in the terminal and as SVG. */
#include "base/file.h"
#include "cli/commands.h"
#include "train/plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lj_status runs_read(const lj_command_input *input, lj_plot *plot)
{
    for (size_t i = 0; i < input->argument_count; i++) LJ_TRY(lj_plot_add(plot, input->arguments[i]));
    return LJ_OK;
}

static lj_status plot_show(const lj_command_input *input, const lj_plot *plot)
{
    const char *svg = lj_config_string(input->config, LJ_CFG_svg);
    lj_text out;
    lj_text_init(&out);
    if (*svg)
        lj_plot_svg(plot, &out);
    else
        lj_plot_text(plot, &out);
    lj_status status = lj_text_status(&out);
    if (status == LJ_OK && *svg) status = lj_file_write(svg, out.data, out.length);
    if (status == LJ_OK && !*svg) fwrite(out.data, 1, out.length, stdout);
    if (status == LJ_OK && *svg && strcmp(svg, "-") != 0) lj_log(LJ_LOG_INFO, "wrote %s", svg);
    lj_text_release(&out);
    return status;
}

int lj_command_plot(const lj_command_input *input)
{
    lj_plot plot = {0};
    if (input->argument_count == 0) {
        (void)lj_fail(LJ_ERR_INVALID, "which run? give one or more folders that `ljperf train --out` made");
        return LJ_EXIT_USAGE;
    }
    lj_status status = runs_read(input, &plot);
    if (status == LJ_OK) status = plot_show(input, &plot);
    lj_plot_release(&plot);
    return lj_exit(status);
}
