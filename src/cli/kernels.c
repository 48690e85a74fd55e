/* ljperf kernels gemm: which provider was measured best for each shape of matrix product on this machine class. */
#include "cli/commands.h"
#include "kernels/gemm/gemm.h"

#include <stdio.h>
#include <string.h>

int lj_command_kernels(const lj_command_input *input)
{
    lj_text text;
    if (input->argument_count != 1 || strcmp(input->arguments[0], "gemm") != 0) {
        lj_fail(LJ_ERR_INVALID, "kernels: which table? take 'ljperf kernels gemm'");
        return LJ_EXIT_USAGE;
    }
    lj_text_init(&text);
    lj_status status = lj_gemm_choices_print(&text);
    if (status == LJ_OK && text.length == 0) printf("nothing measured yet on this machine class; a run of a model fills the table\n");
    if (status == LJ_OK && text.length) printf("%-64s %-8s %s\n%s", "shape (threads, types, transposes, sizes)", "provider", "GFLOPS of each", text.data);
    lj_text_release(&text);
    return lj_exit(status);
}
