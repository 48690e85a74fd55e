/* What the dialects' printers share: sizes, positions and statements as text, each statement once a scope. */
#ifndef LJ_CODEGEN_PRINT_H
#define LJ_CODEGEN_PRINT_H

#include "codegen/helpers.h"
#include "codegen/nest.h"

typedef struct {
    lj_text *out;
    lj_dialect dialect;
    const lj_lowered *lowered;
    const lj_group *group;
    int indent;
    bool *emitted;     /* by statement: printed in the scope that is open */
    bool *key_done;    /* by statement: its random key is printed */
    bool *needed;      /* by statement: to be printed in the loop that opens next */
    bool atom_done[LJ_MAX_ATOMS];
    /* Row pointers in scope: a buffer from which the inner loop's elements are counted. */
    struct {
        int buffer;
        lj_affine base;
    } pointer[64];
    int pointer_count;
    int phase;              /* of the open pass */
    const char *inner_name; /* the open inner loop's variable */
} lj_printer;

/* A line: indentation, text, newline. */
void lj_print_line(lj_printer *p, const char *format, ...) LJ_PRINTF(2, 3);
void lj_print_dim(lj_text *out, lj_dim dim);
/* Remembers, in this thread, that a text which is copied into a fixed buffer is not whole; lj_print_lost asks and forgets. */
void lj_print_lose(const lj_text *text);
bool lj_print_lost(void);
/* "s0 * 64 * i1 + 3"; "0" when empty. An inner loop's atom is the loop's variable. */
void lj_print_affine(lj_printer *p, lj_text *out, const lj_affine *at);
/* Text in one of a few buffers of the thread, for use in lj_print_line. */
const char *lj_dim_text(lj_dim dim);
/* The same as a factor: in parentheses when it is a product. */
const char *lj_dim_factor(lj_dim dim);
const char *lj_affine_text(lj_printer *p, const lj_affine *at);

/* Prints statements that do not vary with outer or inner loops and that the group's stores, or a column group's operand, need. */
void lj_print_hoisted_stores(lj_printer *p);
void lj_print_hoisted_operand(lj_printer *p);
/* Prints derived atoms and row statements that `statement` needs; marks the element statements among them as needed. */
void lj_print_need(lj_printer *p, int statement);
/* The same for a position that is not a statement's. */
void lj_print_need_at(lj_printer *p, const lj_affine *at);
/* Row pointers of the needed loads and of a store of inner loop `inner`. */
void lj_print_need_pointers(lj_printer *p, int inner);
void lj_print_need_pointer(lj_printer *p, int buffer, const lj_affine *at);
/* Prints the needed statements of the open inner loop, and forgets them afterwards (lj_print_close_loop). */
void lj_print_elements(lj_printer *p);
void lj_print_close_loop(lj_printer *p);
/* Forgets everything but what is hoisted: a new scope opens where the old rows' names do not reach. */
void lj_print_forget_rows(lj_printer *p);
/* "p3[j]" or "b0[expr]". */
const char *lj_place_text(lj_printer *p, int buffer, const lj_affine *at, bool in_loop);
/* The same for what a store needs, and its pointers. */
void lj_print_need_store(lj_printer *p, const lj_store *store);
void lj_print_store_pointers(lj_printer *p, const lj_store *store);
/* Prints a store of the open scope. */
void lj_print_store(lj_printer *p, const lj_store *store);

#endif
