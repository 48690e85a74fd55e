/* From graph to program: passes, grouping, kernels, storage. And the end of a program's life. */
#include "runtime/program.h"

#include "base/machine.h"
#include "passes/passes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t primitives;

void lj_count_primitive(void)
{
    atomic_fetch_add(&primitives, 1);
}

lj_counters lj_counters_get(void)
{
    lj_kernel_counters built = lj_kernel_counters_get();
    return (lj_counters){built.compiles, built.cache_hits, atomic_load(&primitives), built.compile_s};
}

void lj_program_destroy(lj_program *program)
{
    if (!program) return;
    for (size_t i = 0; i < program->plan_count; i++) lj_plan_destroy(program->plans[i]);
    for (size_t u = 0; program->kernels && u < program->units.count; u++) lj_kernel_destroy(program->kernels[u]);
    if (program->device) program->device->free(program->workspace);
    lj_units_release(&program->units);
    lj_graph_destroy(program->graph);
    lj_arena_release(&program->arena);
    lj_free(program);
}

static lj_status units_dump(const lj_program *program, const lj_program_options *options)
{
    if (!options->dump || !(lj_name_listed(options->dump_after, "fuse") || lj_name_listed(options->dump_after, "all"))) return LJ_OK;
    lj_text text;
    lj_text_init(&text);
    lj_status status = lj_units_print(program->graph, &program->units, &text);
    if (status == LJ_OK) options->dump(options->dump_user, "fuse", text.data ? text.data : "");
    lj_text_release(&text);
    return status;
}

/* Builds the kernels of all generated units in one go; kernels[u] belongs to unit u. */
static lj_status kernels_build(lj_program *program)
{
    size_t n = program->units.count, count = 0;
    const lj_graph **graphs = lj_arena_alloc(&program->arena, (n + 1) * sizeof *graphs);
    lj_kernel **built = lj_arena_alloc(&program->arena, (n + 1) * sizeof *built);
    program->kernels = lj_arena_alloc(&program->arena, (n + 1) * sizeof *program->kernels);
    if (!graphs || !built || !program->kernels) return lj_fail(LJ_ERR_NOMEM, "program");
    for (size_t u = 0; u < n; u++)
        if (program->units.units[u].kernel) graphs[count++] = program->units.units[u].kernel;
    LJ_TRY(lj_kernels_build(graphs, count, built));
    count = 0;
    for (size_t u = 0; u < n; u++)
        if (program->units.units[u].kernel) program->kernels[u] = built[count++];
    return LJ_OK;
}

static lj_status program_init(lj_program *program, const lj_program_options *options)
{
    lj_arena_init(&program->arena, "program");
    program->device = &lj_devices[0];
    program->threads = options->threads > 0 ? options->threads : lj_machine_get()->cores;
    program->eager = options->eager != 0;
    program->name = lj_arena_strdup(&program->arena, options->name ? options->name : "program");
    program->workspace_name = lj_arena_printf(&program->arena, "%s.workspace", options->name ? options->name : "program");
    return program->name && program->workspace_name ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "program");
}

static lj_status program_build(lj_program *program, const lj_graph *graph, const lj_program_options *options)
{
    LJ_TRY(program_init(program, options));
    LJ_TRY(lj_passes_run(graph, options, &program->graph));
    lj_fuse_options fuse = {.fuse = !program->eager && !lj_name_listed(options->disable, "fuse"), .accepts = lj_lower_accepts};
    LJ_TRY(lj_fuse(program->graph, &fuse, &program->units));
    LJ_TRY(units_dump(program, options));
    LJ_TRY(kernels_build(program));
    LJ_TRY(lj_storage_assign(program));
    program->pointers = lj_arena_alloc(&program->arena, (program->buffer_count + 1) * sizeof(void *));
    return program->pointers ? LJ_OK : lj_fail(LJ_ERR_NOMEM, "program");
}

lj_status lj_program_compile(const lj_graph *graph, const lj_program_options *options, lj_program **out)
{
    static const lj_program_options defaults = LJ_PROGRAM_OPTIONS_INIT;
    void *memory;
    LJ_TRY(lj_graph_status(graph));
    LJ_TRY(lj_alloc_zero("program", sizeof(lj_program), &memory));
    lj_program *program = memory;
    lj_status status = program_build(program, graph, options ? options : &defaults);
    if (status != LJ_OK) {
        lj_program_destroy(program);
        return status;
    }
    *out = program;
    return LJ_OK;
}
