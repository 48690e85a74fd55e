/* Host C: signature, buffers, sizes; the groups one after the other. Threads share the work by position, so the result does not
 * depend on their number. */
#include "codegen/express.h"
#include "codegen/host.h"

#include <string.h>

static const char signature[] = "(void *const *buffers, const int64_t *sizes, int thread, int threads)\n";

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

/* Declares what the body names: it is printed after the body is known. */
static void print_declarations(lj_text *out, const lj_lowered *lowered, const char *body, bool scratch)
{
    char name[32];
    for (int i = 0; i < lowered->buffer_count; i++) {
        const lj_buffer_row *row = &lowered->buffers[i];
        snprintf(name, sizeof name, "b%d", i);
        if (row->same_as >= 0 || !lj_text_names(body, name)) continue;
        bool written = row->written;
        for (int r = lowered->input_count; r < lowered->buffer_count; r++) written |= lowered->buffers[r].same_as == i;
        const char *type = lj_memory_type(row->dtype);
        lj_text_add(out, "    %s%s *restrict b%d = buffers[%d];\n", written ? "" : "const ", type, i, i);
    }
    if (scratch && lj_text_names(body, "scratch"))
        lj_text_add(out, "    %s *restrict scratch = buffers[%d];\n", lj_register_type(lowered->groups[0]->column_dtype), lowered->buffer_count);
    for (int i = 0; i < lowered->symbol_count; i++) {
        snprintf(name, sizeof name, "s%d", i);
        if (lj_text_names(body, name)) lj_text_add(out, "    const int64_t s%d = sizes[%d];\n", i, i);
    }
}

static void print_function(lj_text *out, const lj_lowered *lowered, lj_text *body)
{
    static const char *const parameters[] = {"sizes", "thread", "threads"};
    lj_text declarations;
    lj_text_init(&declarations);
    print_declarations(&declarations, lowered, body->data ? body->data : "", true);
    lj_text_add(out, "%s{\n", signature);
    for (int i = 0; i < 3; i++)
        if (!lj_text_names(body->data, parameters[i]) && !(declarations.data && lj_text_names(declarations.data, parameters[i])))
            lj_text_add(out, "    (void)%s;\n", parameters[i]);
    lj_text_add(out, "%s%s    return 0;\n}\n", declarations.data ? declarations.data : "", body->data);
    out->failed |= declarations.failed | body->failed;
    lj_text_release(&declarations);
}

static lj_printer printer_of(const lj_lowered *lowered, lj_text *out)
{
    return (lj_printer){.out = out, .dialect = LJ_DIALECT_HOST_C, .lowered = lowered, .indent = 1, .inner_name = "j"};
}

static lj_status flags_alloc(lj_printer *p, lj_arena *arena)
{
    size_t count = (size_t)p->group->stmt_count + 1;
    p->emitted = lj_arena_alloc(arena, count);
    p->needed = lj_arena_alloc(arena, count);
    p->key_done = lj_arena_alloc(arena, count);
    return p->emitted && p->needed && p->key_done ? LJ_OK : LJ_ERR_NOMEM;
}

static lj_status print_group(const lj_lowered *lowered, int g, lj_text *run, lj_text *finish, lj_arena *arena)
{
    lj_printer p = printer_of(lowered, run), f = printer_of(lowered, finish);
    p.group = f.group = lowered->groups[g];
    LJ_TRY(flags_alloc(&p, arena));
    LJ_TRY(flags_alloc(&f, arena));
    if (p.group->reduced_count)
        lj_host_columns(&p, &f);
    else
        lj_host_rows(&p);
    return LJ_OK;
}

static lj_status print_bodies(const lj_lowered *lowered, lj_text *run, lj_text *finish)
{
    lj_arena arena;
    lj_status status = LJ_OK;
    lj_arena_init(&arena, "kernel text");
    if (lowered->form != LJ_KERNEL_LOOPS) {
        lj_printer p = printer_of(lowered, run);
        lj_host_single(&p);
    }
    for (int g = 0; g < lowered->group_count && status == LJ_OK; g++) status = print_group(lowered, g, run, finish, &arena);
    lj_arena_release(&arena);
    return status;
}

lj_status lj_emit_host_c(const lj_lowered *lowered, lj_isa isa, lj_source *source)
{
    lj_text run, finish;
    lj_text_init(&run), lj_text_init(&finish);
    (void)isa; /* the text is the same for each: width is a matter of the helpers and of flags */
    lj_text_add(&run, "%s", ""), lj_text_add(&finish, "%s", "");
    lj_status status = print_bodies(lowered, &run, &finish);
    if (status == LJ_OK) {
        print_function(&source->run, lowered, &run);
        if (finish.length) print_function(&source->finish, lowered, &finish);
        source->scratch_bytes = lj_lowered_scratch(lowered);
        status = lj_text_status(&source->run);
    }
    if (status == LJ_OK && finish.length) status = lj_text_status(&source->finish);
    if (status == LJ_OK) {
        lj_helpers_scan(&source->helpers, LJ_DIALECT_HOST_C, source->run.data);
        if (finish.length) lj_helpers_scan(&source->helpers, LJ_DIALECT_HOST_C, source->finish.data);
    }
    lj_text_release(&run), lj_text_release(&finish);
    return status;
}

/* -- units ----------------------------------------------------------------------------------------------------------------- */

lj_status lj_print_unit(lj_text *out, lj_dialect dialect, const lj_source *const *sources, const char *const *names, size_t count, int vector_bytes)
{
    lj_helper_set helpers = {{0}};
    bool host = dialect == LJ_DIALECT_HOST_C;
    for (size_t i = 0; i < count; i++) lj_helpers_merge(&helpers, &sources[i]->helpers);
    lj_text_add(out, "/* Generated by ljperf. */\n");
    lj_text_add(out, "%s", host ? "#include <stdint.h>\n#include <string.h>\n\n" : "");
    lj_helpers_print(out, dialect, &helpers, vector_bytes);
    for (size_t i = 0; i < count; i++) {
        const char *type = host ? "int" : "extern \"C\" __global__ void";
        if (host) lj_text_add(out, "int %s(void *const *, const int64_t *, int, int);\n", names[i]);
        lj_text_add(out, "%s %s%s\n", type, names[i], sources[i]->run.data);
        if (!sources[i]->finish.length) continue;
        if (host) lj_text_add(out, "int %s_finish(void *const *, const int64_t *, int, int);\n", names[i]);
        lj_text_add(out, "%s %s_finish%s\n", type, names[i], sources[i]->finish.data);
    }
    return lj_text_status(out);
}
