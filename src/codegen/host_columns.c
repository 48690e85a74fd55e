/* The host schedule of column groups: sums over rows, vectorised along the columns. The rows of each level are added in parts of
 * step_rows(rows), the parts' sums then in order, so the result depends on the shape alone. Where nothing is kept outside the rows, parts
 * are work for threads: the first step leaves each part's sums in scratch, the second adds them and does what follows. */
#include "codegen/express.h"
#include "codegen/host.h"

#include <stdio.h>

static lj_dim column_count(const lj_group *group)
{
    return group->atoms[group->inner[0]].dim;
}

void lj_print_scratch(lj_printer *p)
{
    const char *type = lj_register_type(p->group->column_dtype);
    lj_print_line(p, "%s *sums = (%s *)(scratch + %s);", type, type, lj_dim_text(p->group->scratch_at));
}

static const char *type_of(const lj_printer *p)
{
    return lj_register_type(p->group->column_dtype);
}

/* Literal width when the columns are few: the loops then have a known length. */
static bool is_one_block(const lj_group *group)
{
    lj_dim columns = column_count(group);
    return lj_dim_is_number(columns) && columns.factor <= LJ_COLUMN_BLOCK;
}

static void open_columns(lj_printer *p)
{
    if (is_one_block(p->group))
        lj_print_line(p, "for (int64_t j = 0; j < %s; j++) {", lj_dim_text(column_count(p->group)));
    else
        lj_print_line(p, "for (int64_t j = c0; j < c1; j++) {");
    p->indent++;
}

static void close(lj_printer *p)
{
    p->indent--;
    lj_print_line(p, "}");
}

static const char *at_column(const lj_printer *p, const char *array, char *buffer)
{
    snprintf(buffer, 32, is_one_block(p->group) ? "%s[j]" : "%s[j - c0]", array);
    return buffer;
}

static void print_start(lj_printer *p, const char *name)
{
    char place[32];
    open_columns(p);
    lj_print_line(p, "%s = %s;", at_column(p, name, place), lj_start_text(p->group->column_op, p->group->column_dtype));
    close(p);
}

static void print_array(lj_printer *p, const char *name)
{
    bool one = is_one_block(p->group);
    int64_t length = column_count(p->group).factor;
    lj_print_line(p, "%s %s[%d];", type_of(p), name, one ? (int)(length ? length : 1) : LJ_COLUMN_BLOCK);
}

/* place(to) takes `value` in. */
static void print_combine(lj_printer *p, const char *to, const char *value)
{
    char place[32];
    at_column(p, to, place);
    lj_print_line(p, "%s = %s;", place, lj_combine_text(p->group->column_op, p->group->column_dtype, place, value));
}

static const char *rounded(const lj_printer *p, const char *value, char *buffer, size_t capacity)
{
    lj_text text;
    lj_text_init(&text);
    if (p->group->column_op == LJ_OP_sum && lj_dtype_rows[p->group->column_dtype].is_float)
        lj_express_round(&text, p->group->column_dtype, value, p->group->stmts[p->group->column_operand].clean);
    else
        lj_text_add(&text, "%s", value);
    lj_print_lose(&text);
    snprintf(buffer, capacity, "%s", text.data ? text.data : "");
    lj_text_release(&text);
    return buffer;
}

static void print_level(lj_printer *p, int level, const char *name);

/* The loop over rows first..last-1 of a level, added up in `name`. */
static void print_level_rows(lj_printer *p, int level, const char *name, const char *first, const char *last)
{
    int atom = p->group->reduced[level];
    char value[96], inside[16], place[32];
    lj_print_line(p, "for (int64_t i%d = %s; i%d < %s; i%d++) {", atom, first, atom, last, atom);
    p->indent++;
    if (level + 1 < p->group->reduced_count) {
        snprintf(inside, sizeof inside, "t%d", level + 1);
        print_level(p, level + 1, inside);
        open_columns(p);
        rounded(p, at_column(p, inside, place), value, sizeof value);
        print_combine(p, name, value);
        close(p);
    } else {
        lj_print_need(p, p->group->column_operand);
        lj_print_need_pointers(p, 0);
        snprintf(value, sizeof value, "v%d", p->group->column_operand);
        open_columns(p);
        lj_print_elements(p);
        print_combine(p, name, value);
        close(p);
        lj_print_close_loop(p);
    }
    close(p);
}

/* Declares array `name` and leaves the level's totals there, not yet rounded. */
static void print_level(lj_printer *p, int level, const char *name)
{
    char part[16], first[32], last[96], value[64], sum[16];
    snprintf(part, sizeof part, "u%d", level);
    snprintf(first, sizeof first, "r%d", level), snprintf(last, sizeof last, "least_i64(r%d + step%d, rows%d)", level, level, level);
    print_array(p, name), print_array(p, part);
    lj_print_line(p, "const int64_t rows%d = %s, step%d = step_rows(rows%d);", level, lj_dim_text(p->group->atoms[p->group->reduced[level]].dim),
                  level, level);
    lj_print_line(p, "for (int64_t r%d = 0; r%d < rows%d || r%d == 0; r%d += step%d) {", level, level, level, level, level, level);
    p->indent++;
    /* The first part is the total so far: adding it to the start would change no bit. */
    lj_print_line(p, "%s *sum%d = r%d ? %s : %s;", type_of(p), level, level, part, name);
    snprintf(sum, sizeof sum, "sum%d", level);
    print_start(p, sum);
    print_level_rows(p, level, sum, first, last);
    lj_print_line(p, "if (r%d == 0) continue;", level);
    open_columns(p);
    print_combine(p, name, at_column(p, part, value));
    close(p);
    close(p);
}

/* What follows the total, and the stores. */
static void print_tail(lj_printer *p, const char *total)
{
    char place[32], value[96];
    for (int i = 0; i < p->group->store_count; i++) lj_print_need_store(p, &p->group->stores[i]);
    lj_print_need_pointers(p, 0);
    for (int i = 0; i < p->group->store_count; i++) lj_print_store_pointers(p, &p->group->stores[i]);
    open_columns(p);
    for (int i = 0; i < p->group->stmt_count; i++)
        if (p->group->stmts[i].kind == LJ_STMT_TOTAL)
            lj_print_line(p, "const %s v%d = %s;", type_of(p), i, rounded(p, at_column(p, total, place), value, sizeof value));
    lj_print_elements(p);
    for (int i = 0; i < p->group->store_count; i++) lj_print_store(p, &p->group->stores[i]);
    close(p);
    lj_print_close_loop(p);
}

static void open_units(lj_printer *p, const char *others)
{
    bool one = is_one_block(p->group);
    char columns[300], count[700];
    snprintf(columns, sizeof columns, "%s", lj_dim_text(column_count(p->group)));
    if (!one) lj_print_line(p, "const int64_t blocks = (%s + %d) / %d;", columns, LJ_COLUMN_BLOCK - 1, LJ_COLUMN_BLOCK);
    snprintf(count, sizeof count, one ? "%s" : "%s * blocks", others);
    lj_host_share(p, count, 1);
    lj_print_line(p, "for (int64_t unit = begin; unit < end; unit++) {");
    p->indent++;
    if (!one) lj_print_line(p, "const int64_t c0 = unit %% blocks * %d, c1 = least_i64(c0 + %d, %s);", LJ_COLUMN_BLOCK, LJ_COLUMN_BLOCK, columns);
}

static const char *unit_index(const lj_printer *p)
{
    return is_one_block(p->group) ? "unit" : "unit / blocks";
}

static void print_parts(lj_printer *p)
{
    char count[16], place[32], columns[300];
    snprintf(count, sizeof count, "%d", LJ_COLUMN_PARTS);
    snprintf(columns, sizeof columns, "%s", lj_dim_factor(column_count(p->group)));
    lj_print_line(p, "const int64_t rows0 = %s, step0 = step_rows(rows0);", lj_dim_text(p->group->atoms[p->group->reduced[0]].dim));
    open_units(p, count);
    lj_print_line(p, "const int64_t part = %s, first = part * step0, last = least_i64(first + step0, rows0);", unit_index(p));
    print_array(p, "u0"), print_start(p, "u0");
    print_level_rows(p, 0, "u0", "first", "last");
    open_columns(p);
    lj_print_line(p, "sums[part * %s + j] = %s;", columns, at_column(p, "u0", place));
    close(p);
    close(p);
}

static void print_finish(lj_printer *p)
{
    char columns[300], value[400];
    snprintf(columns, sizeof columns, "%s", lj_dim_factor(column_count(p->group)));
    snprintf(value, sizeof value, "sums[part * %s + j]", columns);
    lj_print_line(p, "const int64_t rows0 = %s, step0 = step_rows(rows0);", lj_dim_text(p->group->atoms[p->group->reduced[0]].dim));
    open_units(p, "1");
    print_array(p, "t0"), print_start(p, "t0");
    lj_print_line(p, "for (int64_t part = 0; part * step0 < rows0; part++)");
    p->indent++;
    open_columns(p);
    print_combine(p, "t0", value);
    close(p);
    p->indent--;
    print_tail(p, "t0");
    close(p);
}

static void print_with_outer(lj_printer *p)
{
    char rows[300];
    snprintf(rows, sizeof rows, "%s", lj_dim_text(lj_outer_rows(p->group)));
    open_units(p, rows);
    lj_print_line(p, "const int64_t row = %s;", unit_index(p));
    lj_print_outer_indices(p);
    print_level(p, 0, "t0");
    lj_print_forget_rows(p);
    print_tail(p, "t0");
    close(p);
}

void lj_host_columns(lj_printer *p, lj_printer *finish)
{
    lj_print_line(p, "{");
    p->indent++;
    lj_print_hoisted_operand(p);
    if (!lj_group_has_scratch(p->group))
        lj_print_hoisted_stores(p), print_with_outer(p);
    else {
        lj_print_scratch(p);
        print_parts(p);
        lj_print_line(finish, "{");
        finish->indent++;
        lj_print_hoisted_stores(finish);
        lj_print_scratch(finish);
        print_finish(finish);
        close(finish);
    }
    close(p);
}
