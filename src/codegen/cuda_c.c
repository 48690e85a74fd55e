/* CUDA C: the same groups under a schedule of its own. A group without reductions or row values is one loop over all threads of the grid;
 * a row that is reduced belongs to a block, whose threads share its elements; columns belong to threads, parts of rows to the grid's second
 * axis. Kernels with a form of their own run as on the host, each thread of the grid one of the team. */
#include "codegen/express.h"
#include "codegen/host.h"

#include <stdio.h>

const char lj_cuda_prologue[] = "#if defined(__CUDACC_RTC__)\ntypedef signed char int8_t;\ntypedef unsigned char uint8_t;\ntypedef unsigned short uint16_t;\ntypedef int int32_t;\n"
                                "typedef unsigned int uint32_t;\ntypedef long long int64_t;\ntypedef unsigned long long uint64_t;\n"
                                "#define INT32_MIN (-2147483647 - 1)\n#define INT32_MAX 2147483647\n#define UINT32_MAX 4294967295u\n"
                                "#define INT64_MIN (-9223372036854775807ll - 1)\n#define INT64_MAX 9223372036854775807ll\n"
                                "#define UINT64_MAX 18446744073709551615ull\n#else\n#include <stdint.h>\n#endif\n\n";

static void open(lj_printer *p, const char *line)
{
    lj_print_line(p, "%s", line);
    p->indent++;
}

static void close(lj_printer *p)
{
    p->indent--;
    lj_print_line(p, "}");
}

/* -- rows ------------------------------------------------------------------------------------------------------------------ */

typedef struct {
    int phase, inner;
} cuda_pass;

static bool reduces_in(const lj_stmt *stmt, const cuda_pass *pass)
{
    return stmt->kind == LJ_STMT_REDUCE && stmt->over == pass->inner && stmt->phase == pass->phase + 1;
}

static bool stores_in(const lj_printer *p, const lj_store *store, const cuda_pass *pass)
{
    return store->inner == pass->inner && p->group->stmts[store->statement].phase == pass->phase;
}

static bool has_work(const lj_printer *p, const cuda_pass *pass)
{
    for (int i = 0; i < p->group->stmt_count; i++)
        if (reduces_in(&p->group->stmts[i], pass)) return true;
    for (int i = 0; i < p->group->store_count; i++)
        if (stores_in(p, &p->group->stores[i], pass)) return true;
    return false;
}

static void prepare(lj_printer *p, const cuda_pass *pass)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        const lj_stmt *stmt = &p->group->stmts[i];
        if (!reduces_in(stmt, pass)) continue;
        lj_print_need(p, stmt->operand[0]);
        lj_print_line(p, "%s a%d = %s;", lj_register_type(stmt->dtype), i, lj_start_text(stmt->op, stmt->dtype));
    }
    for (int i = 0; i < p->group->store_count; i++)
        if (stores_in(p, &p->group->stores[i], pass)) lj_print_need_store(p, &p->group->stores[i]);
    lj_print_need_pointers(p, pass->inner);
    for (int i = 0; i < p->group->store_count; i++)
        if (stores_in(p, &p->group->stores[i], pass)) lj_print_store_pointers(p, &p->group->stores[i]);
}

static void print_body(lj_printer *p, const cuda_pass *pass)
{
    lj_print_elements(p);
    for (int i = 0; i < p->group->store_count; i++)
        if (stores_in(p, &p->group->stores[i], pass)) lj_print_store(p, &p->group->stores[i]);
    for (int i = 0; i < p->group->stmt_count; i++) {
        const lj_stmt *stmt = &p->group->stmts[i];
        char a[16], v[16];
        if (!reduces_in(stmt, pass)) continue;
        snprintf(a, sizeof a, "a%d", i), snprintf(v, sizeof v, "v%d", stmt->operand[0]);
        lj_print_line(p, "%s = %s;", a, lj_combine_text(stmt->op, stmt->dtype, a, v));
    }
}

static void print_totals(lj_printer *p, const cuda_pass *pass)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        const lj_stmt *stmt = &p->group->stmts[i];
        char total[48];
        lj_text text;
        if (!reduces_in(stmt, pass)) continue;
        lj_text_init(&text);
        snprintf(total, sizeof total, "block_%s(a%d)", stmt->op == LJ_OP_sum ? "sum" : "max", i);
        if (stmt->op == LJ_OP_sum && lj_dtype_rows[stmt->dtype].is_float)
            lj_express_round(&text, stmt->dtype, total, p->group->stmts[stmt->operand[0]].clean);
        else
            lj_text_add(&text, "%s", total);
        lj_print_line(p, "const %s v%d = %s;", lj_register_type(stmt->dtype), i, text.data ? text.data : "");
        p->out->failed |= text.failed;
        lj_text_release(&text);
    }
}

static void print_row_stores(lj_printer *p, int phase)
{
    for (int i = 0; i < p->group->store_count; i++) {
        const lj_store *store = &p->group->stores[i];
        if (store->inner >= 0 || p->group->stmts[store->statement].phase != phase) continue;
        lj_print_need_store(p, store);
        open(p, "if (threadIdx.x == 0) {");
        lj_print_store(p, store);
        close(p);
    }
}

static void print_phases(lj_printer *p)
{
    for (int phase = 0; phase < p->group->phase_count; phase++) {
        p->phase = phase;
        print_row_stores(p, phase);
        for (int inner = 0; inner < p->group->inner_count; inner++) {
            cuda_pass pass = {phase, inner};
            if (!has_work(p, &pass)) continue;
            prepare(p, &pass);
            lj_print_line(p, "for (int64_t j = threadIdx.x; j < %s; j += blockDim.x) {", lj_dim_text(p->group->atoms[p->group->inner[inner]].dim));
            p->indent++;
            print_body(p, &pass);
            close(p);
            lj_print_close_loop(p);
            print_totals(p, &pass);
        }
    }
}

static void print_flat(lj_printer *p)
{
    cuda_pass pass = {0, 0};
    prepare(p, &pass);
    lj_print_line(p, "for (int64_t j = thread; j < %s; j += threads) {", lj_dim_text(p->group->atoms[p->group->inner[0]].dim));
    p->indent++;
    print_body(p, &pass);
    close(p);
    lj_print_close_loop(p);
}

static void cuda_rows(lj_printer *p)
{
    const lj_group *group = p->group;
    bool flat = group->outer_count == 0 && group->inner_count == 1 && group->phase_count == 1;
    for (int i = 0; i < group->store_count; i++) flat &= group->stores[i].inner >= 0;
    open(p, "{");
    lj_print_hoisted_stores(p);
    if (flat)
        print_flat(p);
    else {
        lj_print_line(p, "for (int64_t row = blockIdx.x; row < %s; row += gridDim.x) {", lj_dim_text(lj_outer_rows(group)));
        p->indent++;
        lj_print_outer_indices(p);
        print_phases(p);
        close(p);
    }
    close(p);
}

/* -- columns --------------------------------------------------------------------------------------------------------------- */

static const char *rounded(const lj_printer *p, const char *value, char *buffer, size_t capacity)
{
    lj_text text;
    lj_text_init(&text);
    if (p->group->column_op == LJ_OP_sum && lj_dtype_rows[p->group->column_dtype].is_float)
        lj_express_round(&text, p->group->column_dtype, value, p->group->stmts[p->group->column_operand].clean);
    else
        lj_text_add(&text, "%s", value);
    snprintf(buffer, capacity, "%s", text.data ? text.data : "");
    lj_text_release(&text);
    return buffer;
}

static void print_combine(lj_printer *p, const char *to, const char *value)
{
    lj_print_line(p, "%s = %s;", to, lj_combine_text(p->group->column_op, p->group->column_dtype, to, value));
}

static void print_start(lj_printer *p, const char *name)
{
    lj_print_line(p, "%s %s = %s;", lj_register_type(p->group->column_dtype), name, lj_start_text(p->group->column_op, p->group->column_dtype));
}

static void print_level(lj_printer *p, int level, const char *name);

static void print_level_rows(lj_printer *p, int level, const char *name, const char *first, const char *last)
{
    int atom = p->group->reduced[level];
    char value[96], inside[16];
    lj_print_line(p, "for (int64_t i%d = %s; i%d < %s; i%d++) {", atom, first, atom, last, atom);
    p->indent++;
    if (level + 1 < p->group->reduced_count) {
        snprintf(inside, sizeof inside, "t%d", level + 1);
        print_level(p, level + 1, inside);
        print_combine(p, name, rounded(p, inside, value, sizeof value));
    } else {
        lj_print_need(p, p->group->column_operand);
        lj_print_need_pointers(p, 0);
        lj_print_elements(p);
        snprintf(value, sizeof value, "v%d", p->group->column_operand);
        print_combine(p, name, value);
        lj_print_close_loop(p);
    }
    close(p);
}

static void print_level(lj_printer *p, int level, const char *name)
{
    char part[16], first[32], last[96];
    snprintf(part, sizeof part, "u%d", level), snprintf(first, sizeof first, "r%d", level);
    snprintf(last, sizeof last, "least_i64(r%d + step%d, rows%d)", level, level, level);
    print_start(p, name);
    lj_print_line(p, "const int64_t rows%d = %s, step%d = step_rows(rows%d);", level, lj_dim_text(p->group->atoms[p->group->reduced[level]].dim),
                  level, level);
    lj_print_line(p, "for (int64_t r%d = 0; r%d < rows%d; r%d += step%d) {", level, level, level, level, level);
    p->indent++;
    print_start(p, part);
    print_level_rows(p, level, part, first, last);
    print_combine(p, name, part);
    close(p);
}

static void print_tail(lj_printer *p, const char *total)
{
    char value[96];
    lj_print_forget_rows(p);
    for (int i = 0; i < p->group->store_count; i++) lj_print_need_store(p, &p->group->stores[i]);
    for (int i = 0; i < p->group->stmt_count; i++)
        if (p->group->stmts[i].kind == LJ_STMT_TOTAL)
            lj_print_line(p, "const %s v%d = %s;", lj_register_type(p->group->column_dtype), i, rounded(p, total, value, sizeof value));
    lj_print_need_pointers(p, 0);
    for (int i = 0; i < p->group->store_count; i++) lj_print_store_pointers(p, &p->group->stores[i]);
    lj_print_elements(p);
    for (int i = 0; i < p->group->store_count; i++) lj_print_store(p, &p->group->stores[i]);
    lj_print_close_loop(p);
}

static void open_columns(lj_printer *p)
{
    lj_print_line(p, "for (int64_t j = thread; j < %s; j += threads) {", lj_dim_text(p->group->atoms[p->group->inner[0]].dim));
    p->indent++;
}

static void cuda_columns(lj_printer *p, lj_printer *finish)
{
    const lj_group *group = p->group;
    char columns[300];
    snprintf(columns, sizeof columns, "%s", lj_dim_factor(group->atoms[group->inner[0]].dim));
    open(p, "{");
    lj_print_hoisted_operand(p);
    if (group->outer_count) {
        lj_print_hoisted_stores(p);
        lj_print_line(p, "for (int64_t row = blockIdx.y; row < %s; row += gridDim.y) {", lj_dim_text(lj_outer_rows(group)));
        p->indent++;
        lj_print_outer_indices(p);
        open_columns(p);
        print_level(p, 0, "t0");
        print_tail(p, "t0");
        close(p), close(p), close(p);
        return;
    }
    lj_print_scratch(p);
    lj_print_line(p, "const int64_t rows0 = %s, step0 = step_rows(rows0);", lj_dim_text(group->atoms[group->reduced[0]].dim));
    lj_print_line(p, "for (int64_t part = blockIdx.y; part * step0 < rows0; part += gridDim.y) {");
    p->indent++;
    open_columns(p);
    print_start(p, "u0");
    print_level_rows(p, 0, "u0", "part * step0", "least_i64(part * step0 + step0, rows0)");
    lj_print_line(p, "sums[part * %s + j] = u0;", columns);
    close(p), close(p), close(p);
    open(finish, "{");
    lj_print_hoisted_stores(finish);
    lj_print_scratch(finish);
    lj_print_line(finish, "const int64_t rows0 = %s, step0 = step_rows(rows0);", lj_dim_text(group->atoms[group->reduced[0]].dim));
    open_columns(finish);
    char value[400];
    snprintf(value, sizeof value, "sums[part * %s + j]", columns);
    print_start(finish, "t0");
    lj_print_line(finish, "for (int64_t part = 0; part * step0 < rows0; part++) {");
    finish->indent++;
    print_combine(finish, "t0", value);
    close(finish);
    print_tail(finish, "t0");
    close(finish), close(finish);
}

lj_status lj_emit_cuda_c(const lj_lowered *lowered, lj_source *source)
{
    static const lj_dialect_schedule schedule = {LJ_DIALECT_CUDA_C, cuda_rows, cuda_columns, lj_host_single};
    return lj_emit(lowered, &schedule, source);
}
