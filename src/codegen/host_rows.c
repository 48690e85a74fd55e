/* The host schedule of row groups: a thread takes a run of rows; in each row, phase after phase, the row's statements, then one
 * loop an inner length. Values that a sum needs go through a small array, so that the loop over elements is plain (and becomes vector
 * code) and the sum has its fixed order. Elements are computed again in later phases rather than kept. */
#include "codegen/express.h"
#include "codegen/host.h"

#include <stdio.h>
#include <string.h>

void lj_host_share(lj_printer *p, const char *count, int unit)
{
    lj_print_line(p, "const int64_t count = %s;", count);
    lj_print_line(p, "const int64_t begin = share_begin(count, %d, thread, threads), end = share_begin(count, %d, thread + 1, threads);", unit, unit);
}

static bool atom_is_used(const lj_group *group, int atom)
{
    lj_dim coefficient;
    const lj_affine *at;
    for (int i = 0; i < group->stmt_count + group->store_count + group->atom_count; i++) {
        if (i < group->stmt_count)
            at = group->stmts[i].at;
        else if (i < group->stmt_count + group->store_count)
            at = group->stores[i - group->stmt_count].at;
        else
            at = group->atoms[i - group->stmt_count - group->store_count].from;
        if (at && (!lj_affine_coefficient(at, atom, &coefficient) || coefficient.factor)) return true;
    }
    return false;
}

lj_dim lj_outer_rows(const lj_group *group)
{
    lj_dim rows = lj_dim_const(1);
    for (int i = 0; i < group->outer_count; i++) rows = lj_dim_mul(rows, group->atoms[group->outer[i]].dim);
    return rows;
}

void lj_print_outer_indices(lj_printer *p)
{
    const lj_group *group = p->group;
    lj_dim inside = lj_dim_const(1);
    for (int i = group->outer_count - 1; i >= 0; i--) {
        char index[1200] = "row";
        if (i < group->outer_count - 1) snprintf(index, sizeof index, "row / %s", lj_dim_factor(inside));
        if (i > 0 && atom_is_used(group, group->outer[i]))
            lj_print_line(p, "const int64_t i%d = %s %% %s;", group->outer[i], index, lj_dim_factor(group->atoms[group->outer[i]].dim));
        else if (atom_is_used(group, group->outer[i]))
            lj_print_line(p, "const int64_t i%d = %s;", group->outer[i], index);
        inside = lj_dim_mul(inside, group->atoms[group->outer[i]].dim);
    }
}

/* -- reductions ------------------------------------------------------------------------------------------------------------ */

static bool is_block_reduce(const lj_stmt *stmt)
{
    return lj_dtype_rows[stmt->dtype].is_float;
}

const char *lj_start_text(lj_op op, lj_dtype dtype)
{
    static _Thread_local char buffer[64];
    lj_text text;
    lj_text_init(&text);
    if (op == LJ_OP_maximum)
        lj_express_least(&text, dtype);
    else
        lj_text_add(&text, "0");
    lj_print_lose(&text);
    snprintf(buffer, sizeof buffer, "%s", text.data ? text.data : "");
    lj_text_release(&text);
    return buffer;
}

const char *lj_combine_text(lj_op op, lj_dtype dtype, const char *a, const char *b)
{
    static _Thread_local char buffer[256];
    const lj_dtype types[2] = {dtype, dtype};
    const char *operands[2] = {a, b};
    lj_text text;
    lj_text_init(&text);
    bool narrow = dtype == LJ_BF16 || dtype == LJ_F16; /* added up in f32 */
    lj_express_op(&text, op == LJ_OP_sum ? LJ_OP_add : LJ_OP_max, narrow ? LJ_F32 : dtype, types, operands, false);
    lj_print_lose(&text);
    snprintf(buffer, sizeof buffer, "%s", text.data ? text.data : "");
    lj_text_release(&text);
    return buffer;
}

typedef struct {
    int phase, inner;
    bool has_block;
    lj_dim length;
} row_pass;

static bool in_pass(const lj_stmt *stmt, const row_pass *pass)
{
    return stmt->kind == LJ_STMT_REDUCE && stmt->over == pass->inner && stmt->phase == pass->phase + 1;
}

static int block_length(const row_pass *pass)
{
    bool known = lj_dim_is_number(pass->length) && pass->length.factor <= LJ_ROW_LIMIT;
    int64_t length = known ? (pass->length.factor + 15) / 16 * 16 : LJ_ROW_BLOCK;
    return length ? (int)length : 16;
}

static bool is_one_block(const row_pass *pass)
{
    return lj_dim_is_number(pass->length) && pass->length.factor <= LJ_ROW_LIMIT;
}

static void print_accumulators(lj_printer *p, const row_pass *pass)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        const lj_stmt *stmt = &p->group->stmts[i];
        if (!in_pass(stmt, pass)) continue;
        const char *type = lj_register_type(stmt->dtype), *start = lj_start_text(stmt->op, stmt->dtype);
        if (!is_block_reduce(stmt)) {
            lj_print_line(p, "%s a%d = %s;", type, i, start);
            continue;
        }
        if (stmt->op == LJ_OP_sum)
            lj_print_line(p, "%s a%d[16] = {0}, t%d[%d];", type, i, i, block_length(pass));
        else {
            lj_print_line(p, "%s a%d[16], t%d[%d];", type, i, i, block_length(pass));
            lj_print_line(p, "for (int k = 0; k < 16; k++) a%d[k] = %s;", i, start);
        }
    }
}

static void print_accumulate(lj_printer *p, const row_pass *pass)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        const lj_stmt *stmt = &p->group->stmts[i];
        if (!in_pass(stmt, pass)) continue;
        int v = stmt->operand[0];
        char a[16], b[16];
        snprintf(a, sizeof a, "a%d", i), snprintf(b, sizeof b, "v%d", v);
        if (is_block_reduce(stmt))
            lj_print_line(p, is_one_block(pass) ? "t%d[j] = v%d;" : "t%d[j - j0] = v%d;", i, v);
        else
            lj_print_line(p, "%s = %s;", a, lj_combine_text(stmt->op, stmt->dtype, a, b));
    }
}

static const char *reduce_name(const lj_stmt *stmt)
{
    return stmt->op == LJ_OP_sum ? "sum" : "max";
}

static void print_blocks(lj_printer *p, const row_pass *pass, const char *length)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        const lj_stmt *stmt = &p->group->stmts[i];
        if (in_pass(stmt, pass) && is_block_reduce(stmt))
            lj_print_line(p, "%s_block_%s(a%d, t%d, %s);", reduce_name(stmt), lj_register_suffix(stmt->dtype), i, i, length);
    }
}

static void print_totals(lj_printer *p, const row_pass *pass)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        const lj_stmt *stmt = &p->group->stmts[i];
        char total[64];
        if (!in_pass(stmt, pass)) continue;
        if (is_block_reduce(stmt))
            snprintf(total, sizeof total, "%s_lanes_%s(a%d)", reduce_name(stmt), lj_register_suffix(stmt->dtype), i);
        else
            snprintf(total, sizeof total, "a%d", i);
        lj_text text;
        lj_text_init(&text);
        if (stmt->op == LJ_OP_sum)
            lj_express_round(&text, stmt->dtype, total, p->group->stmts[stmt->operand[0]].clean);
        else
            lj_text_add(&text, "%s", total);
        lj_print_line(p, "const %s v%d = %s;", lj_register_type(stmt->dtype), i, text.data ? text.data : "");
        p->out->failed |= text.failed;
        lj_text_release(&text);
    }
}

/* -- passes ---------------------------------------------------------------------------------------------------------------- */

static int store_phase(const lj_printer *p, const lj_store *store)
{
    return p->group->stmts[store->statement].phase;
}

static bool has_work(const lj_printer *p, const row_pass *pass)
{
    for (int i = 0; i < p->group->stmt_count; i++)
        if (in_pass(&p->group->stmts[i], pass)) return true;
    for (int i = 0; i < p->group->store_count; i++)
        if (p->group->stores[i].inner == pass->inner && store_phase(p, &p->group->stores[i]) == pass->phase) return true;
    return false;
}

static bool store_in(const lj_printer *p, const lj_store *store, const row_pass *pass)
{
    return store->inner == pass->inner && store_phase(p, store) == pass->phase;
}

/* Row statements, positions and pointers that the pass needs. */
static void prepare(lj_printer *p, const row_pass *pass)
{
    for (int i = 0; i < p->group->stmt_count; i++)
        if (in_pass(&p->group->stmts[i], pass)) lj_print_need(p, p->group->stmts[i].operand[0]);
    for (int i = 0; i < p->group->store_count; i++) {
        const lj_store *store = &p->group->stores[i];
        if (store_in(p, store, pass)) lj_print_need_store(p, store);
    }
    lj_print_need_pointers(p, pass->inner);
    for (int i = 0; i < p->group->store_count; i++)
        if (store_in(p, &p->group->stores[i], pass)) lj_print_store_pointers(p, &p->group->stores[i]);
}

static void print_loop_body(lj_printer *p, const row_pass *pass)
{
    p->indent++;
    lj_print_elements(p);
    for (int i = 0; i < p->group->store_count; i++)
        if (store_in(p, &p->group->stores[i], pass)) lj_print_store(p, &p->group->stores[i]);
    print_accumulate(p, pass);
    p->indent--;
    lj_print_line(p, "}");
    lj_print_close_loop(p);
}

static void print_pass(lj_printer *p, row_pass *pass)
{
    const char *length = lj_dim_text(pass->length);
    char keep[256];
    snprintf(keep, sizeof keep, "%s", length);
    for (int i = 0; i < p->group->stmt_count; i++)
        pass->has_block |= in_pass(&p->group->stmts[i], pass) && is_block_reduce(&p->group->stmts[i]);
    prepare(p, pass);
    print_accumulators(p, pass);
    bool blocked = pass->has_block && !is_one_block(pass);
    if (blocked) {
        lj_print_line(p, "for (int64_t j0 = 0; j0 < %s; j0 += %d) {", keep, LJ_ROW_BLOCK);
        p->indent++;
        lj_print_line(p, "const int64_t j1 = least_i64(j0 + %d, %s);", LJ_ROW_BLOCK, keep);
    }
    lj_print_line(p, blocked ? "for (int64_t j = j0; j < j1; j++) {" : "for (int64_t j = 0; j < %s; j++) {", keep);
    print_loop_body(p, pass);
    print_blocks(p, pass, blocked ? "j1 - j0" : keep);
    if (blocked) {
        p->indent--;
        lj_print_line(p, "}");
    }
    print_totals(p, pass);
}

static void print_row_stores(lj_printer *p, int phase)
{
    for (int i = 0; i < p->group->store_count; i++) {
        const lj_store *store = &p->group->stores[i];
        if (store->inner >= 0 || store_phase(p, store) != phase) continue;
        lj_print_need_store(p, store);
        lj_print_store(p, store);
    }
}

static void print_phases(lj_printer *p)
{
    for (int phase = 0; phase < p->group->phase_count; phase++) {
        p->phase = phase;
        print_row_stores(p, phase);
        for (int inner = 0; inner < p->group->inner_count; inner++) {
            row_pass pass = {phase, inner, false, p->group->atoms[p->group->inner[inner]].dim};
            if (has_work(p, &pass)) print_pass(p, &pass);
        }
    }
}

/* One flat loop: threads share its elements, a cache line at the least. */
static void print_flat(lj_printer *p)
{
    row_pass pass = {0, 0, false, p->group->atoms[p->group->inner[0]].dim};
    prepare(p, &pass);
    lj_host_share(p, lj_dim_text(pass.length), 64);
    lj_print_line(p, "for (int64_t j = begin; j < end; j++) {");
    print_loop_body(p, &pass);
}

void lj_host_rows(lj_printer *p)
{
    const lj_group *group = p->group;
    bool flat = group->outer_count == 0 && group->inner_count == 1 && group->phase_count == 1;
    for (int i = 0; i < group->store_count; i++) flat &= group->stores[i].inner >= 0;
    lj_print_line(p, group->outer_count == 0 && !flat ? "if (thread == 0) {" : "{");
    p->indent++;
    lj_print_hoisted_stores(p);
    if (flat)
        print_flat(p);
    else if (group->outer_count == 0)
        print_phases(p);
    else {
        lj_host_share(p, lj_dim_text(lj_outer_rows(group)), 1);
        lj_print_line(p, "for (int64_t row = begin; row < end; row++) {");
        p->indent++;
        lj_print_outer_indices(p);
        print_phases(p);
        p->indent--;
        lj_print_line(p, "}");
    }
    p->indent--;
    lj_print_line(p, "}");
}
