/* Loop nests: what a kernel graph is lowered to before any dialect has scheduled it.
 *
 * A kernel is a list of groups. A group has outer loops, and inside them a "row": scalar statements of the row, and inner loops
 * whose statements run once an element. Statements are in single assignment form; a statement knows its dtype, which inner loop
 * it depends on (if any) and its phase: the number of reductions over the row that stand between it and the inputs. A schedule
 * runs phase after phase: row statements of the phase, then each inner loop with the phase's reductions and stores.
 *
 * Positions are affine: sums of coefficient x atom, where an atom is a loop's index or something computed from others (a
 * quotient, a remainder, an id loaded from memory). Coefficients and loop counts are sizes with symbols. */
#ifndef LJ_CODEGEN_NEST_H
#define LJ_CODEGEN_NEST_H

#include "codegen/lower.h"
#include "ir/ir.h"

enum { LJ_MAX_TERMS = 12, LJ_MAX_ATOMS = 48, LJ_MAX_INNERS = 12, LJ_NEST_OPERANDS = 3 };

typedef struct {
    lj_dim coefficient;
    int atom;
} lj_term;

typedef struct {
    int count;
    lj_term term[LJ_MAX_TERMS];
} lj_affine;

typedef enum {
    LJ_ATOM_ONE, /* the number 1: constants are its coefficient */
    LJ_ATOM_OUTER,
    LJ_ATOM_REDUCED, /* a loop over rows that a column group adds up */
    LJ_ATOM_INNER,
    LJ_ATOM_QUOTIENT,
    LJ_ATOM_REMAINDER,
    LJ_ATOM_STATEMENT /* the value of an integer statement, checked to be in 0 .. dim-1 */
} lj_atom_kind;

typedef struct {
    lj_atom_kind kind;
    lj_dim dim;      /* loops: count; quotient, remainder: the divisor; statement: the bound */
    lj_affine *from; /* quotient, remainder */
    int statement;
    int inner;       /* inner loop that it varies with, -1: none */
    bool gone;       /* a loop that was merged into its neighbour */
} lj_atom;

typedef enum {
    LJ_STMT_CONST,
    LJ_STMT_LOAD,
    LJ_STMT_OP,     /* elementwise */
    LJ_STMT_INDEX,  /* `at` as a number */
    LJ_STMT_RANDOM, /* operand 0: the seed; `at`: the position */
    LJ_STMT_REDUCE, /* operand 0 over the inner loop `over` */
    LJ_STMT_TOTAL   /* column groups: the total of a column */
} lj_stmt_kind;

typedef struct {
    lj_stmt_kind kind;
    lj_op op;
    lj_dtype dtype;
    int operand_count, operand[LJ_NEST_OPERANDS];
    int buffer;
    lj_affine *at;
    double value;
    int64_t stream;
    int over;
    int inner; /* inner loop that it varies with, -1: none */
    bool row;  /* varies with the outer loops (or is a reduction): not to be hoisted before them */
    int phase;
    bool clean; /* a NaN here has no bits below those of a bf16, which makes rounding to bf16 cheaper */
} lj_stmt;

typedef struct {
    int statement, buffer;
    lj_affine *at;
    int inner; /* loop it is stored in, -1: once a row */
} lj_store;

typedef struct {
    lj_atom atoms[LJ_MAX_ATOMS];
    int atom_count;
    int outer[LJ_MAX_RANK], outer_count; /* atoms, outermost first */
    int inner[LJ_MAX_INNERS], inner_count;
    lj_stmt *stmts;
    int stmt_count, stmt_capacity;
    lj_store *stores;
    int store_count, store_capacity;
    int phase_count;
    /* Column groups: `reduced` loops (outermost first) add statement `column_operand` up for each element of inner loop 0;
     * the statement of kind TOTAL stands for the result in what is stored. */
    int reduced[LJ_MAX_RANK], reduced_count;
    int column_operand;
    lj_op column_op;
    lj_dtype column_dtype; /* each level's total is rounded to it */
    lj_dim scratch_at;     /* byte in scratch where the parts' sums of this group begin */
} lj_group;

typedef enum { LJ_KERNEL_LOOPS, LJ_KERNEL_ARGMAX, LJ_KERNEL_SCATTER_ADD, LJ_KERNEL_UPDATE_ROWS } lj_kernel_form;

typedef struct {
    lj_dtype dtype;
    bool written;
    int same_as; /* results done in place: the input's buffer; -1 */
    lj_dim elements;
} lj_buffer_row;

struct lj_lowered {
    lj_arena arena;
    lj_kernel_form form;
    lj_buffer_row *buffers; /* inputs, then results */
    int input_count, buffer_count;
    int symbol_count;
    lj_group **groups;
    int group_count;
    lj_dim scratch_bytes; /* of all groups */
    const lj_graph *graph; /* valid while lowering only */
    int single_buffer[4]; /* forms other than loops: of the operands, then of the result */
    lj_type single_types[4]; /* of that node's operands, then its result */
    int64_t single_axis;
};

/* -- affine.c */
void lj_affine_zero(lj_affine *out);
/* out += coefficient * atom; false when there are too many terms. */
bool lj_affine_add_term(lj_affine *out, lj_dim coefficient, int atom);
/* out += scale * from. */
bool lj_affine_add(lj_affine *out, const lj_affine *from, lj_dim scale);
bool lj_affine_equal(const lj_affine *a, const lj_affine *b);
bool lj_affine_is_zero(const lj_affine *a);
/* Coefficient of an atom when it appears in one term; factor 0 when absent; false when it appears in several. */
bool lj_affine_coefficient(const lj_affine *a, int atom, lj_dim *coefficient);
void lj_affine_drop(lj_affine *a, int atom);
/* a / b when b divides a; false else. */
bool lj_dim_divide(lj_dim a, lj_dim b, lj_dim *out);
lj_dim lj_dims_product(const lj_dim *dims, int count);

/* Column groups that keep nothing outside the rows split the rows into parts whose sums lie in scratch (LJ_COLUMN_PARTS of them). */
static inline bool lj_group_has_scratch(const lj_group *group)
{
    return group->reduced_count > 0 && group->outer_count == 0;
}
enum { LJ_COLUMN_PARTS = 16 };

/* -- merge.c: neighbouring loops become one wherever every position allows */
void lj_group_merge_loops(lj_group *group);

/* -- lower.c */
typedef struct {
    lj_lowered *lowered;
    lj_group *group;
    struct lj_memo *memo; /* list of (value, index) already lowered in this group */
    const int *input_buffer; /* by value: its buffer, -1 */
    lj_status status;
} lj_builder;
/* Lowers `value` at an index (one affine a dim of its type); the statement or -1 with builder->status and the message set. */
int lj_lower_value(lj_builder *builder, lj_value value, const lj_affine *index);
/* Is this sum or maximum over the last axis (any that follow have size 1)? */
bool lj_is_row_reduce(const lj_graph *graph, const lj_node *node);
/* A new loop; -1 when there are too many atoms. */
int lj_group_loop(lj_group *group, lj_atom_kind kind, lj_dim dim);
/* The inner loop of that count, made when there is none: an index into group->inner, or -1. */
int lj_group_inner(lj_group *group, lj_dim dim);
/* A quotient or remainder; one that is already there is used again. */
int lj_group_derived_atom(lj_group *group, lj_atom_kind kind, lj_dim divisor, lj_affine *from);
/* The value of an integer statement, which must be in 0 .. bound-1. */
int lj_group_statement_atom(lj_group *group, int statement, lj_dim bound);
/* Appends a statement (dtype, kind, operands, at set by the caller; inner, row and phase follow from them). */
int lj_group_stmt(lj_builder *builder, lj_stmt stmt);
bool lj_group_store(lj_builder *builder, int statement, int buffer, const lj_affine *at);
/* Makes `value` at `index` mean `statement`. */
bool lj_memo_add(lj_builder *builder, lj_value value, const lj_affine *index, int statement);
int lj_memo_find(const lj_builder *builder, lj_value value, const lj_affine *index);
/* Sets LJ_ERR_UNSUPPORTED (unless there is an error already) with the reason; returns -1. */
int lj_lower_refuse(lj_builder *builder, const char *format, ...) LJ_PRINTF(2, 3);

#endif
