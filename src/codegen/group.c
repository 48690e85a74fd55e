/* Building blocks of groups: atoms, statements, stores, and the memory of what is lowered already. */
#include "codegen/nest.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct lj_memo {
    struct lj_memo *next;
    lj_value value;
    int rank, statement;
    lj_affine index[];
};

int lj_lower_refuse(lj_builder *builder, const char *format, ...)
{
    if (builder->status != LJ_OK) return -1;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    builder->status = lj_fail(LJ_ERR_UNSUPPORTED, "kernel graph: %s", text);
    return -1;
}

static int out_of_memory(lj_builder *builder)
{
    if (builder->status == LJ_OK) builder->status = LJ_ERR_NOMEM; /* the arena has set the message */
    return -1;
}

static int add_atom(lj_group *group, lj_atom atom)
{
    if (group->atom_count == LJ_MAX_ATOMS) return -1;
    group->atoms[group->atom_count] = atom;
    return group->atom_count++;
}

int lj_group_loop(lj_group *group, lj_atom_kind kind, lj_dim dim)
{
    return add_atom(group, (lj_atom){.kind = kind, .dim = dim, .inner = -1});
}

int lj_group_inner(lj_group *group, lj_dim dim)
{
    for (int i = 0; i < group->inner_count; i++)
        if (lj_dim_equal(group->atoms[group->inner[i]].dim, dim)) return i;
    if (group->inner_count == LJ_MAX_INNERS) return -1;
    int atom = lj_group_loop(group, LJ_ATOM_INNER, dim);
    if (atom < 0) return -1;
    group->atoms[atom].inner = group->inner_count;
    group->inner[group->inner_count] = atom;
    return group->inner_count++;
}

/* What an affine varies with: its inner loop (-1 none, -2 more than one), and whether with outer loops. */
static int affine_inner(const lj_group *group, const lj_affine *at, bool *row)
{
    int inner = -1;
    for (int i = 0; at && i < at->count; i++) {
        const lj_atom *atom = &group->atoms[at->term[i].atom];
        if (atom->kind != LJ_ATOM_ONE) *row = true;
        if (atom->inner >= 0 && inner >= 0 && atom->inner != inner) return -2;
        if (atom->inner >= 0) inner = atom->inner;
    }
    return inner;
}

int lj_group_derived_atom(lj_group *group, lj_atom_kind kind, lj_dim divisor, lj_affine *from)
{
    for (int i = 0; i < group->atom_count; i++) {
        const lj_atom *atom = &group->atoms[i];
        if (atom->kind == kind && lj_dim_equal(atom->dim, divisor) && lj_affine_equal(atom->from, from)) return i;
    }
    bool row = false;
    int inner = affine_inner(group, from, &row);
    if (inner == -2) return -1;
    return add_atom(group, (lj_atom){.kind = kind, .dim = divisor, .from = from, .inner = inner});
}

int lj_group_statement_atom(lj_group *group, int statement, lj_dim bound)
{
    for (int i = 0; i < group->atom_count; i++)
        if (group->atoms[i].kind == LJ_ATOM_STATEMENT && group->atoms[i].statement == statement && lj_dim_equal(group->atoms[i].dim, bound)) return i;
    return add_atom(group, (lj_atom){.kind = LJ_ATOM_STATEMENT, .dim = bound, .statement = statement, .inner = group->stmts[statement].inner});
}

/* Follows the operands: what the statement varies with and its phase. False: it mixes inner loops. */
static bool place(const lj_group *group, lj_stmt *stmt)
{
    stmt->inner = affine_inner(group, stmt->at, &stmt->row);
    if (stmt->inner == -2) return false;
    for (int i = 0; stmt->at && i < stmt->at->count; i++) { /* positions that depend on loaded ids come after them */
        const lj_atom *atom = &group->atoms[stmt->at->term[i].atom];
        if (atom->kind == LJ_ATOM_STATEMENT && group->stmts[atom->statement].phase > stmt->phase)
            stmt->phase = group->stmts[atom->statement].phase;
    }
    for (int i = 0; i < stmt->operand_count; i++) {
        const lj_stmt *operand = &group->stmts[stmt->operand[i]];
        if (operand->inner >= 0 && stmt->inner >= 0 && operand->inner != stmt->inner) return false;
        if (operand->inner >= 0) stmt->inner = operand->inner;
        if (operand->phase > stmt->phase) stmt->phase = operand->phase;
        stmt->row |= operand->row;
    }
    if (stmt->kind == LJ_STMT_TOTAL) stmt->inner = 0, stmt->phase = 1, stmt->row = true;
    if (stmt->kind != LJ_STMT_REDUCE) return true;
    if (stmt->inner >= 0 && stmt->inner != stmt->over) return false;
    stmt->inner = -1, stmt->row = true, stmt->phase++;
    return true;
}

/* Arithmetic makes quiet NaNs of its operands' or the default one; f32, f64 and f16 buffers may hold any. */
static bool is_clean(const lj_group *group, const lj_stmt *stmt)
{
    bool wide = stmt->dtype == LJ_F32 || stmt->dtype == LJ_F64 || stmt->dtype == LJ_F16;
    if (stmt->kind == LJ_STMT_LOAD) return !wide;
    if (stmt->kind == LJ_STMT_TOTAL) return group->stmts[group->column_operand].clean;
    for (int i = 0; i < stmt->operand_count; i++)
        if (!group->stmts[stmt->operand[i]].clean) return stmt->dtype == LJ_BF16; /* rounding has cleaned it */
    return true;
}

static bool grow(lj_builder *builder, void **array, int count, int *capacity, size_t size)
{
    if (count < *capacity) return true;
    int wanted = *capacity ? *capacity * 2 : 32;
    void *grown = lj_arena_alloc(&builder->lowered->arena, (size_t)wanted * size);
    if (!grown) return out_of_memory(builder) >= 0;
    if (count) memcpy(grown, *array, (size_t)count * size);
    *array = grown, *capacity = wanted;
    return true;
}

static lj_affine *keep_affine(lj_builder *builder, const lj_affine *at)
{
    lj_affine *kept = lj_arena_alloc(&builder->lowered->arena, sizeof *kept);
    if (kept) *kept = *at;
    return kept;
}

int lj_group_stmt(lj_builder *builder, lj_stmt stmt)
{
    lj_group *group = builder->group;
    if (!grow(builder, (void **)&group->stmts, group->stmt_count, &group->stmt_capacity, sizeof stmt)) return -1;
    if (stmt.at && !(stmt.at = keep_affine(builder, stmt.at))) return out_of_memory(builder);
    if (!place(group, &stmt)) return lj_lower_refuse(builder, "a value varies with two loops of a row at once");
    if (stmt.phase + 1 > group->phase_count) group->phase_count = stmt.phase + 1;
    stmt.clean = is_clean(group, &stmt);
    group->stmts[group->stmt_count] = stmt;
    return group->stmt_count++;
}

bool lj_group_store(lj_builder *builder, int statement, int buffer, const lj_affine *at)
{
    lj_group *group = builder->group;
    bool row = false;
    if (!grow(builder, (void **)&group->stores, group->store_count, &group->store_capacity, sizeof *group->stores)) return false;
    lj_store store = {.statement = statement, .buffer = buffer, .at = keep_affine(builder, at), .inner = affine_inner(group, at, &row)};
    if (!store.at) return out_of_memory(builder) >= 0;
    int inner = group->stmts[statement].inner;
    if (store.inner == -2 || (inner >= 0 && inner != store.inner))
        return lj_lower_refuse(builder, "a result varies with two loops of a row at once") >= 0;
    group->stores[group->store_count++] = store;
    return true;
}

bool lj_memo_add(lj_builder *builder, lj_value value, const lj_affine *index, int statement)
{
    int rank = lj_type_get(builder->lowered->graph, value)->rank;
    struct lj_memo *memo = lj_arena_alloc(&builder->lowered->arena, sizeof *memo + (size_t)rank * sizeof *index);
    if (!memo) return out_of_memory(builder) >= 0;
    memo->next = builder->memo, memo->value = value, memo->rank = rank, memo->statement = statement;
    if (rank) memcpy(memo->index, index, (size_t)rank * sizeof *index);
    builder->memo = memo;
    return true;
}

int lj_memo_find(const lj_builder *builder, lj_value value, const lj_affine *index)
{
    for (const struct lj_memo *memo = builder->memo; memo; memo = memo->next) {
        if (memo->value != value) continue;
        int i = 0;
        while (i < memo->rank && lj_affine_equal(&memo->index[i], &index[i])) i++;
        if (i == memo->rank) return memo->statement;
    }
    return -1;
}
