/* Random graphs compiled and run: eager with every value exposed against the reference node by node, fused and eager the same
 * bits, all passes within what honest errors can add up to, printed and parsed again the same, bytes as planned, again and again
 * the same bits. LJ_TEST_SEED and LJ_TEST_GRAPHS choose others, LJ_TEST_ALL_THREADS runs each with 1, 2 and 3 threads, 20 times;
 * a failure is shrunk and printed. */
#include "support/compiled.h"
#include "support/op_cases.h"
#include "support/random_graph.h"
#include "support/testing.h"

#include <stdlib.h>

enum { GRAPHS = 200, MANY_RUNS = 20 };

/* Print, parse, print: the same text, and a graph that is as good. */
static bool text_round_trip(const lj_graph *graph, lj_graph **again, test_verdict *verdict)
{
    char *text, *second;
    if (lj_graph_print(graph, &text) != LJ_OK) return test_verdict_fail(verdict, "printing: %s", lj_error_message());
    bool good = lj_graph_parse(text, again) == LJ_OK || test_verdict_fail(verdict, "parsing: %s", lj_error_message());
    if (good && lj_graph_print(*again, &second) == LJ_OK) {
        if (strcmp(text, second) != 0) good = test_verdict_fail(verdict, "the text changed when it was parsed and printed again");
        lj_text_free(second);
    }
    lj_text_free(text);
    return good;
}

/* The parsed graph takes the sheet's place for everything that follows: a text must be as good as the graph. */
static bool through_text(test_sheet *sheet, test_verdict *verdict)
{
    lj_graph *again = NULL;
    const lj_call_row backward = {"test.combine.backward", op_call_row.backward, NULL, NULL};
    if (!text_round_trip(sheet->graph, &again, verdict)) return false;
    lj_graph_call_bind(again, &op_call_row);
    lj_graph_call_bind(again, &backward);
    for (int i = 0; i < sheet->input_count; i++) { /* names move to the new graph's arena */
        lj_value value = lj_graph_find(again, sheet->inputs[i].name);
        if (!value) return test_verdict_fail(verdict, "input '%s' was lost in the text", sheet->inputs[i].name);
        sheet->inputs[i].name = lj_producer(again, value)->name;
    }
    lj_graph_destroy(sheet->graph);
    sheet->graph = again;
    return true;
}

static bool recipe_fails(void *user, const random_recipe *recipe)
{
    test_verdict *verdict = user, fresh = {.worst_share = 0};
    test_sheet sheet;
    test_subject subject = {.sheet = NULL};
    int all = getenv("LJ_TEST_ALL_THREADS") != NULL, threads = 1 + (int)(recipe->seed % 3);
    if (random_graph_build(recipe, &sheet) != LJ_OK) {
        test_verdict_fail(&fresh, "building: %s", lj_error_message());
    } else if (through_text(&sheet, &fresh)) {
        if (test_subject_init(&subject, &sheet, all ? 1 : threads, all ? 3 : threads) != LJ_OK) test_verdict_fail(&fresh, "compiling: %s", lj_error_message());
        if (all || recipe->seed % 16 == 0) subject.repeats = MANY_RUNS - 1;
        if (!*fresh.text) test_subject_judge(&subject, recipe->sizes, recipe->seed, &fresh);
        test_subject_release(&subject);
    }
    test_sheet_release(&sheet);
    bool failed = *fresh.text != 0;
    if (failed || fresh.worst_share > verdict->worst_share) *verdict = fresh;
    return failed;
}

static void print_recipe(const random_recipe *recipe)
{
    test_sheet sheet;
    char *text;
    if (random_graph_build(recipe, &sheet) == LJ_OK && lj_graph_print(sheet.graph, &text) == LJ_OK) {
        print_error("A=%lld B=%lld C=%lld\n%s", (long long)recipe->sizes[0], (long long)recipe->sizes[1], (long long)recipe->sizes[2], text);
        lj_text_free(text);
    }
    test_sheet_release(&sheet);
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_graphs_are_right(void **state)
{
    (void)state;
    uint64_t from = number_from("LJ_TEST_SEED", 1), count = number_from("LJ_TEST_GRAPHS", GRAPHS);
    int wrong = 0, most_wrong = (int)number_from("LJ_TEST_MOST_WRONG", 3);
    test_verdict verdict = {.worst_share = 0};
    for (uint64_t seed = from; seed < from + count && wrong < most_wrong; seed++) {
        random_recipe recipe;
        random_recipe_make(&recipe, seed);
        if (!recipe_fails(&verdict, &recipe)) continue;
        print_error("seed %llu: %s\n", (unsigned long long)seed, verdict.text);
        if (!getenv("LJ_TEST_NO_SHRINK")) {
            random_recipe_shrink(&recipe, recipe_fails, &verdict);
            print_error("smallest: %s\n", verdict.text);
            print_recipe(&recipe);
        }
        wrong++;
    }
    lj_counters counters = lj_counters_get();
    printf("seeds %llu to %llu: %d wrong; worst share of a tolerance %.3f (%s); %llu compilations, %.1f s in them\n", (unsigned long long)from,
           (unsigned long long)(from + count - 1), wrong, verdict.worst_share, verdict.worst_node, (unsigned long long)counters.compiles, counters.compile_s);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
