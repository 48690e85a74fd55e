#include "support/differential.h"

#include "ref/ref.h"
#include "support/compare.h"
#include "support/testing.h"

#include <math.h>
#include <stdlib.h>

bool test_verdict_fail(test_verdict *verdict, const char *format, ...)
{
    if (*verdict->text) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(verdict->text, sizeof verdict->text, format, args);
    va_end(args);
    return false;
}

/* -- graphs made from graphs ------------------------------------------------------------------------------------------------ */

static void must(lj_status status)
{
    if (status == LJ_OK) return;
    fprintf(stderr, "test graph: %s\n", lj_error_message());
    abort();
}

/* Results and symbols carried over, as lj_rewrite_end does, but the original stays. */
static lj_graph *rewrite_finish(lj_rewrite *rewrite)
{
    lj_graph *dummy;
    must(lj_graph_create(&dummy));
    must(lj_rewrite_end(rewrite, &dummy, LJ_OK));
    return dummy;
}

lj_graph *test_graph_copy(const lj_graph *graph)
{
    lj_rewrite rewrite;
    must(lj_rewrite_begin(&rewrite, graph));
    for (size_t n = 0; n < graph->node_count; n++)
        if (!graph->nodes[n].dead) must(lj_rewrite_copy(&rewrite, &graph->nodes[n]));
    return rewrite_finish(&rewrite);
}

lj_graph *test_graph_expose(const lj_graph *graph)
{
    lj_graph *copy = test_graph_copy(graph);
    for (size_t v = 1; v < copy->value_count; v++) {
        char name[32];
        snprintf(name, sizeof name, "v%zu", v);
        if (!lj_is(copy, (lj_value)v, LJ_OP_input)) must(lj_graph_output(copy, name, (lj_value)v));
    }
    return copy;
}

static void decompose_into(lj_rewrite *rewrite, const lj_node *node)
{
    lj_value inputs[16] = {0}, outputs[LJ_MAX_OUTPUTS] = {0};
    for (int j = 0; j < node->input_count; j++) inputs[j] = rewrite->map[node->inputs[j]];
    must(lj_decompose(rewrite->to, node, inputs, outputs));
    for (int k = 0; k < node->output_count; k++) rewrite->map[node->output + (lj_value)k] = outputs[k];
}

static lj_graph *disguise_products(lj_graph *graph)
{
    lj_rewrite rewrite;
    must(lj_rewrite_begin(&rewrite, graph));
    for (size_t n = 0; n < graph->node_count; n++) {
        const lj_node *node = &graph->nodes[n];
        must(lj_rewrite_copy(&rewrite, node));
        if (node->op != LJ_OP_mul && node->op != LJ_OP_div && node->op != LJ_OP_matmul) continue;
        lj_value *value = &rewrite.map[node->output];
        *value = lj_add(rewrite.to, *value, lj_const(rewrite.to, (lj_type){.dtype = lj_value_type(rewrite.to, *value).dtype}, 0));
    }
    must(lj_rewrite_end(&rewrite, &graph, LJ_OK));
    return graph;
}

lj_graph *test_graph_decompose(const lj_graph *graph, bool disguise)
{
    lj_rewrite rewrite;
    must(lj_rewrite_begin(&rewrite, graph));
    for (size_t n = 0; n < graph->node_count; n++) {
        const lj_node *node = &graph->nodes[n];
        if (lj_op_rows[node->op].class == LJ_CLASS_COMPOSITE)
            decompose_into(&rewrite, node);
        else
            must(lj_rewrite_copy(&rewrite, node));
    }
    lj_graph *made = rewrite_finish(&rewrite);
    return disguise ? disguise_products(made) : made;
}

/* -- one node --------------------------------------------------------------------------------------------------------------- */

static const void *value_data(const test_run *run, lj_value value)
{
    if (!value) return NULL;
    if (lj_is(run->graph, value, LJ_OP_input)) return test_buffers_find(run->inputs, lj_producer(run->graph, value)->name)->data;
    char name[32];
    snprintf(name, sizeof name, "v%u", value);
    return test_buffers_find(run->outputs, name)->data;
}

/* Operands of a node as doubles (integers as they are), with each float changed by `change`. */
typedef double (*change_fn)(double value, uint64_t *state);

static double change_absolute(double value, uint64_t *state)
{
    (void)state;
    return fabs(value);
}
static double change_none(double value, uint64_t *state)
{
    (void)state;
    return value;
}
static const double nudge = 0x1p-20;
static double change_nudge(double value, uint64_t *state)
{
    return value * (test_random(state) & 1 ? 1 + nudge : 1 - nudge);
}

/* The reference of a node in doubles on changed operands; results[k] receives fresh arrays for float results. */
static lj_status evaluate(const test_run *run, const lj_node *node, change_fn change, uint64_t seed, test_buffer *results)
{
    enum { MOST = 256 };
    test_buffer operands[MOST] = {{0}};
    const void *inputs[MOST] = {NULL};
    void *outputs[64] = {NULL};
    lj_status status = LJ_OK;
    for (int j = 0; j < node->input_count && j < MOST && status == LJ_OK; j++) {
        if (!node->inputs[j]) continue;
        const lj_type *type = lj_type_get(run->graph, node->inputs[j]);
        const void *data = value_data(run, node->inputs[j]);
        status = test_buffer_init(&operands[j], "operand", type, run->sizes, true);
        if (status != LJ_OK) break;
        inputs[j] = operands[j].data;
        if (!lj_dtype_rows[type->dtype].is_float) memcpy(operands[j].data, data, operands[j].bytes);
        for (int64_t i = 0; lj_dtype_rows[type->dtype].is_float && i < operands[j].count; i++)
            ((double *)operands[j].data)[i] = change(lj_element_get(type->dtype, data, (size_t)i), &seed);
    }
    for (int k = 0; k < node->output_count && status == LJ_OK; k++) {
        status = test_buffer_init(&results[k], "result", lj_type_get(run->graph, node->output + (lj_value)k), run->sizes, true);
        outputs[k] = results[k].data;
    }
    if (status == LJ_OK) status = lj_ref_node(run->graph, node, run->sizes, inputs, outputs, &(lj_ref_options){.exact = true});
    for (int j = 0; j < node->input_count && j < MOST; j++) free(operands[j].block);
    return status;
}

static void results_free(test_buffer *results, int count)
{
    for (int k = 0; k < count; k++) free(results[k].block);
}

/* For a sum: the sum of the magnitudes, element by element. */
static lj_status scale_of_sum(const test_run *run, const lj_node *node, double **scales)
{
    test_buffer results[LJ_MAX_OUTPUTS] = {{0}};
    lj_status status = evaluate(run, node, change_absolute, 0, results);
    if (status == LJ_OK && lj_dtype_rows[results[0].type.dtype].is_float)
        for (int64_t i = 0; i < results[0].count; i++) scales[0][i] = fabs(((double *)results[0].data)[i]);
    results_free(results, node->output_count);
    return status;
}

/* For a composite: what the largest result element is, or how far results move when operands move by their own size, whichever
 * is more. One number a result, so that elements that nearly cancel are judged by what they are made of. */
static lj_status scale_of_composite(const test_run *run, const lj_node *node, double **scales)
{
    test_buffer base[LJ_MAX_OUTPUTS] = {{0}}, moved[LJ_MAX_OUTPUTS] = {{0}};
    double largest[LJ_MAX_OUTPUTS] = {0};
    lj_status status = evaluate(run, node, change_none, 0, base);
    for (uint64_t turn = 0; turn < 3 && status == LJ_OK; turn++) {
        status = evaluate(run, node, change_nudge, turn, moved);
        for (int k = 0; k < node->output_count && status == LJ_OK; k++)
            for (int64_t i = 0; lj_dtype_rows[base[k].type.dtype].is_float && i < base[k].count; i++) {
                double at = ((double *)base[k].data)[i], change = fabs(((double *)moved[k].data)[i] - at) / nudge;
                if (isfinite(at)) largest[k] = fmax(largest[k], fabs(at));
                if (isfinite(change)) largest[k] = fmax(largest[k], change);
            }
        results_free(moved, node->output_count);
        memset(moved, 0, sizeof moved);
    }
    for (int k = 0; k < node->output_count && status == LJ_OK; k++)
        for (int64_t i = 0; i < base[k].count; i++) scales[k][i] = largest[k];
    results_free(base, node->output_count);
    return status;
}

/* Composites whose definition rounds an intermediate to the operands' dtype: one that is rounded in another order may differ
 * by a few of those roundings. */
static bool rounds_inside(lj_op op)
{
    return op == LJ_OP_attention || op == LJ_OP_attention_grad || op == LJ_OP_head_loss_grad || op == LJ_OP_head_loss_train;
}

/* Tolerance of result k as units of its last place, plus extra[i]. Sums and composites compute in f32 (f64 for f64) and are
 * rounded once at the end: the row's tolerance is of the wide dtype at the scale, one unit of the result's own comes on top. */
static double tolerance(const test_run *run, const lj_node *node, lj_dtype dtype, const double *scale, int64_t count, double *extra)
{
    double row = lj_op_rows[node->op].tolerance;
    lj_dtype wide = dtype == LJ_F64 ? LJ_F64 : LJ_F32;
    lj_dtype main_dtype = node->input_count ? lj_type_get(run->graph, node->inputs[0])->dtype : dtype;
    bool narrow = lj_dtype_bytes(dtype) == 2;
    for (int64_t i = 0; i < count; i++) {
        extra[i] = scale ? row * test_ulp(wide, scale[i]) : 0;
        if (scale && node->op == LJ_OP_scatter_add) extra[i] = row * test_ulp(dtype, scale[i]); /* in the base's dtype */
        if (scale && rounds_inside(node->op) && lj_dtype_bytes(main_dtype) == 2) extra[i] += 4 * test_ulp(main_dtype, scale[i]);
    }
    return row == 0 ? 0 : narrow ? 1 : row;
}

static bool judge_result(const test_run *run, const lj_node *node, int k, const test_buffer *expected, const double *scale, test_verdict *verdict)
{
    lj_dtype dtype = expected->type.dtype;
    const void *got = value_data(run, node->output + (lj_value)k);
    double *extra = calloc((size_t)expected->count + 1, sizeof *extra);
    size_t at;
    double ulps = lj_dtype_rows[dtype].is_float ? tolerance(run, node, dtype, scale, expected->count, extra) : 0;
    double share = test_share(dtype, got, expected->data, (size_t)expected->count, ulps, extra, &at);
    double allowed = extra[at];
    free(extra);
    if (share > verdict->worst_share) {
        verdict->worst_share = share;
        snprintf(verdict->worst_node, sizeof verdict->worst_node, "%s", lj_node_describe(run->graph, node));
    }
    if (share <= 1) return true;
    return test_verdict_fail(verdict, "%s, result %d (%s), element %zu of %lld: got %.9g, the reference gives %.9g: %.3g of the tolerance (%g ulps + %.3g)",
                             lj_node_describe(run->graph, node), k, lj_dtype_name(dtype), at, (long long)expected->count,
                             lj_element_get(dtype, got, at), lj_element_get(dtype, expected->data, at), share, ulps, allowed);
}

static bool needs_sum_scale(const lj_node *node)
{
    return node->op == LJ_OP_sum || node->op == LJ_OP_matmul || node->op == LJ_OP_scatter_add || node->op == LJ_OP_reduce_scatter || node->op == LJ_OP_all_reduce;
}

static bool judge_with_scale(const test_run *run, const lj_node *node, const test_buffer *expected, test_verdict *verdict)
{
    double *scales[LJ_MAX_OUTPUTS] = {NULL};
    bool sum = needs_sum_scale(node), composite = lj_op_rows[node->op].class == LJ_CLASS_COMPOSITE, good = true;
    lj_status status = LJ_OK;
    for (int k = 0; (sum || composite) && k < node->output_count; k++) scales[k] = calloc((size_t)expected[k].count + 1, sizeof(double));
    if (sum) status = scale_of_sum(run, node, scales);
    if (composite) status = scale_of_composite(run, node, scales);
    if (status != LJ_OK) good = test_verdict_fail(verdict, "%s: the reference failed: %s", lj_node_describe(run->graph, node), lj_error_message());
    for (int k = 0; k < node->output_count && good; k++) good = judge_result(run, node, k, &expected[k], sum || composite ? scales[k] : NULL, verdict);
    for (int k = 0; k < LJ_MAX_OUTPUTS; k++) free(scales[k]);
    return good;
}

static bool judge_node(const test_run *run, const lj_node *node, test_verdict *verdict)
{
    enum { MOST = 256 };
    test_buffer expected[64] = {{0}};
    const void *inputs[MOST];
    void *outputs[64];
    lj_status status = LJ_OK;
    for (int j = 0; j < node->input_count && j < MOST; j++) inputs[j] = value_data(run, node->inputs[j]);
    for (int k = 0; k < node->output_count && status == LJ_OK; k++) {
        status = test_buffer_init(&expected[k], "expected", lj_type_get(run->graph, node->output + (lj_value)k), run->sizes, false);
        outputs[k] = expected[k].data;
    }
    if (status == LJ_OK) status = lj_ref_node(run->graph, node, run->sizes, inputs, outputs, NULL);
    bool good = status == LJ_OK ? judge_with_scale(run, node, expected, verdict)
                                : test_verdict_fail(verdict, "%s: the reference failed: %s", lj_node_describe(run->graph, node), lj_error_message());
    results_free(expected, node->output_count);
    return good;
}

bool test_judge_nodes(const test_run *run, test_verdict *verdict)
{
    bool good = true;
    for (size_t n = 0; n < run->graph->node_count && good; n++) {
        const lj_node *node = &run->graph->nodes[n];
        if (node->op == LJ_OP_input || node->op == LJ_OP_send || node->op == LJ_OP_recv) continue; /* no operands to judge by */
        good = judge_node(run, node, verdict);
    }
    return good;
}

bool test_judge_sentinels(const test_buffers *buffers, test_verdict *verdict)
{
    for (size_t i = 0; i < buffers->count; i++)
        if (!test_buffer_intact(&buffers->rows[i])) return test_verdict_fail(verdict, "buffer '%s' was written outside its %zu bytes", buffers->rows[i].name, buffers->rows[i].bytes);
    return true;
}

static bool same_element(lj_dtype dtype, const test_buffer *a, const test_buffer *b, int64_t i)
{
    size_t bytes = lj_dtype_bytes(dtype);
    if (memcmp(a->data + (size_t)i * bytes, b->data + (size_t)i * bytes, bytes) == 0) return true;
    return lj_dtype_rows[dtype].is_float && isnan(lj_element_get(dtype, a->data, (size_t)i)) && isnan(lj_element_get(dtype, b->data, (size_t)i));
}

bool test_judge_same_bits(const test_buffers *a, const test_buffers *b, const char *what, test_verdict *verdict)
{
    for (size_t r = 0; r < a->count; r++) {
        const test_buffer *mine = &a->rows[r], *other = test_buffers_find(b, mine->name);
        if (!other) continue;
        for (int64_t i = 0; i < mine->count; i++)
            if (!same_element(mine->type.dtype, mine, other, i))
                return test_verdict_fail(verdict, "%s: output '%s' (%s) element %lld of %lld: %.9g and %.9g", what, mine->name,
                                         lj_dtype_name(mine->type.dtype), (long long)i, (long long)mine->count,
                                         lj_element_get(mine->type.dtype, mine->data, (size_t)i), lj_element_get(mine->type.dtype, other->data, (size_t)i));
    }
    return true;
}

/* -- the reference over whole buffers ----------------------------------------------------------------------------------------- */

static lj_ref_binding *bindings_of(const test_buffers *buffers)
{
    lj_ref_binding *bindings = calloc(buffers->count + 1, sizeof *bindings);
    if (!bindings) abort();
    for (size_t i = 0; i < buffers->count; i++) bindings[i] = (lj_ref_binding){buffers->rows[i].name, buffers->rows[i].data};
    return bindings;
}

static lj_status reference_run(const lj_graph *graph, const int64_t *sizes, const test_buffers *inputs, const test_buffers *outputs, lj_ref_options options)
{
    lj_ref_binding *in = bindings_of(inputs), *out = bindings_of(outputs);
    lj_status status = lj_ref_run(graph, sizes, in, inputs->count, out, outputs->count, &options);
    free(in);
    free(out);
    return status;
}

lj_status test_reference_run(const lj_graph *graph, const int64_t *sizes, const test_buffers *inputs, const test_buffers *outputs, bool exact)
{
    return reference_run(graph, sizes, inputs, outputs, (lj_ref_options){.exact = exact});
}

lj_status test_reference_noisy(const lj_graph *graph, const int64_t *sizes, const test_buffers *inputs, const test_buffers *outputs, uint64_t noise)
{
    return reference_run(graph, sizes, inputs, outputs, (lj_ref_options){.noise = noise});
}
