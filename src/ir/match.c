/* Structural matching of a composite's definition against a graph, root first. A pattern is a small graph whose inputs are
 * holes; constants that stand for attributes are read back from the place where they matched. */
#include "ir/match.h"

#include "ir/ops.h"

bool lj_match_root(const lj_graph *graph, lj_value root, lj_match *match)
{
    (void)graph, (void)root, (void)match;
    return false;
}
