#include "support/sheet.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>

enum { SENTINEL_BYTES = 256, SENTINEL = 0xa5, UNWRITTEN = 0x5b };

void test_sheet_init(test_sheet *sheet)
{
    memset(sheet, 0, sizeof *sheet);
    if (lj_graph_create(&sheet->graph) != LJ_OK) abort();
}

void test_sheet_release(test_sheet *sheet)
{
    lj_graph_destroy(sheet->graph);
    sheet->graph = NULL;
}

static lj_value add_input(test_sheet *sheet, lj_type type, test_fill fill, lj_role role)
{
    char name[32];
    if (sheet->input_count == TEST_MAX_INPUTS) abort();
    snprintf(name, sizeof name, "in%d", sheet->input_count);
    lj_value value = lj_input(sheet->graph, name, type, role);
    test_input *row = &sheet->inputs[sheet->input_count++];
    *row = (test_input){.name = value ? lj_producer(sheet->graph, value)->name : "", .fill = fill};
    row->constant = !lj_dtype_rows[type.dtype].is_float;
    return value;
}

lj_value test_sheet_input(test_sheet *sheet, lj_type type, test_fill fill)
{
    return add_input(sheet, type, fill, LJ_ROLE_DATA);
}

lj_value test_sheet_state(test_sheet *sheet, lj_type type, test_fill fill)
{
    return add_input(sheet, type, fill, LJ_ROLE_STATE);
}

test_input *test_sheet_last(test_sheet *sheet)
{
    return &sheet->inputs[sheet->input_count - 1];
}

lj_value test_sheet_ids(test_sheet *sheet, int rank, const lj_dim *dims, test_fill fill, lj_dim bound)
{
    lj_value value = test_sheet_input(sheet, lj_type_dims(LJ_I32, rank, dims), fill);
    test_sheet_last(sheet)->bound = bound;
    return value;
}

void test_sheet_output(test_sheet *sheet, lj_value value)
{
    char name[32];
    snprintf(name, sizeof name, "out%d", sheet->output_count++);
    lj_graph_output(sheet->graph, name, value);
}

/* -- buffers --------------------------------------------------------------------------------------------------------------- */

lj_status test_buffer_init(test_buffer *buffer, const char *name, const lj_type *type, const int64_t *sizes, bool exact)
{
    test_buffer made = {.name = name, .type = *type};
    LJ_TRY(lj_type_elements(type, sizes, &made.count));
    bool wide = exact && lj_dtype_rows[type->dtype].is_float;
    made.bytes = (size_t)made.count * (wide ? 8 : lj_dtype_bytes(type->dtype));
    size_t padded = (made.bytes + 63) & ~(size_t)63;
    made.block = aligned_alloc(64, padded + 2 * SENTINEL_BYTES);
    if (!made.block) return lj_fail(LJ_ERR_NOMEM, "test buffer %s", name);
    memset(made.block, SENTINEL, padded + 2 * SENTINEL_BYTES);
    made.data = made.block + SENTINEL_BYTES;
    memset(made.data, UNWRITTEN, made.bytes);
    *buffer = made;
    return LJ_OK;
}

bool test_buffer_intact(const test_buffer *buffer)
{
    size_t padded = (buffer->bytes + 63) & ~(size_t)63;
    for (size_t i = 0; i < SENTINEL_BYTES; i++)
        if (buffer->block[i] != SENTINEL) return false;
    for (size_t i = buffer->bytes; i < padded + SENTINEL_BYTES; i++)
        if (buffer->data[i] != SENTINEL) return false;
    return true;
}

void test_buffers_release(test_buffers *buffers)
{
    for (size_t i = 0; i < buffers->count; i++) free(buffers->rows[i].block);
    free(buffers->rows);
    *buffers = (test_buffers){NULL, 0};
}

test_buffer *test_buffers_find(const test_buffers *buffers, const char *name)
{
    for (size_t i = 0; i < buffers->count; i++)
        if (strcmp(buffers->rows[i].name, name) == 0) return &buffers->rows[i];
    return NULL;
}

static lj_status add_buffer(test_buffers *buffers, const char *name, const lj_type *type, const int64_t *sizes, bool exact)
{
    test_buffer *rows = realloc(buffers->rows, (buffers->count + 1) * sizeof *rows);
    if (!rows) return lj_fail(LJ_ERR_NOMEM, "test buffers");
    buffers->rows = rows;
    LJ_TRY(test_buffer_init(&rows[buffers->count], name, type, sizes, exact));
    buffers->count++;
    return LJ_OK;
}

lj_status test_outputs_make(const lj_graph *graph, const int64_t *sizes, bool exact, test_buffers *buffers)
{
    *buffers = (test_buffers){NULL, 0};
    for (size_t r = 0; r < graph->result_count; r++)
        if (!graph->results[r].state)
            LJ_TRY(add_buffer(buffers, graph->results[r].name, lj_type_get(graph, graph->results[r].value), sizes, exact));
    return LJ_OK;
}

lj_status test_buffers_copy(const test_buffers *from, test_buffers *to)
{
    *to = (test_buffers){calloc(from->count ? from->count : 1, sizeof *to->rows), from->count};
    for (size_t i = 0; i < from->count; i++) {
        const test_buffer *row = &from->rows[i];
        size_t padded = (row->bytes + 63) & ~(size_t)63;
        to->rows[i] = *row;
        to->rows[i].block = aligned_alloc(64, padded + 2 * SENTINEL_BYTES);
        if (!to->rows[i].block) abort();
        memset(to->rows[i].block, SENTINEL, padded + 2 * SENTINEL_BYTES);
        to->rows[i].data = to->rows[i].block + SENTINEL_BYTES;
        memcpy(to->rows[i].data, row->data, row->bytes);
    }
    return LJ_OK;
}

/* -- data ------------------------------------------------------------------------------------------------------------------ */

static uint64_t name_seed(const char *name, uint64_t seed)
{
    for (; *name; name++) seed = (seed ^ (unsigned char)*name) * 0x100000001b3u;
    return seed;
}

static double wide_number(uint64_t *state)
{
    double sign = test_random(state) & 1 ? -1 : 1;
    return sign * pow(10, -3 + 4.7 * test_random_unit(state));
}

static double special_number(lj_dtype dtype, uint64_t *state)
{
    double huge = lj_dtype_rows[dtype].max * (0.5 + 0.5 * test_random_unit(state)), sign = test_random(state) & 1 ? -1 : 1;
    switch (test_random_range(state, 0, 11)) {
    case 0: return sign * (double)NAN;
    case 1: return sign * INFINITY;
    case 2: return sign * 0.0;
    case 3: return sign * huge;
    case 4: return sign / (huge * 0.25); /* near the subnormals */
    case 5: return sign * test_random_unit(state) * 8 / (huge * 4) / ldexp(1, lj_dtype_rows[dtype].mantissa_bits - 3);
    default: return wide_number(state);
    }
}

static double float_number(const test_input *row, lj_dtype dtype, uint64_t *state)
{
    switch (row->fill) {
    case FILL_POSITIVE: return 0.2 + 2.8 * test_random_unit(state);
    case FILL_WIDE: return wide_number(state);
    case FILL_SPECIAL: return special_number(dtype, state);
    case FILL_VALUE: return row->value;
    default: return test_random_normal(state);
    }
}

/* Whole range of a type, its ends often. */
static double wide_integer(lj_dtype dtype, uint64_t *state)
{
    double high = lj_dtype_rows[dtype].max, low = lj_dtype_rows[dtype].is_signed ? -high - 1 : 0;
    switch (test_random_range(state, 0, 7)) {
    case 0: return high;
    case 1: return low;
    case 2: return 0;
    default: return low + (high - low) * test_random_unit(state);
    }
}

static double integer_number(const test_input *row, lj_dtype dtype, const int64_t *sizes, uint64_t *state)
{
    int64_t bound = lj_dim_eval(row->bound, sizes) - lj_dim_eval(row->less, sizes);
    switch (row->fill) {
    case FILL_IDS: return bound > 0 ? (double)test_random_range(state, 0, bound - 1) : 0;
    case FILL_TARGETS: return bound > 0 ? (double)test_random_range(state, -1, bound - 1) : -1;
    case FILL_STARTS: return bound > 0 ? (double)test_random_range(state, 0, bound) : 0;
    case FILL_VALUE: return row->value;
    case FILL_WIDE:
    case FILL_SPECIAL: return wide_integer(dtype, state);
    case FILL_POSITIVE: return (double)test_random_range(state, 1, 9);
    default: return (double)test_random_range(state, lj_dtype_rows[dtype].is_signed ? -9 : 0, 9);
    }
}

/* A shuffled line of different numbers round 0. */
static void fill_distinct(test_buffer *buffer, lj_dtype store, uint64_t *state)
{
    for (int64_t i = 0; i < buffer->count; i++) {
        int64_t j = test_random_range(state, 0, i); /* inside-out shuffle */
        if (j != i) lj_element_set(store, buffer->data, (size_t)i, lj_element_get(store, buffer->data, (size_t)j));
        lj_element_set(store, buffer->data, (size_t)j, 0.02 + 0.04 * (double)(i - buffer->count / 2));
    }
}

static void fill(test_buffer *buffer, const test_input *row, const int64_t *sizes, uint64_t seed, bool exact)
{
    lj_dtype dtype = buffer->type.dtype;
    bool is_float = lj_dtype_rows[dtype].is_float;
    lj_dtype store = exact && is_float ? LJ_F64 : dtype;
    uint64_t state = name_seed(row->name, seed);
    if (row->fill == FILL_DISTINCT && is_float) return fill_distinct(buffer, store, &state);
    for (int64_t i = 0; i < buffer->count; i++) {
        double number = is_float ? float_number(row, dtype, &state)
                        : dtype == LJ_BOOL && row->fill != FILL_VALUE ? (double)(test_random(&state) & 1)
                                                                     : integer_number(row, dtype, sizes, &state);
        if (dtype == LJ_I64 && row->fill == FILL_WIDE) { /* low bits that no double has */
            ((int64_t *)buffer->data)[i] = (int64_t)test_random(&state);
            continue;
        }
        lj_element_set(store, buffer->data, (size_t)i, is_float ? lj_dtype_round(dtype, number) : number);
    }
}

static const test_input *input_row(const test_sheet *sheet, const char *name)
{
    for (int i = 0; i < sheet->input_count; i++)
        if (strcmp(sheet->inputs[i].name, name) == 0) return &sheet->inputs[i];
    return NULL;
}

lj_status test_inputs_fill(const test_sheet *sheet, const lj_graph *graph, const int64_t *sizes, uint64_t seed, bool exact,
                           test_buffers *buffers)
{
    *buffers = (test_buffers){NULL, 0};
    for (size_t n = 0; n < graph->node_count; n++) {
        const lj_node *node = &graph->nodes[n];
        if (node->dead || node->op != LJ_OP_input) continue;
        const test_input *row = input_row(sheet, node->name);
        if (!row) return lj_fail(LJ_ERR_NOT_FOUND, "the sheet has no input '%s'", node->name);
        LJ_TRY(add_buffer(buffers, node->name, lj_type_get(graph, node->output), sizes, exact));
        fill(&buffers->rows[buffers->count - 1], row, sizes, seed, exact);
    }
    return LJ_OK;
}
