/* Host C: signature, buffers, sizes; the groups one after the other. Threads share the work by position, so the result does not
 * depend on their number. */
#include "codegen/express.h"
#include "codegen/host.h"

#include <string.h>

static const char signature[] = "(void *const *buffers, const int64_t *sizes, int thread, int threads)";

int lj_isa_vector_bytes(lj_isa isa)
{
    return isa >= LJ_ISA_AVX512 ? 64 : isa == LJ_ISA_AVX2 ? 32 : 16;
}

bool lj_dim_is_number(lj_dim dim)
{
    for (int i = 0; i < LJ_MAX_SYMBOLS; i++)
        if (dim.power[i]) return false;
    return true;
}

void lj_source_init(lj_source *source)
{
    memset(source, 0, sizeof *source);
}

void lj_source_release(lj_source *source)
{
    lj_text_release(&source->run);
    lj_text_release(&source->finish);
}

/* Is buffer i a pointer of its own that the body names? */
static bool takes_buffer(const lj_lowered *lowered, int i, const char *body)
{
    char name[32];
    snprintf(name, sizeof name, "b%d", i);
    return lowered->buffers[i].same_as < 0 && lj_text_names(body, name);
}

static bool is_written(const lj_lowered *lowered, int buffer)
{
    bool written = lowered->buffers[buffer].written;
    for (int r = lowered->input_count; r < lowered->buffer_count; r++) written |= lowered->buffers[r].same_as == buffer;
    return written;
}

static bool takes_size(int i, const char *body)
{
    char name[32];
    snprintf(name, sizeof name, "s%d", i);
    return lj_text_names(body, name);
}

/* The body's parameters: compilers use `restrict` on parameters only. */
static void print_parameters(lj_text *out, const lj_lowered *lowered, const char *body, lj_dialect dialect)
{
    const char *restricted = dialect == LJ_DIALECT_HOST_C ? "restrict" : "__restrict__";
    for (int i = 0; i < lowered->buffer_count; i++)
        if (takes_buffer(lowered, i, body))
            lj_text_add(out, "%s%s *%s b%d, ", is_written(lowered, i) ? "" : "const ", lj_memory_type(lowered->buffers[i].dtype), restricted, i);
    if (lj_text_names(body, "scratch")) lj_text_add(out, "unsigned char *%s scratch, ", restricted);
    for (int i = 0; i < lowered->symbol_count; i++)
        if (takes_size(i, body)) lj_text_add(out, "const int64_t s%d, ", i);
    lj_text_add(out, dialect == LJ_DIALECT_HOST_C ? "const int thread, const int threads" : "int *error");
}

static void print_arguments(lj_text *out, const lj_lowered *lowered, const char *body, lj_dialect dialect)
{
    for (int i = 0; i < lowered->buffer_count; i++) {
        if (!takes_buffer(lowered, i, body)) continue;
        if (dialect == LJ_DIALECT_CUDA_C) lj_text_add(out, "(%s *)", lj_memory_type(lowered->buffers[i].dtype));
        lj_text_add(out, "buffers[%d], ", i);
    }
    if (lj_text_names(body, "scratch")) {
        if (dialect == LJ_DIALECT_CUDA_C) lj_text_add(out, "(unsigned char *)");
        lj_text_add(out, "buffers[%d], ", lowered->buffer_count);
    }
    for (int i = 0; i < lowered->symbol_count; i++)
        if (takes_size(i, body)) lj_text_add(out, "sizes[%d], ", i);
    lj_text_add(out, dialect == LJ_DIALECT_HOST_C ? "thread, threads" : "error");
}

static void print_host_entry(lj_text *out, const char *ending, const char *arguments)
{
    lj_text_add(out, "int @N%s%s;\nint @N%s%s\n{\n", ending, signature, ending, signature);
    if (!lj_text_names(arguments, "sizes")) lj_text_add(out, "    (void)sizes;\n");
    if (!lj_text_names(arguments, "buffers")) lj_text_add(out, "    (void)buffers;\n");
    lj_text_add(out, "    return @N%s_body(%s);\n}\n", ending, arguments);
}

/* `ending` of the function's name: "" or "_finish". */
static void print_function(lj_text *out, const lj_lowered *lowered, const lj_text *body, const char *ending, lj_dialect dialect)
{
    const char *text = body->data ? body->data : "";
    bool host = dialect == LJ_DIALECT_HOST_C;
    lj_text arguments;
    lj_text_init(&arguments);
    print_arguments(&arguments, lowered, text, dialect);
    lj_text_add(out, "static %s int @N%s_body(", host ? "__attribute__((noinline))" : "__device__", ending);
    print_parameters(out, lowered, text, dialect);
    lj_text_add(out, ")\n{\n");
    if (!host)
        lj_text_add(out, "    const int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;\n");
    if (!lj_text_names(text, "thread")) lj_text_add(out, "    (void)thread;\n");
    if (!lj_text_names(text, "threads")) lj_text_add(out, "    (void)threads;\n");
    if (!host && !lj_text_names(text, "error")) lj_text_add(out, "    (void)error;\n");
    lj_text_add(out, "%s    return 0;\n}\n\n", text);
    if (host)
        print_host_entry(out, ending, arguments.data ? arguments.data : "");
    else
        lj_text_add(out, "extern \"C\" __global__ void @N%s(void *const *buffers, const int64_t *sizes, int *error)\n{\n    if (@N%s_body(%s)) *error = 1;\n}\n",
                    ending, ending, arguments.data ? arguments.data : "");
    out->failed |= arguments.failed | body->failed;
    lj_text_release(&arguments);
}

static lj_printer printer_of(const lj_lowered *lowered, const lj_dialect_schedule *schedule, lj_text *out)
{
    return (lj_printer){.out = out, .dialect = schedule->dialect, .lowered = lowered, .indent = 1, .inner_name = "j"};
}

static lj_status flags_alloc(lj_printer *p, lj_arena *arena)
{
    size_t count = (size_t)p->group->stmt_count + 1;
    p->emitted = lj_arena_alloc(arena, count);
    p->needed = lj_arena_alloc(arena, count);
    p->key_done = lj_arena_alloc(arena, count);
    return p->emitted && p->needed && p->key_done ? LJ_OK : LJ_ERR_NOMEM;
}

static lj_status print_group(const lj_lowered *lowered, const lj_dialect_schedule *schedule, int g, lj_text *run, lj_text *finish, lj_arena *arena)
{
    lj_printer p = printer_of(lowered, schedule, run), f = printer_of(lowered, schedule, finish);
    p.group = f.group = lowered->groups[g];
    LJ_TRY(flags_alloc(&p, arena));
    LJ_TRY(flags_alloc(&f, arena));
    if (p.group->reduced_count)
        schedule->columns(&p, &f);
    else
        schedule->rows(&p);
    return LJ_OK;
}

static lj_status print_bodies(const lj_lowered *lowered, const lj_dialect_schedule *schedule, lj_text *run, lj_text *finish)
{
    lj_arena arena;
    lj_status status = LJ_OK;
    lj_arena_init(&arena, "kernel text");
    if (lowered->form != LJ_KERNEL_LOOPS) {
        lj_printer p = printer_of(lowered, schedule, run);
        schedule->single(&p);
    }
    for (int g = 0; g < lowered->group_count && status == LJ_OK; g++) status = print_group(lowered, schedule, g, run, finish, &arena);
    lj_arena_release(&arena);
    return status;
}

lj_status lj_emit(const lj_lowered *lowered, const lj_dialect_schedule *schedule, lj_source *source)
{
    lj_text run, finish;
    lj_text_init(&run), lj_text_init(&finish);
    lj_print_lost(); /* of an earlier kernel that failed */
    lj_status status = print_bodies(lowered, schedule, &run, &finish);
    if (status == LJ_OK) {
        print_function(&source->run, lowered, &run, "", schedule->dialect);
        if (finish.length) print_function(&source->finish, lowered, &finish, "_finish", schedule->dialect);
        source->scratch_bytes = lowered->scratch_bytes;
        status = lj_text_status(&source->run);
        if (lj_print_lost() || finish.failed) status = lj_fail(LJ_ERR_NOMEM, "kernel text: memory ran out while it was printed");
    }
    if (status == LJ_OK && finish.length) status = lj_text_status(&source->finish);
    if (status == LJ_OK) {
        lj_helpers_scan(&source->helpers, schedule->dialect, source->run.data);
        if (finish.length) lj_helpers_scan(&source->helpers, schedule->dialect, source->finish.data);
    }
    lj_text_release(&run), lj_text_release(&finish);
    return status;
}

lj_status lj_emit_host_c(const lj_lowered *lowered, lj_source *source)
{
    static const lj_dialect_schedule schedule = {LJ_DIALECT_HOST_C, lj_host_rows, lj_host_columns, lj_host_single};
    return lj_emit(lowered, &schedule, source);
}

/* -- units ----------------------------------------------------------------------------------------------------------------- */

void lj_print_named(lj_text *out, const char *text, const char *name)
{
    for (const char *mark; (mark = strstr(text, "@N")); text = mark + 2) {
        lj_text_add_bytes(out, text, (size_t)(mark - text));
        lj_text_add(out, "%s", name);
    }
    lj_text_add(out, "%s", text);
}

lj_status lj_print_unit(lj_text *out, lj_dialect dialect, const lj_source *const *sources, const char *const *names, size_t count, int vector_bytes)
{
    lj_helper_set helpers = {{0}};
    for (size_t i = 0; i < count; i++) lj_helpers_merge(&helpers, &sources[i]->helpers);
    lj_text_add(out, "/* Generated by ljperf. */\n%s", dialect == LJ_DIALECT_HOST_C ? "#include <stdint.h>\n#include <string.h>\n\n" : lj_cuda_prologue);
    lj_helpers_print(out, dialect, &helpers, vector_bytes);
    for (size_t i = 0; i < count; i++) {
        lj_print_named(out, sources[i]->run.data, names[i]);
        if (sources[i]->finish.length) lj_text_add(out, "\n"), lj_print_named(out, sources[i]->finish.data, names[i]);
        if (i + 1 < count) lj_text_add(out, "\n");
    }
    return lj_text_status(out);
}
