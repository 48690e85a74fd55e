/* A sheet: a graph under test with a description of each input's data, and buffers with sentinels round them. Case tables
 * and the random generator both make sheets; tests/support/differential.h judges them. */
#ifndef LJ_TESTS_SHEET_H
#define LJ_TESTS_SHEET_H

#include "ir/ir.h"

typedef enum {
    FILL_NORMAL,   /* about N(0, 1); integers -9..9 (0..9 unsigned) */
    FILL_POSITIVE, /* 0.2 .. 3 */
    FILL_WIDE,     /* magnitudes 1e-3 .. 50, both signs; integers over their whole range */
    FILL_SPECIAL,  /* a sixth each of NaN, infinities, zeros of both signs, huge, tiny; the rest wide */
    FILL_DISTINCT, /* a shuffled grid without ties: steps at least 0.02 apart where the dtype can hold them */
    FILL_IDS,      /* integers 0 .. bound-1 */
    FILL_TARGETS,  /* integers -1 .. bound-1 */
    FILL_STARTS,   /* integers 0 .. bound (inclusive): first rows, document borders */
    FILL_VALUE,    /* the number in `value` */
} test_fill;

typedef struct {
    const char *name; /* of the graph's input; in the graph's arena */
    test_fill fill;
    lj_dim bound;     /* of ids; `less` is taken off first (rows that must still fit) */
    lj_dim less;
    double value;
    bool constant;    /* no gradient is asked for it */
} test_input;

enum { TEST_MAX_INPUTS = 512 };

typedef struct {
    lj_graph *graph;
    test_input inputs[TEST_MAX_INPUTS];
    int input_count, output_count;
} test_sheet;

void test_sheet_init(test_sheet *sheet);
void test_sheet_release(test_sheet *sheet);

/* Adds an input named "<prefix>.<k>"; data role. Returns its value. */
lj_value test_sheet_input(test_sheet *sheet, lj_type type, test_fill fill);
/* The last input's description, to be refined. */
test_input *test_sheet_last(test_sheet *sheet);
/* An input of ids below `bound`. */
lj_value test_sheet_ids(test_sheet *sheet, int rank, const lj_dim *dims, test_fill fill, lj_dim bound);
lj_value test_sheet_state(test_sheet *sheet, lj_type type, test_fill fill);
/* Names the value "out<k>". */
void test_sheet_output(test_sheet *sheet, lj_value value);

/* -- buffers --------------------------------------------------------------------------------------------------------------- */

/* Payload between two fields of sentinels. */
typedef struct {
    const char *name;
    lj_type type;
    int64_t count; /* elements */
    size_t bytes;
    unsigned char *block, *data;
} test_buffer;

typedef struct {
    test_buffer *rows;
    size_t count;
} test_buffers;

/* All are empty structs on failure, which is an out-of-memory of the test machine. `element` 0: the dtype's own bytes. */
lj_status test_buffer_init(test_buffer *buffer, const char *name, const lj_type *type, const int64_t *sizes, bool exact);
/* False when a sentinel was overwritten. */
bool test_buffer_intact(const test_buffer *buffer);
void test_buffers_release(test_buffers *buffers);
test_buffer *test_buffers_find(const test_buffers *buffers, const char *name);

/* One filled buffer for each input of `graph` (the sheet's or a rewritten copy), the data a function of seed and name alone.
 * `exact`: floats are doubles, as lj_ref_options.exact wants them; rounded to the dtype all the same, so that both forms
 * hold the same numbers. */
lj_status test_inputs_fill(const test_sheet *sheet, const lj_graph *graph, const int64_t *sizes, uint64_t seed, bool exact,
                           test_buffers *buffers);
/* One buffer for each named output, filled with a pattern that no result has by chance. */
lj_status test_outputs_make(const lj_graph *graph, const int64_t *sizes, bool exact, test_buffers *buffers);
/* Deep copy (sentinels fresh). */
lj_status test_buffers_copy(const test_buffers *from, test_buffers *to);

#endif
