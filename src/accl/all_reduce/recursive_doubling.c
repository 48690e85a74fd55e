/* All-reduce by recursive doubling: in round k ranks whose numbers differ in bit k exchange what they have. Ranks beyond the largest power of two
 * give their input to a partner first and take the result from it last. Each round has its own region of the stage, because the partner may still be
 * reading the one before. The operands of an addition are ordered by rank, so both partners get the same bits. */
#include "accl/algorithms.h"

typedef struct {
    uint32_t power, rounds; /* power of two ranks, log2 of it */
    size_t region;          /* bytes of one round's partial result */
    uint32_t base;          /* phase of the piece's first post */
} plan;

static accl_place region_of(const plan *p, const accl_task *task, uint32_t rank, uint32_t round)
{
    uint32_t folded = rank + p->power < task->comm->ranks; /* it took a partner's input first, which needed a region */
    return accl_at(ACCL_AT_STAGE, rank, (folded + round) * p->region);
}

static void build_inner(accl_task *task, const plan *p, size_t count)
{
    uint32_t me = task->comm->rank, extra = me + p->power;
    if (extra < task->comm->ranks) {
        accl_add_wait(task, extra, p->base);
        accl_add_combine(task, accl_at(ACCL_AT_STAGE, me, p->region), accl_at(ACCL_AT_STAGE, me, 0), accl_at(ACCL_AT_STAGE, extra, 0), count);
    }
    accl_add_post(task);
    for (uint32_t round = 0; round < p->rounds; round++) {
        uint32_t partner = me ^ 1u << round, low = me < partner ? me : partner;
        accl_add_wait(task, partner, p->base + 1 + round);
        accl_add_combine(task, region_of(p, task, me, round + 1), region_of(p, task, low, round), region_of(p, task, me + partner - low, round), count);
        accl_add_post(task);
    }
}

static void build_piece(accl_task *task, plan *p, size_t at, size_t count)
{
    uint32_t me = task->comm->rank, source = me;
    accl_add_begin(task, accl_at(ACCL_AT_STAGE, me, 0), accl_at(ACCL_AT_SEND, me, at), count);
    p->base = accl_add_post(task);
    if (me < p->power) build_inner(task, p, count);
    else {
        source = me - p->power;
        accl_skip_phases(task, 1 + p->rounds);
        accl_add_wait(task, source, p->base + 1 + p->rounds);
    }
    accl_add_finish(task, accl_at(ACCL_AT_RECV, me, at), region_of(p, task, source, p->rounds), count);
}

void accl_all_reduce_recursive_doubling(accl_task *task)
{
    const accl_call *call = &task->call;
    plan p = {.power = 1};
    while (p.power * 2 <= task->comm->ranks) p.power *= 2, p.rounds++;
    p.region = ACCL_STAGE_HALF / (p.rounds + 2) / ACCL_LINE * ACCL_LINE;
    size_t piece = p.region / accl_work_bytes(call->arith.type), element = lj_dtype_bytes(call->arith.type), at = 0;
    accl_add_guard(task, true);
    do {
        size_t n = call->count - at < piece ? call->count - at : piece;
        build_piece(task, &p, at * element, n);
        at += n;
        if (at < call->count) accl_add_wait_all(task, accl_add_post(task)); /* the regions are free again */
    } while (at < call->count);
}
