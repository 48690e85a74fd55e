/* Random graphs: a recipe is a seed and a list of steps; each step draws an op and operands from what is there. Dropping steps
 * from a recipe gives a smaller graph, which is how failures are shrunk. */
#ifndef LJ_TESTS_RANDOM_GRAPH_H
#define LJ_TESTS_RANDOM_GRAPH_H

#include "support/sheet.h"

enum { RECIPE_MOST_STEPS = 40 };

typedef struct {
    uint64_t seed;                 /* printed: random_recipe(seed) makes the same again */
    int step_count;
    uint64_t steps[RECIPE_MOST_STEPS];
    int64_t sizes[LJ_MAX_SYMBOLS]; /* of the symbols A, B, C */
    bool gradient;                 /* differentiate the sum of one value */
    bool small_results;            /* few outputs: more is hidden and fused */
} random_recipe;

void random_recipe_make(random_recipe *recipe, uint64_t seed);

/* Builds the graph with its inputs' data; inputs, results and assignments included. The sheet is the caller's to release.
 * LJ_OK, or a builder's error, which is a fault of this generator or of the library. */
lj_status random_graph_build(const random_recipe *recipe, test_sheet *sheet);

/* Drops steps and shrinks sizes for as long as `fails` stays true. Returns how often it was asked. */
typedef bool (*random_fails_fn)(void *user, const random_recipe *recipe);
int random_recipe_shrink(random_recipe *recipe, random_fails_fn fails, void *user);

#endif
