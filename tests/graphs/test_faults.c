/* Every fallible call of building, compiling, planning and running a small graph fails once, one after the other: the right error
 * each time, nothing left behind, outputs untouched, and the same program works afterwards. */
#define _GNU_SOURCE
#include "ljperf/program.h"
#include "support/compiled.h"
#include "support/op_cases.h"
#include "support/testing.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The n-th fallible operation fails; its kind and name are kept. */
typedef struct {
    int64_t countdown;
    bool world_only; /* files and processes, not memory */
    bool fired;
    char kind[32], name[200];
} injector;

static bool fail_nth(void *user, const char *kind, const char *name)
{
    injector *i = user;
    if (i->world_only && strcmp(kind, "alloc") == 0) return false;
    if (i->countdown-- != 0) return false;
    i->fired = true;
    snprintf(i->kind, sizeof i->kind, "%s", kind);
    snprintf(i->name, sizeof i->name, "%s", name ? name : "");
    return true;
}

enum { ROWS = 6, COLUMNS = 8 };

/* A product, a composite, a call and an assignment, with gradients. */
static lj_status build(lj_graph **out)
{
    LJ_TRY(lj_graph_create(out));
    lj_graph *g = *out;
    lj_dim n = lj_dim_symbol(g, "N"), k = lj_dim_const(COLUMNS);
    lj_value x = lj_input(g, "x", lj_type_dims(LJ_F32, 2, (lj_dim[]){n, k}), LJ_ROLE_DATA);
    lj_value w = lj_input(g, "w", lj_type_dims(LJ_F32, 2, (lj_dim[]){k, k}), LJ_ROLE_PARAM);
    lj_value norm = lj_input(g, "norm", lj_type_dims(LJ_F32, 1, &k), LJ_ROLE_PARAM);
    lj_value total = lj_input(g, "total", (lj_type){.dtype = LJ_F32}, LJ_ROLE_STATE);
    lj_value pair[2] = {0, 0}, h = lj_linear(g, lj_rms_norm(g, x, norm, 1e-5), w), gradients[2];
    lj_type type = lj_value_type(g, h);
    LJ_TRY(lj_call(g, &op_call_row, (lj_value[]){h, x}, 2, (lj_type[]){type, type}, 2, pair));
    lj_value loss = lj_sum_all(g, lj_tanh(g, pair[0]));
    LJ_TRY(lj_graph_differentiate(g, loss, (lj_value[]){w, norm}, 2, gradients));
    LJ_TRY(lj_graph_output(g, "dw", gradients[0]));
    LJ_TRY(lj_graph_output(g, "dnorm", gradients[1]));
    LJ_TRY(lj_graph_assign(g, total, lj_add(g, total, loss)));
    return lj_graph_status(g);
}

typedef struct {
    float x[ROWS * COLUMNS], w[COLUMNS * COLUMNS], norm[COLUMNS], total, dw[COLUMNS * COLUMNS], dnorm[COLUMNS];
} buffers;

static void buffers_fill(buffers *b)
{
    uint64_t seed = 4;
    for (int i = 0; i < ROWS * COLUMNS; i++) b->x[i] = (float)test_random_normal(&seed);
    for (int i = 0; i < COLUMNS * COLUMNS; i++) b->w[i] = (float)test_random_normal(&seed), b->dw[i] = -77;
    for (int i = 0; i < COLUMNS; i++) b->norm[i] = 1 + (float)i / 8, b->dnorm[i] = -77;
    b->total = 3;
}

static lj_status run(const lj_graph *graph, buffers *b)
{
    static const lj_size size = {"N", ROWS};
    lj_program *program;
    lj_program_options options = {.threads = 2};
    LJ_TRY(lj_program_compile(graph, &options, &program));
    const struct {
        const char *name;
        void *data;
    } bound[] = {{"x", b->x}, {"w", b->w}, {"norm", b->norm}, {"total", &b->total}, {"dw", b->dw}, {"dnorm", b->dnorm}};
    lj_status status = LJ_OK;
    for (int i = 0; i < 6 && status == LJ_OK; i++) status = lj_program_bind(program, bound[i].name, bound[i].data);
    if (status == LJ_OK) status = lj_program_commit(program, &size, 1);
    if (status == LJ_OK) status = lj_program_run(program, &size, 1);
    lj_program_destroy(program);
    return status;
}

static lj_status everything(buffers *b)
{
    lj_graph *graph = NULL;
    lj_status status = build(&graph);
    if (status == LJ_OK) status = run(graph, b);
    lj_graph_destroy(graph);
    return status;
}

/* Which errors a failed operation of that kind may become. */
static bool right_error(const injector *i, lj_status status)
{
    if (strcmp(i->kind, "alloc") == 0) return status == LJ_ERR_NOMEM;
    if (strcmp(i->kind, "find") == 0 || strcmp(i->kind, "spawn") == 0) return status == LJ_ERR_COMPILER;
    return status == LJ_ERR_IO || status == LJ_ERR_COMPILER;
}

static void fresh_cache(char *folder, size_t room)
{
    test_folder_create(folder, room);
    setenv("LJPERF_CACHE", folder, 1);
}

/* One injection after the other until none fires. `cold`: an empty cache each time, so that the compiler is part of it, and files
 * and processes only (memory fails in the warm round; a compiler's run takes its time). */
static void inject_all(bool cold, int64_t most)
{
    char folder[200];
    int64_t fired = 0, failed = 0, survived = 0;
    buffers warm;
    buffers_fill(&warm);
    assert_ok(everything(&warm)); /* lazy singletons are made, and are no leaks */
    size_t live = lj_memory_live();
    for (int64_t n = 0; n < most; n++) {
        injector i = {.countdown = n, .world_only = cold};
        buffers b;
        buffers_fill(&b);
        const buffers before = b;
        if (cold) fresh_cache(folder, sizeof folder);
        lj_fault_set(fail_nth, &i);
        lj_status status = everything(&b);
        lj_fault_set(NULL, NULL);
        if (cold) test_folder_remove(folder);
        if (lj_memory_live() != live) fail_msg("operation %lld (%s %s): %zd bytes left behind", (long long)n, i.kind, i.name, (ssize_t)(lj_memory_live() - live));
        if (!i.fired) {
            assert_ok(status);
            break;
        }
        fired++;
        if (status == LJ_OK) { /* a cache that cannot be written costs a compilation, no more */
            assert_memory_equal(b.dw, warm.dw, sizeof b.dw);
            survived++;
            continue;
        }
        failed++;
        if (!right_error(&i, status)) fail_msg("operation %lld (%s %s) became %s: %s", (long long)n, i.kind, i.name, lj_status_name(status), lj_error_message());
        if (!*lj_error_message()) fail_msg("operation %lld (%s %s): message \"%s\"", (long long)n, i.kind, i.name, lj_error_message());
        assert_memory_equal(&b, &before, sizeof b);
    }
    printf("%s cache: %lld operations failed once, %lld as errors, %lld without harm\n", cold ? "cold" : "warm", (long long)fired, (long long)failed, (long long)survived);
    assert_true(failed > 2);
}

static void each_operation_may_fail(void **state)
{
    (void)state;
    inject_all(false, 4000);
}

static void each_operation_of_a_compilation_may_fail(void **state)
{
    (void)state;
    inject_all(true, 60);
}

/* -- the world ------------------------------------------------------------------------------------------------------------------ */

static void expect_refusal(lj_status expected, const char *part)
{
    buffers b;
    buffers_fill(&b);
    const buffers before = b;
    size_t live = lj_memory_live();
    lj_status status = everything(&b);
    if (status != expected) fail_msg("got %s (%s), expected %s", lj_status_name(status), lj_error_message(), lj_status_name(expected));
    if (!strstr(lj_error_message(), part)) fail_msg("message \"%s\" lacks \"%s\"", lj_error_message(), part);
    assert_memory_equal(&b, &before, sizeof b);
    assert_int_equal(lj_memory_live(), live);
}

static bool fail_kind(void *user, const char *kind, const char *name)
{
    (void)name;
    return strcmp(kind, user) == 0;
}

static void no_compiler_is_an_error_with_a_remedy(void **state)
{
    (void)state;
    char folder[200];
    fresh_cache(folder, sizeof folder);
    lj_fault_set(fail_kind, (void *)"find");
    expect_refusal(LJ_ERR_COMPILER, "compiler");
    lj_fault_set(fail_kind, (void *)"spawn");
    expect_refusal(LJ_ERR_COMPILER, "start");
    lj_fault_set(NULL, NULL);
    test_folder_remove(folder);
}

static void a_failing_compiler_is_told(void **state)
{
    (void)state;
    char folder[200], script[300];
    fresh_cache(folder, sizeof folder);
    snprintf(script, sizeof script, "%s/broken-cc", folder);
    FILE *file = fopen(script, "w");
    assert_non_null(file);
    fputs("#!/bin/sh\ncase \"$*\" in *-version*|*--version*) echo broken-cc 1.0; exit 0;; esac\necho 'broken-cc: out of patience' >&2\nexit 1\n", file);
    fclose(file);
    chmod(script, 0700);
    setenv("LJPERF_CC", script, 1);
    expect_refusal(LJ_ERR_COMPILER, "out of patience");
    unsetenv("LJPERF_CC");
    test_folder_remove(folder);
}

static void a_call_that_fails_is_named(void **state)
{
    (void)state;
    lj_graph *g;
    lj_program *program;
    float x[4] = {1, 2, 3, 4}, y[4];
    assert_ok(lj_graph_create(&g));
    lj_type type = lj_type_of(LJ_F32, 1, (int64_t[]){4});
    lj_value in = lj_input(g, "x", type, LJ_ROLE_DATA), out;
    assert_ok(lj_call(g, &op_call_row, &in, 1, &type, 1, &out)); /* it wants two operands and says so with 1 */
    assert_ok(lj_graph_output(g, "y", out));
    assert_ok(test_compile(g, &(test_mode){.threads = 1}, &program));
    assert_ok(lj_program_bind(program, "x", x));
    assert_fails(lj_program_run(program, NULL, 0), LJ_ERR_INVALID, "'y'");
    assert_ok(lj_program_bind(program, "y", y));
    assert_fails(lj_program_run(program, NULL, 0), LJ_ERR_INVALID, "test.combine");
    assert_fails(lj_program_bind(program, "z", y), LJ_ERR_NOT_FOUND, "'z'");
    lj_program_destroy(program);
    lj_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_operation_may_fail), cmocka_unit_test(each_operation_of_a_compilation_may_fail),
                                       cmocka_unit_test(no_compiler_is_an_error_with_a_remedy), cmocka_unit_test(a_failing_compiler_is_told),
                                       cmocka_unit_test(a_call_that_fails_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
