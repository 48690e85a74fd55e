/* Positions as sums of size x atom. */
#include "codegen/nest.h"

#include <string.h>

void lj_affine_zero(lj_affine *out)
{
    memset(out, 0, sizeof *out);
}

static void remove_term(lj_affine *a, int at)
{
    a->count--;
    memmove(&a->term[at], &a->term[at + 1], (size_t)(a->count - at) * sizeof *a->term);
    memset(&a->term[a->count], 0, sizeof *a->term);
}

bool lj_affine_add_term(lj_affine *out, lj_dim coefficient, int atom)
{
    if (coefficient.factor == 0) return true;
    int at = 0;
    for (; at < out->count && out->term[at].atom <= atom; at++) {
        lj_term *term = &out->term[at];
        if (term->atom != atom || memcmp(term->coefficient.power, coefficient.power, sizeof coefficient.power) != 0) continue;
        term->coefficient.factor += coefficient.factor;
        if (term->coefficient.factor == 0) remove_term(out, at);
        return true;
    }
    if (out->count == LJ_MAX_TERMS) return false;
    memmove(&out->term[at + 1], &out->term[at], (size_t)(out->count - at) * sizeof *out->term);
    out->term[at] = (lj_term){coefficient, atom};
    out->count++;
    return true;
}

bool lj_affine_add(lj_affine *out, const lj_affine *from, lj_dim scale)
{
    for (int i = 0; i < from->count; i++)
        if (!lj_affine_add_term(out, lj_dim_mul(from->term[i].coefficient, scale), from->term[i].atom)) return false;
    return true;
}

bool lj_affine_equal(const lj_affine *a, const lj_affine *b)
{
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++)
        if (a->term[i].atom != b->term[i].atom || !lj_dim_equal(a->term[i].coefficient, b->term[i].coefficient)) return false;
    return true;
}

bool lj_affine_is_zero(const lj_affine *a)
{
    return a->count == 0;
}

bool lj_affine_coefficient(const lj_affine *a, int atom, lj_dim *coefficient)
{
    int seen = 0;
    *coefficient = (lj_dim){0};
    for (int i = 0; i < a->count; i++) {
        if (a->term[i].atom != atom) continue;
        *coefficient = a->term[i].coefficient;
        seen++;
    }
    return seen <= 1;
}

void lj_affine_drop(lj_affine *a, int atom)
{
    for (int i = a->count - 1; i >= 0; i--)
        if (a->term[i].atom == atom) remove_term(a, i);
}

bool lj_dim_divide(lj_dim a, lj_dim b, lj_dim *out)
{
    if (b.factor == 0 || a.factor % b.factor != 0) return false;
    lj_dim quotient = {.factor = a.factor / b.factor};
    for (int i = 0; i < LJ_MAX_SYMBOLS; i++) {
        if (a.power[i] < b.power[i]) return false;
        quotient.power[i] = (uint8_t)(a.power[i] - b.power[i]);
    }
    *out = quotient;
    return true;
}

lj_dim lj_dims_product(const lj_dim *dims, int count)
{
    lj_dim product = lj_dim_const(1);
    for (int i = 0; i < count; i++) product = lj_dim_mul(product, dims[i]);
    return product;
}
