/* Steps that write rows of a buffer that already holds the rest: scatter_add and update_rows. The buffer is the first operand's,
 * or a copy of it made by the step before. */
#include "runtime/steps.h"

#include <string.h>

/* Elements of a row: everything behind the leading `skip` dims. */
static int64_t row_elements(const lj_planned_step *step, int input, int skip)
{
    int64_t count = 1;
    const lj_type *type = lj_step_type_of(step, input);
    for (int i = skip; i < type->rank; i++) count *= lj_dim_eval(type->dim[i], step->sizes);
    return count;
}

typedef struct {
    void *base;
    const void *updates;
    const int32_t *ids;
    lj_dtype base_type, update_type;
    int64_t rows, width;
} scatter_args;

static void add_floats(float *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}

static void add_bf16(float *to, const uint16_t *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] += lj_bf16_to_float(from[i]);
}

/* Any dtypes: through double, rounded to the base's dtype after each addition, as the op says. */
static void add_any(const scatter_args *a, size_t to, size_t from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double sum = lj_element_get(a->base_type, a->base, to + (size_t)i) + lj_element_get(a->update_type, a->updates, from + (size_t)i);
        lj_element_set(a->base_type, a->base, to + (size_t)i, sum);
    }
}

/* Whole numbers wrap: two's complement addition of the low bytes is the same for signed and unsigned. */
static uint64_t integer_get(lj_dtype type, const void *data, size_t index)
{
    switch (lj_dtype_bytes(type)) {
    case 1: return ((const uint8_t *)data)[index] | (type == LJ_I8 && ((const int8_t *)data)[index] < 0 ? ~UINT64_C(0xff) : 0);
    case 4: return type == LJ_I32 ? (uint64_t)(int64_t)((const int32_t *)data)[index] : ((const uint32_t *)data)[index];
    default: return ((const uint64_t *)data)[index];
    }
}

static void add_integers(const scatter_args *a, size_t to, size_t from, int64_t count)
{
    for (size_t i = 0; i < (size_t)count; i++) {
        uint64_t sum = integer_get(a->base_type, a->base, to + i) + integer_get(a->update_type, a->updates, from + i);
        switch (lj_dtype_bytes(a->base_type)) {
        case 1: ((uint8_t *)a->base)[to + i] = (uint8_t)sum; break;
        case 4: ((uint32_t *)a->base)[to + i] = (uint32_t)sum; break;
        default: ((uint64_t *)a->base)[to + i] = sum; break;
        }
    }
}

/* Each thread owns a range of columns and goes through all rows in order: the result does not depend on the team. */
static void scatter_share(void *arg, int thread, int threads)
{
    const scatter_args *a = arg;
    int64_t begin, end;
    lj_team_share((a->width + 15) / 16, thread, threads, &begin, &end);
    begin *= 16, end = end * 16 < a->width ? end * 16 : a->width;
    for (int64_t r = 0; r < a->rows && begin < end; r++) {
        int64_t to = (int64_t)a->ids[r] * a->width + begin, from = r * a->width + begin;
        if (a->base_type == LJ_F32 && a->update_type == LJ_F32)
            add_floats((float *)a->base + to, (const float *)a->updates + from, end - begin);
        else if (a->base_type == LJ_F32 && a->update_type == LJ_BF16)
            add_bf16((float *)a->base + to, (const uint16_t *)a->updates + from, end - begin);
        else if (!lj_dtype_rows[a->base_type].is_float)
            add_integers(a, (size_t)to, (size_t)from, end - begin);
        else
            add_any(a, (size_t)to, (size_t)from, end - begin);
    }
}

static lj_status scatter_run(const lj_planned_step *step, void *scratch)
{
    const lj_type *ids = lj_step_type_of(step, 1);
    scatter_args a = {lj_step_output(step, 0), lj_step_input(step, 2), lj_step_input(step, 1), lj_step_type_of(step, 0)->dtype,
                      lj_step_type_of(step, 2)->dtype, 0, row_elements(step, 0, 1)};
    int64_t table = lj_step_dim(step, 0, 0);
    (void)scratch;
    LJ_TRY(lj_type_elements(ids, step->sizes, &a.rows));
    for (int64_t r = 0; r < a.rows; r++)
        if (a.ids[r] < 0 || a.ids[r] >= table)
            return lj_fail(LJ_ERR_INVALID, "id %d at row %lld is outside the table of %lld rows", a.ids[r], (long long)r, (long long)table);
    step->program->device->launch(step->program->threads, scatter_share, &a);
    return LJ_OK;
}

static lj_status update_rows_run(const lj_planned_step *step, void *scratch)
{
    size_t size = lj_dtype_bytes(lj_step_type_of(step, 0)->dtype);
    int64_t batch = lj_step_dim(step, 0, 0), rows = lj_step_dim(step, 0, 1), fresh = lj_step_dim(step, 1, 1);
    size_t width = (size_t)row_elements(step, 0, 2) * size;
    const int32_t *start = lj_step_input(step, 2);
    char *to = lj_step_output(step, 0);
    const char *from = lj_step_input(step, 1);
    (void)scratch;
    for (int64_t b = 0; b < batch; b++)
        if (start[b] < 0 || start[b] + fresh > rows)
            return lj_fail(LJ_ERR_INVALID, "rows %d .. +%lld do not fit %lld", start[b], (long long)fresh, (long long)rows);
    for (int64_t b = 0; b < batch; b++)
        if (fresh && width) memcpy(to + (size_t)(b * rows + start[b]) * width, from + (size_t)(b * fresh) * width, (size_t)fresh * width);
    return LJ_OK;
}

const lj_step_type lj_step_scatter_add = {"library", NULL, scatter_run, NULL};
const lj_step_type lj_step_update_rows = {"library", NULL, update_rows_run, NULL};
