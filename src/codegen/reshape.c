/* Reshapes as index arithmetic: which runs of dims on both sides hold the same elements, and how an index crosses over. */
#include "codegen/reshape.h"

#include <string.h>

static bool is_one(lj_dim dim)
{
    return lj_dim_is_const(dim, 1);
}

/* Takes dims from both sides until their products meet. */
static bool next_run(const lj_type *from, const lj_type *to, int f, int t, lj_reshape_run *run)
{
    lj_dim a = lj_dim_const(1), b = lj_dim_const(1), ignored;
    *run = (lj_reshape_run){f, f, t, t};
    do {
        bool more_from = run->from_end < from->rank, more_to = run->to_end < to->rank;
        if (more_from && (lj_dim_divide(b, a, &ignored) || !more_to))
            a = lj_dim_mul(a, from->dim[run->from_end++]);
        else if (more_to)
            b = lj_dim_mul(b, to->dim[run->to_end++]);
        else
            return false;
    } while (!lj_dim_equal(a, b));
    return true;
}

int lj_reshape_runs(const lj_type *from, const lj_type *to, lj_reshape_run *runs)
{
    int count = 0, f = 0, t = 0;
    for (;;) {
        while (f < from->rank && is_one(from->dim[f])) f++;
        while (t < to->rank && is_one(to->dim[t])) t++;
        if (f == from->rank && t == to->rank) return count;
        if (!next_run(from, to, f, t, &runs[count])) return -1;
        f = runs[count].from_end, t = runs[count].to_end;
        count++;
    }
}

static bool linear_index(const lj_type *type, int begin, int end, const lj_affine *index, lj_affine *out)
{
    lj_dim stride = lj_dim_const(1);
    lj_affine_zero(out);
    for (int i = end - 1; i >= begin; i--) {
        if (!lj_affine_add(out, &index[i], stride)) return false;
        stride = lj_dim_mul(stride, type->dim[i]);
    }
    return true;
}

/* Are the terms of `rest` together below `bound`? Proven when they nest: the largest coefficient times its loop's count is the
 * bound, and so on inwards. */
static bool is_below(const lj_group *group, const lj_affine *rest, lj_dim bound)
{
    lj_affine left = *rest;
    while (left.count) {
        int found = -1;
        for (int i = 0; i < left.count && found < 0; i++) {
            const lj_term *term = &left.term[i];
            lj_atom_kind kind = group->atoms[term->atom].kind;
            if (kind == LJ_ATOM_ONE || kind == LJ_ATOM_QUOTIENT) return false;
            lj_dim reach = lj_dim_mul(term->coefficient, group->atoms[term->atom].dim), ignored;
            if (lj_dim_divide(bound, reach, &ignored)) found = i;
        }
        if (found < 0) return false;
        bound = left.term[found].coefficient;
        lj_affine_drop(&left, left.term[found].atom);
    }
    return true;
}

/* whole = high * divisor + low with 0 <= low < divisor, when that can be read off. */
static bool split(const lj_group *group, const lj_affine *whole, lj_dim divisor, lj_affine *high, lj_affine *low)
{
    lj_affine_zero(high), lj_affine_zero(low);
    for (int i = 0; i < whole->count; i++) {
        lj_dim quotient;
        const lj_term *term = &whole->term[i];
        bool divides = lj_dim_divide(term->coefficient, divisor, &quotient);
        if (!lj_affine_add_term(divides ? high : low, divides ? quotient : term->coefficient, term->atom)) return false;
    }
    return is_below(group, low, divisor);
}

static bool derived(lj_builder *builder, lj_atom_kind kind, const lj_affine *whole, lj_dim divisor, lj_affine *out)
{
    lj_affine *from = lj_arena_alloc(&builder->lowered->arena, sizeof *from);
    if (!from) return false;
    *from = *whole;
    int atom = lj_group_derived_atom(builder->group, kind, divisor, from);
    lj_affine_zero(out);
    return atom >= 0 && lj_affine_add_term(out, lj_dim_const(1), atom);
}

/* Index of dims begin..end-1 from their linear index. */
static bool unravel(lj_builder *builder, const lj_type *type, int begin, int end, lj_affine whole, lj_affine *index)
{
    for (int i = begin; i < end; i++) {
        lj_dim stride = lj_dims_product(&type->dim[i + 1], end - i - 1);
        lj_affine high, low;
        if (i == end - 1 || is_one(type->dim[i])) {
            if (i == end - 1) index[i] = whole;
            continue;
        }
        if (!split(builder->group, &whole, stride, &high, &low)) {
            if (!derived(builder, LJ_ATOM_QUOTIENT, &whole, stride, &high)) return false;
            if (!derived(builder, LJ_ATOM_REMAINDER, &whole, stride, &low)) return false;
        }
        index[i] = high;
        whole = low;
    }
    return true;
}

bool lj_reshape_index(lj_builder *builder, const lj_type *from, const lj_type *to, const lj_affine *to_index, lj_affine *from_index)
{
    lj_reshape_run runs[LJ_MAX_RANK];
    for (int i = 0; i < from->rank; i++) lj_affine_zero(&from_index[i]);
    for (int i = 0; i < from->rank; i++)
        if (from->dim[i].factor == 0) return true; /* no elements: any index will do */
    int count = lj_reshape_runs(from, to, runs);
    for (int i = 0; i < count; i++) {
        lj_affine whole;
        if (!linear_index(to, runs[i].to_begin, runs[i].to_end, to_index, &whole)) return false;
        if (!unravel(builder, from, runs[i].from_begin, runs[i].from_end, whole, from_index)) return false;
    }
    return count >= 0;
}

bool lj_reshape_strides(const lj_type *from, const lj_type *to, const lj_dim *to_stride, lj_dim *from_stride)
{
    lj_reshape_run runs[LJ_MAX_RANK];
    int count = lj_reshape_runs(from, to, runs);
    memset(from_stride, 0, (size_t)from->rank * sizeof *from_stride);
    for (int r = 0; r < count; r++) {
        int end = runs[r].to_end;
        while (end > runs[r].to_begin && is_one(to->dim[end - 1])) end--;
        lj_dim stride = to_stride[end - 1], expected = stride;
        for (int i = end - 1; i >= runs[r].to_begin; i--) {
            if (!is_one(to->dim[i]) && !lj_dim_equal(to_stride[i], expected)) return false;
            expected = lj_dim_mul(expected, to->dim[i]);
        }
        for (int i = runs[r].from_end - 1; i >= runs[r].from_begin; i--) {
            from_stride[i] = stride;
            stride = lj_dim_mul(stride, from->dim[i]);
        }
    }
    return count >= 0;
}
