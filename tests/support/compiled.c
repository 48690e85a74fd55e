#include "support/compiled.h"

#include "ref/ref.h"
#include "runtime/program.h"
#include "support/compare.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>

const char test_rounding_passes[] = "match,head,accumulate";

lj_status test_compile(const lj_graph *graph, const test_mode *mode, lj_program **program)
{
    lj_program_options options = {.threads = mode->threads, .eager = mode->eager, .disable = mode->disable, .name = "judged"};
    return lj_program_compile(graph, &options, program);
}

static size_t named_sizes(const lj_graph *graph, const int64_t *sizes, lj_size *out)
{
    for (int i = 0; i < graph->symbol_count; i++) out[i] = (lj_size){graph->symbols[i], sizes[i]};
    return (size_t)graph->symbol_count;
}

static bool bind_all(lj_program *program, const test_buffers *buffers, test_verdict *verdict)
{
    for (size_t i = 0; i < buffers->count; i++) /* an input that nothing needs is no longer known */
        if (lj_program_bind(program, buffers->rows[i].name, buffers->rows[i].data) != LJ_OK) return test_verdict_fail(verdict, "binding: %s", lj_error_message());
    return true;
}

/* Predicted = counted: the workspace (which only grows) ends at what the plan announces, and nothing else stays behind. */
static bool run_counted(lj_program *program, const lj_size *sizes, size_t count, test_verdict *verdict)
{
    lj_plan_info info;
    if (lj_program_plan(program, sizes, count, &info) != LJ_OK) return test_verdict_fail(verdict, "planning: %s", lj_error_message());
    size_t before = program->workspace_bytes, counted = lj_memory_get("judged.workspace").live_bytes, live = lj_memory_live();
    if (lj_program_run(program, sizes, count) != LJ_OK) return test_verdict_fail(verdict, "running: %s", lj_error_message());
    size_t grown = lj_memory_get("judged.workspace").live_bytes - counted;
    size_t expected = info.workspace_bytes > before ? info.workspace_bytes - before : 0;
    if (grown != expected) return test_verdict_fail(verdict, "the workspace grew by %zu bytes, the plan said %zu", grown, expected);
    if (lj_memory_live() - live != grown) return test_verdict_fail(verdict, "a run left %zu bytes beside its workspace", lj_memory_live() - live - grown);
    return true;
}

bool test_program_run(lj_program *program, const lj_graph *graph, const int64_t *sizes, const test_buffers *inputs, test_buffers *outputs,
                      test_buffers *states, test_verdict *verdict)
{
    lj_size named[LJ_MAX_SYMBOLS];
    size_t count = named_sizes(graph, sizes, named);
    test_buffers bound;
    if (test_buffers_copy(inputs, &bound) != LJ_OK || test_outputs_make(graph, sizes, false, outputs) != LJ_OK) abort();
    bool good = bind_all(program, &bound, verdict) && bind_all(program, outputs, verdict) && run_counted(program, named, count, verdict) &&
                test_judge_sentinels(&bound, verdict) && test_judge_sentinels(outputs, verdict);
    if (states)
        *states = bound;
    else
        test_buffers_release(&bound);
    return good;
}

/* -- subjects --------------------------------------------------------------------------------------------------------------- */

enum { EXPOSED, EAGER, FUSED, WHOLE, KINDS };

lj_status test_subject_init(test_subject *subject, const test_sheet *sheet, int least_threads, int most_threads)
{
    *subject = (test_subject){.sheet = sheet, .exposed = test_graph_expose(sheet->graph), .least_threads = least_threads, .most_threads = most_threads, .repeats = 1};
    for (int threads = least_threads; threads <= most_threads; threads++) {
        const test_mode modes[KINDS] = {[EXPOSED] = {threads, true, NULL}, [EAGER] = {threads, true, NULL},
                                        [FUSED] = {threads, false, test_rounding_passes}, [WHOLE] = {threads, false, NULL}};
        for (int kind = 0; kind < KINDS; kind++) {
            const lj_graph *graph = kind == EXPOSED ? subject->exposed : sheet->graph;
            lj_status status = test_compile(graph, &modes[kind], &subject->programs[subject->program_count]);
            if (status != LJ_OK) return status;
            subject->program_count++;
        }
    }
    return LJ_OK;
}

void test_subject_release(test_subject *subject)
{
    for (int i = 0; i < subject->program_count; i++) lj_program_destroy(subject->programs[i]);
    lj_graph_destroy(subject->exposed);
    *subject = (test_subject){.sheet = NULL};
}

/* What a program must reproduce. */
typedef struct {
    test_buffers outputs, states;
} outcome;

static void outcome_release(outcome *o)
{
    test_buffers_release(&o->outputs);
    test_buffers_release(&o->states);
}

/* Runs one of the subject's programs. */
static bool run_kind(const test_subject *subject, int threads, int kind, const int64_t *sizes, const test_buffers *inputs, outcome *out, test_verdict *verdict)
{
    static const char *const names[KINDS] = {"exposed", "eager", "fused", "all passes"};
    const lj_graph *graph = kind == EXPOSED ? subject->exposed : subject->sheet->graph;
    lj_program *program = subject->programs[(threads - subject->least_threads) * KINDS + kind];
    *out = (outcome){{NULL, 0}, {NULL, 0}};
    bool had = *verdict->text != 0, good = test_program_run(program, graph, sizes, inputs, &out->outputs, &out->states, verdict);
    if (!good && !had) {
        char text[600];
        snprintf(text, sizeof text, "%s", verdict->text);
        snprintf(verdict->text, sizeof verdict->text, "%s, %d threads: %.500s", names[kind], threads, text);
    }
    return good;
}

enum { TRIALS = 6 };

/* What the reference says of a sheet's results: once as it is, and with each node's result nudged by what its row allows. */
typedef struct {
    outcome base, trials[TRIALS];
} spread;

static bool spread_make(const test_subject *subject, const int64_t *sizes, const test_buffers *inputs, spread *made, test_verdict *verdict);
static bool spread_judge(spread *of, const outcome *got, test_verdict *verdict);
static void spread_release(spread *of);

static bool same_outcome(const outcome *a, const outcome *b, const char *what, int threads, test_verdict *verdict)
{
    char label[80];
    snprintf(label, sizeof label, "%s, %d threads", what, threads);
    return test_judge_same_bits(&a->outputs, &b->outputs, label, verdict) && test_judge_same_bits(&a->states, &b->states, label, verdict);
}

/* What all thread counts of one set of inputs share. */
typedef struct {
    const int64_t *sizes;
    test_buffers inputs;
    spread of;
    outcome judged; /* exposed values that were found right */
} common;

/* Node by node, unless the very same bits were judged before. */
static bool judge_exposed(const test_subject *subject, common *c, outcome *exposed, test_verdict *verdict)
{
    test_verdict differs = {.worst_share = 0};
    if (c->judged.outputs.count && test_judge_same_bits(&exposed->outputs, &c->judged.outputs, "", &differs)) return true;
    test_run run = {subject->exposed, c->sizes, &c->inputs, &exposed->outputs};
    if (!test_judge_nodes(&run, verdict)) return false;
    if (!c->judged.outputs.count) return test_buffers_copy(&exposed->outputs, &c->judged.outputs) == LJ_OK;
    return true;
}

/* The head: one kernel when fused, full logits when eager. */
static bool fused_by_library(const lj_graph *graph)
{
    for (size_t n = 0; n < graph->node_count; n++) {
        lj_op op = graph->nodes[n].op;
        if (op == LJ_OP_head_loss || op == LJ_OP_head_loss_grad || op == LJ_OP_head_loss_train) return true;
    }
    return false;
}

static bool judge_at(test_subject *subject, int threads, common *c, test_verdict *verdict)
{
    const int64_t *sizes = c->sizes;
    const test_buffers *inputs = &c->inputs;
    outcome o[KINDS] = {0}, again = {0};
    bool good = true;
    for (int kind = 0; kind < KINDS && good; kind++) good = run_kind(subject, threads, kind, sizes, inputs, &o[kind], verdict);
    good = good && judge_exposed(subject, c, &o[EXPOSED], verdict);
    good = good && same_outcome(&o[EAGER], &o[EXPOSED], "eager against eager with every value an output", threads, verdict);
    good = good && (fused_by_library(subject->sheet->graph) ? spread_judge(&c->of, &o[FUSED], verdict)
                                                            : same_outcome(&o[FUSED], &o[EAGER], "fused against eager", threads, verdict));
    good = good && spread_judge(&c->of, &o[WHOLE], verdict);
    for (int turn = 0; turn < subject->repeats && good; turn++) {
        good = run_kind(subject, threads, WHOLE, sizes, inputs, &again, verdict) && same_outcome(&again, &o[WHOLE], "the same again", threads, verdict);
        outcome_release(&again);
    }
    for (int kind = 0; kind < KINDS; kind++) outcome_release(&o[kind]);
    return good;
}

bool test_subject_judge(test_subject *subject, const int64_t *sizes, uint64_t seed, test_verdict *verdict)
{
    common c = {.sizes = sizes};
    if (test_inputs_fill(subject->sheet, subject->sheet->graph, sizes, seed, false, &c.inputs) != LJ_OK) abort();
    bool good = spread_make(subject, sizes, &c.inputs, &c.of, verdict);
    for (int threads = subject->least_threads; threads <= subject->most_threads && good; threads++) good = judge_at(subject, threads, &c, verdict);
    spread_release(&c.of);
    outcome_release(&c.judged);
    test_buffers_release(&c.inputs);
    return good;
}

/* -- how far honest errors travel ---------------------------------------------------------------------------------------------- */

/* Outputs and states of a reference run with its results nudged. */
static lj_status reference_outcome(const test_subject *subject, const int64_t *sizes, const test_buffers *inputs, uint64_t noise, outcome *out)
{
    *out = (outcome){{NULL, 0}, {NULL, 0}};
    LJ_TRY(test_buffers_copy(inputs, &out->states));
    LJ_TRY(test_outputs_make(subject->sheet->graph, sizes, false, &out->outputs));
    return test_reference_noisy(subject->sheet->graph, sizes, &out->states, &out->outputs, noise);
}

static double spread_at(const test_buffers *base, outcome *trials, bool states, size_t row, int64_t i)
{
    const test_buffer *b = &base->rows[row];
    double at = lj_element_get(b->type.dtype, b->data, (size_t)i), most = 0;
    for (int t = 0; t < TRIALS; t++) {
        const test_buffers *other = states ? &trials[t].states : &trials[t].outputs;
        double change = fabs(lj_element_get(b->type.dtype, other->rows[row].data, (size_t)i) - at);
        most = fmax(most, change == change ? change : INFINITY);
    }
    return most;
}

/* Allowed at each element: four times its own spread, four times the root mean square of its tensor's, one unit of its dtype. */
static bool buffers_within(const test_buffers *got, const test_buffers *base, outcome *trials, bool states, test_verdict *verdict)
{
    bool good = true;
    for (size_t r = 0; r < base->count && good; r++) {
        const test_buffer *expected = &base->rows[r], *mine = test_buffers_find(got, expected->name);
        double *extra = calloc((size_t)expected->count + 1, sizeof *extra), squares = 0;
        for (int64_t i = 0; i < expected->count; i++) extra[i] = spread_at(base, trials, states, r, i), squares += isfinite(extra[i]) ? extra[i] * extra[i] : 0;
        double rms = expected->count ? sqrt(squares / (double)expected->count) : 0;
        for (int64_t i = 0; i < expected->count; i++) extra[i] = 4 * extra[i] + 4 * rms;
        size_t at;
        bool is_float = lj_dtype_rows[expected->type.dtype].is_float;
        double share = test_share(expected->type.dtype, mine->data, expected->data, (size_t)expected->count, is_float ? 2 : 0, extra, &at);
        if (!(share <= 1))
            good = test_verdict_fail(verdict, "all passes, output '%s' (%s) element %zu of %lld: got %.9g, the reference gives %.9g +- %.3g", expected->name,
                                     lj_dtype_name(expected->type.dtype), at, (long long)expected->count, lj_element_get(expected->type.dtype, mine->data, at),
                                     lj_element_get(expected->type.dtype, expected->data, at), extra[at]);
        free(extra);
    }
    return good;
}

static bool spread_make(const test_subject *subject, const int64_t *sizes, const test_buffers *inputs, spread *made, test_verdict *verdict)
{
    bool good = reference_outcome(subject, sizes, inputs, 0, &made->base) == LJ_OK;
    for (uint64_t t = 0; t < TRIALS && good; t++) good = reference_outcome(subject, sizes, inputs, t + 1, &made->trials[t]) == LJ_OK;
    return good || test_verdict_fail(verdict, "the reference failed: %s", lj_error_message());
}

static bool spread_judge(spread *of, const outcome *got, test_verdict *verdict)
{
    return buffers_within(&got->outputs, &of->base.outputs, of->trials, false, verdict) &&
           buffers_within(&got->states, &of->base.states, of->trials, true, verdict);
}

static void spread_release(spread *of)
{
    for (int t = 0; t < TRIALS; t++) outcome_release(&of->trials[t]);
    outcome_release(&of->base);
}
