/* The text form: every op prints, reads back and prints the same; hostile text is an error with its line, never a crash. */
#include "support/differential.h"
#include "support/op_cases.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>

static void expect_round_trip(const lj_graph *graph)
{
    lj_graph *again;
    char *text, *second;
    assert_ok(lj_graph_print(graph, &text));
    lj_status status = lj_graph_parse(text, &again);
    if (status != LJ_OK) fail_msg("%s\n%s", lj_error_message(), text);
    assert_ok(lj_graph_verify(again));
    assert_ok(lj_graph_print(again, &second));
    assert_string_equal(text, second);
    lj_text_free(text);
    lj_text_free(second);
    lj_graph_destroy(again);
}

static void every_op_reads_back(void **state)
{
    (void)state;
    for (int op = 0; op < LJ_OP_COUNT; op++)
        for (int dtype = 0; dtype < LJ_DTYPE_COUNT; dtype++) {
            if (!(lj_op_rows[op].types >> dtype & 1) || op_dtype_refused((lj_op)op, (lj_dtype)dtype)) continue;
            test_sheet sheet;
            op_case c;
            test_sheet_init(&sheet);
            op_case_begin(&c, &sheet, false);
            c.dtype = (lj_dtype)dtype;
            op_cases[op](&c);
            expect_round_trip(sheet.graph);
            test_sheet_release(&sheet);
        }
}

/* Numbers at their ends and names with everything that a name may hold. */
static void awkward_graphs_read_back(void **state)
{
    (void)state;
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    lj_type scalar = {.dtype = LJ_I64}, number = {.dtype = LJ_F64};
    lj_value seed = lj_input(g, "a name, with (every) %thing = {in} it : f32[] @ 'x'", scalar, LJ_ROLE_DATA);
    lj_graph_scope_push(g, "layers.%d", 3);
    lj_type big = lj_type_dims(LJ_F32, 2, (lj_dim[]){lj_dim_mul(lj_dim_symbol(g, "B"), lj_dim_symbol(g, "B")), lj_dim_const(0)});
    lj_value random = lj_random(g, seed, big, INT64_MIN), other = lj_random(g, seed, big, INT64_MAX);
    static const double values[] = {0.1, -0.0, 5e-324, 1.7976931348623157e308, (double)INFINITY, -(double)INFINITY, (double)NAN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%zu", i);
        assert_ok(lj_graph_output(g, name, lj_const(g, number, values[i])));
    }
    assert_ok(lj_graph_output(g, "out put", random));
    assert_ok(lj_graph_output(g, "other", other));
    expect_round_trip(g);
    lj_graph_destroy(g);
}

static void long_names_read_back(void **state)
{
    (void)state;
    char name[400];
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    lj_value x = lj_input(g, name, (lj_type){.dtype = LJ_F32}, LJ_ROLE_DATA);
    if (x) { /* either refused by the builder, or readable */
        assert_ok(lj_graph_output(g, "y", x));
        expect_round_trip(g);
    }
    lj_graph_destroy(g);
}

static void names_that_break_the_text_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a\"b", "a\nb"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lj_graph *g;
        assert_ok(lj_graph_create(&g));
        assert_int_equal(lj_input(g, bad[i], (lj_type){.dtype = LJ_F32}, LJ_ROLE_DATA), 0);
        assert_int_equal(lj_graph_status(g), LJ_ERR_INVALID);
        lj_graph_destroy(g);
    }
    static const char *const bad_symbols[] = {"", "a b", "1B", "B*T", "B,", "T\n"};
    for (size_t i = 0; i < sizeof bad_symbols / sizeof *bad_symbols; i++) {
        lj_graph *g;
        assert_ok(lj_graph_create(&g));
        lj_dim_symbol(g, bad_symbols[i]);
        if (lj_graph_status(g) != LJ_ERR_INVALID) fail_msg("symbol '%s' was taken", bad_symbols[i]);
        lj_graph_destroy(g);
    }
}

/* A scope may be anything that a caller has for a name: what the text cannot hold must not reach it. */
static void odd_scopes_read_back(void **state)
{
    (void)state;
    lj_graph *g;
    assert_ok(lj_graph_create(&g));
    lj_value x = lj_input(g, "x", (lj_type){.dtype = LJ_F32}, LJ_ROLE_DATA);
    lj_graph_scope_push(g, "%s", "say \"hi\"\nand more");
    lj_value y = lj_exp(lj_graph_at(g, "a \"quoted\" file.c", 3), x);
    lj_graph_scope_pop(g);
    if (lj_graph_status(g) == LJ_OK) {
        assert_ok(lj_graph_output(g, "y", y));
        expect_round_trip(g);
    }
    lj_graph_destroy(g);
}

#define HEAD "ljgraph 1\nsymbols B T\ngradients f32\n"
#define X "%1 = input() {role=0} : f32[2,3] \"x\"\n"

typedef struct {
    const char *text, *message;
} hostile;

static const hostile hostile_texts[] = {
    {"", "empty"},
    {"\n", "line 1"},
    {"nonsense", "line 1: expected 'ljgraph 1'"},
    {"ljgraph 2\n", "line 1"},
    {"ljgraph 1", NULL}, /* an empty graph is one */
    {"ljgraph 1\nsymbols A B C D E\n", "at most 4"},
    {"ljgraph 1\nsymbols 9\n", NULL},
    {"ljgraph 1\ngradients i32\n", "gradient dtype"},
    {"ljgraph 1\ngradients f33\n", "did you mean"},
    {HEAD "%1 = exq(%1)\n", "line 4"},
    {HEAD "%1 = exp(%2) : f32[]\n", "defined above"},
    {HEAD "%1 = exp(%1) : f32[]\n", "defined above"},
    {HEAD X "%1 = exp(%1) : f32[2,3]\n", "fresh value number"},
    {HEAD X "%0 = exp(%1) : f32[2,3]\n", "fresh value number"},
    {HEAD X "%-2 = exp(%1) : f32[2,3]\n", "line 5"},
    {HEAD X "%99999999999 = exp(%1) : f32[2,3]\n", "line 5"},
    {HEAD X "%18446744073709551617 = exp(%1) : f32[2,3]\n", "line 5"},
    {HEAD X "%2 = exp(%1) : f32[2,4]\n", "the type that the op gives"},
    {HEAD X "%2 = exp(%1) : bf16[2,3]\n", "the type that the op gives"},
    {HEAD X "%2 = exp(%1) : f32[2,3], f32[2,3]\n", "as many types"},
    {HEAD X "%2 = exp(%1)\n", "line 5"},
    {HEAD X "%2 = exp(%1, %1) : f32[2,3]\n", "operands"},
    {HEAD X "%2 = exp() : f32[2,3]\n", "operands"},
    {HEAD X "%2 = exp(_) : f32[2,3]\n", "no value"},
    {HEAD X "%2 = concat(%1, _) {axis=0} : f32[4,3]\n", "no value"},
    {HEAD X "%2 = call(_, %1) {function=\"f\"} : f32[2]\n", "no value"},
    {HEAD X "%2 = sum(%1) {axis=2} : f32[2,1]\n", "axis 2"},
    {HEAD X "%2 = sum(%1) {axis=-1} : f32[2,1]\n", "axis -1"},
    {HEAD X "%2 = sum(%1) {axes=1} : f32[2,1]\n", "attributes"},
    {HEAD X "%2 = sum(%1) : f32[2,1]\n", "line 5"},
    {HEAD X "%2 = slice(%1) {axis=0, start=1, length=9223372036854775807} : f32[2,3]\n", "slice"},
    {HEAD X "%2 = slice(%1) {axis=0, start=9223372036854775807, length=1} : f32[2,3]\n", "slice"},
    {HEAD X "%2 = slice(%1) {axis=0, start=99999999999999999999, length=1} : f32[2,3]\n", "whole number"},
    {HEAD X "%2 = slice(%1) {axis=0, start=9999999999999999999, length=1} : f32[2,3]\n", "whole number"},
    {HEAD X "%2 = pad(%1) {axis=0, before=-1, after=0} : f32[1,3]\n", "pad"},
    {HEAD X "%2 = pad(%1) {axis=0, before=9223372036854775807, after=9223372036854775807} : f32[0,3]\n", "pad"},
    {HEAD X "%2 = transpose(%1) {permutation=0 0} : f32[2,2]\n", "permutation"},
    {HEAD X "%2 = transpose(%1) {permutation=7 0} : f32[2,2]\n", "permutation"},
    {HEAD X "%2 = reshape(%1) : f32[7]\n", "element counts"},
    {HEAD X "%2 = reshape(%1) : f32[9223372036854775807,9223372036854775807]\n", "line 5"},
    {HEAD X "%2 = all_gather(%1) {ranks=9223372036854775807} : f32[2,3]\n", "ranks"},
    {HEAD X "%2 = all_gather(%1) {ranks=0} : f32[0,3]\n", "ranks"},
    {HEAD "%1 = input() {role=7} : f32[2] \"x\"\n", "role"},
    {HEAD "%1 = input() {role=0} : f32[2]\n", "name"},
    {HEAD "%1 = input() {role=0} : f32[2] \"x\n", "closing quote"},
    {HEAD X "%2 = input() {role=0} : f32[2] \"x\"\n", "exists already"},
    {HEAD "%1 = input() {role=0} : f32[1,1,1,1,1,1,1] \"x\"\n", "6 dims"},
    {HEAD "%1 = input() {role=0} : f32[-3] \"x\"\n", "line 4"},
    {HEAD "%1 = input() {role=0} : f32[Q] \"x\"\n", "symbol"},
    {HEAD "%1 = input() {role=0} : f32[B*B*B*B*B*B*B*B*B] \"x\"\n", "power"},
    {HEAD "%1 = input() {role=0} : f32[9223372036854775807*2] \"x\"\n", "2^63"},
    {HEAD "%1 = input() {role=0} : f32[ \"x\"\n", "line 4"},
    {HEAD "%1 = input() {role=0} : what[3] \"x\"\n", "no element type"},
    {HEAD "%1 = const() {value=zero} : f32[3]\n", "a number"},
    {HEAD "%1 = iota() {axis=1} : f32[3]\n", "axis 1"},
    {HEAD X "output \"y\" %2\n", "defined above"},
    {HEAD X "output \"x\" %1\n", "exists already"},
    {HEAD X "output \"\" %1\n", "bad name"},
    {HEAD X "assign %1 %1\n", "state role"},
    {HEAD X "assign %1\n", "line 5"},
    {HEAD X "output \"y\" %1 trailing words\n", "line 5"},
    {HEAD X "%2 = exp(%1) : f32[2,3] \"name\" @ \"file\":1 more\n", "end of the line"},
};

static void hostile_text_is_refused(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof hostile_texts / sizeof *hostile_texts; i++) {
        const hostile *h = &hostile_texts[i];
        lj_graph *g = NULL;
        size_t live = lj_memory_live();
        lj_status status = lj_graph_parse(h->text, &g);
        if (status == LJ_OK) {
            lj_graph_destroy(g);
            if (h->message) print_error("was taken:\n%s", h->text), wrong++;
        } else if (h->message && !strstr(lj_error_message(), h->message)) {
            print_error("\"%s\" lacks \"%s\" for:\n%s", lj_error_message(), h->message, h->text), wrong++;
        }
        assert_int_equal(lj_memory_live(), live);
    }
    assert_int_equal(wrong, 0);
}

/* Bytes knocked out of a good text at random: an error or a graph that verifies. */
static void damaged_text_is_no_danger(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int op = 0; op < LJ_OP_COUNT; op++) {
        test_sheet sheet;
        op_case c;
        char *text;
        test_sheet_init(&sheet);
        op_case_begin(&c, &sheet, true);
        c.dtype = lj_op_rows[op].types >> LJ_F32 & 1 ? LJ_F32 : lj_op_rows[op].types >> LJ_I64 & 1 ? LJ_I64 : LJ_BOOL;
        op_cases[op](&c);
        assert_ok(lj_graph_print(sheet.graph, &text));
        size_t length = strlen(text);
        for (int turn = 0; turn < 60; turn++) {
            char *damaged = malloc(length + 1);
            memcpy(damaged, text, length + 1);
            for (int64_t hits = test_random_range(&seed, 1, 3); hits > 0; hits--) {
                static const char letters[] = "0123456789%_,*[](){}\"\n -=:BTf";
                damaged[test_random(&seed) % length] = letters[test_random(&seed) % (sizeof letters - 1)];
            }
            lj_graph *g;
            if (lj_graph_parse(damaged, &g) == LJ_OK) {
                assert_ok(lj_graph_verify(g));
                lj_graph_destroy(g);
            }
            free(damaged);
        }
        lj_text_free(text);
        test_sheet_release(&sheet);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_reads_back),   cmocka_unit_test(awkward_graphs_read_back),
                                       cmocka_unit_test(long_names_read_back),  cmocka_unit_test(names_that_break_the_text_are_refused),
                                       cmocka_unit_test(odd_scopes_read_back),  cmocka_unit_test(hostile_text_is_refused),
                                       cmocka_unit_test(damaged_text_is_no_danger)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
