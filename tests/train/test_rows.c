/* Rows, orders, schedules: cases of resuming and shuffling, and that no token is lost or doubled. */
#include "support/testing.h"

#include "train/rows.h"
#include "train/schedule.h"
#include "train/shuffle.h"

#include <math.h>
#include <stdlib.h>

/* Documents of random lengths; token i is i, so that every one can be told. */
static lj_corpus corpus_make(uint64_t *state, int64_t documents, int64_t longest, bool marks)
{
    lj_corpus c = {.document_count = documents, .ends = calloc((size_t)documents + 1, sizeof(int64_t))};
    for (int64_t d = 0; d < documents; d++) c.ends[d] = c.token_count += test_random_range(state, 1, longest);
    assert_ok(lj_alloc("tokens", (size_t)c.token_count * sizeof *c.tokens, (void **)&c.tokens));
    c.marks = marks ? malloc((size_t)c.token_count) : NULL;
    for (int64_t i = 0; i < c.token_count; i++) {
        c.tokens[i] = (int32_t)i;
        if (marks) c.marks[i] = (uint8_t)(test_random(state) & 1);
    }
    return c;
}

static int64_t document_of(const lj_corpus *c, int64_t token)
{
    int64_t d = 0;
    while (c->ends[d] <= token) d++;
    return d;
}

static void batch_check(const lj_corpus *c, const lj_batch *batch, int *seen)
{
    for (int64_t cell = 0; cell < batch->length; cell++) {
        int64_t start = batch->starts[cell], token = batch->tokens[cell];
        bool padding = batch->targets[cell] < 0 && start == cell && batch->positions[cell] == 0 && token == 0 && cell > 0;
        if (padding) continue;
        seen[token]++;
        assert_int_equal(batch->positions[cell], cell - start);
        int32_t first = batch->tokens[start];
        assert_int_equal(token - first, cell - start); /* contiguous within its document */
        assert_int_equal(document_of(c, token), document_of(c, first));
        bool last = token + 1 == c->ends[document_of(c, token)];
        int32_t want = last || (c->marks && !c->marks[token + 1]) ? -1 : (int32_t)token + 1;
        assert_int_equal(batch->targets[cell], want);
    }
}

static void packing_holds_every_token_once(void **unused)
{
    (void)unused;
    uint64_t state = 7;
    for (int set = 0; set < 60; set++) {
        int64_t length = test_random_range(&state, 2, 40);
        lj_corpus c = corpus_make(&state, test_random_range(&state, 2, 60), 50, set % 2);
        lj_rows rows;
        lj_batch batch;
        int *seen = calloc((size_t)c.token_count, sizeof *seen);
        assert_ok(lj_rows_init(&rows, &c, 0, c.token_count, length));
        assert_ok(lj_batch_init(&batch, 1, length));
        for (int64_t row = 0; row < rows.count; row++) {
            lj_rows_fill(&rows, row, 1, &batch);
            batch_check(&c, &batch, seen);
        }
        for (int64_t i = 1; i < c.token_count; i++) /* token 0 looks like padding in a row's tail */
            if (seen[i] != 1) fail_msg("set %d: token %lld stands %d times", set, (long long)i, seen[i]);
        lj_batch_release(&batch);
        lj_rows_release(&rows);
        lj_corpus_release(&c);
        free(seen);
    }
}

static void stream_rows_follow_each_other(void **unused)
{
    (void)unused;
    uint64_t state = 3;
    lj_corpus c = corpus_make(&state, 1, 1, false);
    lj_free(c.tokens);
    c.token_count = 101, c.ends[0] = 101;
    assert_ok(lj_alloc("tokens", 101 * sizeof *c.tokens, (void **)&c.tokens));
    for (int i = 0; i < 101; i++) c.tokens[i] = i;
    lj_rows rows;
    lj_batch batch;
    assert_ok(lj_rows_init(&rows, &c, 0, 101, 10));
    assert_int_equal(rows.count, 10);
    assert_int_equal(rows.unused_tokens, 1);
    assert_ok(lj_batch_init(&batch, 2, 10));
    lj_rows_fill(&rows, 9, 2, &batch); /* over the end of the epoch */
    assert_int_equal(batch.tokens[0], 90);
    assert_int_equal(batch.targets[9], 100);
    assert_int_equal(batch.tokens[10], 0);
    assert_fails(lj_rows_init(&rows, &c, 0, 10, 10), LJ_ERR_INVALID, "10 tokens, one row of 10 needs 11");
    lj_batch_release(&batch);
    lj_corpus_release(&c);
}

/* Orders are permutations, differ by epoch and seed, and are reached directly however far. */
static void orders_are_permutations(void **unused)
{
    (void)unused;
    for (int64_t count = 1; count < 70; count++) {
        char seen[70] = {0};
        for (int64_t i = 0; i < count; i++) {
            int64_t at = lj_shuffle_at(1, 2, count, i);
            assert_in_range(at, 0, count - 1);
            assert_false(seen[at]);
            seen[at] = 1;
        }
    }
    int same = 0;
    for (int64_t i = 0; i < 10; i++) same += lj_shuffle_at(1, 0, 10, i) == lj_shuffle_at(1, 1, 10, i);
    assert_true(same < 10);
    int64_t far = lj_shuffle_at(1, 660000, 1 << 20, 12345);
    assert_in_range(far, 0, (1 << 20) - 1);
}

/* Cases 5 and 7: stopping in or between epochs changes nothing of what follows. */
static void position_alone_decides_the_order(void **unused)
{
    (void)unused;
    uint64_t state = 5;
    lj_corpus c = corpus_make(&state, 10, 8, false);
    lj_rows once, again;
    assert_ok(lj_rows_init(&once, &c, 0, c.token_count, 8));
    assert_ok(lj_rows_init(&again, &c, 0, c.token_count, 8));
    lj_rows_shuffle(&once, 1);
    lj_rows_shuffle(&again, 1);
    for (int64_t position = once.count + 3; position < 2 * once.count + 5; position++)
        assert_int_equal(lj_rows_at(&once, position), lj_rows_at(&again, position));
    char seen[64] = {0};
    for (int64_t place = 0; place < once.count; place++) seen[lj_rows_at(&once, once.count + place)]++;
    for (int64_t row = 0; row < once.count; row++) assert_int_equal(seen[row], 1);
    lj_rows_release(&once);
    lj_rows_release(&again);
    lj_corpus_release(&c);
}

/* Case 1's numbers: 10 targets of loss 1 and 100 of loss 3 make 310 / 110. */
static void unequal_micro_batches_weigh_by_tokens(void **unused)
{
    (void)unused;
    lj_batch batches[2];
    double loss = 0;
    for (int b = 0; b < 2; b++) {
        assert_ok(lj_batch_init(&batches[b], 1, 101));
        for (int i = 0; i < 101; i++) batches[b].targets[i] = i < (b ? 100 : 10) ? 5 : -1;
    }
    int64_t total = lj_batch_target_count(&batches[0]) + lj_batch_target_count(&batches[1]);
    assert_int_equal(total, 110);
    for (int b = 0; b < 2; b++) {
        lj_batch_weigh(&batches[b], total);
        for (int i = 0; i < 101; i++) loss += (double)batches[b].weights[i] * (b ? 3.0 : 1.0);
        lj_batch_release(&batches[b]);
    }
    assert_true(fabs(loss - 310.0 / 110.0) < 1e-6);
}

static void schedules_have_their_values(void **unused)
{
    (void)unused;
    const struct {
        lj_schedule schedule;
        int64_t step;
        double want;
    } rows[] = {
        {{LJ_SCHEDULE_CONSTANT, 1, 0, 4, 20, 0}, 0, 0.25},    {{LJ_SCHEDULE_CONSTANT, 1, 0, 4, 20, 0}, 3, 1},
        {{LJ_SCHEDULE_CONSTANT, 1, 0, 4, 20, 0}, 19, 1},      {{LJ_SCHEDULE_COSINE, 1, 0.1, 0, 20, 0}, 10, 0.55},
        {{LJ_SCHEDULE_COSINE, 1, 0.1, 0, 20, 0}, 20, 0.1},    {{LJ_SCHEDULE_LINEAR, 1, 0, 10, 20, 0}, 15, 0.5},
        {{LJ_SCHEDULE_WSD, 1, 0, 0, 100, 0.2}, 79, 1},        {{LJ_SCHEDULE_WSD, 1, 0, 0, 100, 0.2}, 90, 0.5},
        {{LJ_SCHEDULE_DS_LINEAR, 1, 0.1, 10, 20, 0}, 0, 0.1}, {{LJ_SCHEDULE_DS_LINEAR, 1, 0, 10, 20, 0}, 6, 0.5},
        {{LJ_SCHEDULE_DS_LINEAR, 1, 0, 10, 20, 0}, 16, 0.5},  {{LJ_SCHEDULE_DS_LINEAR, 1, 0, 10, 0, 0}, 99, 1},
        {{LJ_SCHEDULE_DS_LOG, 1, 0, 100, 0, 0}, 10, 0.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double got = lj_schedule_at(&rows[i].schedule, rows[i].step);
        if (fabs(got - rows[i].want) > 1e-12) fail_msg("row %zu (%s): %g, expected %g", i, lj_schedule_name(rows[i].schedule.kind), got, rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(packing_holds_every_token_once),  cmocka_unit_test(stream_rows_follow_each_other),
                                       cmocka_unit_test(orders_are_permutations),         cmocka_unit_test(position_alone_decides_the_order),
                                       cmocka_unit_test(unequal_micro_batches_weigh_by_tokens), cmocka_unit_test(schedules_have_their_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
