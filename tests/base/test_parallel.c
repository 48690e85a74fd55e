/* lj_parallel_for: each index once for any thread count, the first failure with its message, and progress that ends at the total. */
#include "support/testing.h"

#include "base/parallel.h"

enum { ITEMS = 5000 };

typedef struct {
    uint8_t hits[ITEMS];
    size_t fail_at;
    lj_progress progress;
    uint64_t last;
    int calls;
} work;

static lj_status item(void *user, size_t index)
{
    work *w = user;
    __atomic_fetch_add(&w->hits[index], 1, __ATOMIC_RELAXED);
    lj_progress_add(&w->progress, 3);
    return index == w->fail_at ? lj_fail(LJ_ERR_LIMIT, "item %zu", index) : LJ_OK;
}

static void see(void *user, uint64_t done, uint64_t total)
{
    work *w = user;
    assert_true(done >= w->last && done <= total);
    w->last = done, w->calls++;
}

static void every_index_once(void **state)
{
    (void)state;
    for (int threads = 0; threads <= 9; threads++) {
        work w = {.fail_at = ITEMS, .progress = {.fn = see, .total = 3 * ITEMS}};
        w.progress.user = &w;
        assert_ok(lj_parallel_for(threads, ITEMS, item, &w));
        for (size_t i = 0; i < ITEMS; i++) assert_int_equal(w.hits[i], 1);
        assert_int_equal(w.last, 3 * ITEMS);
        assert_true(w.calls > 0);
    }
    assert_ok(lj_parallel_for(4, 0, item, NULL));
    assert_int_equal(lj_parallel_threads(7), 7);
    assert_true(lj_parallel_threads(0) >= 1);
}

static void a_failure_stops(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        work w = {.fail_at = 100};
        size_t done = 0;
        assert_fails(lj_parallel_for(threads, ITEMS, item, &w), LJ_ERR_LIMIT, "item 100");
        for (size_t i = 0; i < ITEMS; i++) done += w.hits[i];
        assert_true(done >= 101 && (threads > 1 || done == 101));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_index_once), cmocka_unit_test(a_failure_stops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
