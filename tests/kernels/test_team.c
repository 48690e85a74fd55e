#include "support/testing.h"

#include "kernels/team.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 50 };

typedef struct {
    atomic_int entered, wrong;
    int seen[THREADS], phase[THREADS];
} record;

/* Every thread writes its place, waits, and must then find everyone's. */
static void enter(void *arg, int thread, int threads)
{
    record *r = arg;
    atomic_fetch_add(&r->entered, 1);
    for (int round = 1; round <= ROUNDS; round++) {
        r->phase[thread] = round;
        lj_team_barrier();
        for (int i = 0; i < threads; i++)
            if (r->phase[i] != round) atomic_fetch_add(&r->wrong, 1);
        lj_team_barrier();
    }
    r->seen[thread]++;
}

static void runs_every_thread_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= THREADS; threads++) {
        record r = {0};
        lj_team_run(threads, enter, &r);
        assert_int_equal(r.entered, threads);
        assert_int_equal(r.wrong, 0);
        for (int i = 0; i < threads; i++) assert_int_equal(r.seen[i], 1);
    }
}

static void *user_thread(void *arg)
{
    for (int i = 0; i < 5; i++) lj_team_run(2, enter, arg);
    return NULL;
}

static void two_users_at_once(void **state)
{
    (void)state;
    record r[2] = {0};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, user_thread, &r[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r[i].entered, 10);
        assert_int_equal(r[i].wrong, 0);
    }
}

static void shares_cover_all(void **state)
{
    (void)state;
    for (int64_t count = 0; count < 20; count++)
        for (int threads = 1; threads < 7; threads++) {
            int64_t next = 0, begin, end;
            for (int t = 0; t < threads; t++) {
                lj_team_share(count, t, threads, &begin, &end);
                assert_int_equal(begin, next);
                assert_true(end - begin <= count / threads + 1 && end >= begin);
                next = end;
            }
            assert_int_equal(next, count);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_every_thread_once), cmocka_unit_test(two_users_at_once),
                                       cmocka_unit_test(shares_cover_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
