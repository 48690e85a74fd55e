/* Collectives as every rank together sees them: one function has all operands and all results in its hands. */
#include "ref/tensor.h"

static void paste_part(lj_ref_tensor *to, int64_t to_first, const lj_ref_tensor *from, int64_t from_first, int64_t count)
{
    memcpy(to->cells + to_first, from->cells + from_first, (size_t)count * sizeof(lj_ref_cell));
}

void lj_ref_all_gather(const lj_ref_exchange *exchange)
{
    for (int to = 0; to < exchange->ranks; to++)
        for (int from = 0; from < exchange->ranks; from++) {
            int64_t count = exchange->inputs[from]->count;
            paste_part(exchange->outputs[to], from * count, exchange->inputs[from], 0, count);
        }
}

/* Sum over the ranks of the element at `at`, in double. */
static lj_ref_cell sum_at(const lj_ref_exchange *exchange, int64_t at)
{
    lj_ref_cell sum = {.i = 0};
    bool is_float = lj_ref_is_float(exchange->inputs[0]);
    if (is_float) sum.f = 0;
    for (int rank = 0; rank < exchange->ranks; rank++) {
        lj_ref_cell term = exchange->inputs[rank]->cells[at];
        if (is_float)
            sum.f += term.f;
        else
            sum.i = (int64_t)((uint64_t)sum.i + (uint64_t)term.i);
    }
    return sum;
}

void lj_ref_all_reduce(const lj_ref_exchange *exchange)
{
    for (int rank = 0; rank < exchange->ranks; rank++)
        for (int64_t at = 0; at < exchange->outputs[rank]->count; at++)
            exchange->outputs[rank]->cells[at] = sum_at(exchange, at);
}

void lj_ref_reduce_scatter(const lj_ref_exchange *exchange)
{
    for (int rank = 0; rank < exchange->ranks; rank++) {
        int64_t count = exchange->outputs[rank]->count;
        for (int64_t at = 0; at < count; at++) exchange->outputs[rank]->cells[at] = sum_at(exchange, rank * count + at);
    }
}

void lj_ref_all_to_all(const lj_ref_exchange *exchange)
{
    int64_t part = exchange->inputs[0]->count / exchange->ranks;
    for (int to = 0; to < exchange->ranks; to++)
        for (int from = 0; from < exchange->ranks; from++)
            paste_part(exchange->outputs[to], from * part, exchange->inputs[from], to * part, part);
}
