/* ljperf compile: what the compiler makes of a model's program, pass by pass, and the plan of its memory. */
#include "cli/commands.h"
#include "ljperf/program.h"
#include "model/graphs.h"
#include "model/source.h"

#include <stdio.h>

static void print_dump(void *user, const char *pass, const char *text)
{
    (void)user;
    printf("# after %s\n%s", pass, text);
}

static lj_status graph_build(const lj_config *config, const lj_param_layout *layout, lj_graph **graph)
{
    static const lj_adamw_options adamw = {0.9, 0.95, 1e-8, 0.1};
    lj_model_graph_options options = {.first = true};
    LJ_TRY(lj_dtype_find(lj_config_string(config, LJ_CFG_dtype), &options.dtype));
    switch (*lj_config_string(config, LJ_CFG_program)) {
    case 'u': return lj_model_graph_update(layout, options.dtype, &adamw, graph);
    case 'e': return lj_model_graph_eval(layout, &options, graph);
    case 'd': return lj_model_graph_decode(layout, &options, graph);
    default: return lj_model_graph_micro(layout, &options, graph);
    }
}

static lj_status plan_print(const lj_config *config, lj_program *program, const lj_graph *graph)
{
    const lj_size all[] = {{"B", lj_config_int(config, LJ_CFG_batch)}, {"T", lj_config_int(config, LJ_CFG_seq)}, {"P", lj_config_int(config, LJ_CFG_seq)},
                           {"S", lj_config_int(config, LJ_CFG_seq)}};
    lj_size sizes[4];
    size_t count = 0;
    char workspace[32], scratch[32], bound[32];
    lj_plan_info info;
    for (size_t i = 0; i < 4; i++)
        if (lj_graph_has_symbol(graph, all[i].symbol)) sizes[count++] = all[i];
    LJ_TRY(lj_program_plan(program, sizes, count, &info));
    printf("%zu steps; workspace %s (largest scratch %s, fullest at step %zu), inputs and outputs %s\n", info.step_count,
           lj_size_format((double)info.workspace_bytes, workspace, sizeof workspace), lj_size_format((double)info.scratch_bytes, scratch, sizeof scratch),
           info.peak_step, lj_size_format((double)(info.input_bytes + info.output_bytes), bound, sizeof bound));
    lj_counters counters = lj_counters_get();
    printf("%llu compiler runs, %llu kernels from the cache, %.2f s\n", (unsigned long long)counters.compiles, (unsigned long long)counters.cache_hits,
           counters.compile_s);
    return LJ_OK;
}

static lj_status compile_layout(const lj_config *config, const lj_param_layout *layout)
{
    lj_graph *graph;
    lj_program *program = NULL;
    const char *after = lj_config_string(config, LJ_CFG_dump_after), *disable = lj_config_string(config, LJ_CFG_disable);
    LJ_TRY(graph_build(config, layout, &graph));
    lj_program_options options = {.threads = (int)lj_config_int(config, LJ_CFG_threads),
                                  .eager = !lj_config_bool(config, LJ_CFG_compile),
                                  .disable = *disable ? disable : NULL,
                                  .dump_after = *after ? after : NULL,
                                  .recompute = lj_config_string(config, LJ_CFG_recompute),
                                  .dump = print_dump,
                                  .name = lj_config_string(config, LJ_CFG_program)};
    lj_status status = lj_program_compile(graph, &options, &program);
    if (status == LJ_OK) status = plan_print(config, program, graph);
    lj_program_destroy(program);
    lj_graph_destroy(graph);
    return status;
}

int lj_command_compile(const lj_command_input *input)
{
    lj_model_source source;
    lj_param_layout layout;
    const char *model = lj_config_string(input->config, LJ_CFG_model);
    if (!*model) {
        (void)lj_fail(LJ_ERR_INVALID, "which model? give --model PRESET (ljperf models lists them), DIR or FILE.gguf");
        return LJ_EXIT_USAGE;
    }
    if (lj_model_source_open(model, &source) != LJ_OK) return LJ_EXIT_FAILED;
    lj_model_part part = lj_model_whole(&source.config);
    int64_t layers = lj_config_int(input->config, LJ_CFG_layers);
    if (layers && layers < part.layers) part.layers = layers;
    lj_status status = lj_layout_init(&layout, &source.config, part);
    if (status == LJ_OK) {
        status = compile_layout(input->config, &layout);
        lj_layout_release(&layout);
    }
    lj_model_source_close(&source);
    return lj_exit(status);
}
