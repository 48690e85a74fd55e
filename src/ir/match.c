/* Structural matching of a composite's spelling against a graph, root first.
 *
 * A pattern is a small graph whose inputs are holes. Numbers that stand for attributes are built as marks, bound to what stands
 * in their place, and the pattern is then built again with the numbers found and compared exactly: nothing is lifted unless it
 * computes what the composite's own definition (or a listed spelling of it, patterns.c) computes. Commutative ops match either way
 * round; a constant matches however it was broadcast. */
#include "ir/match.h"

#include "ir/patterns.h"

#include <string.h>

enum { MAX_MARKS = 2, MAX_BINDINGS = 16 };

typedef struct {
    const lj_graph *pattern, *subject;
    lj_value holes[MAX_BINDINGS]; /* pattern inputs in node order -> subject values */
    bool mark_bound[MAX_MARKS];
    double mark_value[MAX_MARKS];
    int steps; /* left before giving up: patterns are small, so a long search means no match */
} unification;

static bool is_commutative(lj_op op)
{
    return op == LJ_OP_add || op == LJ_OP_mul || op == LJ_OP_max || op == LJ_OP_min || op == LJ_OP_eq || op == LJ_OP_and || op == LJ_OP_or;
}

/* The constant that a value shows through reshapes and broadcasts, or NULL. */
static const lj_node *constant_of(const lj_graph *graph, lj_value value)
{
    const lj_node *node = lj_producer(graph, value);
    while (node->op == LJ_OP_reshape || node->op == LJ_OP_broadcast) node = lj_producer(graph, node->inputs[0]);
    return node->op == LJ_OP_const ? node : NULL;
}

static bool unify_constant(unification *u, const lj_node *pattern, lj_value p, lj_value s)
{
    const lj_node *subject = constant_of(u->subject, s);
    if (!subject || lj_type_get(u->pattern, p)->dtype != lj_type_get(u->subject, s)->dtype) return false;
    double wanted = pattern->attributes.f[0], found = subject->attributes.f[0];
    int mark = lj_pattern_mark_index(wanted);
    if (mark < 0) return wanted == found;
    if (u->mark_bound[mark]) return u->mark_value[mark] == found;
    u->mark_bound[mark] = true, u->mark_value[mark] = found;
    return true;
}

static int hole_index(const lj_graph *pattern, const lj_node *input)
{
    int index = 0;
    for (const lj_node *node = pattern->nodes; node < input; node++) index += node->op == LJ_OP_input;
    return index;
}

static bool unify_hole(unification *u, const lj_node *input, lj_value s)
{
    int index = hole_index(u->pattern, input);
    if (!lj_type_equal(lj_type_get(u->pattern, input->output), lj_type_get(u->subject, s))) return false;
    if (u->holes[index]) return u->holes[index] == s;
    u->holes[index] = s;
    return true;
}

static bool same_attributes(const lj_node *a, const lj_node *b)
{
    return memcmp(a->attributes.i, b->attributes.i, sizeof a->attributes.i) == 0 && memcmp(a->attributes.f, b->attributes.f, sizeof a->attributes.f) == 0;
}

static bool unify(unification *u, lj_value p, lj_value s);

static bool unify_operands(unification *u, const lj_node *p, const lj_node *s, bool swapped)
{
    for (int i = 0; i < p->input_count; i++)
        if (!unify(u, p->inputs[swapped ? 1 - i : i], s->inputs[i])) return false;
    return true;
}

static bool unify(unification *u, lj_value p, lj_value s)
{
    if (!p || !s) return p == s;
    if (--u->steps < 0) return false;
    const lj_node *pattern = lj_producer(u->pattern, p), *constant = constant_of(u->pattern, p);
    if (constant) return unify_constant(u, constant, p, s);
    if (pattern->op == LJ_OP_input) return unify_hole(u, pattern, s);
    const lj_node *subject = lj_producer(u->subject, s);
    if (pattern->op != subject->op || pattern->input_count != subject->input_count || !same_attributes(pattern, subject)) return false;
    if (u->pattern->values[p].index != u->subject->values[s].index) return false;
    if (!lj_type_equal(lj_type_get(u->pattern, p), lj_type_get(u->subject, s))) return false;
    unification before = *u;
    if (unify_operands(u, pattern, subject, false)) return true;
    if (!is_commutative(pattern->op)) return false;
    int steps = u->steps;
    *u = before;
    u->steps = steps;
    return unify_operands(u, pattern, subject, true);
}

/* Builds one spelling with these numbers (NULL: marks) and matches it. */
static bool try_spelling(const lj_graph *graph, lj_value root, const lj_pattern_row *row, int spelling, const double *numbers, unification *u)
{
    lj_graph *pattern;
    if (lj_graph_create(&pattern) != LJ_OK) return false;
    bool matched = false;
    if (lj_graph_like(pattern, graph) == LJ_OK) {
        lj_value built = row->build(pattern, graph, root, spelling, numbers);
        if (built && lj_graph_status(pattern) == LJ_OK) {
            *u = (unification){.pattern = pattern, .subject = graph, .steps = 4000};
            matched = unify(u, built, root);
        }
    }
    lj_graph_destroy(pattern);
    u->pattern = NULL;
    return matched;
}

static bool try_row(const lj_graph *graph, lj_value root, const lj_pattern_row *row, lj_match *match)
{
    for (int spelling = 0; spelling < row->spellings; spelling++) {
        unification marked, exact;
        if (!try_spelling(graph, root, row, spelling, NULL, &marked)) continue;
        for (int i = 0; i < MAX_MARKS; i++)
            if (!marked.mark_bound[i]) marked.mark_value[i] = 0;
        if (!try_spelling(graph, root, row, spelling, marked.mark_value, &exact)) continue;
        *match = (lj_match){.op = row->op, .root = root};
        return row->finish(graph, root, spelling, exact.holes, marked.mark_value, match);
    }
    return false;
}

bool lj_match_root(const lj_graph *graph, lj_value root, lj_match *match)
{
    if (graph->values[root].index != 0) return false;
    lj_op op = lj_producer(graph, root)->op;
    for (size_t i = 0; i < lj_pattern_count; i++) {
        const lj_pattern_row *row = &lj_patterns[i];
        if (row->may_root(graph, root, op) && try_row(graph, root, row, match)) return true;
    }
    return false;
}
