/* Statements as lines. Row statements and derived positions are printed when something first needs them; element statements are
 * marked, and printed together when their loop is open. */
#include "codegen/print.h"

#include "codegen/express.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char *turn_buffer(void)
{
    static _Thread_local char buffers[8][1024];
    static _Thread_local unsigned turn;
    return buffers[turn++ % 8];
}

static const char *keep_text(lj_printer *p, lj_text *text)
{
    char *buffer = turn_buffer();
    if (text->length >= 1024) text->failed = true; /* far beyond what LJ_MAX_TERMS allows */
    p->out->failed |= text->failed;
    snprintf(buffer, 1024, "%s", text->data ? text->data : "");
    lj_text_release(text);
    return buffer;
}

void lj_print_line(lj_printer *p, const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof line) p->out->failed = true;
    lj_text_add(p->out, "%*s%s\n", p->indent * 4, "", line);
}

void lj_print_dim(lj_text *out, lj_dim dim)
{
    const char *separator = "";
    for (int i = 0; i < LJ_MAX_SYMBOLS; i++)
        for (int k = 0; k < dim.power[i]; k++) {
            lj_text_add(out, "%ss%d", separator, i);
            separator = " * ";
        }
    if (dim.factor != 1 || !*separator) lj_text_add(out, "%s%lld", separator, (long long)dim.factor);
}

/* Texts in fixed buffers have no printer to tell that memory ran out on the way. */
static _Thread_local bool lost;

void lj_print_lose(const lj_text *text)
{
    lost |= text->failed;
}

bool lj_print_lost(void)
{
    bool was = lost;
    lost = false;
    return was;
}

const char *lj_dim_text(lj_dim dim)
{
    char *buffer = turn_buffer();
    lj_text text;
    lj_text_init(&text);
    lj_print_dim(&text, dim);
    lj_print_lose(&text);
    snprintf(buffer, 1024, "%s", text.data ? text.data : "");
    lj_text_release(&text);
    return buffer;
}

const char *lj_dim_factor(lj_dim dim)
{
    const char *text = lj_dim_text(dim);
    if (!strchr(text, ' ')) return text;
    char *buffer = turn_buffer();
    snprintf(buffer, 1024, "(%.1000s)", text);
    return buffer;
}

static void print_atom(lj_printer *p, lj_text *out, int atom)
{
    const lj_atom *row = &p->group->atoms[atom];
    if (row->kind == LJ_ATOM_INNER)
        lj_text_add(out, "%s", p->inner_name);
    else
        lj_text_add(out, "i%d", atom);
}

void lj_print_affine(lj_printer *p, lj_text *out, const lj_affine *at)
{
    for (int i = 0; i < at->count; i++) {
        const lj_term *term = &at->term[i];
        bool constant = p->group->atoms[term->atom].kind == LJ_ATOM_ONE, one = lj_dim_is_const(term->coefficient, 1);
        if (i) lj_text_add(out, " + ");
        if (!constant) print_atom(p, out, term->atom);
        if (!constant && !one) lj_text_add(out, " * ");
        if (constant || !one) lj_print_dim(out, term->coefficient);
    }
    if (at->count == 0) lj_text_add(out, "0");
}

const char *lj_affine_text(lj_printer *p, const lj_affine *at)
{
    lj_text text;
    lj_text_init(&text);
    lj_print_affine(p, &text, at);
    return keep_text(p, &text);
}

/* -- places ---------------------------------------------------------------------------------------------------------------- */

/* The part of a position that stays while the inner loop runs. */
static lj_affine row_base(const lj_group *group, const lj_affine *at)
{
    lj_affine base = *at;
    for (int i = base.count - 1; i >= 0; i--)
        if (group->atoms[base.term[i].atom].inner >= 0) lj_affine_drop(&base, base.term[i].atom);
    return base;
}

static int find_pointer(const lj_printer *p, int buffer, const lj_affine *base)
{
    for (int i = 0; i < p->pointer_count; i++)
        if (p->pointer[i].buffer == buffer && lj_affine_equal(&p->pointer[i].base, base)) return i;
    return -1;
}

/* In place: both names are one pointer, so that the compiler sees that they meet. */
static int buffer_name(const lj_printer *p, int buffer)
{
    int same = p->lowered->buffers[buffer].same_as;
    return same >= 0 ? same : buffer;
}

void lj_print_need_pointer(lj_printer *p, int buffer, const lj_affine *at)
{
    lj_affine base = row_base(p->group, at);
    buffer = buffer_name(p, buffer);
    if (lj_affine_is_zero(&base) || find_pointer(p, buffer, &base) >= 0) return;
    if (p->pointer_count == 64) return; /* the place is then written out in full */
    bool written = false;
    for (int i = 0; i < p->lowered->buffer_count; i++)
        written |= p->lowered->buffers[i].written && buffer_name(p, i) == buffer;
    p->pointer[p->pointer_count].buffer = buffer, p->pointer[p->pointer_count].base = base;
    lj_print_line(p, "%s%s *p%d = b%d + %s;", written ? "" : "const ", lj_memory_type(p->lowered->buffers[buffer].dtype), p->pointer_count,
                  buffer, lj_affine_text(p, &base));
    p->pointer_count++;
}

const char *lj_place_text(lj_printer *p, int buffer, const lj_affine *at, bool in_loop)
{
    char *text = turn_buffer();
    lj_affine base = row_base(p->group, at), rest = *at;
    buffer = buffer_name(p, buffer);
    int pointer = in_loop ? find_pointer(p, buffer, &base) : -1;
    if (pointer < 0) {
        snprintf(text, 1024, "b%d[%s]", buffer, lj_affine_text(p, at));
        return text;
    }
    for (int i = 0; i < base.count; i++) lj_affine_drop(&rest, base.term[i].atom);
    snprintf(text, 1024, "p%d[%s]", pointer, lj_affine_text(p, &rest));
    return text;
}

/* -- statements ------------------------------------------------------------------------------------------------------------ */

static void express_operands(lj_printer *p, lj_text *out, const lj_stmt *stmt)
{
    char names[LJ_NEST_OPERANDS][16];
    const char *operands[LJ_NEST_OPERANDS];
    lj_dtype types[LJ_NEST_OPERANDS];
    bool clean = true;
    for (int i = 0; i < stmt->operand_count; i++) {
        const lj_stmt *operand = &p->group->stmts[stmt->operand[i]];
        snprintf(names[i], sizeof names[i], "v%d", stmt->operand[i]);
        operands[i] = names[i], types[i] = operand->dtype;
        clean &= operand->clean;
    }
    lj_express_op(out, stmt->op, stmt->dtype, types, operands, clean);
}

static void express(lj_printer *p, lj_text *out, const lj_stmt *stmt)
{
    char text[1100];
    switch (stmt->kind) {
    case LJ_STMT_CONST: lj_express_const(out, stmt->dtype, stmt->value); break;
    case LJ_STMT_LOAD: lj_express_load(out, stmt->dtype, lj_place_text(p, stmt->buffer, stmt->at, stmt->inner >= 0)); break;
    case LJ_STMT_OP: express_operands(p, out, stmt); break;
    case LJ_STMT_INDEX:
        snprintf(text, sizeof text, "(%s)", lj_affine_text(p, stmt->at));
        lj_express_cast(out, LJ_I64, stmt->dtype, text, true);
        break;
    case LJ_STMT_RANDOM: lj_text_add(out, "random_f32(k%d, %s)", (int)(stmt - p->group->stmts), lj_affine_text(p, stmt->at)); break;
    case LJ_STMT_REDUCE:
    case LJ_STMT_TOTAL: break; /* printed by the schedule */
    }
}

/* Ids are checked where they are loaded, against each table that they lead to. */
static void print_ids(lj_printer *p, int statement)
{
    for (int i = 0; i < p->group->atom_count; i++) {
        const lj_atom *atom = &p->group->atoms[i];
        if (atom->kind != LJ_ATOM_STATEMENT || atom->statement != statement) continue;
        if (p->dialect == LJ_DIALECT_CUDA_C) {
            lj_print_line(p, "const int64_t i%d = checked_id((int64_t)v%d, %s, error);", i, statement, lj_dim_text(atom->dim));
        } else {
            lj_print_line(p, "const int64_t i%d = (int64_t)v%d;", i, statement);
            lj_print_line(p, "if ((uint64_t)i%d >= (uint64_t)%s) return 1;", i, lj_dim_factor(atom->dim));
        }
    }
}

/* The store of an earlier phase from which a computed element can be read back: it holds the same bits. */
static const lj_store *reload_from(const lj_printer *p, int statement)
{
    const lj_stmt *stmt = &p->group->stmts[statement];
    if (stmt->kind != LJ_STMT_OP || stmt->inner < 0 || stmt->phase >= p->phase) return NULL;
    for (int i = 0; i < p->group->store_count; i++)
        if (p->group->stores[i].statement == statement) return &p->group->stores[i];
    return NULL;
}

static void print_statement(lj_printer *p, int statement)
{
    const lj_stmt *stmt = &p->group->stmts[statement];
    const lj_store *stored = reload_from(p, statement);
    if (p->emitted[statement]) return;
    p->emitted[statement] = true;
    if (stmt->kind == LJ_STMT_REDUCE || stmt->kind == LJ_STMT_TOTAL) return;
    lj_text text;
    lj_text_init(&text);
    if (stored)
        lj_express_load(&text, stmt->dtype, lj_place_text(p, stored->buffer, stored->at, true));
    else
        express(p, &text, stmt);
    lj_print_line(p, "const %s v%d = %s;", lj_register_type(stmt->dtype), statement, keep_text(p, &text));
    print_ids(p, statement);
}

static void print_derived(lj_printer *p, int atom)
{
    const lj_atom *row = &p->group->atoms[atom];
    if (p->atom_done[atom]) return;
    p->atom_done[atom] = true;
    lj_print_line(p, "const int64_t i%d = (%s) %c %s;", atom, lj_affine_text(p, row->from), row->kind == LJ_ATOM_QUOTIENT ? '/' : '%',
                  lj_dim_factor(row->dim));
}

/* Derived atoms that vary with the open inner loop. */
static void print_derived_inner(lj_printer *p, int atom)
{
    const lj_atom *row = &p->group->atoms[atom];
    if ((row->kind != LJ_ATOM_QUOTIENT && row->kind != LJ_ATOM_REMAINDER) || row->inner < 0) return;
    for (int i = 0; i < row->from->count; i++) print_derived_inner(p, row->from->term[i].atom);
    print_derived(p, atom);
}

static bool is_derived(const lj_atom *atom)
{
    return atom->kind == LJ_ATOM_QUOTIENT || atom->kind == LJ_ATOM_REMAINDER;
}

void lj_print_need_at(lj_printer *p, const lj_affine *at)
{
    for (int i = 0; at && i < at->count; i++) {
        int atom = at->term[i].atom;
        const lj_atom *row = &p->group->atoms[atom];
        if (row->kind == LJ_ATOM_STATEMENT) lj_print_need(p, row->statement);
        if (!is_derived(row)) continue;
        lj_print_need_at(p, row->from);
        if (row->inner < 0) print_derived(p, atom);
    }
}

static bool is_hoisted(const lj_stmt *stmt)
{
    return !stmt->row && stmt->inner < 0;
}

/* Is the statement stored as it was loaded, without a turn through float? */
static bool is_copy(const lj_stmt *stmt)
{
    return stmt->kind == LJ_STMT_LOAD && (stmt->dtype == LJ_BF16 || stmt->dtype == LJ_F16);
}

void lj_print_need_store(lj_printer *p, const lj_store *store)
{
    const lj_stmt *stmt = &p->group->stmts[store->statement];
    if (is_copy(stmt))
        lj_print_need_at(p, stmt->at);
    else
        lj_print_need(p, store->statement);
    lj_print_need_at(p, store->at);
}

void lj_print_store_pointers(lj_printer *p, const lj_store *store)
{
    const lj_stmt *stmt = &p->group->stmts[store->statement];
    if (is_copy(stmt)) lj_print_need_pointer(p, stmt->buffer, stmt->at);
    lj_print_need_pointer(p, store->buffer, store->at);
}

void lj_print_need(lj_printer *p, int statement)
{
    const lj_stmt *stmt = &p->group->stmts[statement];
    if (p->emitted[statement] || p->needed[statement] || stmt->kind == LJ_STMT_REDUCE || stmt->kind == LJ_STMT_TOTAL) return;
    if (stmt->inner >= 0) p->needed[statement] = true;
    const lj_store *stored = reload_from(p, statement);
    if (stored) {
        lj_print_need_at(p, stored->at);
        return;
    }
    lj_print_need_at(p, stmt->at);
    for (int i = 0; i < stmt->operand_count; i++) lj_print_need(p, stmt->operand[i]);
    if (stmt->kind == LJ_STMT_RANDOM && !p->key_done[statement]) {
        p->key_done[statement] = true;
        lj_print_line(p, "const uint64_t k%d = random_key((int64_t)v%d, %lld);", statement, stmt->operand[0], (long long)stmt->stream);
    }
    if (stmt->inner < 0) print_statement(p, statement);
}

static void hoist(lj_printer *p, int statement)
{
    const lj_stmt *stmt = &p->group->stmts[statement];
    if (is_hoisted(stmt)) lj_print_need(p, statement);
    for (int i = 0; i < stmt->operand_count; i++) hoist(p, stmt->operand[i]);
}

void lj_print_hoisted_stores(lj_printer *p)
{
    for (int i = 0; i < p->group->store_count; i++) hoist(p, p->group->stores[i].statement);
}

void lj_print_hoisted_operand(lj_printer *p)
{
    hoist(p, p->group->column_operand);
}

void lj_print_need_pointers(lj_printer *p, int inner)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        const lj_stmt *stmt = &p->group->stmts[i];
        if (!p->needed[i] || stmt->inner != inner) continue;
        const lj_store *stored = reload_from(p, i);
        if (stored) lj_print_need_pointer(p, stored->buffer, stored->at);
        if (stmt->kind == LJ_STMT_LOAD) lj_print_need_pointer(p, stmt->buffer, stmt->at);
    }
}

void lj_print_elements(lj_printer *p)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        if (!p->needed[i]) continue;
        const lj_affine *at = p->group->stmts[i].at;
        for (int k = 0; at && k < at->count; k++) print_derived_inner(p, at->term[k].atom);
        print_statement(p, i);
    }
}

void lj_print_close_loop(lj_printer *p)
{
    for (int i = 0; i < p->group->stmt_count; i++)
        if (p->needed[i]) p->needed[i] = p->emitted[i] = false;
    for (int i = 0; i < p->group->atom_count; i++)
        if (p->group->atoms[i].inner >= 0) p->atom_done[i] = false;
}

void lj_print_store(lj_printer *p, const lj_store *store)
{
    char name[16];
    lj_text text;
    const lj_stmt *stmt = &p->group->stmts[store->statement];
    lj_text_init(&text);
    snprintf(name, sizeof name, "v%d", store->statement);
    if (is_copy(stmt))
        lj_text_add(&text, "%s", lj_place_text(p, stmt->buffer, stmt->at, store->inner >= 0));
    else
        lj_express_store(&text, stmt->dtype, name);
    for (int k = 0; is_copy(stmt) && k < stmt->at->count; k++) print_derived_inner(p, stmt->at->term[k].atom);
    for (int k = 0; k < store->at->count; k++) print_derived_inner(p, store->at->term[k].atom);
    lj_print_line(p, "%s = %s;", lj_place_text(p, store->buffer, store->at, store->inner >= 0), keep_text(p, &text));
}

void lj_print_forget_rows(lj_printer *p)
{
    for (int i = 0; i < p->group->stmt_count; i++) {
        p->needed[i] = p->key_done[i] = false;
        if (!is_hoisted(&p->group->stmts[i])) p->emitted[i] = false;
    }
    memset(p->atom_done, 0, sizeof p->atom_done);
    p->pointer_count = 0;
}
