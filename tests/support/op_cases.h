/* How each op is exercised: one function a row of ops.def, so that a new op without a case does not compile. */
#ifndef LJ_TESTS_OP_CASES_H
#define LJ_TESTS_OP_CASES_H

#include "support/sheet.h"

/* What a case function builds into. Sizes are symbols, so that one compiled sheet serves every row of op_sizes. */
typedef struct {
    test_sheet *sheet;
    lj_graph *graph;
    lj_dtype dtype;  /* of the main operand */
    lj_dim a, b, c, d;
    bool gradient;   /* for finite differences: smooth, small, no ties; special numbers left out */
} op_case;

typedef void (*op_case_fn)(op_case *c);
extern const op_case_fn op_cases[LJ_OP_COUNT];

/* Prepares `c` on an empty sheet (symbols A, B, C, D). */
void op_case_begin(op_case *c, test_sheet *sheet, bool gradient);

typedef struct {
    const char *name;
    int64_t size[LJ_MAX_SYMBOLS]; /* A, B, C, D */
} op_size;
extern const op_size op_sizes[];
extern const int op_size_count;
extern const op_size op_gradient_size;

/* The row's dtype mask says yes, but the op's rule takes fewer: building such a case must fail. */
bool op_dtype_refused(lj_op op, lj_dtype dtype);

/* The call function of the `call` row: out0 = 2 a + b, out1 = a * b; any float dtype, in doubles. */
extern const lj_call_row op_call_row;

#endif
