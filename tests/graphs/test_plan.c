/* Plans judged from outside: a quadratic checker of its own over the real steps of compiled programs, the plan's own arithmetic on
 * made-up buffers, and proof that the checker sees an offset that is wrong. */
#include "plan/offsets.h"
#include "runtime/program.h"
#include "support/compiled.h"
#include "support/op_cases.h"
#include "support/random_graph.h"
#include "support/testing.h"

#include <stdlib.h>

/* Every pair that lives at the same step and shares a byte. Returns how many; the first in `text`. */
static int overlaps(const lj_plan_buffer *buffers, size_t count, size_t total, char *text, size_t room)
{
    int found = 0;
    for (size_t a = 0; a < count; a++) {
        if (buffers[a].bytes && buffers[a].offset + buffers[a].bytes > total && !found++) snprintf(text, room, "buffer %zu leaves the block of %zu bytes", a, total);
        for (size_t b = 0; b < a; b++) {
            bool together = false;
            for (uint32_t step = buffers[a].first; step <= buffers[a].last && !together; step++) together = buffers[b].first <= step && step <= buffers[b].last;
            size_t low = buffers[a].offset > buffers[b].offset ? buffers[a].offset : buffers[b].offset;
            size_t end_a = buffers[a].offset + buffers[a].bytes, end_b = buffers[b].offset + buffers[b].bytes;
            if (together && buffers[a].bytes && buffers[b].bytes && low < (end_a < end_b ? end_a : end_b) && !found++)
                snprintf(text, room, "buffers %zu and %zu share bytes while both live", b, a);
        }
    }
    return found;
}

/* The buffer that a value of a step stands in. */
static uint32_t buffer_at(const lj_program *program, lj_value value)
{
    return value ? program->buffer_of[lj_storage_value(program->graph, value)] : UINT32_MAX;
}

/* Lifetimes as the steps really use the buffers, found again from scratch: [first, last] of the plan must cover each use. */
static bool lifetimes_cover(const lj_program *program, const lj_plan *plan, test_verdict *verdict)
{
    for (uint32_t s = 0; s < program->step_count; s++) {
        const lj_step *step = &program->steps[s];
        uint32_t used[256], count = 0;
        if (!step->unit) used[count++] = step->copy_to, used[count++] = step->copy_from;
        for (uint32_t k = 0; step->unit && k < step->unit->input_count && count < 120; k++) {
            int64_t head;
            bool heads = !step->unit->kernel && k < 3 && (step->node->op == LJ_OP_attention || step->node->op == LJ_OP_attention_grad);
            lj_value v = step->unit->inputs[k];
            used[count++] = buffer_at(program, heads && v ? lj_attention_operand(program->graph, v, &head) : v);
        }
        for (uint32_t k = 0; step->unit && k < step->unit->output_count && count < 250; k++) used[count++] = buffer_at(program, step->unit->outputs[k]);
        for (uint32_t i = 0; i < count; i++) {
            if (used[i] == UINT32_MAX || program->buffers[used[i]].kind != LJ_BUFFER_WORKSPACE) continue;
            const lj_plan_buffer *b = &plan->buffers[used[i]];
            if (b->bytes && (b->first > s || b->last < s)) return test_verdict_fail(verdict, "step %u uses buffer %u, which lives from %u to %u", s, used[i], b->first, b->last);
        }
    }
    return true;
}

static bool program_plan_good(lj_program *program, const int64_t *sizes, test_verdict *verdict)
{
    lj_plan *plan;
    char text[200] = "";
    int64_t values[LJ_MAX_SYMBOLS] = {0};
    memcpy(values, sizes, sizeof(int64_t) * (size_t)program->graph->symbol_count);
    if (lj_plan_get(program, values, &plan) != LJ_OK) return test_verdict_fail(verdict, "planning: %s", lj_error_message());
    size_t all = program->buffer_count + program->step_count;
    if (overlaps(plan->buffers, all, plan->workspace_bytes, text, sizeof text)) return test_verdict_fail(verdict, "%s", text);
    if (lj_plan_check(plan->buffers, all, plan->workspace_bytes) != LJ_OK) return test_verdict_fail(verdict, "the plan's own checker differs: %s", lj_error_message());
    return lifetimes_cover(program, plan, verdict);
}

static void random_programs_never_overlap(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        random_recipe recipe;
        test_sheet sheet;
        test_verdict verdict = {.worst_share = 0};
        random_recipe_make(&recipe, seed);
        assert_ok(random_graph_build(&recipe, &sheet));
        for (int eager = 0; eager < 2; eager++) {
            lj_program *program;
            assert_ok(test_compile(sheet.graph, &(test_mode){.threads = 1 + (int)(seed % 3), .eager = eager}, &program));
            if (!program_plan_good(program, recipe.sizes, &verdict)) fail_msg("seed %llu%s: %s", (unsigned long long)seed, eager ? " eager" : "", verdict.text);
            lj_program_destroy(program);
        }
        test_sheet_release(&sheet);
    }
}

static void random_buffers(uint64_t seed, lj_plan_buffer *buffers, size_t count, uint32_t steps)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t first = (uint32_t)test_random_range(&seed, 0, steps - 1), last = (uint32_t)test_random_range(&seed, first, steps - 1);
        if (test_random_range(&seed, 0, 3)) last = first + 3 < steps ? first + (uint32_t)test_random_range(&seed, 0, 3) : last;
        size_t bytes = test_random_range(&seed, 0, 9) ? (size_t)test_random_range(&seed, 1, 5000) : 0;
        buffers[i] = (lj_plan_buffer){bytes, first, last, 12345};
    }
}

static void made_up_buffers_never_overlap(void **state)
{
    (void)state;
    enum { COUNT = 120, STEPS = 50 };
    double worst = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        lj_plan_buffer buffers[COUNT];
        char text[200] = "";
        size_t total;
        uint32_t peak_step;
        random_buffers(seed, buffers, COUNT, STEPS);
        assert_ok(lj_plan_offsets(buffers, COUNT, &total));
        if (overlaps(buffers, COUNT, total, text, sizeof text)) fail_msg("seed %llu: %s", (unsigned long long)seed, text);
        assert_ok(lj_plan_check(buffers, COUNT, total));
        size_t live = lj_plan_live_peak(buffers, COUNT, STEPS, &peak_step);
        assert_true(total >= live); /* no block is smaller than what lives in it */
        if ((double)total / (double)live > worst) worst = (double)total / (double)live;
    }
    printf("largest block over what lives in it: %.3f\n", worst);
    assert_true(worst < 1.5);
}

/* A planted fault: any buffer moved onto another that lives with it is seen, by this checker and by the plan's own. */
static void a_wrong_offset_is_caught(void **state)
{
    (void)state;
    enum { COUNT = 40, STEPS = 20 };
    int planted = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        lj_plan_buffer buffers[COUNT];
        char text[200];
        size_t total;
        random_buffers(seed, buffers, COUNT, STEPS);
        assert_ok(lj_plan_offsets(buffers, COUNT, &total));
        for (size_t a = 0; a < COUNT; a++)
            for (size_t b = 0; b < COUNT; b++) {
                bool together = a != b && buffers[a].bytes && buffers[b].bytes && buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
                if (!together || buffers[b].offset + buffers[a].bytes > total) continue;
                size_t right = buffers[a].offset;
                buffers[a].offset = buffers[b].offset;
                assert_true(overlaps(buffers, COUNT, total, text, sizeof text) > 0);
                assert_int_equal(lj_plan_check(buffers, COUNT, total), LJ_ERR_INVALID);
                buffers[a].offset = right;
                planted++;
            }
    }
    assert_true(planted > 500);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    lj_plan_buffer buffers[3] = {{SIZE_MAX / 9, 0, 1, 0}, {SIZE_MAX / 9, 0, 1, 0}, {64, 0, 1, 0}};
    size_t total = 77;
    buffers[0].bytes = SIZE_MAX - 10;
    assert_int_equal(lj_plan_offsets(buffers, 3, &total), LJ_ERR_LIMIT);
    assert_int_equal(total, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs_never_overlap), cmocka_unit_test(made_up_buffers_never_overlap),
                                       cmocka_unit_test(a_wrong_offset_is_caught), cmocka_unit_test(impossible_sizes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
